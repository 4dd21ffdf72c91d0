/* Executes one operation of a block, if the signals, packets and peers that it needs have come. */
#include <stdlib.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

/*
 * Begins the block's next operation. `outer` is the operation itself, or the pipeline around it. A barrier begins when
 * the block arrives. Returns false, with nothing changed, if there is no memory.
 */
static bool begin_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *outer)
{
    mscclpp_sim_event_t event = {.block = (uint32_t)(block - sim->blocks),
                                 .op = block->op,
                                 .inner = outer->kind == MSCCLPP_PLAN_OP_PIPELINE ? (int32_t)block->inner : -1,
                                 .launch = block->launch};

    return mscclpp_sim_tick(sim, &block->actor, event);
}

/* Returns true if a signal has arrived on each channel of a wait. */
static bool is_wait_ready(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        if (sim->ranks[block->rank].inboxes[op->channel_type][op->channels[i]].count == 0) {
            return false;
        }
    }
    return true;
}

/*
 * Reports a race if another block made the channel's last wait and nothing orders this wait after it: either block may
 * then take the other's signal. Records this wait as the last one. `position` is that of the channel in the operation's
 * list. A channel is handled by one thread, so the map is MSCCLPP_SIM_ALONE.
 */
static void note_waiter(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op, uint32_t position,
                        mscclpp_sim_inbox_t *inbox)
{
    const mscclpp_sim_thread_t waiter = {position, MSCCLPP_SIM_ALONE};
    const bool is_after_others = inbox->waited > 0 && inbox->last_wait.agent != block->actor.agent;
    char other_text[160];

    if (is_after_others && mscclpp_sim_order(&block->actor, &inbox->last_wait, waiter) == MSCCLPP_SIM_UNORDERED) {
        ++sim->races;
        mscclpp_plan_add_finding(
            sim->report, MSCCLPP_PLAN_RACE, "two-waiters",
            mscclpp_sim_place_of(sim, block->actor.agent, block->actor.clock),
            "it waits on %s channel %u, as does %s; nothing says which of the two gets which signal",
            mscclpp_plan_channel_name(op->channel_type), op->channels[position],
            mscclpp_sim_actor_text(sim, inbox->last_wait.agent, inbox->last_wait.clock, other_text,
                                   sizeof(other_text)));
    }
    inbox->last_wait = (mscclpp_sim_access_t){
        .agent = block->actor.agent, .clock = block->actor.clock, .position = position, .map = waiter.map};
}

/*
 * Takes the signals that a wait needs. All signals must have arrived (is_wait_ready). The block learns what the senders
 * knew.
 */
static void take_signals(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        mscclpp_sim_inbox_t *inbox = &sim->ranks[block->rank].inboxes[op->channel_type][op->channels[i]];
        mscclpp_sim_signal_t signal = inbox->signals[inbox->first];

        note_waiter(sim, block, op, i, inbox);
        inbox->first = (inbox->first + 1) % inbox->capacity;
        --inbox->count;
        ++inbox->waited;
        mscclpp_sim_need(sim, signal.arrives_at);
        mscclpp_sim_add_arrow(sim, signal.block, block->actor.agent, signal.sent_at, signal.arrives_at, false);
        mscclpp_sim_learn(sim, &block->actor, signal.know);
        free(signal.know);
    }
}

/*
 * Sends a signal on each channel of the operation. Over a port channel, the proxy sends the signal later. Over a memory
 * channel, it arrives at once.
 */
static void signal_all(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    double end = mscclpp_sim_end_time(sim, &block->actor);
    mscclpp_sim_signal_t signal = {.know = block->actor.now,
                                   .block = block->actor.agent,
                                   .sent_at = end,
                                   .arrives_at = end + (sim->cost != NULL ? sim->cost->latency : 0)};

    for (uint32_t i = 0; i < op->channel_count; ++i) {
        if (op->channel_type == MSCCLPP_PLAN_PORT) {
            mscclpp_sim_push(sim, block, op->channels[i],
                             (mscclpp_sim_entry_t){.is_signal = true, .launch = block->launch});
        } else {
            mscclpp_sim_deliver(sim, block->rank, op->channel_type, op->channels[i], signal);
        }
    }
}

