/*
 * How mscclpp_tune chooses algorithms from its measurements. These are pure functions, without MPI. All ranks have the
 * same table and so make the same choices.
 */
#ifndef TOOLS_TUNE_TUNE_CHOOSE_H
#define TOOLS_TUNE_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/common/algo/coll.h"

#define TUNE_MAX_SIZES 64
#define TUNE_MAX_ALGOS 32

/* The bytes of an algorithm's name, with the zero byte at its end. */
#define TUNE_NAME_SIZE 136

/*
 * The most rules for one collective other than all-reduce. The collectives share one set of rules, and with this limit
 * it has room for all of them.
 */
#define TUNE_MAX_COLL_RULES 4

/* The measurements. The struct holds no pointers, so it is sent as plain bytes. */
typedef struct {
    mscclpp_coll_t coll; /* MSCCLPP_COLL_LAST: all-reduce */
    int nodes;           /* number of nodes on which the ranks are */
    int size_count;
    int builtin_count;                         /* algorithms of the library */
    int algo_count;                            /* algorithms of the library, followed by the execution plans */
    char plan[TUNE_MAX_ALGOS][TUNE_NAME_SIZE]; /* [algorithm]: "plan:NAME"; "" for the library's algorithms */
    size_t bytes[TUNE_MAX_SIZES];              /* bytes of the largest buffer that a rank has; ascending */
    size_t block_bytes[TUNE_MAX_SIZES];        /* of the largest block, to which rules refer; not descending */
    /* [size][algorithm]: the time of a call, in seconds; 0: not measured, or left out. */
    double seconds[TUNE_MAX_SIZES][TUNE_MAX_ALGOS];
} tune_table_t;

/*
 * Fills in a table without times, for ranks on `nodes` nodes. Its sizes begin with `min_bytes`, and each is `factor`
 * times the one before, up to `max_bytes`. They are rounded down to multiples of `unit_bytes`. The block of each size
 * is set to the size itself; if a buffer has several blocks, the caller sets `block_bytes` later. Returns false if
 * there is no size or if there are more than TUNE_MAX_SIZES.
 */
bool tune_table_init(tune_table_t *table, mscclpp_coll_t coll, int nodes, size_t min_bytes, size_t max_bytes,
                     double factor, size_t unit_bytes);

/* Adds an execution plan as an algorithm. Returns false if the table has no room for it, or its name is too long. */
bool tune_table_add_plan(tune_table_t *table, const char *name);

/*
 * tune_algo_name returns the name of an algorithm. tune_algo_find returns the algorithm with a name, or -1 if there is
 * none.
 */
const char *tune_algo_name(const tune_table_t *table, int algo);
int tune_algo_find(const tune_table_t *table, const char *name);

/*
 * Returns true if an algorithm can serve the collective on the table's number of nodes. Other algorithms are never
 * measured.
 */
bool tune_algo_can_serve(const tune_table_t *table, int algo);

/*
 * Returns true if the size is measured. All algorithms of a size are measured together, so it is enough to look for one
 * time.
 */
bool tune_is_measured(const tune_table_t *table, int size_index);

/* Returns the number of the first size that is not measured, or table->size_count if all sizes are. */
int tune_first_missing(const tune_table_t *table);

/*
 * Returns true if an algorithm need not be measured at a size, because it can no longer become the fastest one. At the
 * size before, either it was much slower than the fastest algorithm and its time grew with the size, or it was left
 * out. All smaller sizes have to be measured.
 */
bool tune_is_hopeless(const tune_table_t *table, int size_index, int algo);

/* Returns the fastest algorithm of a size, or -1 if the size is not measured. */
int tune_fastest(const tune_table_t *table, int size_index);

/*
 * Makes rules for the measured sizes, up to the first size that is not measured. An algorithm is kept from size to size
 * until another one is faster by more than the noise. Between two measured sizes with different algorithms, the
 * algorithm of the larger size is used. If there would be more rules than the set has room for, the function increases
 * the noise and tries again.
 */
void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set);

/*
 * Estimates the seconds that the sizes from `next` on will take, given that the size before `next` took `seconds`. The
 * estimate takes into account that a round of small messages has a fixed time, and a round of large messages a fixed
 * number of calls. Returns -1 if fewer than three sizes are below `next`.
 */
double tune_seconds_left(const tune_table_t *table, int next, double seconds);

#endif
