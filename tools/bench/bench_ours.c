/* What is measured: MPI's own functions, and the host library's calls without MPI in between. */
#include "mca/common/setup/setup.h"
#include "tools/bench/bench.h"

#include <string.h>

/* How long the end waits for peers that still hold memory of the team. */
#define FINALIZE_SECONDS 5.0

/* Makes the contender's call: MPI's blocking function. Neighbours have a communicator of their own. */
static bool call_mpi(bench_contender_t *contender, const bench_operation_t *operation)
{
    return bench_call_mpi(operation, bench_mpi_comm(contender->env, operation->layout->coll));
}

bench_contender_t bench_contender_mpi(bench_env_t *env, const bench_coll_t *coll)
{
    bench_contender_t contender = {.name = coll->function, .env = env, .call = call_mpi};

    return contender;
}

/* How many calls of the host library were made, which is the number of the last one. */
static uint64_t library_calls;

/* Returns true if the host library makes the call by mscclpp_allreduce, and not by mscclpp_collective. */
static bool is_allreduce(const bench_operation_t *operation)
{
    return MSCCLPP_COLL_LAST == operation->layout->coll->coll;
}

/* Returns the arguments of the host library's next call, for all-reduces. Other collectives use its number only. */
static mscclpp_allreduce_args_t next_call_args(const bench_operation_t *operation)
{
    mscclpp_allreduce_args_t args = {.sendbuf = operation->in_place ? operation->recv : operation->send,
                                     .recvbuf = operation->recv,
                                     .count = operation->layout->count,
                                     .dtype = operation->type->dtype,
                                     .op = operation->op->op,
                                     .call = ++library_calls};

    return args;
}

/* Returns true if the call has succeeded. Otherwise prints a line. */
static bool succeeded(const bench_contender_t *contender, mscclpp_status_t status)
{
    if (MSCCLPP_OK != status) {
        fprintf(stderr, "%s: rank %d: %s: %s\n", bench_program, contender->env->rank, contender->name,
                mscclpp_status_string(status));
    }
    return MSCCLPP_OK == status;
}

/* Makes the contender's call: one blocking call of the host library. If it fails, prints a line and returns false. */
static bool call_library(bench_contender_t *contender, const bench_operation_t *operation)
{
    mscclpp_allreduce_args_t args = next_call_args(operation);

    return succeeded(contender, is_allreduce(operation) ? mscclpp_allreduce(contender->team, &args)
                                                        : bench_call_collective(contender->team, operation, args.call));
}

/* Makes the contender's call: queues one all-reduce in the stream. If that fails, prints a line and returns false. */
static bool call_stream(bench_contender_t *contender, const bench_operation_t *operation)
{
    mscclpp_allreduce_args_t args = next_call_args(operation);

    return succeeded(contender, mscclpp_allreduce_enqueue(contender->team, &args, contender->env->stream));
}

/* Waits for the queued calls. If one failed, prints a line and returns false. */
static bool finish_stream(bench_contender_t *contender)
{
    return succeeded(contender, contender->env->gpu->stream_sync(contender->env->stream));
}

bench_contender_t bench_contender_library(bench_env_t *env, mscclpp_team_t *team, const bench_coll_t *coll,
                                          bool in_stream)
{
    bench_contender_t contender = {.name = in_stream                         ? "mscclpp_allreduce_enqueue"
                                           : MSCCLPP_COLL_LAST == coll->coll ? "mscclpp_allreduce"
                                                                             : "mscclpp_collective",
                                   .env = env,
                                   .team = team,
                                   .call = in_stream ? call_stream : call_library,
                                   .finish = in_stream ? finish_stream : NULL};

    return contender;
}

/* Returns the first rank on this rank's host. The loop ends at this rank at the latest. */
static int find_leader(const bench_env_t *env)
{
    int rank = 0;

    while (strcmp(env->places[rank].host, env->places[env->rank].host) != 0) {
        ++rank;
    }
    return rank;
}

/*
 * Creates a team of all ranks. If it fails on a rank, all ranks destroy their parts of the team, and rank 0 prints a
 * line.
 */
bool bench_team_open(bench_env_t *env, const mscclpp_config_t *config, mscclpp_plan_library_t *plans,
                     mscclpp_team_t **team_p)
{
    mscclpp_team_params_t params = {.config = config,
                                    .rules = plans == NULL ? env->rules : NULL,
                                    .plans = plans,
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
    return env->team != NULL || bench_team_open(env, &env->config, env->plans, &env->team);
}

/*
 * Destroys the team, and frees memory that was kept for peers which had it mapped (mscclpp_team_finalize, the library's
 * last call).
 */
void bench_library_close(bench_env_t *env)
{
    if (env->team != NULL) {
        mscclpp_team_destroy(env->team);
        env->team = NULL;
        mscclpp_team_finalize(FINALIZE_SECONDS);
    }
}