/* Returns true if the proxies of all channels of an operation have executed all their requests. */
static bool is_flushed(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        const mscclpp_sim_proxy_t *proxy = &sim->ranks[block->rank].proxies[op->channels[i]];

        if (proxy->done < proxy->queued) {
            return false;
        }
    }
    return true;
}

/* Ends a flush: the block learns what the proxies of its channels know. */
static void learn_from_proxies(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        const mscclpp_sim_actor_t *proxy = &sim->ranks[block->rank].proxies[op->channels[i]].actor;

        mscclpp_sim_need(sim, proxy->time);
        mscclpp_sim_learn(sim, &block->actor, proxy->now);
    }
}

/*
 * Returns true if all semaphores of an acquire have the value that it needs. An operation may name a semaphore several
 * times, and then needs that value.
 */
static bool is_acquire_ready(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        int64_t wanted = 0;

        for (uint32_t j = 0; j < op->semaphore_count; ++j) {
            wanted += op->semaphores[j] == op->semaphores[i];
        }
        if (sim->ranks[block->rank].semaphores[op->semaphores[i]].value < wanted) {
            return false;
        }
    }
    return true;
}

/*
 * Acquires the operation's semaphores. is_acquire_ready must have returned true. Releases serve the acquires beyond the
 * initial value in order: acquire number initial_value + n takes the knowledge of release n, and frees it. Release n
 * has happened, because the value was above 0.
 */
static void acquire(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        mscclpp_sim_semaphore_t *semaphore = &sim->ranks[block->rank].semaphores[op->semaphores[i]];
        uint64_t initial_value = sim->plan->ranks[block->rank].semaphores[op->semaphores[i]], acquire_number;

        --semaphore->value;
        acquire_number = semaphore->acquired++;
        if (acquire_number >= initial_value) {
            mscclpp_sim_need(sim, semaphore->times[acquire_number - initial_value]);
            mscclpp_sim_learn(sim, &block->actor, semaphore->releases[acquire_number - initial_value]);
            free(semaphore->releases[acquire_number - initial_value]);
            semaphore->releases[acquire_number - initial_value] = NULL;
        }
    }
}

/*
 * Makes room for one more release of a semaphore. Returns false if there is no memory. The capacity is then still the
 * old one, even if one of the two lists has already been enlarged.
 */
static bool reserve_release(mscclpp_sim_semaphore_t *semaphore)
{
    uint64_t capacity = semaphore->capacity > 0 ? 2 * semaphore->capacity : 8;
    mscclpp_sim_know_t **releases;
    double *times;

    if (semaphore->released < semaphore->capacity) {
        return true;
    }
    releases = realloc(semaphore->releases, capacity * sizeof(*releases));
    if (releases == NULL) {
        return false;
    }
    semaphore->releases = releases;
    times = realloc(semaphore->times, capacity * sizeof(*times));
    if (times == NULL) {
        return false;
    }
    semaphore->times = times;
    semaphore->capacity = capacity;
    return true;
}

/*
 * Releases the operation's semaphores. Each release passes on the knowledge of all releasers so far. If memory runs
 * out, sim->no_memory ends the run.
 */
static void release(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        mscclpp_sim_semaphore_t *semaphore = &sim->ranks[block->rank].semaphores[op->semaphores[i]];

        if (!reserve_release(semaphore)) {
            sim->no_memory = true;
            return;
        }
        mscclpp_sim_join(sim, semaphore->total, block->actor.now);
        semaphore->times[semaphore->released] = mscclpp_sim_end_time(sim, &block->actor);
        semaphore->releases[semaphore->released++] = mscclpp_sim_know_copy(sim, semaphore->total);
        ++semaphore->value;
    }
}

