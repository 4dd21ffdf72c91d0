/* One call by copy engines: starts its copies and kernels in the right order (mca/common/engine/engine.h). */
#include "mca/common/base/clock.h"
#include "mca/common/engine/engine.h"
#include "mca/common/engine/memory.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/base/numbers.h"
#include "mca/common/gpu/streams.h"

/* The time in seconds that work in flight gets to end after a failure. */
#define SETTLE_SECONDS 10.0

/* The maximum number of streams of a call on the twin, where each stream is a thread. */
#define TWIN_MAX_STREAMS 2

/*
 * The number of turns of the polling loop for each call of the embedding runtime's progress. Each turn queries at most
 * two events per peer.
 */
#define TURNS_PER_PROGRESS 16u

/*
 * Returns the size in bytes of a chunk, or 0 for an empty chunk. `chunk` is its number within the shard of rank
 * `owner`, counted from 0. Stores its offset in the message, in bytes, in *offset_p.
 */
static uint64_t locate_chunk(const mscclpp_engine_t *engine, int owner, uint64_t chunk, uint64_t *offset_p)
{
    const mscclpp_engine_plan_t *plan = &engine->plan;
    const uint64_t shard_begin = (uint64_t)owner * plan->shard;
    const uint64_t shard_end = mscclpp_min(shard_begin + plan->shard, engine->args->bytes);
    const uint64_t offset = shard_begin + chunk * plan->chunk;

    *offset_p = offset;
    return offset < shard_end ? mscclpp_min(shard_end - offset, plan->chunk) : 0;
}

/*
 * Returns the offset of a slot in the memory of rank `owner`, in bytes. The slot is for the operand of rank `sender`
 * for a chunk. The owner has no slots for itself, so the ranks above it move down by one.
 */
static uint64_t find_slot_offset(const mscclpp_engine_t *engine, int sender, int owner, uint64_t chunk)
{
    const uint64_t sender_index = (uint64_t)sender - (sender > owner ? 1 : 0);

    return MSCCLPP_DEV_ENGINE_SLOTS +
           (sender_index * MSCCLPP_DEV_ENGINE_DEPTH + chunk % MSCCLPP_DEV_ENGINE_DEPTH) * engine->plan.chunk;
}

/*
 * Returns the stream for copies to the peer. The rank after this one has the first stream, and so on. So each rank
 * starts its first copies in different streams, even if peers share streams.
 */
static mscclpp_gpu_stream_t *find_stream(const mscclpp_engine_t *engine, int peer)
{
    const int size = engine->group->size, distance = (peer - engine->group->rank + size) % size;

    return engine->streams[(distance - 1) % engine->stream_count];
}

/*
 * Copies this rank's operand of the next chunk to the rank that owns the chunk. The slot must be free. The slot's event
 * is then free, too: the owner reduces a chunk only after this rank has published the chunk's arrival (publish_sent).
 * An empty chunk is not copied. The chunk counts as sent even after a failure, which ends the call.
 */
static mscclpp_status_t send_operand(mscclpp_engine_t *engine, int owner)
{
    const uint64_t chunk = engine->peer[owner].sent;
    uint64_t offset, size = locate_chunk(engine, owner, chunk, &offset);
    mscclpp_gpu_stream_t *stream = find_stream(engine, owner);
    char *slot = engine->mapped[owner] + find_slot_offset(engine, engine->group->rank, owner, chunk);
    mscclpp_status_t status = MSCCLPP_OK;

    if (size > 0) {
        status = engine->runner->gpu->put(stream, slot, (const char *)engine->args->in + offset, size);
    }
    if (status == MSCCLPP_OK) {
        status =
            engine->runner->gpu->event_record(engine->operand_copied[owner][chunk % MSCCLPP_DEV_ENGINE_DEPTH], stream);
    }
    engine->peer[owner].sent = chunk + 1;
    return status;
}

/*
 * Copies the result of the next chunk to the peer. The chunk must have been reduced. After the last chunk, records the
 * peer's event. It covers all results for the peer, because they use the same stream. Returns the first error, which
 * ends the call.
 */
