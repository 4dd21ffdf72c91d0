/* Functions and types that the files of mscclpp_tune share. */
#ifndef TOOLS_TUNE_TUNE_H
#define TOOLS_TUNE_TUNE_H

#include <limits.h>

#include "mca/common/algo/rules.h"
#include "tools/bench/bench.h"
#include "tools/tune/tune_choose.h"

typedef enum { TUNE_PROGRESS_AUTO, TUNE_PROGRESS_BAR, TUNE_PROGRESS_LINES, TUNE_PROGRESS_NONE } tune_progress_mode_t;

typedef struct {
    size_t min;    /* bytes */
    size_t max;    /* bytes; 0: not given, main() then chooses one for the device */
    double factor; /* between a size and the next */
    const bench_type_t *type;
    const bench_coll_t *colls[BENCH_MAX_COLLS];
    int ncolls;
    int rounds;
    int warmup;         /* calls before the first round */
    const char *output; /* the rules file */
    bool is_fresh;      /* forget the measurements of earlier runs */
    bool is_between;    /* measure figures of the transport between nodes, and make no rules */
    const char *device; /* "auto", "cuda" or "host" */
    const char *plans;  /* files and folders of execution plans that are measured, too; NULL: none */
    tune_progress_mode_t progress;
} tune_options_t;

/*
 * Parses the command line, before MPI_Init. Returns false if the program has to end with *status_p: after --help,
 * --version, or a bad option, for which one line has been printed.
 */
bool tune_options_parse(int argc, char **argv, tune_options_t *options_p, int *status_p);

/*
 * The files that rank 0 writes: the rules, and beside them the measurements. The measurements of a size are written as
 * soon as the size is done, so an interrupted run loses at most one size.
 */
typedef struct {
    char output[PATH_MAX]; /* of the rules, with links resolved */
    char path[PATH_MAX];   /* of the measurements of this collective */
    FILE *measured;        /* the measurements; locked, so that no other run appends to them or truncates them */
    uint32_t nranks;
    uint32_t nnodes;
    bool on_twin;
} tune_files_t;

/*
 * Opens both files, and adds the measured times of the table's sizes and algorithms to it. On failure prints one line,
 * leaves the contents of the files alone, and returns false; then there is nothing to close.
 */
bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table);

/* Appends the times of size number `size` to the measurements. Prints one line and returns false on failure. */
bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size);

/*
 * Rewrites the rules file. It keeps the file's rules for other collectives, other numbers of ranks and other devices.
 * *count_p is the number of rules from this run. Prints one line and returns false on failure; the file is then as it
 * was.
 */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p);
void tune_files_close(tune_files_t *files);

/*
 * Puts measured figures of a transport, a number from mscclpp_cost_transport, into a rules file, which may be a new
 * one. Prints one line and returns false on failure.
 */
bool tune_files_write_figures(const char *path, int transport, const mscclpp_rule_figures_t *figures);

/*
 * Returns on how many nodes the ranks are, real or imitated ones, or 0 if no team can be made. Collective, with the
 * same result on all ranks.
 */
int tune_count_nodes(bench_env_t *env);

/* Returns the parameter that forces an algorithm of the collective. */
const char **tune_setting_of(mscclpp_config_t *config, mscclpp_coll_t coll);

/* Serves --between: measures between the nodes of all ranks, and writes the figures. Returns the exit status. */
int tune_between(bench_env_t *env, const tune_options_t *options);

/* The progress of a run, on rank 0's standard error: a bar that is redrawn, or one line for each size. */
typedef struct {
    tune_progress_mode_t mode; /* never AUTO */
    char prefix[64];           /* of each line: which collective it is about; empty if there is only one */
    double drawn_at;           /* when the bar was drawn last, by bench_now */
    bool is_visible;           /* the bar is on the screen */
} tune_progress_t;

/* Prepares the display for a collective: number `index`, from 0 on, of `count`. */
void tune_progress_init(tune_progress_t *progress, tune_progress_mode_t mode, const char *name, int index, int count);

/*
 * Shows that `sizes_done` of `size_count` sizes are measured, and the fraction `fraction` of the next one.
 * `seconds_left` is negative if it is not known. `size_done`: a size has just been finished. Lines are only printed
 * then.
 */
void tune_progress_show(tune_progress_t *progress, int sizes_done, int size_count, double fraction, double seconds_left,
                        bool size_done);

/* Removes the bar from the screen, if it is there, so that something else can be printed. */
void tune_progress_hide(tune_progress_t *progress);

/*
 * Lets the first SIGINT or SIGTERM be noted. A second signal of the same kind ends the program at once. The run asks
 * for the signal that this rank has caught, 0 if there is none, before each algorithm is prepared and before each of
 * its rounds.
 */
void tune_catch_signals(void);
int tune_caught_signal(void);

#endif
