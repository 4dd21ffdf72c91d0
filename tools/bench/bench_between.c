/*
 * Calls between kernels, as an application makes them, or after barriers. A loop of calls and kernels is a contender,
 * and the same loop without the calls is another. The difference of their times is the time that the calls add.
 */
#include "tools/bench/bench.h"
#include "tools/bench/bench_kernel.h"

#include <string.h>

/* The loop of this process: only one is open at a time. */
static struct {
    const bench_between_t *between;
    const bench_env_t *env;
    void *stream;        /* stream of the kernels; NULL on the twin */
    bool has_own_stream; /* the stream is not the one that calls are queued in */
    double work_end;     /* on the twin, where the CPU spins: when the last kernel ends, by bench_now */
} loop;

const char *bench_between_name(bench_kernel_kind_t kind)
{
    static const char *names[] = {"none", "barrier", "waves", "full", "half", "coop", "gemm"};

    return names[kind];
}

bool bench_between_has_kernels(const bench_between_t *between)
{
    return between->kind > BENCH_KERNEL_BARRIER;
}

bool bench_between_possible(const bench_env_t *env, const bench_between_t *between)
{
    if (env->on_twin && between->kind >= BENCH_KERNEL_COOP) {
        return bench_refuse("--between", bench_between_name(between->kind),
                            "none, barrier, waves, full or half on the host twin");
    }
    return BENCH_KERNEL_GEMM != between->kind || bench_gemm_load(bench_prints());
}

/*
 * Prepares products of one size on all ranks. Rank 0 chooses the size by timing products, while the other ranks wait
 * and leave the GPUs idle. All ranks return the same. On failure, the rank that failed prints a line.
 */
static bool open_gemm(bench_env_t *env, bench_between_t *between)
{
    bool ok = 0 != env->rank || bench_gemm_choose(between->microseconds, loop.stream, &between->matrix_rows);

    if (!bench_all(env->control, ok)) {
        return false;
    }
    bench_broadcast(env->control, &between->matrix_rows, sizeof(between->matrix_rows));
    return bench_all(env->control, bench_gemm_open(between->matrix_rows, loop.stream));
}

/*
 * Opens the kernels' stream, if they have their own one, and loads the kernel. On the twin, and without kernels, there
 * is nothing to open. All ranks return the same; the rank that failed prints a line. After a failure nothing is freed,
 * because the program ends.
 */
bool bench_between_open(bench_env_t *env, bench_between_t *between, bool in_stream)
{
    bool ok = true;

    loop.between = between;
    loop.env = env;
    if (!bench_between_has_kernels(between) || env->on_twin) {
        return true;
    }
    if (in_stream) {
        loop.stream = env->native_stream;
    } else {
        loop.has_own_stream = ok = bench_cuda_stream_create(&loop.stream);
    }
    if (!bench_all(env->control, ok)) {
        return false;
    }
    return BENCH_KERNEL_GEMM == between->kind
               ? open_gemm(env, between)
               : bench_all(env->control,
                           bench_kernel_open(between->kind, env->device, between->microseconds, loop.stream));
}

void bench_between_close(void)
{
    bench_gemm_close();
    bench_kernel_close();
    if (loop.has_own_stream) {
        bench_cuda_stream_destroy(loop.stream);
    }
    memset(&loop, 0, sizeof(loop));
}

/*
 * Launches the kernel that represents the application's work. If the launch fails, prints a line and returns false. On
 * the host twin, only computes the time at which await_work returns. It is the kernel's duration after now, or after
 * the end of the earlier work if that is later.
 */
static bool launch_work(void)
{
    if (loop.env->on_twin) {
        double now = bench_now();

        loop.work_end = (loop.work_end > now ? loop.work_end : now) + 1e-6 * loop.between->microseconds;
        return true;
    }
    return BENCH_KERNEL_GEMM == loop.between->kind ? bench_gemm_launch() : bench_kernel_launch();
}

/* Waits until all work that was launched has ended. If some failed, prints a line and returns false. */
static bool await_work(void)
{
    if (!loop.env->on_twin) {
        return bench_cuda_stream_wait(loop.stream);
    }
    while (bench_now() < loop.work_end) {
    }
    return true;
}

/*
 * Makes the calls of a turn, and waits for them. A contender without `finish` waits in each call. Calls that are queued
 * in the kernels' stream are not waited for here, because run_turn waits for this stream. Returns false if a call
 * failed.
 */
static bool make_calls(bench_contender_t *inner, const bench_operation_t *operation)
{
    bool ok = true;

    for (int i = 0; ok && i < loop.between->calls_in_turn; ++i) {
        ok = inner->call(inner, operation);
    }
    return ok && (inner->finish == NULL || (loop.stream != NULL && !loop.has_own_stream) || inner->finish(inner));
}

/*
 * Makes the contender's call, which is one turn of the loop: first the kernels and then the calls. If `ahead` is 0, the
 * calls come first, and then one kernel. Waits for the end of all of them. With barriers in place of kernels, a barrier
 * comes first, by the component that serves it without this one. Returns false if a kernel or a call failed.
 */
static bool run_turn(bench_contender_t *contender, const bench_operation_t *operation)
{
    bool ok = true;

    if (BENCH_KERNEL_BARRIER == loop.between->kind) {
        MPI_Barrier(loop.env->control);
        return contender->inner == NULL || make_calls(contender->inner, operation);
    }
    for (int i = 0; ok && i < loop.between->kernels_ahead; ++i) {
        ok = launch_work();
    }
    return ok && (contender->inner == NULL || make_calls(contender->inner, operation)) &&
           (0 != loop.between->kernels_ahead || launch_work()) && await_work();
}

bench_contender_t bench_between_contender(bench_env_t *env, bench_contender_t *inner)
{
    bench_contender_t contender = {
        .name = inner == NULL ? "kernels" : inner->name, .env = env, .call = run_turn, .inner = inner};

    return contender;
}

bench_times_t bench_between_added(const bench_between_t *between, const bench_times_t *with,
                                  const bench_times_t *without)
{
    bench_times_t added = *with;

    for (int i = 0; i < without->rounds; ++i) {
        added.seconds[i] = (with->seconds[i] - without->seconds[i]) / between->calls_in_turn;
    }
    return added;
}
