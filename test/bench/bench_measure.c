/* Timing: rounds of equal length, ours and the rival's in turn, so that a drift of the machine meets both. */
#include "test/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A round that lasts this long averages over enough calls. */
#define ROUND_SECONDS 0.02
#define MIN_ITERATIONS 5
#define MAX_ITERATIONS 5000

/* Untimed calls at the start of each round: the other contender has just used the device. */
#define ROUND_WARMUP 3

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_times_median(const bench_times_t *times)
{
    double sorted[BENCH_MAX_ROUNDS];

    if (0 == times->rounds) {
        return 0;
    }
    memcpy(sorted, times->round, sizeof(sorted[0]) * (size_t)times->rounds);
    qsort(sorted, (size_t)times->rounds, sizeof(sorted[0]), compare_doubles);
    return (sorted[(times->rounds - 1) / 2] + sorted[times->rounds / 2]) / 2;
}

typedef struct {
    const void *sendbuf;
    void *recvbuf;
    size_t count;
    const bench_type_t *type;
    const bench_op_t *op;
} operation_t;

static bool repeat(bench_contender_t *contender, const operation_t *operation, int calls)
{
    bool ok = true;

    for (int i = 0; ok && i < calls; ++i) {
        ok = contender->call(contender, operation->sendbuf, operation->recvbuf, operation->count, operation->type,
                             operation->op);
    }
    return ok && (NULL == contender->finish || contender->finish(contender));
}

/* Seconds a call, the slowest rank's. */
static bool time_round(bench_env_t *env, bench_contender_t *contender, const operation_t *operation, int calls,
                       double *seconds_p)
{
    if (!repeat(contender, operation, ROUND_WARMUP)) {
        return false;
    }
    MPI_Barrier(env->control);
    double start = now();
    if (!repeat(contender, operation, calls)) {
        return false;
    }
    *seconds_p = bench_max(env->control, (now() - start) / calls);
    return true;
}

static bool check(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                  const operation_t *operation, bool in_place, uint64_t *wrong_p)
{
    uint64_t wrong, total = 0;

    for (int i = 0; i < options->checks; ++i) {
        /* The operands change from call to call, so that a stale result is a wrong one. */
        int seed = i + 1;
        if (!bench_buffers_fill(buffers, env, operation->type, operation->op, operation->count, in_place, seed) ||
            !repeat(ours, operation, 1) ||
            !bench_buffers_verify(buffers, env, operation->type, operation->op, operation->count, seed, &wrong)) {
            return false;
        }
        total += wrong;
    }
    *wrong_p = bench_sum(env->control, total);
    return true;
}

static int choose_iterations(const bench_options_t *options, double seconds)
{
    double calls = ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9);

    if (0 != options->iterations) {
        return options->iterations;
    }
    return calls < MIN_ITERATIONS ? MIN_ITERATIONS : calls > MAX_ITERATIONS ? MAX_ITERATIONS : (int)calls;
}

bool bench_measure(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, bench_contender_t *ours,
                   bench_contender_t *rival, const bench_row_t *row, bool in_place, bench_cell_t *cell_p)
{
    operation_t operation = {in_place ? buffers->recv : buffers->send, buffers->recv, row->count, row->type, row->op};
    bench_cell_t cell;
    double estimate;

    memset(&cell, 0, sizeof(cell));
    if (!check(env, options, buffers, ours, &operation, in_place, &cell.wrong) ||
        !bench_buffers_fill(buffers, env, row->type, row->op, row->count, in_place, 0) ||
        !repeat(ours, &operation, options->warmup) || !time_round(env, ours, &operation, MIN_ITERATIONS, &estimate) ||
        (NULL != rival && !repeat(rival, &operation, options->warmup))) {
        return false;
    }
    cell.iterations = choose_iterations(options, estimate);
    for (int i = 0; i < options->rounds; ++i) {
        for (int turn = 0; turn < 2; ++turn) {
            bool rivals_turn = turn != i % 2;
            bench_contender_t *contender = rivals_turn ? rival : ours;
            bench_times_t *times = rivals_turn ? &cell.rival : &cell.ours;
            if (NULL == contender) {
                continue;
            }
            if (!time_round(env, contender, &operation, cell.iterations, &times->round[times->rounds])) {
                return false;
            }
            ++times->rounds;
        }
    }
    if (ours->in_library) {
        snprintf(cell.algorithm, sizeof(cell.algorithm), "%s", mscclpp_team_last_algorithm(env->team));
    }
    cell.measured = true;
    *cell_p = cell;
    return true;
}