static mscclpp_status_t return_result(mscclpp_engine_t *engine, int peer)
{
    const uint64_t chunk = engine->peer[peer].returned;
    uint64_t offset, size = locate_chunk(engine, engine->group->rank, chunk, &offset);
    mscclpp_gpu_stream_t *stream = find_stream(engine, peer);
    mscclpp_status_t status = MSCCLPP_OK;

    if (size > 0) {
        status = engine->runner->gpu->put(stream, engine->peer_out[peer] + offset,
                                          (const char *)engine->args->out + offset, size);
    }
    if (status == MSCCLPP_OK && chunk + 1 == engine->plan.chunks) {
        status = engine->runner->gpu->event_record(engine->result_copied[peer], stream);
    }
    engine->peer[peer].returned = chunk + 1;
    return status;
}

/*
 * Launches the kernel that reduces a chunk of `size` bytes at `offset` in the message. First tells a lingering kernel
 * to leave, because it may hold multiprocessors that this kernel needs.
 */
static mscclpp_status_t launch_reduction(mscclpp_engine_t *engine, uint64_t chunk, uint64_t offset, uint64_t size)
{
    mscclpp_dev_launch_t launch = engine->launch;
    mscclpp_dev_reduce_args_t args;
    mscclpp_status_t status;

    args.common = *engine->args;
    args.common.in = (const char *)engine->args->in + offset;
    args.common.out = (char *)engine->args->out + offset;
    args.common.bytes = size;
    /* The chunk's slot of the first sender. The next sender's slot is `stride` bytes after it (find_slot_offset). */
    args.slots = engine->mapped[engine->group->rank] + MSCCLPP_DEV_ENGINE_SLOTS +
                 chunk % MSCCLPP_DEV_ENGINE_DEPTH * engine->plan.chunk;
    args.stride = MSCCLPP_DEV_ENGINE_DEPTH * engine->plan.chunk;
    launch.args = &args;
    mscclpp_linger_clear(engine->runner);
    status = engine->runner->gpu->launch(engine->runner->stream, &launch);
    if (status == MSCCLPP_OK) {
        mscclpp_runner_note_launch(engine->runner, launch.nblocks);
    }
    ++engine->kernels_launched;
    return status;
}

/*
 * Starts the reduction of the next chunk of this rank's shard. All operands of the chunk must have arrived. An empty
 * chunk needs no kernel. The chunk counts as begun even after an error, which ends the call.
 */
static mscclpp_status_t reduce_next_chunk(mscclpp_engine_t *engine)
{
    const uint64_t chunk = engine->reductions_begun;
    uint64_t offset, size = locate_chunk(engine, engine->group->rank, chunk, &offset);

    engine->reductions_begun = chunk + 1;
    return size > 0 ? launch_reduction(engine, chunk, offset, size) : MSCCLPP_OK;
}

/*
 * Returns the number of chunks that this rank has reduced. The mailbox counts kernels, which empty chunks do not have.
 * Empty chunks are the last ones, so they count once all kernels have ended.
 */
static uint64_t count_reduced_chunks(const mscclpp_engine_t *engine)
{
    const uint64_t ended_in_team = mscclpp_mailbox_ended(engine->runner->mailbox, engine->launch.nblocks);
    /* Earlier operations of the team may still be queued, so the difference may be below 0. */
    const uint64_t ended = ended_in_team - mscclpp_min(ended_in_team, engine->earlier_launches);

    return ended == engine->kernels_launched ? engine->reductions_begun : ended;
}

/* Returns the minimum of a word on the board lines of all peers. `own_word` is the same word on this rank's line. */
static uint64_t find_min_of_peers(const mscclpp_engine_t *engine, const uint64_t *own_word)
{
    uint64_t smallest = UINT64_MAX;
    int i;

    for (i = 1; i < engine->group->size; ++i) {
        const uint64_t peer_value = mscclpp_board_load(
            mscclpp_group_word_of(engine->group, own_word, (engine->group->rank + i) % engine->group->size));

        smallest = peer_value < smallest ? peer_value : smallest;
    }
    return smallest;
}

