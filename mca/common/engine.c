/* One call by copy engines: which copy is started when. */
#include "mca/common/engine.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/log.h"
#include "mca/common/stream.h"
#include "mca/common/team_internal.h"

/* How long copies that are under way may take to end after a failure, in seconds. */
#define SETTLE_TIME 10.0

/* The twin's engines are threads. */
#define HOST_STREAMS 2

/* Bytes of a chunk of a shard, and where in the message it begins. */
static uint64_t chunk_of(const mscclpp_engine_t *engine, int owner, uint64_t k, uint64_t *first_p)
{
    const mscclpp_engine_plan_t *plan = &engine->plan;
    uint64_t begin = (uint64_t)owner * plan->shard, end = begin + plan->shard, size;

    *first_p = begin + k * plan->chunk;
    end = end < engine->bytes ? end : engine->bytes;
    size = *first_p < end ? end - *first_p : 0;
    return size < plan->chunk ? size : plan->chunk;
}

/* Which stream carries operands (`results` 0) or results (1) to a peer in this call. */
static mscclpp_gpu_stream_t *stream_of(const mscclpp_team_t *team, int peer, int results)
{
    const mscclpp_engine_t *engine = team->engine;
    const int place = (peer - team->rank + team->size - 1) % team->size;

    return engine
        ->streams[(place * engine->streams_per_peer + results % engine->streams_per_peer) % engine->stream_count];
}

/* Tells, behind what is in the stream, how many chunks of the call in hand there are; flags count over all calls. */
static mscclpp_status_t raise_flag(const mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t *flag,
                                   uint64_t chunks)
{
    const mscclpp_engine_t *engine = team->engine;
    const uint64_t value = engine->base + chunks;

    if (team->protocol.engine_flags != 0) {
        return team->gpu->write_flag(stream, flag, value);
    }
    return team->gpu->put_flag(stream, flag, &engine->memory->values[value - engine->values_first]);
}

static mscclpp_dev_engine_t *head_of(const mscclpp_engine_t *engine, int rank)
{
    return (mscclpp_dev_engine_t *)engine->peer[rank];
}

static mscclpp_status_t send_operand(const mscclpp_team_t *team, int owner)
{
    mscclpp_engine_t *engine = team->engine;
    const uint64_t k = engine->sent[owner];
    uint64_t first, size = chunk_of(engine, owner, k, &first);
    char *slot = engine->peer[owner] + MSCCLPP_DEV_ENGINE_SLOT(team->rank, owner, k, engine->plan.chunk);
    mscclpp_gpu_stream_t *stream = stream_of(team, owner, 0);
    mscclpp_status_t status = size > 0 ? team->gpu->put(stream, slot, engine->in + first, size) : MSCCLPP_OK;

    if (status == MSCCLPP_OK) {
        status = raise_flag(team, stream, &head_of(engine, owner)->arrived[team->rank], k + 1);
    }
    engine->sent[owner] = k + 1;
    return status;
}

/*
 * Behind the last result comes a word for the own kernel, since nobody tells that the engines have read the output.
 * Of the operands the peers' results tell that.
 */
static mscclpp_status_t return_result(const mscclpp_team_t *team, int peer)
{
    mscclpp_engine_t *engine = team->engine;
    const uint64_t k = engine->returned[peer];
    uint64_t first, size = chunk_of(engine, team->rank, k, &first);
    mscclpp_gpu_stream_t *stream = stream_of(team, peer, 1);
    mscclpp_status_t status =
        size > 0 ? team->gpu->put(stream, engine->peer_out[peer] + first, engine->out + first, size) : MSCCLPP_OK;

    if (status == MSCCLPP_OK) {
        status = raise_flag(team, stream, &head_of(engine, peer)->gathered[team->rank], k + 1);
    }
    engine->returned[peer] = k + 1;
    if (status == MSCCLPP_OK && k + 1 == engine->plan.chunks) {
        status = raise_flag(team, stream, &engine->memory->left[peer], k + 1);
    }
    return status;
}

/*
 * Starts what can be started, at most one chunk of each kind for each peer, so that no peer waits while another one is
 * served. Operands come first: what they make possible takes longer. The ranks begin with different peers.
 *
 * A slot is free when its owner has reduced the chunk that was there. At the start of a call all slots are: this rank
 * has the results of the call before, so the owners have reduced it; that their hosts say so may come later.
 */
static mscclpp_status_t progress(mscclpp_team_t *team)
{
    mscclpp_engine_t *engine = team->engine;
    const uint64_t chunks = engine->plan.chunks;
    /* Acquire: the engines read the reduced chunks next. */
    const uint64_t reduced = __atomic_load_n(engine->reduced, __ATOMIC_ACQUIRE);
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    if (mscclpp_control_load(&team->control[team->rank].reduced) != reduced) {
        mscclpp_control_store(&team->control[team->rank].reduced, reduced);
    }
    for (i = 1; i < team->size && status == MSCCLPP_OK; ++i) {
        const int peer = (team->rank + i) % team->size;

        if (engine->sent[peer] < chunks &&
            engine->base + engine->sent[peer] <
                mscclpp_control_load(&team->control[peer].reduced) + MSCCLPP_DEV_ENGINE_DEPTH) {
            status = send_operand(team, peer);
        }
        if (status == MSCCLPP_OK && engine->returned[peer] < chunks &&
            engine->base + engine->returned[peer] < reduced) {
            status = return_result(team, peer);
        }
    }
    return status;
}

