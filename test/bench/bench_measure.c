/* Timing: rounds of equal length, ours and the rival's in turn, so that a drift of the machine meets both. */
#include "test/bench/bench.h"

#include <string.h>

bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p)
{
    bench_operation_t operation = {in_place ? buffers->recv : buffers->send, buffers->recv, row->count, row->type,
                                   row->op};
    bench_cell_t cell;
    double estimate;

    memset(&cell, 0, sizeof(cell));
    if (!bench_check(env, options->checks, buffers, ours, &operation, in_place, &cell.wrong) ||
        !bench_buffers_fill(buffers, env, row->type, row->op, row->count, in_place, 0) ||
        !bench_repeat(ours, &operation, options->warmup) ||
        !bench_time_round(env, ours, &operation, BENCH_MIN_ITERATIONS, &estimate) ||
        (NULL != rival && !bench_repeat(rival, &operation, options->warmup))) {
        return false;
    }
    cell.iterations = 0 != options->iterations ? options->iterations : bench_iterations(estimate);
    for (int i = 0; i < options->rounds; ++i) {
        for (int turn = 0; turn < 2; ++turn) {
            bool rivals_turn = turn != i % 2;
            bench_contender_t *contender = rivals_turn ? rival : ours;
            bench_times_t *times = rivals_turn ? &cell.rival : &cell.ours;
            if (NULL == contender) {
                continue;
            }
            if (!bench_time_round(env, contender, &operation, cell.iterations, &times->round[times->rounds])) {
                return false;
            }
            ++times->rounds;
        }
    }
    if (NULL != ours->team) {
        snprintf(cell.algorithm, sizeof(cell.algorithm), "%s", mscclpp_team_last_algorithm(ours->team));
    }
    cell.measured = true;
    *cell_p = cell;
    return true;
}
