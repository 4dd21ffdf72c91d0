/*
 * What an application does without the component: copies its operands to pinned host memory, lets MPI reduce them
 * there, and copies the result back.
 */
#include "tools/bench/bench.h"

#include <string.h>

static bool call(bench_contender_t *contender, const void *sendbuf, void *recvbuf, size_t count,
                 const bench_type_t *type, const bench_op_t *op)
{
    const bench_env_t *env = contender->env;
    size_t bytes = count * type->size;
    char *from = contender->staging[0], *to = contender->staging[1];

    return MSCCLPP_OK == env->gpu->copy(env->stream, from, sendbuf, bytes) &&
           MSCCLPP_OK == env->gpu->stream_sync(env->stream) &&
           MPI_SUCCESS ==
               MPI_Allreduce(from, to, (int)count, bench_type_mpi(type), bench_op_mpi(op), contender->env->comm) &&
           MSCCLPP_OK == env->gpu->copy(env->stream, recvbuf, to, bytes) &&
           MSCCLPP_OK == env->gpu->stream_sync(env->stream);
}

bool bench_staged_open(bench_env_t *env, size_t capacity, bench_contender_t *contender_p)
{
    bench_contender_t contender = {.name = "staged", .env = env, .call = call};
    void *unused;
    bool ok = true;

    if (env->on_host) {
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
        if (NULL != contender->staging[i]) {
            contender->env->gpu->host_free(contender->staging[i]);
            contender->staging[i] = NULL;
        }
    }
}
