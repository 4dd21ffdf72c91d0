/* The options of mscclpp_sim. */
#ifndef TOOLS_SIM_SIM_OPTIONS_H
#define TOOLS_SIM_SIM_OPTIONS_H

#include "tools/sim/sim.h"

/*
 * The long options that take a value and have no letter: the name of the option, and the rest of the name
 * SIM_OPTION_...
 */
#define SIM_OPTIONS(X)                                                                                                 \
    X("root", ROOT)                                                                                                    \
    X("radix", RADIX)                                                                                                  \
    X("fanout", FANOUT)                                                                                                \
    X("tile", TILE)                                                                                                    \
    X("lanes", LANES)                                                                                                  \
    X("scratch", SCRATCH)                                                                                              \
    X("exchange", EXCHANGE)                                                                                            \
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

#define SIM_LIST 64 /* the most numbers in a list */

typedef struct {
    uint64_t value[SIM_LIST];
    size_t count;
} sim_list_t;

typedef struct {
    sim_run_t run; /* everything but the schedule, the bytes and the tiles, which add_row sets */
    int pattern;
    uint32_t root, fanout, radix;
    sim_list_t nodes, bytes;
    bool kinds[MSCCLPP_SCHEDULE_LAST];    /* the schedules that --algorithm names */
    bool wants_auto;                      /* --algorithm names auto, or was not given */
    bool has_taper;                       /* --taper was given */
    uint64_t scratch_size, exchange_size; /* the component's parameters */
    uint64_t tile_bytes;                  /* --tile; 0: not given */
    uint32_t lanes;                       /* --lanes; 0: not given */
    bool prints_traffic, prints_json;
    const char *picture_path; /* NULL: none */
    const char *transport;
    const char *figures_path;    /* NULL: none */
    double figures[SIM_VERSION]; /* [option]: the figure on the command line, in the unit of the option; below 0: not
                                    given */
} sim_arguments_t;

/* Sets all arguments to their defaults. */
void sim_default_arguments(sim_arguments_t *arguments);

/* Stores an option's value. If the value is not allowed, prints one line on standard error and returns false. */
bool sim_store_option(sim_arguments_t *arguments, int option, const char *value);

/*
 * Checks all options together, and completes the figures of the run. Call it after the last option was stored. The
 * figures are the built-in figures of the transport, replaced by the figures of the file, and these by the figures on
 * the command line. If the options do not fit together or the file cannot be read, prints a line on standard error and
 * returns false.
 */
bool sim_check_arguments(sim_arguments_t *arguments);

/*
 * sim_figures.c: reads a transport's latency, overhead, gap and bandwidth from a rules file (mca/common/algo/rules.h).
 * mscclpp_cost_find_builtin has to know the transport. If the file cannot be read or has no line for the transport,
 * prints one line on standard error and returns false, without changing the figures.
 */
bool sim_read_figures(const char *path, const char *transport, mscclpp_cost_figures_t *figures);

#endif
