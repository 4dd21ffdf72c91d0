/*
 * What mscclpp_tune makes of its measurements; pure, and without MPI. All ranks hold the same table and so decide
 * alike.
 */
#ifndef TOOLS_TUNE_TUNE_CHOOSE_H
#define TOOLS_TUNE_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/common/algo/algo.h"

#define TUNE_MAX_SIZES 64
#define TUNE_MAX_ALGOS 16

/* Plain bytes. */
typedef struct {
    int nsizes;
    int nalgos;                   /* the registry's */
    size_t bytes[TUNE_MAX_SIZES]; /* ascending */
    /* A call's, by size and index in the registry; 0: not measured, or left out. */
    double seconds[TUNE_MAX_SIZES][TUNE_MAX_ALGOS];
} tune_table_t;

/* Fills in sizes from min to max, as multiples of `unit`, and no times. False if there are too many sizes or none. */
bool tune_table_init(tune_table_t *table, size_t min, size_t max, double factor, size_t unit);

/* A size is measured as a whole. */
bool tune_is_measured(const tune_table_t *table, int size);

/* The first size that is not measured; table->nsizes if all are. */
int tune_next(const tune_table_t *table);

/*
 * Whether an algorithm need not be measured at a size, those below being measured: it is much slower than the best and
 * its time already grows with the size, so that it cannot become the best one any more.
 */
bool tune_is_hopeless(const tune_table_t *table, int size, int algo);

/* The fastest algorithm of a measured size. */
int tune_best(const tune_table_t *table, int size);

/*
 * Rules for the sizes measured up to the first one that is not: an algorithm is kept from size to size as long as
 * another one is not faster beyond the noise. Between two sizes that want different ones the larger one's counts.
 */
void tune_make_rules(const tune_table_t *table, mscclpp_rule_set_t *set);

/*
 * Seconds that the sizes from `next` on will take, given that the one before took `seconds`: a round of small messages
 * has a fixed time, and one of large messages a fixed number of calls. Negative if fewer than three sizes are measured.
 */
double tune_seconds_left(const tune_table_t *table, int next, double seconds);

#endif
