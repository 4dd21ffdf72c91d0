/* What the files of mscclpp_tune offer one another. */
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
    int rounds;
    int warmup;
    const char *output; /* the rules file */
    bool fresh;
    const char *device;
    tune_progress_mode_t progress;
} tune_options_t;

/* As bench_options_parse. */
bool tune_options_parse(int argc, char **argv, tune_options_t *options_p, int *status_p);

/*
 * The files, by rank 0: the rules, and beside them what has been measured, one line a time, so that a run that was
 * ended in any way loses one size at most.
 */
typedef struct {
    char output[PATH_MAX]; /* no link */
    char path[PATH_MAX];   /* of the measurements */
    FILE *measured;        /* locked, so that no other run adds to it or begins it anew */
    uint32_t nranks;
    bool on_twin;
} tune_files_t;

/* Reads both, and adds to the table what fits it. False after one line; nothing is changed then. */
bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table);

/* Appends the times of a size. */
bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size);

/* Writes the rules file anew, with those of other numbers of ranks and devices that it holds. *count_p of its own. */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p);
void tune_files_close(tune_files_t *files);

/* Where a run stands, on rank 0's standard error: a bar that is drawn again and again, or a line a size. */
typedef struct {
    tune_progress_mode_t mode; /* never AUTO */
    double drawn;              /* when */
    bool visible;
} tune_progress_t;

void tune_progress_init(tune_progress_t *progress, tune_progress_mode_t mode);

/*
 * `done` of `total` sizes and the fraction `part` of the next one; `seconds_left` negative: not known. `size_done`:
 * this is the end of a size.
 */
void tune_progress_show(tune_progress_t *progress, int done, int total, double part, double seconds_left,
                        bool size_done);

/* Takes a bar away, so that something else can be printed. */
void tune_progress_hide(tune_progress_t *progress);

#endif