/*
 * Finds out whether an event has passed. Returns MSCCLPP_OK even if it has not passed yet. Any other status is an error
 * of the work before the event.
 */
static mscclpp_status_t query_event(const mscclpp_engine_t *engine, mscclpp_gpu_event_t *event, bool *has_passed_p)
{
    mscclpp_status_t status = engine->runner->gpu->event_query(event);

    *has_passed_p = status == MSCCLPP_OK;
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/* Publishes a number of chunks of this call in a word of this rank's board line, unless the word has it already. */
static void publish_count(const mscclpp_engine_t *engine, uint64_t *own_word, uint64_t chunks)
{
    if (mscclpp_board_load(own_word) != engine->earlier_chunks + chunks) {
        mscclpp_board_store(own_word, engine->earlier_chunks + chunks);
    }
}

/*
 * Publishes how many chunks of this rank's operands have arrived at all peers. Checks at most one further chunk for
 * each peer. Returns the error of a copy that has failed.
 */
static mscclpp_status_t publish_sent(mscclpp_engine_t *engine)
{
    uint64_t *own_sent = &engine->group->board[engine->group->rank].engine.sent;
    uint64_t landed_at_all = engine->plan.chunks;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 1; i < engine->group->size && status == MSCCLPP_OK; ++i) {
        const int rank = (engine->group->rank + i) % engine->group->size;
        mscclpp_engine_peer_t *peer = &engine->peer[rank];
        bool has_passed = false;

        if (peer->landed < peer->sent) {
            status =
                query_event(engine, engine->operand_copied[rank][peer->landed % MSCCLPP_DEV_ENGINE_DEPTH], &has_passed);
        }
        peer->landed += has_passed;
        landed_at_all = peer->landed < landed_at_all ? peer->landed : landed_at_all;
    }
    if (status == MSCCLPP_OK) {
        publish_count(engine, own_sent, landed_at_all);
    }
    return status;
}

/*
 * Starts the next operand for a peer and the next result, if their dependencies are met. The operand comes first,
 * because more work depends on it. Returns the first error, which ends the call.
 *
 * A slot is free when its owner has reduced the chunk in it. At the start of a call, all slots are free: this rank has
 * the results of the previous call, so the owners have reduced its chunks.
 */
static mscclpp_status_t start_ready_copies(mscclpp_engine_t *engine, int rank, uint64_t reduced)
{
    const mscclpp_engine_peer_t *peer = &engine->peer[rank];
    const uint64_t chunks = engine->plan.chunks;
    mscclpp_status_t status = MSCCLPP_OK;

    if (peer->sent < chunks &&
        engine->earlier_chunks + peer->sent <
            mscclpp_board_load(&engine->group->board[rank].engine.reduced) + MSCCLPP_DEV_ENGINE_DEPTH) {
        status = send_operand(engine, rank);
    }
    if (status == MSCCLPP_OK && peer->returned < chunks && peer->returned < reduced) {
        status = return_result(engine, rank);
    }
    return status;
}

/*
 * Starts every copy and kernel whose dependencies are met, but at most one chunk of each kind for each peer. So no peer
 * waits while another is served. Each rank begins with a different peer. Returns the first error, which ends the call.
 *
 * A chunk is reduced only when its operands have arrived on all ranks, and not only on this one: the words on the board
 * count chunks that all peers have. This costs no time, because operands for other ranks take no longer than those for
 * this rank.
 */
static mscclpp_status_t start_ready_work(mscclpp_engine_t *engine)
{
    mscclpp_board_line_t *own_line = &engine->group->board[engine->group->rank];
    const uint64_t reduced = count_reduced_chunks(engine);
    mscclpp_status_t status = publish_sent(engine);
    int i;

    publish_count(engine, &own_line->engine.reduced, reduced);
    if (status == MSCCLPP_OK && engine->reductions_begun < engine->plan.chunks &&
        find_min_of_peers(engine, &own_line->engine.sent) > engine->earlier_chunks + engine->reductions_begun) {
        status = reduce_next_chunk(engine);
    }
    for (i = 1; i < engine->group->size && status == MSCCLPP_OK; ++i) {
        status = start_ready_copies(engine, (engine->group->rank + i) % engine->group->size, reduced);
    }
    return status;
}

