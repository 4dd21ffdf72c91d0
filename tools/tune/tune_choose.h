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
#define TUNE_NAME_SIZE 136

/* The most rules for one collective other than all-reduce, so that the set that they share has room for all of them. */
#define TUNE_MAX_COLL_RULES 4

/* The measurements. The struct holds no pointers, so it is sent as plain bytes. */
typedef struct {
    mscclpp_coll_t coll; /* MSCCLPP_COLL_LAST: all-reduce */
    int nodes;           /* on which the ranks are */
    int nsizes;
    int nbuiltin;                              /* algorithms of the library */
    int nalgos;                                /* algorithms of the library, and behind them the execution plans */
    char plan[TUNE_MAX_ALGOS][TUNE_NAME_SIZE]; /* [algorithm]: "plan:NAME"; "" for those of the library */
    size_t bytes[TUNE_MAX_SIZES];              /* of the largest buffer that a rank has; ascending */
    size_t block[TUNE_MAX_SIZES];              /* of the largest block, which is what rules mean; not descending */
    /* The time of a call, by size and by algorithm; 0: not measured, or left out. */
    double seconds[TUNE_MAX_SIZES][TUNE_MAX_ALGOS];
} tune_table_t;

/*
 * Fills in a table without times, for ranks on `nodes` nodes. Its sizes go from `min` to `max` bytes in steps of
 * `factor`, rounded down to multiples of `unit`. Each size is set as that of its block, too; where a buffer has several
 * blocks, the caller sets `block` later. Returns false if there are more than TUNE_MAX_SIZES sizes, or none.
 */
bool tune_table_init(tune_table_t *table, mscclpp_coll_t coll, int nodes, size_t min, size_t max, double factor,
                     size_t unit);

/* Adds an execution plan as an algorithm. Returns false if there are too many, or its name is too long. */
bool tune_table_add_plan(tune_table_t *table, const char *name);

/* Return the name of an algorithm, and the algorithm with a name, or -1 if there is none. */
const char *tune_algo_name(const tune_table_t *table, int algo);
int tune_algo_find(const tune_table_t *table, const char *name);

/* Returns true if an algorithm can serve the collective for ranks on so many nodes. Others are never measured. */
bool tune_algo_can_serve(const tune_table_t *table, int algo);

/* Returns true if the size is measured. All its algorithms are measured together, so one time is enough to tell. */
bool tune_is_measured(const tune_table_t *table, int size);

/* Returns the first size that is not measured, or table->nsizes if all are. */
int tune_first_missing(const tune_table_t *table);

/*
 * Returns true if an algorithm need not be measured at a size, because it can no longer become the fastest one: at the
 * size before it was much slower than the fastest one, and its time already grew with the size, or it was left out. All
 * smaller sizes have to be measured.
 */
bool tune_is_hopeless(const tune_table_t *table, int size, int algo);

/* Returns the fastest algorithm of a size, or -1 if the size is not measured. */
int tune_fastest(const tune_table_t *table, int size);

/*
 * Makes rules for the measured sizes, up to the first one that is not measured. An algorithm is kept from size to size
 * until another one is faster by more than the noise. Between two sizes with different algorithms, that of the larger
 * size is used. If there would be more rules than the set has room for, more counts as noise.
 */
void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set);

/*
 * Estimates the seconds that the sizes from `next` on will take, given that the size before `next` took `seconds`. A
 * round of small messages has a fixed time, and a round of large messages a fixed number of calls. Returns -1 if fewer
 * than three sizes lie below `next`.
 */
double tune_seconds_left(const tune_table_t *table, int next, double seconds);

#endif
