/*
 * The rival "staged" does what an application has to do without the component. It copies its operands to pinned host
 * memory, calls MPI there, and copies the result back.
 */
#include "tools/bench/bench.h"

#include <string.h>

/*
 * Makes the contender's call: copies the operands to host memory, calls MPI there, and copies the result back. Bytes
 * that are neither operand nor result are not copied. Segments follow one another from the beginning of the buffer, so
 * the end of the last segment is the size of the result. Returns false if a copy or MPI's function fails.
 */
static bool call_staged(bench_contender_t *contender, const bench_operation_t *operation)
{
    const bench_env_t *env = contender->env;
    const bench_layout_t *layout = operation->layout;
    const size_t element_bytes = operation->type->size;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    const int segments = bench_layout_segments(layout, operation->in_place);
    bench_operation_t staged = *operation;
    size_t result_count = 0 /* elements, from the beginning on */, input_offset = input.first * element_bytes;

    staged.send = contender->staging[0];
    staged.recv = contender->staging[1];
    if (segments > 0) {
        const bench_segment_t last_segment = bench_layout_segment(layout, segments - 1);
        result_count = last_segment.first + last_segment.count;
    }
    return bench_env_copy(env, (input.in_recv ? staged.recv : staged.send) + input_offset,
                          (input.in_recv ? operation->recv : operation->send) + input_offset,
                          input.count * element_bytes) &&
           bench_call_mpi(&staged, env->comm) &&
           bench_env_copy(env, operation->recv, staged.recv, result_count * element_bytes);
}

/*
 * Makes the contender, with its pinned memory. All ranks return the same: false on the host twin, after a line of rank
 * 0, and false if a rank gets no memory. Then all free what they have allocated.
 */
bool bench_staged_open(bench_env_t *env, size_t capacity, bench_contender_t *contender_p)
{
    bench_contender_t contender = {.name = "staged", .env = env, .call = call_staged};
    void *unused;
    bool ok = true;

    if (env->on_twin) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --compare staged: on the host twin the copies would be device buffers too; "
                            "compare with a run under --mca coll ^mscclpp\n");
        }
        return false;
    }
    for (int i = 0; ok && i < 2; ++i) {
        void *staging;
        ok = MSCCLPP_OK == env->gpu->host_alloc(capacity, &staging, &unused);
        contender.staging[i] = ok ? staging : NULL;
    }
    if (!bench_all(env->control, ok)) {
        bench_staged_close(&contender);
        return false;
    }
    *contender_p = contender;
    return true;
}

void bench_staged_close(bench_contender_t *contender)
{
    for (int i = 0; i < 2; ++i) {
        if (contender->staging[i] != NULL) {
            contender->env->gpu->host_free(contender->staging[i]);
            contender->staging[i] = NULL;
        }
    }
}
