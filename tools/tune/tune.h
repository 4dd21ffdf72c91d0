/* Functions and types that the files of mscclpp_tune share. */
#ifndef TOOLS_TUNE_TUNE_H
#define TOOLS_TUNE_TUNE_H

#include <limits.h>

#include "mca/common/algo/rules.h"
#include "tools/bench/bench.h"
#include "tools/tune/tune_choose.h"

typedef enum { TUNE_PROGRESS_AUTO, TUNE_PROGRESS_BAR, TUNE_PROGRESS_LINES, TUNE_PROGRESS_NONE } tune_progress_mode_t;

typedef struct {
    size_t min; /* bytes; max is 0 until the device is known, unless given */
    size_t max;
    double factor;
    const bench_type_t *type;
    const bench_coll_t *colls[BENCH_MAX_COLLS];
    int ncolls;
    int rounds;
    int warmup;
    const char *output; /* the rules file */
    bool fresh;
    bool between; /* figures of the transport between nodes, and no rules */
    const char *device;
    const char *plans; /* files and folders of execution plans that are measured, too; NULL: none */
    tune_progress_mode_t progress;
} tune_options_t;

/* As bench_options_parse. */
bool tune_options_parse(int argc, char **argv, tune_options_t *options_p, int *status_p);

/*
 * The files that rank 0 writes: the rules, and beside them the measurements. The measurements of a size are written as
 * soon as the size is done, so an interrupted run loses at most one size.
 */
typedef struct {
    char output[PATH_MAX]; /* of the rules, with links resolved */
    char path[PATH_MAX];   /* of the measurements, one file for each collective */
    FILE *measured;        /* locked, so that no other run appends to it or truncates it */
    uint32_t nranks;
    bool on_twin;
} tune_files_t;

/* Reads both files, and adds to the table what fits it. On failure prints one line, changes nothing, returns false. */
bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table);

/* Appends the times of a size. */
bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size);

/*
 * Rewrites the rules file. It keeps the file's rules for other collectives, other numbers of ranks and other devices.
 * *count_p is the number of rules from this run.
 */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p);
void tune_files_close(tune_files_t *files);

/* Puts measured figures of a transport (mscclpp_cost_transport) into a rules file, which may be a new one. */
bool tune_files_write_figures(const char *path, int transport, const mscclpp_rule_figures_t *figures);

/* Measures between the nodes of all ranks, and writes the transport's figures. Returns the exit status. */
int tune_between(bench_env_t *env, const tune_options_t *options);

/* The progress of a run, on rank 0's standard error: a bar that is redrawn, or one line for each size. */
typedef struct {
    tune_progress_mode_t mode; /* never AUTO */
    char about[64];            /* which collective it is about, before each line; empty if there is one only */
    double drawn;              /* time of the last drawing */
    bool visible;
} tune_progress_t;

/* `name` is that of collective `index` (from 0) of `count`. */
void tune_progress_init(tune_progress_t *progress, tune_progress_mode_t mode, const char *name, int index, int count);

/*
 * Shows that `done` of `total` sizes are measured, and the fraction `part` of the next one. `seconds_left` is negative
 * if it is not known. `size_done`: a size has just been finished.
 */
void tune_progress_show(tune_progress_t *progress, int done, int total, double part, double seconds_left,
                        bool size_done);

/* Takes a bar away, so that something else can be printed. */
void tune_progress_hide(tune_progress_t *progress);

#endif