/* Returns true if block `other` belongs to rank `rank_number`, and waits at the barrier of `op`. */
static bool waits_at_barrier(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *other, uint32_t rank_number,
                             const mscclpp_plan_op_t *op)
{
    return other->rank == rank_number && other->at_barrier && !other->barrier_is_open &&
           mscclpp_sim_current_op(sim, other)->barrier == op->barrier;
}

/*
 * Opens the barrier of `op` for all blocks of a rank that have arrived at it. These blocks share their knowledge, and
 * continue at the time of the last arrival.
 */
static void open_barrier(mscclpp_sim_t *sim, uint32_t rank_number, const mscclpp_plan_op_t *op)
{
    mscclpp_sim_know_t *joint_knowledge = sim->spare;
    double last_arrival = 0;

    for (uint32_t i = 0; i < sim->agents; ++i) {
        joint_knowledge[i] = (mscclpp_sim_know_t){0, 0, 0, 0};
    }
    for (uint32_t i = 0; i < sim->block_count; ++i) {
        mscclpp_sim_actor_t *actor = &sim->blocks[i].actor;

        if (waits_at_barrier(sim, &sim->blocks[i], rank_number, op)) {
            last_arrival = actor->time > last_arrival ? actor->time : last_arrival;
            mscclpp_sim_meet(sim, actor);
            mscclpp_sim_join(sim, joint_knowledge, actor->now);
        }
    }
    for (uint32_t i = 0; i < sim->block_count; ++i) {
        if (waits_at_barrier(sim, &sim->blocks[i], rank_number, op)) {
            mscclpp_sim_join(sim, sim->blocks[i].actor.now, joint_knowledge);
            sim->blocks[i].barrier_is_open = true;
            sim->blocks[i].actor.time = last_arrival;
        }
    }
}

/*
 * Lets the block arrive at a barrier, or, at its further steps, ask whether the barrier is open. Returns true if the
 * block may continue.
 *
 * The last block to arrive opens the barrier. The other blocks continue at their next step. A block that has continued
 * may return to the same barrier before they do, so blocks whose barrier is already open are not counted again.
 */
static bool arrive_at_barrier(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    uint32_t arrived = 0;

    if (block->at_barrier && !block->barrier_is_open) {
        return false;
    }
    if (!block->barrier_is_open) {
        block->at_barrier = true;
        for (uint32_t i = 0; i < sim->block_count; ++i) {
            arrived += waits_at_barrier(sim, &sim->blocks[i], block->rank, op);
        }
        if (arrived < op->barrier_blocks) {
            return false;
        }
        open_barrier(sim, block->rank, op);
    }
    block->barrier_is_open = block->at_barrier = false;
    return true;
}

/*
 * Moves the block on to its next operation. The next operation may be in the next turn of the pipeline. `outer` is the
 * operation that the block has just done, or the pipeline around it.
 */
static void advance(const mscclpp_plan_op_t *outer, mscclpp_sim_block_t *block)
{
    if (block->turns > 0) {
        if (++block->inner < outer->body_count) {
            return;
        }
        block->inner = 0;
        if (++block->turn < block->turns) {
            return;
        }
        block->turn = block->turns = 0;
    }
    ++block->op;
}

/*
 * Begins the pipeline `outer` that the block is at, and returns true, which completes the step. Returns false, with
 * nothing changed, if `outer` is no pipeline, or has begun. The number of turns covers all chunks, and the last turn
 * may be shorter. sim->cell_size divides the unit of every pipeline. A pipeline without operations is skipped.
 */
static bool begin_pipeline(const mscclpp_sim_t *sim, const mscclpp_plan_op_t *outer, mscclpp_sim_block_t *block)
{
    uint64_t unit = outer->unit / sim->cell_size, total = (uint64_t)outer->num_chunks * sim->cells_per_chunk;

    if (outer->kind != MSCCLPP_PLAN_OP_PIPELINE || block->turns > 0) {
        return false;
    }
    block->turns = (uint32_t)((total + unit - 1) / unit);
    if (outer->body_count == 0) {
        block->turns = 0;
        ++block->op;
    }
    return true;
}

