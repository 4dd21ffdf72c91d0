/* Timing: the contenders take turns in rounds of equal length, so that a drift of the machine affects all of them. */
#include "tools/bench/bench.h"

#include <string.h>

typedef struct {
    bench_contender_t *contender;
    bench_times_t *times;
} turn_t;

/* Measures rounds. The contenders take turns, and each round begins with another one. */
static bool measure_rounds(bench_env_t *env, const bench_operation_t *operation, int rounds, int iterations,
                           const turn_t *turns, int count)
{
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < count; ++j) {
            const turn_t *turn = &turns[(i + j) % count];

            if (!bench_time_round(env, turn->contender, operation, iterations,
                                  &turn->times->round[turn->times->rounds])) {
                return false;
            }
            ++turn->times->rounds;
        }
    }
    return true;
}

/* Verifies the results of `ours`, and those of the rival if its results should be the same. */
static bool check_results(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers,
                          bench_contender_t *ours, bench_contender_t *rival, const bench_operation_t *operation,
                          bench_cell_t *cell)
{
    return bench_check(env, options->checks, buffers, ours, operation, true, &cell->wrong) &&
           (rival == NULL || BENCH_SERVES != bench_serves(rival, operation->layout->coll, operation->in_place) ||
            bench_check(env, options->checks, buffers, rival, operation, false, &cell->rival_wrong)) &&
           bench_buffers_fill(buffers, env, operation, 0);
}

/* Lets go of what is prepared, so that the next call makes as many operations as are timed, or one. */
static bool begin_again(bench_contender_t *contender, bool timed)
{
    if (contender == NULL || contender->forget == NULL) {
        return true;
    }
    if (0 != contender->timed_batch) {
        contender->batch = timed ? contender->timed_batch : 1;
    }
    return contender->forget(contender);
}

/* Calls a round of the first contender, one of whose operations takes so many seconds. */
static int find_calls(const bench_options_t *options, const bench_contender_t *contender, double seconds)
{
    const int batch = bench_batch(contender);

    if (0 == options->iterations) {
        return bench_iterations(seconds * batch);
    }
    return (options->iterations + batch - 1) / batch;
}

bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p)
{
    bench_operation_t operation = {.send = buffers->send,
                                   .recv = buffers->recv,
                                   .type = row->type,
                                   .op = row->op,
                                   .layout = row->layout,
                                   .in_place = in_place};
    bool loops = options->between.is_given && BENCH_KERNEL_NONE != options->between.kind;
    bench_contender_t our_loop = bench_between_contender(env, ours), their_loop = bench_between_contender(env, rival);
    bench_contender_t base = bench_between_contender(env, NULL);
    bench_cell_t cell;
    turn_t turns[3] = {{.contender = loops ? &our_loop : ours, .times = &cell.ours}};
    int count = 1;
    double estimate;
    int calls;

    memset(&cell, 0, sizeof(cell));
    if (rival != NULL && BENCH_SERVES_NOT == bench_serves(rival, row->layout->coll, in_place)) {
        rival = NULL;
    }
    if (rival != NULL) {
        turns[count++] = (turn_t){.contender = loops ? &their_loop : rival, .times = &cell.rival};
    }
    if (loops) {
        turns[count++] = (turn_t){.contender = &base, .times = &cell.base};
    }
    if (!check_results(env, options, buffers, ours, rival, &operation, &cell) || !begin_again(ours, true) ||
        !begin_again(rival, true) || !bench_repeat(turns[0].contender, &operation, options->warmup) ||
        !bench_time_round(env, turns[0].contender, &operation, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    for (int i = 1; i < count; ++i) {
        if (!bench_repeat(turns[i].contender, &operation, options->warmup)) {
            return false;
        }
    }
    calls = find_calls(options, turns[0].contender, estimate);
    cell.iterations = calls * bench_batch(turns[0].contender);
    if (!measure_rounds(env, &operation, options->rounds, calls, turns, count) || !begin_again(ours, false) ||
        !begin_again(rival, false)) {
        return false;
    }
    if (ours->team != NULL) {
        snprintf(cell.algorithm, sizeof(cell.algorithm), "%s", mscclpp_team_last_algorithm(ours->team));
    }
    cell.is_measured = true;
    *cell_p = cell;
    return true;
}
