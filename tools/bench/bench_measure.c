/* Timing: the contenders take turns in rounds of equal length, so that a drift of the machine affects all of them. */
#include "tools/bench/bench.h"

#include <string.h>

/* A contender, and where its times go. */
typedef struct {
    bench_contender_t *contender;
    bench_times_t *times;
} turn_t;

/*
 * Times rounds of `calls` calls each, and adds their times to those of the contenders. In each round all `count`
 * contenders take turns, and each round begins with another contender. Returns false if a call failed; peers may then
 * still wait within a call. There is room for all times, because --rounds is at most BENCH_MAX_ROUNDS.
 */
static bool measure_rounds(bench_env_t *env, const bench_operation_t *operation, int rounds, int calls,
                           const turn_t *turns, int count)
{
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < count; ++j) {
            const turn_t *turn = &turns[(i + j) % count];

            if (!bench_time_round(env, turn->contender, operation, calls, &turn->times->seconds[turn->times->rounds])) {
                return false;
            }
            ++turn->times->rounds;
        }
    }
    return true;
}

/*
 * Verifies the results of `ours`, and those of the rival if they should be the same. The rival may change elements
 * after the result, so these are not compared. Then fills the buffers for the timed calls, whose results are not
 * verified. Returns false if a call or a copy failed; wrong results are only counted.
 */
static bool check_results(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers,
                          bench_contender_t *ours, bench_contender_t *rival, const bench_operation_t *operation,
                          bench_cell_t *cell)
{
    return bench_check(env, options->checks, buffers, ours, operation, true, &cell->wrong) &&
           (rival == NULL || BENCH_SERVES != bench_serves(rival, operation->layout->coll, operation->in_place) ||
            bench_check(env, options->checks, buffers, rival, operation, false, &cell->rival_wrong)) &&
           bench_buffers_fill(buffers, env, operation, 0);
}

/*
 * Frees the persistent request or the graph that the contender has prepared for one operation. Its next call prepares a
 * new one. A graph then has as many operations as a timed call makes or, if not `timed`, one. `contender` may be NULL.
 * Returns false if the contender could not free it.
 */
static bool reset_contender(bench_contender_t *contender, bool timed)
{
    if (contender == NULL || contender->reset == NULL) {
        return true;
    }
    if (0 != contender->timed_batch) {
        contender->batch = timed ? contender->timed_batch : 1;
    }
    return contender->reset(contender);
}

/*
 * Returns how many calls a round of a contender has if one of its operations takes `seconds`. They are enough for the
 * operations that the options ask for or, without --iterations, to fill a round.
 */
static int choose_calls(const bench_options_t *options, const bench_contender_t *contender, double seconds)
{
    const int batch = bench_batch(contender);

    if (0 == options->iterations) {
        return bench_iterations(seconds * batch);
    }
    return (options->iterations + batch - 1) / batch;
}

/*
 * Verifies the results, frees what the verified calls have prepared, and warms up each contender. Then estimates from
 * ours how many calls a round should have, and times the rounds, in which the rival makes as many calls. With kernels
 * or barriers between the calls, times loops of both instead of the contenders, and also a loop without calls.
 * Returns false if a call or a copy failed; peers may then still wait within a call.
 */
bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p)
{
    bench_operation_t operation = {.send = buffers->send,
                                   .recv = buffers->recv,
                                   .type = row->type,
                                   .op = row->op,
                                   .layout = row->layout,
                                   .in_place = in_place};
    bool in_turns = options->between.is_given && BENCH_KERNEL_NONE != options->between.kind;
    bench_contender_t our_loop = bench_between_contender(env, ours), their_loop = bench_between_contender(env, rival);
    bench_contender_t empty_loop = bench_between_contender(env, NULL);
    bench_cell_t cell;
    turn_t turns[3] = {{.contender = in_turns ? &our_loop : ours, .times = &cell.ours}};
    int turn_count = 1;
    double estimate;
    int calls;

    memset(&cell, 0, sizeof(cell));
    if (rival != NULL && BENCH_SERVES_NOT == bench_serves(rival, row->layout->coll, in_place)) {
        rival = NULL;
    }
    if (rival != NULL) {
        turns[turn_count++] = (turn_t){.contender = in_turns ? &their_loop : rival, .times = &cell.rival};
    }
    if (in_turns) {
        turns[turn_count++] = (turn_t){.contender = &empty_loop, .times = &cell.base};
    }
    if (!check_results(env, options, buffers, ours, rival, &operation, &cell) || !reset_contender(ours, true) ||
        !reset_contender(rival, true) || !bench_repeat(turns[0].contender, &operation, options->warmup) ||
        !bench_time_round(env, turns[0].contender, &operation, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    for (int i = 1; i < turn_count; ++i) {
        if (!bench_repeat(turns[i].contender, &operation, options->warmup)) {
            return false;
        }
    }
    calls = choose_calls(options, turns[0].contender, estimate);
    cell.iterations = calls * bench_batch(turns[0].contender);
    if (!measure_rounds(env, &operation, options->rounds, calls, turns, turn_count) || !reset_contender(ours, false) ||
        !reset_contender(rival, false)) {
        return false;
    }
    if (ours->team != NULL) {
        snprintf(cell.algorithm, sizeof(cell.algorithm), "%s", mscclpp_team_last_algorithm(ours->team));
    }
    cell.is_measured = true;
    *cell_p = cell;
    return true;
}
