/* Derives the figures of a transport from measured all-reduces. */
#ifndef TOOLS_TUNE_TUNE_FIT_H
#define TOOLS_TUNE_TUNE_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/algo/schedule/cost.h"

/* One measured all-reduce in which each node sends everything to all others. */
typedef struct {
    uint64_t bytes;
    double seconds; /* time of a call */
} tune_point_t;

/*
 * Returns how many seconds such an all-reduce of `bytes` bytes takes by the cost model, over `nodes` nodes of `shards`
 * ranks each. Returns 0 if the model has no schedule for so many nodes.
 */
double tune_fit_model(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, uint64_t bytes);

/*
 * Changes the figures so that the model is closest to the points. At least two points must have different sizes. The
 * latency, the overhead and the gap are multiplied by one common factor, because they cannot be told apart by the time
 * of whole calls. The bandwidth is multiplied by another factor. Returns the factor by which the model is off on
 * average, 1 or more.
 */
double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count);

#endif
