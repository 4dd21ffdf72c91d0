/* Timing: rounds of equal length, of all contenders in turn, so that a drift of the machine meets each of them. */
#include "tools/bench/bench.h"

#include <string.h>

typedef struct {
    bench_contender_t *contender;
    bench_times_t *times;
} turn_t;

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

bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p)
{
    bench_operation_t operation = {in_place ? buffers->recv : buffers->send, buffers->recv, row->count, row->type,
                                   row->op};
    bool loops = options->between.given && BENCH_KERNEL_NONE != options->between.kind;
    bench_contender_t our_loop = bench_between_contender(env, ours), their_loop = bench_between_contender(env, rival);
    bench_contender_t base = bench_between_contender(env, NULL);
    bench_cell_t cell;
    turn_t turns[3] = {{.contender = loops ? &our_loop : ours, .times = &cell.ours}};
    int count = 1;
    double estimate;

    memset(&cell, 0, sizeof(cell));
    if (NULL != rival) {
        turns[count++] = (turn_t){.contender = loops ? &their_loop : rival, .times = &cell.rival};
    }
    if (loops) {
        turns[count++] = (turn_t){.contender = &base, .times = &cell.base};
    }
    if (!bench_check(env, options->checks, buffers, ours, &operation, in_place, &cell.wrong) ||
        !bench_buffers_fill(buffers, env, row->type, row->op, row->count, in_place, 0) ||
        !bench_repeat(turns[0].contender, &operation, options->warmup) ||
        !bench_time_round(env, turns[0].contender, &operation, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    for (int i = 1; i < count; ++i) {
        if (!bench_repeat(turns[i].contender, &operation, options->warmup)) {
            return false;
        }
    }
    cell.iterations = 0 != options->iterations ? options->iterations : bench_iterations(estimate);
    if (!measure_rounds(env, &operation, options->rounds, cell.iterations, turns, count)) {
        return false;
    }
    if (NULL != ours->team) {
        snprintf(cell.algorithm, sizeof(cell.algorithm), "%s", mscclpp_team_last_algorithm(ours->team));
    }
    cell.measured = true;
    *cell_p = cell;
    return true;
}
