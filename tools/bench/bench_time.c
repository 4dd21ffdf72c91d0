/* The parts of a measurement: verified calls, timed rounds, their median. */
#include "tools/bench/bench.h"
#include "mca/common/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ITERATIONS 5000 /* the most calls of a round */

/* Untimed calls at the start of each round, because the other contender has just used the device. */
#define ROUND_WARMUP 3

double bench_now(void)
{
    return mscclpp_now();
}

/* Orders doubles in ascending order, for qsort. */
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
    memcpy(sorted, times->seconds, sizeof(sorted[0]) * (size_t)times->rounds);
    qsort(sorted, (size_t)times->rounds, sizeof(sorted[0]), compare_doubles);
    return (sorted[(times->rounds - 1) / 2] + sorted[times->rounds / 2]) / 2;
}

bool bench_repeat(bench_contender_t *contender, const bench_operation_t *operation, int calls)
{
    bool ok = true;

    for (int i = 0; ok && i < calls; ++i) {
        ok = contender->call(contender, operation);
    }
    return ok && (contender->finish == NULL || contender->finish(contender));
}

bench_serves_t bench_serves(const bench_contender_t *contender, const bench_coll_t *coll, bool in_place)
{
    return contender->serves == NULL ? BENCH_SERVES : contender->serves(contender, coll, in_place);
}

int bench_batch(const bench_contender_t *contender)
{
    return contender->batch > 1 ? contender->batch : 1;
}

/*
 * Times one round of `calls` calls, including the wait for their end. All ranks begin together, and the slowest one
 * determines the time. Yields the seconds of one operation; one call of a graph makes several operations. All ranks
 * yield the same, so that numbers derived from it are the same, too. Returns false if a call failed; peers may then
 * still wait within a call, or for this rank's time.
 */
bool bench_time_round(bench_env_t *env, bench_contender_t *contender, const bench_operation_t *operation, int calls,
                      double *seconds_p)
{
    if (!bench_repeat(contender, operation, ROUND_WARMUP)) {
        return false;
    }
    MPI_Barrier(env->control);
    double start = bench_now();
    if (!bench_repeat(contender, operation, calls)) {
        return false;
    }
    *seconds_p = bench_max(env->control, (bench_now() - start) / calls / bench_batch(contender));
    return true;
}

/*
 * Makes calls with known operands, and counts the wrong elements of their results on all ranks. All ranks call this
 * function. Returns false if a call or a copy failed on this rank. The other ranks may then wait within the call or in
 * a barrier, so the caller has to end the program.
 */
bool bench_check(bench_env_t *env, int checks, bench_buffers_t *buffers, bench_contender_t *contender,
                 const bench_operation_t *operation, bool strict, uint64_t *wrong_p)
{
    uint64_t wrong, total = 0;

    for (int i = 0; i < checks; ++i) {
        /* The operands change from call to call, so that an old result counts as wrong. */
        int seed = i + 1;
        if (!bench_buffers_fill(buffers, env, operation, seed)) {
            return false;
        }
        /* A peer may copy into or out of this rank's buffers without waiting for this rank. */
        MPI_Barrier(env->control);
        if (!bench_repeat(contender, operation, 1)) {
            return false;
        }
        MPI_Barrier(env->control);
        if (!bench_buffers_verify(buffers, env, operation, seed, strict, &wrong)) {
            return false;
        }
        total += wrong;
    }
    *wrong_p = bench_sum(env->control, total);
    return true;
}

/* Returns as many calls as take BENCH_ROUND_SECONDS, but from BENCH_MIN_ITERATIONS to MAX_ITERATIONS. */
int bench_iterations(double seconds)
{
    double calls = BENCH_ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9); /* `seconds` may be 0 */

    return calls < BENCH_MIN_ITERATIONS ? BENCH_MIN_ITERATIONS : calls > MAX_ITERATIONS ? MAX_ITERATIONS : (int)calls;
}
