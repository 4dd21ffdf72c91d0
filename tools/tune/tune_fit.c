#include "tools/tune/tune_fit.h"

#include <math.h>

#define FIRST_STEP 4.0
#define LAST_STEP 1.001
#define LEAST_LATENCY 1e-9 /* where bandwidth is all that counts, the times would shrink for ever */

double tune_fit_model(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, uint64_t bytes)
{
    mscclpp_schedule_t schedule;

    return mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_DIRECT, MSCCLPP_SCHEDULE_ALLREDUCE, nodes, 0, 0, 0)
               ? mscclpp_cost_estimate(figures, &schedule, shards, bytes)
               : 0;
}

/* The figures with all times multiplied by `times`, and the bandwidth by `bandwidth`. */
static mscclpp_cost_figures_t scaled(const mscclpp_cost_figures_t *figures, double times, double bandwidth)
{
    mscclpp_cost_figures_t result = *figures;

    result.latency *= times;
    result.overhead *= times;
    result.gap *= times;
    result.bandwidth *= bandwidth;
    return result;
}

/* The mean square of the logarithms of model to measurement: twice too slow counts as much as twice too fast. */
static double error(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                    size_t count)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < count; ++i) {
        const double off = log(tune_fit_model(figures, nodes, shards, points[i].bytes) / points[i].seconds);

        sum += off * off / (double)count;
    }
    return sum;
}

double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count)
{
    double step = FIRST_STEP, least = error(figures, nodes, shards, points, count);

    /* Eight directions, in steps that get smaller. */
    while (step > LAST_STEP) {
        mscclpp_cost_figures_t best = *figures;
        double found = least;
        int i;

        for (i = 0; i < 9; ++i) {
            const mscclpp_cost_figures_t trial = scaled(figures, pow(step, i / 3 - 1), pow(step, i % 3 - 1));
            const double off = error(&trial, nodes, shards, points, count);

            if (off < found && trial.latency >= LEAST_LATENCY) {
                found = off;
                best = trial;
            }
        }
        step = found < least ? step : sqrt(step);
        least = found;
        *figures = best;
    }
    return exp(sqrt(least));
}
