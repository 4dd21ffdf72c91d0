/*
 * One call by copy engines: starts its copies and kernels in the right order. mca/common/engine/engine.h explains the
 * method.
 */
#include "mca/common/base/clock.h"
#include "mca/common/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/gpu/streams.h"

/* Seconds that work in flight gets to end after a failure. */
#define SETTLE_TIME 10.0

/* Streams on the twin, where engines are threads. */
#define HOST_STREAMS 2

/* Turns between two calls of the embedding runtime's progress. Each turn queries one event per peer. */
#define TURNS 16u

/* The size in bytes of chunk `k` of the shard of rank `owner`. *first_p is its offset in the message. */
static uint64_t chunk_of(const mscclpp_engine_t *engine, int owner, uint64_t k, uint64_t *first_p)
{
    const mscclpp_engine_plan_t *plan = &engine->plan;
    uint64_t begin = (uint64_t)owner * plan->shard, end = begin + plan->shard, size;

    *first_p = begin + k * plan->chunk;
    end = end < engine->args->bytes ? end : engine->args->bytes;
    size = *first_p < end ? end - *first_p : 0;
    return size < plan->chunk ? size : plan->chunk;
}

/* The offset, in bytes, in the memory of rank `owner` of the slot for the operand of rank `sender` for chunk `k`. */
static uint64_t slot_of(const mscclpp_engine_t *engine, int sender, int owner, uint64_t k)
{
    const uint64_t place = (uint64_t)sender - (sender > owner);

    return MSCCLPP_DEV_ENGINE_SLOTS +
           (place * MSCCLPP_DEV_ENGINE_DEPTH + k % MSCCLPP_DEV_ENGINE_DEPTH) * engine->plan.chunk;
}

/* The stream for copies to a peer. Peers share streams if there are fewer streams. */
static mscclpp_gpu_stream_t *stream_of(const mscclpp_engine_t *engine, int peer)
{
    return engine
        ->streams[(peer - engine->group->rank + engine->group->size - 1) % engine->group->size % engine->stream_count];
}

/* Starts the copy of this rank's next operand to a slot of its owner, and records the event of that slot. */
static mscclpp_status_t send_operand(mscclpp_engine_t *engine, int owner)
{
    const uint64_t k = engine->peer[owner].sent;
    uint64_t first, size = chunk_of(engine, owner, k, &first);
    mscclpp_gpu_stream_t *stream = stream_of(engine, owner);
    char *slot = engine->mapped[owner] + slot_of(engine, engine->group->rank, owner, k);
    mscclpp_status_t status =
        size > 0 ? engine->runner->gpu->put(stream, slot, (const char *)engine->args->in + first, size) : MSCCLPP_OK;

    if (status == MSCCLPP_OK) {
        status = engine->runner->gpu->event_record(engine->operand[owner][k % MSCCLPP_DEV_ENGINE_DEPTH], stream);
    }
    engine->peer[owner].sent = k + 1;
    return status;
}

/* Starts the copy of the next result of this rank's shard to a peer. After the last one, records the peer's event. */
static mscclpp_status_t return_result(mscclpp_engine_t *engine, int peer)
{
    const uint64_t k = engine->peer[peer].returned;
    uint64_t first, size = chunk_of(engine, engine->group->rank, k, &first);
    mscclpp_gpu_stream_t *stream = stream_of(engine, peer);
    mscclpp_status_t status = size > 0 ? engine->runner->gpu->put(stream, engine->peer_out[peer] + first,
                                                                  (const char *)engine->args->out + first, size)
                                       : MSCCLPP_OK;

    if (status == MSCCLPP_OK && k + 1 == engine->plan.chunks) {
        status = engine->runner->gpu->event_record(engine->result[peer], stream);
    }
    engine->peer[peer].returned = k + 1;
    return status;
}

