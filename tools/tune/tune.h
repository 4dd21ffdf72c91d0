/* Functions and types that the files of mscclpp_tune share. */
#ifndef TOOLS_TUNE_TUNE_H
#define TOOLS_TUNE_TUNE_H

#include <limits.h>

#include "mca/common/algo/rules.h"
#include "tools/bench/bench.h"
#include "tools/tune/tune_choose.h"

typedef enum { TUNE_PROGRESS_AUTO, TUNE_PROGRESS_BAR, TUNE_PROGRESS_LINES, TUNE_PROGRESS_NONE } tune_progress_mode_t;

typedef struct {
    size_t min_bytes; /* of the smallest message */
    size_t max_bytes; /* of the largest message; 0: not given, and main() chooses a size for the device */
    double factor;    /* each size is this many times the size before */
    const bench_type_t *type;
    const bench_coll_t *colls[BENCH_MAX_COLLS];
    int coll_count;
    int rounds;
    int warmup;         /* number of calls before the first round */
    const char *output; /* the rules file */
    bool is_fresh;      /* forget the measurements of earlier runs */
    bool is_between;    /* measure the figures of the transport between nodes, and make no rules */
    const char *device; /* "auto", "cuda" or "host" */
    const char *plans;  /* files and folders of execution plans that are measured, too; NULL: none */
    tune_progress_mode_t progress;
} tune_options_t;

/*
 * Parses the command line, before MPI_Init. Reorders argv, and removes --between from it. Returns false if the program
 * has to end with *status_p: 0 after --help or --version, BENCH_EXIT_USAGE after a bad option, for which one line was
 * printed.
 */
bool tune_options_parse(int argc, char **argv, tune_options_t *options_p, int *status_p);

/*
 * The files that rank 0 writes: the rules, and the measurements, which are in the same folder. The measurements of a
 * size are written as soon as the size is done, so an interrupted run loses at most one size.
 */
typedef struct {
    char output[PATH_MAX]; /* path of the rules, with links resolved */
    char path[PATH_MAX];   /* path of the measurements of this collective */
    FILE *measured;        /* the measurements; locked, so that no other run appends to them or truncates them */
    uint32_t rank_count;
    uint32_t node_count;
    bool on_twin;
} tune_files_t;

/*
 * Opens both files. Adds to the table the times that earlier runs measured for its sizes and algorithms. On failure
 * prints one line on standard error and returns false; there is then nothing to close. The files then have their old
 * contents, unless the measurements could not be written.
 */
bool tune_files_open(tune_files_t *files, const tune_options_t *options, const bench_env_t *env, tune_table_t *table);

/*
 * Appends the times of size number `size_index` to the measurements. If they cannot be written, prints one line on
 * standard error and returns false.
 */
bool tune_files_add(tune_files_t *files, const tune_table_t *table, int size_index);

/*
 * Rewrites the rules file. The new file keeps the rules for other collectives, other numbers of ranks or nodes, and
 * other devices. *count_p is set to the number of rules from this run. If the file cannot be read or written, prints
 * one line on standard error and returns false; the file then remains as it was.
 */
bool tune_files_write_rules(tune_files_t *files, const tune_table_t *table, uint64_t *count_p);
void tune_files_close(tune_files_t *files);

/*
 * Stores the measured figures of a transport in a rules file, which is created if it does not exist. `transport` is a
 * number from mscclpp_cost_find_transport. If the file cannot be read or written, prints one line on standard error and
 * returns false.
 */
bool tune_files_write_figures(const char *path, int transport, const mscclpp_rule_figures_t *figures);

/*
 * Returns the number of nodes on which the ranks are. Imitated nodes count like real ones. Returns 0 if no team can be
 * made. All ranks call this function, and it returns the same on all of them.
 */
int tune_count_nodes(bench_env_t *env);

/* Returns the parameter that forces an algorithm of the collective. */
const char **tune_setting_of(mscclpp_config_t *config, mscclpp_coll_t coll);

/*
 * Implements --between: measures messages between the nodes of all ranks, and writes the figures of the transport. All
 * ranks call this function. Returns the exit status.
 */
int tune_between(bench_env_t *env, const tune_options_t *options);

/* The progress of a run, on rank 0's standard error: a bar that is redrawn, or one line for each size. */
typedef struct {
    tune_progress_mode_t mode; /* never AUTO */
    char prefix[64];           /* begins each line: the collective; empty if there is only one */
    double drawn_at;           /* when the bar was drawn last, by bench_now */
    bool is_visible;           /* the bar is on the screen */
} tune_progress_t;

/* Prepares the display for a collective, which is number `index`, from 0 on, of `count` collectives. */
void tune_progress_init(tune_progress_t *progress, tune_progress_mode_t mode, const char *name, int index, int count);

/*
 * Shows that `sizes_done` of `size_count` sizes are measured, and the fraction `fraction` of the next one.
 * `seconds_left` is negative if it is not known. `size_done` says that a size has just been finished: in the mode that
 * prints lines, only such a call prints one.
 */
void tune_progress_show(tune_progress_t *progress, int sizes_done, int size_count, double fraction, double seconds_left,
                        bool size_done);

/* Removes the bar from the screen, if it is there, so that something else can be printed. */
void tune_progress_hide(tune_progress_t *progress);

/*
 * tune_catch_signals installs handlers that store a SIGINT or SIGTERM. A second signal of the same kind ends the
 * program at once. tune_caught_signal returns the signal that this rank has caught last, or 0 if there is none. The run
 * calls it before it prepares each algorithm and before each round of an algorithm.
 */
void tune_catch_signals(void);
int tune_caught_signal(void);

#endif
