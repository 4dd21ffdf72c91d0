/* Figures of a transport from measured all-reduces. */
#ifndef TOOLS_TUNE_TUNE_FIT_H
#define TOOLS_TUNE_TUNE_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/algo/schedule/cost.h"

/* One measured all-reduce in which each node sends everything to all others. */
typedef struct {
    uint64_t bytes;
    double seconds; /* of a call */
} tune_point_t;

/*
 * Returns the seconds of such an all-reduce by the cost model, or 0 if the model has no schedule for so many nodes.
 */
double tune_fit_model(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, uint64_t bytes);

/*
 * Changes the figures so that the model comes closest to the points, of which at least two have different sizes. All
 * times are multiplied by one factor, because the time of whole calls does not tell latency, overhead and gap apart.
 * The bandwidth is multiplied by another one. Returns the factor by which the model is off on average, 1 or more.
 */
double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count);

#endif