/* Starts the reduction of the next chunk of this rank's shard, of which all operands have arrived. */
static mscclpp_status_t reduce_next_chunk(mscclpp_engine_t *engine)
{
    const uint64_t k = engine->begun;
    uint64_t first, size = chunk_of(engine, engine->group->rank, k, &first);
    mscclpp_dev_reduce_args_t args;
    mscclpp_dev_launch_t launch = engine->launch;
    mscclpp_status_t status = MSCCLPP_OK;

    if (size > 0) {
        args.common = *engine->args;
        args.common.in = (const char *)engine->args->in + first;
        args.common.out = (char *)engine->args->out + first;
        args.common.bytes = size;
        args.slots = engine->mapped[engine->group->rank] + MSCCLPP_DEV_ENGINE_SLOTS +
                     k % MSCCLPP_DEV_ENGINE_DEPTH * engine->plan.chunk;
        args.stride = MSCCLPP_DEV_ENGINE_DEPTH * engine->plan.chunk;
        launch.args = &args;
        mscclpp_linger_clear(engine->runner);
        status = engine->runner->gpu->launch(engine->runner->stream, &launch);
        if (status == MSCCLPP_OK) {
            mscclpp_runner_note_launch(engine->runner, launch.nblocks);
        }
        ++engine->kernels;
    }
    engine->begun = k + 1;
    return status;
}

/* The number of chunks of this rank's shard that are reduced. Empty chunks count, too; they come last. */
static uint64_t reduced_chunks(const mscclpp_engine_t *engine)
{
    const uint64_t done = mscclpp_mailbox_ended(engine->runner->mailbox, engine->launch.nblocks);
    const uint64_t ended = done > engine->launches ? done - engine->launches
                                                   : 0; /* `done` may be less: earlier operations may still be queued */

    return ended == engine->kernels ? engine->begun : ended;
}

/* The smallest value of a word of the board on the other ranks. */
static uint64_t smallest_of_peers(const mscclpp_engine_t *engine, const uint64_t *word)
{
    uint64_t smallest = UINT64_MAX;
    int i;

    for (i = 1; i < engine->group->size; ++i) {
        const uint64_t theirs = mscclpp_board_load(
            mscclpp_group_word_of(engine->group, word, (engine->group->rank + i) % engine->group->size));

        smallest = theirs < smallest ? theirs : smallest;
    }
    return smallest;
}

/* Queries an event. *passed_p tells whether it has passed. If it has not, the status is MSCCLPP_OK, too. */
static mscclpp_status_t query_event(const mscclpp_engine_t *engine, mscclpp_gpu_event_t *event, bool *passed_p)
{
    mscclpp_status_t status = engine->runner->gpu->event_query(event);

    *passed_p = status == MSCCLPP_OK;
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/* Publishes on the board how many operand chunks of this rank have arrived at all peers. */
static mscclpp_status_t publish_sent(mscclpp_engine_t *engine)
{
    uint64_t *word = &engine->group->board[engine->group->rank].engine.sent;
    uint64_t landed_at_all = engine->plan.chunks;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 1; i < engine->group->size && status == MSCCLPP_OK; ++i) {
        const int rank = (engine->group->rank + i) % engine->group->size;
        mscclpp_engine_peer_t *peer = &engine->peer[rank];
        bool passed = false;

        if (peer->landed < peer->sent) {
            status = query_event(engine, engine->operand[rank][peer->landed % MSCCLPP_DEV_ENGINE_DEPTH], &passed);
        }
        peer->landed += passed;
        landed_at_all = peer->landed < landed_at_all ? peer->landed : landed_at_all;
    }
    if (status == MSCCLPP_OK && mscclpp_board_load(word) != engine->base + landed_at_all) {
        mscclpp_board_store(word, engine->base + landed_at_all);
    }
    return status;
}