/*
 * Publishes that this rank has delivered all its results, as soon as that is so. *all_returned_p says whether it is so;
 * it is valid only if the status is MSCCLPP_OK. Otherwise returns the error of a copy that has failed.
 */
static mscclpp_status_t publish_returned(mscclpp_engine_t *engine, bool *all_returned_p)
{
    uint64_t *own_returned = &engine->group->board[engine->group->rank].engine.returned;
    bool all_returned = true;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    *all_returned_p = true;
    if (mscclpp_board_load(own_returned) == engine->earlier_chunks + engine->plan.chunks) {
        return MSCCLPP_OK;
    }
    for (i = 1; i < engine->group->size && all_returned && status == MSCCLPP_OK; ++i) {
        const int rank = (engine->group->rank + i) % engine->group->size;

        all_returned = engine->peer[rank].returned == engine->plan.chunks;
        if (all_returned) {
            status = query_event(engine, engine->result_copied[rank], &all_returned);
        }
    }
    if (all_returned && status == MSCCLPP_OK) {
        publish_count(engine, own_returned, engine->plan.chunks);
    }
    *all_returned_p = all_returned;
    return status;
}

/*
 * Starts the copies and kernels of the call, from the first to the last. `call_name` is the call's name in messages.
 * Returns MSCCLPP_OK when all ranks have published that they have delivered their results. Otherwise returns the first
 * error; copies and kernels may then still be running.
 *
 * On the twin, each turn of the loop makes progress, because this yields the processor to the threads that act as
 * engines. A change of next_check shows that the wait has just checked the peers. The kernel is then checked as well,
 * if the runtime may be asked.
 */
static mscclpp_status_t carry_out(mscclpp_engine_t *engine, const char *call_name)
{
    const uint64_t *own_returned = &engine->group->board[engine->group->rank].engine.returned;
    const uint64_t target = engine->earlier_chunks + engine->plan.chunks;
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;
    uint32_t turns = 0;
    bool all_returned;

    mscclpp_group_wait_init(&wait, engine->group, call_name, engine->args->bytes);
    wait.words = own_returned;
    wait.target = target;
    for (;;) {
        const double next_check = wait.next_check;

        status = start_ready_work(engine);
        if (status == MSCCLPP_OK) {
            status = publish_returned(engine, &all_returned);
        }
        if (status == MSCCLPP_OK && all_returned && find_min_of_peers(engine, own_returned) >= target) {
            mscclpp_group_wait_end(&wait);
            return MSCCLPP_OK;
        }
        if (status == MSCCLPP_OK && (engine->group->on_twin || ++turns % TURNS_PER_PROGRESS == 0)) {
            status = mscclpp_group_wait_turn(&wait);
        }
        if (status == MSCCLPP_OK && wait.next_check > next_check && mscclpp_group_may_ask(&wait)) {
            status = mscclpp_runner_check_kernel(engine->runner, call_name);
        }
        if (status != MSCCLPP_OK) {
            return status;
        }
    }
}

/*
 * Waits for the work in a stream until `deadline`, a time of mscclpp_now. Makes progress meanwhile, because peers may
 * need that to end their calls. Marks the runner as stuck if the work does not end, or ends with an error.
 */
static void await_stream_end(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream, double deadline)
{
    mscclpp_status_t status;

    while ((status = engine->runner->gpu->stream_query(stream)) == MSCCLPP_IN_PROGRESS && mscclpp_now() < deadline) {
        mscclpp_group_progress(engine->group);
    }
    engine->runner->stuck = engine->runner->stuck || status != MSCCLPP_OK;
}

void mscclpp_engine_settle(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream)
{
    await_stream_end(engine, stream, mscclpp_now() + SETTLE_SECONDS);
}

