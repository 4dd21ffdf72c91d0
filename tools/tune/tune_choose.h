/*
 * How mscclpp_tune chooses algorithms from its measurements. These are pure functions, without MPI. All ranks hold the
 * same table and so make the same choices.
 */
#ifndef TOOLS_TUNE_TUNE_CHOOSE_H
#define TOOLS_TUNE_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/common/algo/coll.h"

#define TUNE_MAX_SIZES 64
#define TUNE_MAX_ALGOS 32

/* Bytes of an algorithm's name. */
#define TUNE_NAME 136

/* The most rules for one collective other than all-reduce, so that the set that they share has room for all of them. */
#define TUNE_COLL_RULES 4

/* The measurements. The struct holds no pointers, so it is sent as plain bytes. */
typedef struct {
    mscclpp_coll_t coll; /* MSCCLPP_COLL_LAST: all-reduce */
    int nsizes;
    int nbuiltin;                         /* algorithms of the library */
    int nalgos;                           /* those, and behind them the execution plans */
    char plan[TUNE_MAX_ALGOS][TUNE_NAME]; /* "plan:NAME" of the latter, by the same index */
    size_t bytes[TUNE_MAX_SIZES];         /* of the largest buffer that a rank has; ascending */
    size_t block[TUNE_MAX_SIZES];         /* of the largest block, which is what rules mean; not descending */
    /* The time of a call, by size and by algorithm; 0: not measured, or left out. */
    double seconds[TUNE_MAX_SIZES][TUNE_MAX_ALGOS];
} tune_table_t;

/*
 * Fills in sizes from min to max, as multiples of `unit`, each of one block, and no times. False if there are too many
 * sizes or none.
 */
bool tune_table_init(tune_table_t *table, mscclpp_coll_t coll, size_t min, size_t max, double factor, size_t unit);

/* Adds a plan. False if there are too many, or its name is too long. */
bool tune_table_add_plan(tune_table_t *table, const char *name);

const char *tune_algo_name(const tune_table_t *table, int algo);
int tune_algo_find(const tune_table_t *table, const char *name); /* -1: there is none */

/* True if an algorithm can serve the collective for ranks of one node. */
bool tune_algo_counts(const tune_table_t *table, int algo);

/* True if the size is measured: all its algorithms are measured together. */
bool tune_is_measured(const tune_table_t *table, int size);

/* The first size that is not measured; table->nsizes if all are. */
int tune_next(const tune_table_t *table);

/*
 * True if an algorithm need not be measured at a size. All smaller sizes have to be measured. The algorithm is much
 * slower than the best one and its time already grows with the size, so it can no longer become the best one.
 */
bool tune_is_hopeless(const tune_table_t *table, int size, int algo);

/* The fastest algorithm of a measured size. */
int tune_best(const tune_table_t *table, int size);

/*
 * Makes rules for the measured sizes, up to the first one that is not measured. An algorithm is kept from size to size
 * until another one is faster by more than the noise. Between two sizes with different algorithms, that of the larger
 * size is used.
 */
void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set);

/*
 * Estimates the seconds that the sizes from `next` on will take, given that the previous size took `seconds`. A round
 * of small messages has a fixed time, and a round of large messages a fixed number of calls. Negative if fewer than
 * three sizes are measured.
 */
double tune_seconds_left(const tune_table_t *table, int next, double seconds);

#endif