/*
 * Starts every copy and kernel whose dependencies are met, but at most one chunk of each kind for a peer, so that no
 * peer waits while another one is served. Operands come before results, because more work depends on them. Each rank
 * begins with another peer.
 *
 * A slot is free once its owner has reduced the chunk in it. At the start of a call all slots are free: this rank has
 * the results of the last call, so the owners have reduced its chunks.
 *
 * A chunk is reduced only once its operands have arrived on all ranks, not only on this one, since the words on the
 * board count chunks that all peers have. This costs nothing, because operands for other ranks take no longer than
 * those for this rank.
 */
static mscclpp_status_t start_ready_work(mscclpp_engine_t *engine)
{
    mscclpp_board_line_t *mine = &engine->group->board[engine->group->rank];
    const uint64_t chunks = engine->plan.chunks, reduced = reduced_chunks(engine);
    mscclpp_status_t status = publish_sent(engine);
    int i;

    if (mscclpp_board_load(&mine->engine.reduced) != engine->base + reduced) {
        mscclpp_board_store(&mine->engine.reduced, engine->base + reduced);
    }
    if (status == MSCCLPP_OK && engine->begun < chunks &&
        smallest_of_peers(engine, &mine->engine.sent) > engine->base + engine->begun) {
        status = reduce_next_chunk(engine);
    }
    for (i = 1; i < engine->group->size && status == MSCCLPP_OK; ++i) {
        const int rank = (engine->group->rank + i) % engine->group->size;
        const mscclpp_engine_peer_t *peer = &engine->peer[rank];

        if (peer->sent < chunks &&
            engine->base + peer->sent <
                mscclpp_board_load(&engine->group->board[rank].engine.reduced) + MSCCLPP_DEV_ENGINE_DEPTH) {
            status = send_operand(engine, rank);
        }
        if (status == MSCCLPP_OK && peer->returned < chunks && peer->returned < reduced) {
            status = return_result(engine, rank);
        }
    }
    return status;
}

/*
 * Publishes on the board that this rank's engines have delivered all results of the call to all peers, once they have.
 * *all_p tells whether they have.
 */
static mscclpp_status_t publish_returned(mscclpp_engine_t *engine, bool *all_p)
{
    uint64_t *word = &engine->group->board[engine->group->rank].engine.returned;
    const uint64_t end = engine->base + engine->plan.chunks;
    mscclpp_status_t status = MSCCLPP_OK;
    bool all_returned = true;
    int rank;

    if (mscclpp_board_load(word) != end) {
        for (rank = 0; rank < engine->group->size && all_returned && status == MSCCLPP_OK; ++rank) {
            if (rank != engine->group->rank) {
                all_returned = engine->peer[rank].returned == engine->plan.chunks;
                if (all_returned) {
                    status = query_event(engine, engine->result[rank], &all_returned);
                }
            }
        }
        if (all_returned && status == MSCCLPP_OK) {
            mscclpp_board_store(word, end);
        }
    }
    *all_p = all_returned;
    return status;
}

/* Carries out the call. Returns once all results of all ranks are delivered. */
static mscclpp_status_t carry_out(mscclpp_engine_t *engine, const char *what)
{
    const uint64_t *word = &engine->group->board[engine->group->rank].engine.returned;
    const uint64_t end = engine->base + engine->plan.chunks;
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;
    uint32_t turns = 0;
    bool all_returned;

    mscclpp_group_wait_init(&wait, engine->group, what, engine->args->bytes);
    wait.words = word;
    wait.target = end;
    for (;;) {
        const double next = wait.next_check;

        status = start_ready_work(engine);
        if (status == MSCCLPP_OK) {
            status = publish_returned(engine, &all_returned);
        }
        if (status == MSCCLPP_OK && all_returned && smallest_of_peers(engine, word) >= end) {
            return MSCCLPP_OK;
        }
        if (status == MSCCLPP_OK && (engine->group->on_twin || ++turns % TURNS == 0)) {
            status = mscclpp_group_wait_turn(&wait);
        }
        if (status == MSCCLPP_OK && wait.next_check > next && mscclpp_group_may_ask(&wait)) {
            status = mscclpp_runner_check_kernel(engine->runner, what);
        }
        if (status != MSCCLPP_OK) {
            return status;
        }
    }
}

