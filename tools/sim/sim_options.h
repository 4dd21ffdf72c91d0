/* The options of mscclpp_sim. */
#ifndef TOOLS_SIM_SIM_OPTIONS_H
#define TOOLS_SIM_SIM_OPTIONS_H

#include "tools/sim/sim.h"

/* Options with a value and without a letter. */
#define SIM_OPTIONS(X)                                                                                                 \
    X("root", ROOT)                                                                                                    \
    X("radix", RADIX)                                                                                                  \
    X("fanout", FANOUT)                                                                                                \
    X("tile", TILE)                                                                                                    \
    X("lanes", LANES)                                                                                                  \
    X("group", GROUP)                                                                                                  \
    X("taper", TAPER)                                                                                                  \
    X("rails", RAILS)                                                                                                  \
    X("transport", TRANSPORT)                                                                                          \
    X("figures", FIGURES)                                                                                              \
    X("latency", LATENCY)                                                                                              \
    X("overhead", OVERHEAD)                                                                                            \
    X("gap", GAP)                                                                                                      \
    X("bandwidth", BANDWIDTH)                                                                                          \
    X("node-latency", NODE_LATENCY)                                                                                    \
    X("node-bandwidth", NODE_BANDWIDTH)                                                                                \
    X("jitter", JITTER)                                                                                                \
    X("stragglers", STRAGGLERS)                                                                                        \
    X("late", LATE)                                                                                                    \
    X("dead", DEAD)                                                                                                    \
    X("dead-step", DEAD_STEP)                                                                                          \
    X("seed", SEED)                                                                                                    \
    X("svg", SVG)

enum {
    SIM_OPTION_FIRST = 256,
#define SIM_OPTION_ID(name_, id_) SIM_OPTION_##id_,
    SIM_OPTIONS(SIM_OPTION_ID)
#undef SIM_OPTION_ID
        SIM_WHOLE,
    SIM_TRAFFIC,
    SIM_JSON,
    SIM_VERSION
};

#define SIM_LIST 64

typedef struct {
    uint64_t value[SIM_LIST];
    size_t count;
} sim_list_t;

typedef struct {
    sim_run_t run; /* all but the schedule and the bytes */
    int pattern;
    uint32_t root, fanout, radix;
    sim_list_t nodes, bytes;
    bool kinds[MSCCLPP_SCHEDULE_LAST]; /* schedules named by --algorithm */
    bool automatic;                    /* --algorithm names auto */
    bool tapered;                      /* --taper was given */
    bool traffic, json;
    const char *picture, *transport, *figures_file;
    double given[SIM_VERSION]; /* [option]: figure given on the command line; below 0: none */
} sim_arguments_t;

void sim_default_arguments(sim_arguments_t *arguments);

/* Takes an option; false, with one line on standard error, if its value is not allowed. */
bool sim_take_option(sim_arguments_t *arguments, int option, const char *value);

/* Checks all options together, and reads the file of figures. False after a message. */
bool sim_check_arguments(sim_arguments_t *arguments);

/*
 * sim_figures.c: takes a transport's figures from a rules file (mca/common/algo/rules.h); false, with one line on
 * standard error, if it cannot be read or has none.
 */
bool sim_read_figures(const char *path, const char *transport, mscclpp_cost_figures_t *figures);

#endif