/* Makes sure that the values of the call in hand are in device memory. No engine reads there between two calls. */
static mscclpp_status_t renew_values(mscclpp_team_t *team)
{
    mscclpp_engine_t *engine = team->engine;
    uint64_t values[MSCCLPP_DEV_ENGINE_VALUES];
    mscclpp_status_t status;
    int i;

    if (engine->values_first != 0 &&
        engine->base + engine->plan.chunks < engine->values_first + MSCCLPP_DEV_ENGINE_VALUES) {
        return MSCCLPP_OK;
    }
    for (i = 0; i < MSCCLPP_DEV_ENGINE_VALUES; ++i) {
        values[i] = engine->base + 1 + (uint64_t)i;
    }
    status = team->gpu->copy(team->stream, engine->memory->values, values, sizeof(values));
    if (status == MSCCLPP_OK) {
        status = team->gpu->stream_sync(team->stream);
    }
    if (status == MSCCLPP_OK) {
        engine->values_first = engine->base + 1;
    }
    return status;
}

void mscclpp_engine_settle(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream)
{
    const double until = mscclpp_team_now() + SETTLE_TIME;
    mscclpp_status_t status;

    while ((status = team->gpu->stream_query(stream)) == MSCCLPP_IN_PROGRESS && mscclpp_team_now() < until) {
        team->oob.progress(team->oob.context);
    }
    team->stuck = team->stuck || status != MSCCLPP_OK;
}

static mscclpp_status_t take_streams(mscclpp_team_t *team)
{
    mscclpp_engine_t *engine = team->engine;
    int limit = team->on_host ? HOST_STREAMS : MSCCLPP_ENGINE_STREAMS, wanted;
    mscclpp_status_t status = MSCCLPP_OK;

    engine->streams_per_peer = team->protocol.engine_streams != 0 ? (int)team->protocol.engine_streams : 1;
    engine->stream_count = 0;
    wanted = engine->streams_per_peer * (team->size - 1);
    wanted = wanted < limit ? wanted : limit;
    while (engine->stream_count < wanted && status == MSCCLPP_OK) {
        status = mscclpp_stream_get(team->gpu, team->device, &engine->streams[engine->stream_count]);
        engine->stream_count += status == MSCCLPP_OK;
    }
    return status;
}

static void give_streams(mscclpp_team_t *team)
{
    mscclpp_engine_t *engine = team->engine;

    while (engine->stream_count > 0 && !team->stuck) {
        mscclpp_stream_put(team->gpu, team->device, engine->streams[--engine->stream_count], false);
    }
}

mscclpp_status_t mscclpp_engine_run(mscclpp_team_t *team, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out)
{
    mscclpp_engine_t *engine = team->engine;
    mscclpp_dev_reduce_args_t kernel_args;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status;
    int i;

    if (!mscclpp_engine_plan(args->bytes, args->nranks, &team->protocol, &engine->plan)) {
        return MSCCLPP_ERR_DEVICE;
    }
    engine->in = args->in;
    engine->out = args->out;
    engine->bytes = args->bytes;
    engine->peer_out = peer_out;
    memset(engine->sent, 0, sizeof(engine->sent));
    memset(engine->returned, 0, sizeof(engine->returned));
    kernel_args.common = *args;
    kernel_args.engine = engine->memory;
    kernel_args.reduced = engine->device_reduced;
    kernel_args.shard = engine->plan.shard;
    kernel_args.chunk = engine->plan.chunk;
    kernel_args.chunks = engine->plan.chunks;
    kernel_args.base = engine->base;
    launch.kernel = choice->kernel;
    launch.nblocks = choice->nblocks;
    launch.nthreads = choice->nthreads;
    launch.args = &kernel_args;
    status = renew_values(team);
    if (status == MSCCLPP_OK) {
        status = take_streams(team);
    }
    mscclpp_debug("%s: call %llu: %llu chunks of %llu bytes a rank, %d slots for each peer, %d streams",
                  team->oob.label, (unsigned long long)team->call, (unsigned long long)engine->plan.chunks,
                  (unsigned long long)engine->plan.chunk, MSCCLPP_DEV_ENGINE_DEPTH, engine->stream_count);
    if (status == MSCCLPP_OK) {
        /* The first operands leave while the kernel is being launched. */
        status = progress(team);
    }
    if (status == MSCCLPP_OK) {
        team->pump = progress;
        status = mscclpp_team_launch(team, NULL, &launch, choice->algo->name);
        team->pump = NULL;
    }
    if (status == MSCCLPP_OK) {
        engine->base += engine->plan.chunks;
        mscclpp_control_store(&team->control[team->rank].reduced, engine->base);
    }
    for (i = 0; i < engine->stream_count && status != MSCCLPP_OK; ++i) {
        mscclpp_engine_settle(team, engine->streams[i]);
    }
    give_streams(team);
    return status;
}