/* Waits for the work in a stream until `until`. If it has not ended well by then, marks the runner as stuck. */
static void await_stream_end(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream, double until)
{
    mscclpp_status_t status;

    while ((status = engine->runner->gpu->stream_query(stream)) == MSCCLPP_IN_PROGRESS && mscclpp_now() < until) {
        mscclpp_group_progress(engine->group);
    }
    engine->runner->stuck = engine->runner->stuck || status != MSCCLPP_OK;
}

void mscclpp_engine_settle(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream)
{
    await_stream_end(engine, stream, mscclpp_now() + SETTLE_TIME);
}

/* Waits for the work in all streams of the call, with one deadline. */
static void await_all_streams(const mscclpp_engine_t *engine)
{
    const double until = mscclpp_now() + SETTLE_TIME;
    int i;

    for (i = 0; i < engine->stream_count; ++i) {
        await_stream_end(engine, engine->streams[i], until);
    }
    if (engine->runner->stream != NULL) {
        await_stream_end(engine, engine->runner->stream, until);
    }
}

/* Takes one stream for each peer from the pool, up to a limit. */
static mscclpp_status_t take_streams(mscclpp_engine_t *engine)
{
    int limit = engine->group->on_twin ? HOST_STREAMS : MSCCLPP_ENGINE_STREAMS;
    int wanted = engine->group->size - 1 < limit ? engine->group->size - 1 : limit;
    mscclpp_status_t status = mscclpp_runner_take_stream(engine->runner);

    engine->stream_count = 0;
    while (engine->stream_count < wanted && status == MSCCLPP_OK) {
        status =
            mscclpp_stream_get(engine->runner->gpu, engine->runner->device, &engine->streams[engine->stream_count]);
        engine->stream_count += status == MSCCLPP_OK;
    }
    return status;
}

/* Gives the streams back to the pool, unless work in them may not end. */
static void give_streams(mscclpp_engine_t *engine)
{

    while (engine->stream_count > 0 && !engine->runner->stuck) {
        mscclpp_stream_put(engine->runner->gpu, engine->runner->device, engine->streams[--engine->stream_count], false);
    }
}

mscclpp_status_t mscclpp_engine_run(mscclpp_engine_t *engine, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out)
{
    mscclpp_status_t status;

    if (!mscclpp_engine_plan(args->bytes, args->nranks, engine->protocol, &engine->plan)) {
        return MSCCLPP_ERR_DEVICE;
    }
    engine->args = args;
    engine->peer_out = peer_out;
    memset(engine->peer, 0, sizeof(engine->peer));
    engine->launch.kernel = choice->kernel;
    engine->launch.nblocks = choice->nblocks;
    engine->launch.nthreads = choice->nthreads;
    engine->begun = 0;
    engine->launches = engine->runner->launches;
    engine->kernels = 0;
    mscclpp_runner_keep_mappings(engine->runner,
                                 true); /* until no engine writes there any more, which no end of a launch tells */
    status = take_streams(engine);
    mscclpp_debug("%s: call %llu: %llu chunks of %llu bytes a rank, %d slots for each peer, %d streams",
                  engine->group->oob.label, (unsigned long long)engine->group->call,
                  (unsigned long long)engine->plan.chunks, (unsigned long long)engine->plan.chunk,
                  MSCCLPP_DEV_ENGINE_DEPTH, engine->stream_count);
    if (status == MSCCLPP_OK) {
        status = carry_out(engine, choice->algo->name);
    }
    if (status == MSCCLPP_OK) {
        engine->base += engine->plan.chunks;
        mscclpp_linger_note_end(engine->runner);
        status = mscclpp_runner_check_mailbox(engine->runner, choice->algo->name);
    }
    if (status != MSCCLPP_OK) {
        await_all_streams(engine);
    }
    mscclpp_runner_keep_mappings(engine->runner, engine->runner->stuck);
    give_streams(engine);
    return status;
}