/* Waits for the work in all streams of the engine, as await_stream_end does. All streams have the same deadline. */
static void await_all_streams(const mscclpp_engine_t *engine)
{
    const double deadline = mscclpp_now() + SETTLE_SECONDS;
    int i;

    for (i = 0; i < engine->stream_count; ++i) {
        await_stream_end(engine, engine->streams[i], deadline);
    }
    if (engine->runner->stream != NULL) {
        await_stream_end(engine, engine->runner->stream, deadline);
    }
}

/*
 * Takes one stream for each peer, up to a limit, and the runner's stream for kernels. The caller calls give_streams,
 * even after an error.
 */
static mscclpp_status_t take_streams(mscclpp_engine_t *engine)
{
    const int limit = engine->group->on_twin ? TWIN_MAX_STREAMS : MSCCLPP_ENGINE_STREAMS;
    const int peers = engine->group->size - 1, wanted = peers < limit ? peers : limit;
    mscclpp_status_t status = mscclpp_runner_take_stream(engine->runner);

    engine->stream_count = 0;
    while (engine->stream_count < wanted && status == MSCCLPP_OK) {
        status =
            mscclpp_stream_get(engine->runner->gpu, engine->runner->device, &engine->streams[engine->stream_count]);
        engine->stream_count += status == MSCCLPP_OK ? 1 : 0;
    }
    return status;
}

/* Gives the streams for copies back. If the runner is stuck, leaks them, because work in them may never end. */
static void give_streams(mscclpp_engine_t *engine)
{
    while (engine->stream_count > 0 && !engine->runner->stuck) {
        mscclpp_stream_put(engine->runner->gpu, engine->runner->device, engine->streams[--engine->stream_count], false);
    }
}

/*
 * Fills in the engine's fields for the current call. Returns false if there is no plan for the call. There is one if
 * `choice` is one for copy engines.
 */
static bool begin_call(mscclpp_engine_t *engine, const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args,
                       char *const *peer_out)
{
    if (!mscclpp_engine_make_plan(args->bytes, args->nranks, engine->protocol, &engine->plan)) {
        return false;
    }
    engine->args = args;
    engine->peer_out = peer_out;
    memset(engine->peer, 0, sizeof(engine->peer));
    engine->launch.kernel = choice->kernel;
    engine->launch.nblocks = choice->nblocks;
    engine->launch.nthreads = choice->nthreads;
    engine->reductions_begun = 0;
    engine->earlier_launches = engine->runner->launches;
    engine->kernels_launched = 0;
    return true;
}

/*
 * After a failure, waits for the work in progress before it gives back streams and mappings. If that work does not end,
 * the runner is marked as stuck, and both are kept.
 */
mscclpp_status_t mscclpp_engine_run(mscclpp_engine_t *engine, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out)
{
    mscclpp_status_t status;

    if (!begin_call(engine, choice, args, peer_out)) {
        return MSCCLPP_ERR_DEVICE;
    }
    /* The end of a launch releases mappings. Engines use them until the end of the call, so they are kept until then.
     */
    mscclpp_runner_keep_mappings(engine->runner, true);
    status = take_streams(engine);
    mscclpp_debug("%s: call %llu: %llu chunks of %llu bytes a rank, %d slots for each peer, %d streams",
                  engine->group->oob.label, (unsigned long long)engine->group->call,
                  (unsigned long long)engine->plan.chunks, (unsigned long long)engine->plan.chunk,
                  MSCCLPP_DEV_ENGINE_DEPTH, engine->stream_count);
    if (status == MSCCLPP_OK) {
        status = carry_out(engine, choice->algo->name);
    }
    if (status == MSCCLPP_OK) {
        engine->earlier_chunks += engine->plan.chunks;
        mscclpp_linger_note_end(engine->runner);
        status = mscclpp_runner_check_mailbox(engine->runner, choice->algo->name);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_engine_memory_spoil(engine->memory);
        await_all_streams(engine);
    }
    mscclpp_runner_keep_mappings(engine->runner, engine->runner->stuck);
    give_streams(engine);
    return status;
}
