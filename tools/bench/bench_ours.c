/* What is measured: MPI_Allreduce itself, and the host library's calls without MPI in between. */
#include "tools/bench/bench.h"

#include <limits.h>
#include <string.h>

static bool call_mpi(bench_contender_t *contender, const void *sendbuf, void *recvbuf, size_t count,
                     const bench_type_t *type, const bench_op_t *op)
{
    return MPI_SUCCESS == MPI_Allreduce(sendbuf == recvbuf ? MPI_IN_PLACE : sendbuf, recvbuf, (int)count,
                                        bench_type_mpi(type), bench_op_mpi(op), contender->env->comm);
}

bench_contender_t bench_contender_mpi(bench_env_t *env)
{
    bench_contender_t contender = {.name = "MPI_Allreduce", .env = env, .call = call_mpi};

    return contender;
}

static uint64_t library_calls;

static mscclpp_allreduce_args_t library_args(const void *sendbuf, void *recvbuf, size_t count, const bench_type_t *type,
                                             const bench_op_t *op)
{
    mscclpp_allreduce_args_t args = {.sendbuf = sendbuf,
                                     .recvbuf = recvbuf,
                                     .count = count,
                                     .dtype = type->dtype,
                                     .op = op->op,
                                     .call = ++library_calls};

    return args;
}

static bool succeeded(const bench_contender_t *contender, mscclpp_status_t status)
{
    if (MSCCLPP_OK != status) {
        fprintf(stderr, "%s: rank %d: %s: %s\n", bench_program, contender->env->rank, contender->name,
                mscclpp_status_string(status));
    }
    return MSCCLPP_OK == status;
}

static bool call_library(bench_contender_t *contender, const void *sendbuf, void *recvbuf, size_t count,
                         const bench_type_t *type, const bench_op_t *op)
{
    mscclpp_allreduce_args_t args = library_args(sendbuf, recvbuf, count, type, op);

    return succeeded(contender, mscclpp_allreduce(contender->team, &args));
}

static bool call_stream(bench_contender_t *contender, const void *sendbuf, void *recvbuf, size_t count,
                        const bench_type_t *type, const bench_op_t *op)
{
    mscclpp_allreduce_args_t args = library_args(sendbuf, recvbuf, count, type, op);

    return succeeded(contender, mscclpp_allreduce_enqueue(contender->team, &args, contender->env->stream));
}

static bool finish_stream(bench_contender_t *contender)
{
    return succeeded(contender, contender->env->gpu->stream_sync(contender->env->stream));
}

bench_contender_t bench_contender_library(bench_env_t *env, mscclpp_team_t *team, bool stream)
{
    bench_contender_t contender = {.name = stream ? "mscclpp_allreduce_enqueue" : "mscclpp_allreduce",
                                   .env = env,
                                   .team = team,
                                   .call = stream ? call_stream : call_library,
                                   .finish = stream ? finish_stream : NULL};

    return contender;
}

/* The first rank on this one's node. */
static int find_leader(const bench_env_t *env)
{
    int rank = 0;

    while (strcmp(env->places[rank].host, env->places[env->rank].host) != 0) {
        ++rank;
    }
    return rank;
}

bool bench_team_open(bench_env_t *env, const mscclpp_config_t *config, mscclpp_team_t **team_p)
{
    mscclpp_team_params_t params = {.config = config,
                                    .rules = env->rules,
                                    .gpu = env->gpu,
                                    .device = env->device,
                                    .oob = bench_oob(&env->control),
                                    .leader = find_leader(env)};
    mscclpp_team_t *team = NULL;

    if (!bench_all(env->control, MSCCLPP_OK == mscclpp_team_create(&params, &team))) {
        mscclpp_team_destroy(team);
        if (0 == env->rank) {
            fprintf(stderr, "%s: the host library cannot serve these ranks; MSCCLPP_VERBOSE=2 says why\n",
                    bench_program);
        }
        return false;
    }
    *team_p = team;
    return true;
}

bool bench_library_open(bench_env_t *env)
{
    return NULL != env->team || bench_team_open(env, &env->config, &env->team);
}

void bench_library_close(bench_env_t *env)
{
    if (NULL != env->team) {
        mscclpp_team_destroy(env->team);
        env->team = NULL;
        mscclpp_team_finalize(5.0);
    }
}
