/* Fits the figures of the cost model to measured times, by pattern search. */
#include "tools/tune/tune_fit.h"

#include <math.h>

/* The search begins with the first factor, and ends when the factor is below the last one. */
#define FIRST_STEP 4.0
#define LAST_STEP 1.001

/* A step tries three factors for the times, combined with three for the bandwidth: 1/step, 1 and step. */
enum { TRIALS = 9 };

/*
 * The least latency, in seconds. If only the bandwidth matters, the search would otherwise reduce the times for ever.
 */
#define MIN_LATENCY 1e-9

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
 * Returns the mean square of log(model / measurement) over all points. With the logarithm, a model that is too slow by
 * a factor counts as much as a model that is too fast by the same factor. Both times are above 0, because the model has
 * a schedule for this number of nodes.
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
 * Searches for the factor of the times and the factor of the bandwidth by pattern search. Returns the factor by which
 * the model is then off on average. The search ends, because each round reduces either the error or the step.
 */
double tune_fit(mscclpp_cost_figures_t *figures, uint32_t nodes, uint32_t shards, const tune_point_t *points,
                size_t count)
{
    double step = FIRST_STEP, error = mean_square_error(figures, nodes, shards, points, count);

    /*
     * Starting from the best figures so far, try a step in each of eight directions. If none of them reduces the error,
     * reduce the step.
     */
    while (step > LAST_STEP) {
        mscclpp_cost_figures_t best = *figures;
        double step_error = error;
        int i;

        for (i = 0; i < TRIALS; ++i) {
            const mscclpp_cost_figures_t trial = scale_figures(figures, pow(step, i / 3 - 1), pow(step, i % 3 - 1));
            const double trial_error = mean_square_error(&trial, nodes, shards, points, count);

            if (trial_error < step_error && trial.latency >= MIN_LATENCY) {
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