/*
 * Returns true if the operation need not wait. A barrier always counts as ready, because arrive_at_barrier itself makes
 * the block wait.
 */
static bool is_ready(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op)
{
    switch (op->kind) {
    case MSCCLPP_PLAN_OP_NOP:
    case MSCCLPP_PLAN_OP_BARRIER:
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
    case MSCCLPP_PLAN_OP_RELEASE:
        return true;
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        return is_wait_ready(sim, block, op);
    case MSCCLPP_PLAN_OP_FLUSH:
        return is_flushed(sim, block, op);
    case MSCCLPP_PLAN_OP_ACQUIRE:
        return is_acquire_ready(sim, block, op);
    default:
        /* All other operations move data. They wait only for packets. */
        return mscclpp_sim_look_for_packets(sim, block, op);
    }
}

/*
 * Carries out the operation, or a part of it. `outer` is the same operation as `op`, or the pipeline around it. Returns
 * false if the block has to wait, or if there is no memory. Then nothing has changed, except that the block may have
 * arrived at a barrier. The clock is incremented only when the operation is executed. For a block that waits at a
 * barrier, that was done on arrival.
 */
static bool step_op(mscclpp_sim_t *sim, mscclpp_sim_block_t *block, const mscclpp_plan_op_t *outer,
                    const mscclpp_plan_op_t *op)
{
    if (!is_ready(sim, block, op) || (!block->at_barrier && !begin_op(sim, block, outer))) {
        return false;
    }
    switch (op->kind) {
    case MSCCLPP_PLAN_OP_NOP:
        mscclpp_sim_meet(sim, &block->actor);
        break;
    case MSCCLPP_PLAN_OP_BARRIER:
        return arrive_at_barrier(sim, block, op);
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
        signal_all(sim, block, op);
        break;
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        take_signals(sim, block, op);
        break;
    case MSCCLPP_PLAN_OP_FLUSH:
        learn_from_proxies(sim, block, op);
        break;
    case MSCCLPP_PLAN_OP_ACQUIRE:
        acquire(sim, block, op);
        break;
    case MSCCLPP_PLAN_OP_RELEASE:
        release(sim, block, op);
        break;
    default:
        mscclpp_sim_do_data(sim, block, op);
        break;
    }
    return true;
}

/*
 * Returns true if the block has done something: an operation, the start of a pipeline, or its end. A put with a flush
 * (pwsf) takes two steps: the first makes the requests, and the second waits until the proxy has done them.
 */
bool mscclpp_sim_step(mscclpp_sim_t *sim, mscclpp_sim_block_t *block)
{
    const mscclpp_plan_block_t *code = &sim->plan->ranks[block->rank].blocks[block->block];
    const mscclpp_plan_op_t *outer, *op;

    if (block->has_ended || sim->no_memory) {
        return false;
    }
    if (block->op == code->op_count) {
        block->has_ended = true;
        --sim->ranks[block->rank].running;
        return true; /* ending is a step, too: others may go on because of it */
    }
    outer = &code->ops[block->op];
    if (begin_pipeline(sim, outer, block)) {
        return true;
    }
    /* Within a pipeline, `turns` is not 0, and the operation is one of its body. */
    op = block->turns > 0 ? &outer->body[block->inner] : outer;
    mscclpp_sim_begin_op(sim, block, op);
    if (block->is_flushing) {
        if (!is_flushed(sim, block, op)) {
            return false;
        }
        learn_from_proxies(sim, block, op);
        block->is_flushing = false;
    } else if (!step_op(sim, block, outer, op)) {
        return false;
    } else if (op->kind == MSCCLPP_PLAN_OP_PWSF) {
        /* Its puts are in the queue now; later steps wait until they are done. */
        block->is_flushing = true;
        return true;
    }
    mscclpp_sim_end_op(sim, block);
    advance(outer, block);
    ++sim->steps;
    return true;
}
