#include "tools/tune/tune_fit.h"

#include <math.h>

/* The factors by which the search changes the figures: it begins with the first and ends below the last. */
#define FIRST_STEP 4.0
#define LAST_STEP 1.001

/* Three factors for the times and three for the bandwidth: the step down, none, and the step up. */
enum { TRIALS = 9 };

/* A bound for the latency, in seconds. Where only the bandwidth matters, the search would shrink the times for ever. */
#define LEAST_LATENCY 1e-9

double tune_fit_model(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, uint64_t bytes)
{
    mscclpp_schedule_t schedule;

    return mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_DIRECT, MSCCLPP_SCHEDULE_ALLREDUCE, nodes, 0, 0, 0)
               ? mscclpp_cost_estimate(figures, &schedule, shards, bytes)
               : 0;
}

/* Returns the figures with latency, overhead and gap multiplied by one factor, and the bandwidth by another one. */
static mscclpp_cost_figures_t scale_figures(const mscclpp_cost_figures_t *figures, double time_factor,
                                            double bandwidth_factor)
{
    mscclpp_cost_figures_t result = *figures;

    result.latency *= time_factor;
    result.overhead *= time_factor;
    result.gap *= time_factor;
    result.bandwidth *= bandwidth_factor;
    return result;
}

/*
 * Returns how far the model is from the points: the mean square of log(model / measurement). By the logarithm, a model
 * that is too slow by a factor counts as much as one that is too fast by it. Both times are above 0: the model has a
 * schedule for these nodes.
 */
static double mean_square_error(const mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards,
                                const tune_point_t *points, size_t count)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < count; ++i) {
        const double log_ratio = log(tune_fit_model(figures, nodes, shards, points[i].bytes) / points[i].seconds);

        sum += log_ratio * log_ratio / (double)count;
    }
    return sum;
}

/*
 * Searches for the two factors. Returns the factor by which the model is then off on average. The search ends, because
 * each round makes the error smaller or the step.
 */
double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count)
{
    double step = FIRST_STEP, error = mean_square_error(figures, nodes, shards, points, count);

    /*
     * From the best figures so far, try a step in each of eight directions. Where none is better, make the step
     * smaller.
     */
    while (step > LAST_STEP) {
        mscclpp_cost_figures_t best = *figures;
        double step_error = error;
        int i;

        for (i = 0; i < TRIALS; ++i) {
            const mscclpp_cost_figures_t trial = scale_figures(figures, pow(step, i / 3 - 1), pow(step, i % 3 - 1));
            const double trial_error = mean_square_error(&trial, nodes, shards, points, count);

            if (trial_error < step_error && trial.latency >= LEAST_LATENCY) {
                step_error = trial_error;
                best = trial;
            }
        }
        step = step_error < error ? step : sqrt(step);
        error = step_error;
        *figures = best;
    }
    return exp(sqrt(error));
}
