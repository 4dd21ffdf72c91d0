/* Figures of a transport from measured all-reduces. */
#ifndef TOOLS_TUNE_TUNE_FIT_H
#define TOOLS_TUNE_TUNE_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/algo/schedule/cost.h"

/* One measured all-reduce in which each node sends everything to all others. */
typedef struct {
    uint64_t bytes;
    double seconds;
} tune_point_t;

/* Seconds of an all-reduce of that kind by the cost model. */
double tune_fit_model(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, uint64_t bytes);

/*
 * Changes the figures so that the model is closest to the points, which are at least two of different sizes: all times
 * by one factor, since a message's parts cannot be told apart by calls as a whole, and the bandwidth by another one.
 * Returns the factor by which the model is off on average, 1 or more.
 */
double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count);

#endif
