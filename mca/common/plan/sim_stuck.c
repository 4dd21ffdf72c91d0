/* Reports a deadlock: describes why no block can continue. */
#include <stdio.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

enum { MAX_LINES = 24 }; /* of the explanation; further blocks are not explained */

/* Returns the place where the block waits. The field `op` is -1 if the block has done all its operations. */
static mscclpp_plan_place_t find_place(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block)
{
    const mscclpp_plan_block_t *code = &sim->plan->ranks[block->rank].blocks[block->block];
    mscclpp_plan_place_t place = {.rank = (int)block->rank, .block = (int)block->block, .op = -1, .inner = -1};

    if (block->op < code->op_count) {
        place.op = (int)block->op;
        place.inner = block->turns > 0 ? (int)block->inner : -1;
        place.name = mscclpp_plan_op_name(mscclpp_sim_current_op(sim, block)->kind);
    }
    return place;
}

/* Writes at which operation a block is, as a part of the sentence of describe_provider. Returns `text`. */
static const char *describe_position(const mscclpp_sim_block_t *block, char *text, size_t size)
{
    if (block->turns > 0) {
        snprintf(text, size, "that block stands at operation %u.%u in turn %u of launch %u", block->op, block->inner,
                 block->turn, block->launch);
    } else {
        snprintf(text, size, "that block stands at operation %u in launch %u", block->op, block->launch);
    }
    return text;
}

/*
 * Returns true if an operation of rank `rank` provides what a waiting block needs for operand `operand_index` of its
 * operation. That is a signal on the operand's channel, a release of its semaphore, or packets for that source.
 */
typedef bool (*provides_fn_t)(const mscclpp_sim_t *sim, uint32_t rank, const mscclpp_plan_op_t *op,
                              const mscclpp_sim_block_t *waiter, uint32_t operand_index);

/*
 * Returns true if the operation signals the channel that the block waits for (provides_fn_t): the other end of the
 * waiter's channel.
 */
static bool provides_signal(const mscclpp_sim_t *sim, uint32_t rank_number, const mscclpp_plan_op_t *op,
                            const mscclpp_sim_block_t *waiter, uint32_t operand_index)
{
    const mscclpp_plan_op_t *waiting_op = mscclpp_sim_current_op(sim, waiter);
    bool is_signal = op->kind == MSCCLPP_PLAN_OP_SIGNAL || op->kind == MSCCLPP_PLAN_OP_RLXSIGNAL ||
                     op->kind == MSCCLPP_PLAN_OP_PWS || op->kind == MSCCLPP_PLAN_OP_PWSF;

    for (uint32_t i = 0; is_signal && op->channel_type == waiting_op->channel_type && i < op->channel_count; ++i) {
        const mscclpp_plan_channel_t *channel =
            &sim->plan->ranks[rank_number].channels[op->channel_type][op->channels[i]];

        if (channel->peer == waiter->rank && channel->pair == (int64_t)waiting_op->channels[operand_index]) {
            return true;
        }
    }
    return false;
}

/*
 * Returns true if the operation releases the semaphore that the block waits for (provides_fn_t). Semaphores belong to a
 * rank, so only operations of the waiter's own rank count.
 */
static bool provides_release(const mscclpp_sim_t *sim, uint32_t rank_number, const mscclpp_plan_op_t *op,
                             const mscclpp_sim_block_t *waiter, uint32_t operand_index)
{
    const mscclpp_plan_op_t *waiting_op = mscclpp_sim_current_op(sim, waiter);

    for (uint32_t i = 0; op->kind == MSCCLPP_PLAN_OP_RELEASE && rank_number == waiter->rank && i < op->semaphore_count;
         ++i) {
        if (op->semaphores[i] == waiting_op->semaphores[operand_index]) {
            return true;
        }
    }
    return false;
}

/*
 * Returns true if the operation could send packets that the waiter misses. Only a possible sender is looked for: one
 * that sends packets to chunks of that source, on the waiter's rank or over any switch channel. Packets are stored only
 * in scratch, so the types of buffers need not be compared. Which part of a chunk the packets are for is ignored.
 */
static bool provides_packets(const mscclpp_sim_t *sim, uint32_t rank_number, const mscclpp_plan_op_t *op,
                             const mscclpp_sim_block_t *waiter, uint32_t operand_index)
{
    const mscclpp_plan_op_t *waiting_op = mscclpp_sim_current_op(sim, waiter);
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);
    const mscclpp_plan_item_t *wanted = &waiting_op->src[operand_index], *item;

    (void)rank_number;
    for (uint32_t i = 0; shape != NULL && i < op->dst_count; ++i) {
        item = &op->dst[i];
        if (mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)) &&
            (item->where == MSCCLPP_PLAN_MULTICAST || item->rank == waiter->rank) &&
            item->index < wanted->index + wanted->size && wanted->index < item->index + item->size) {
            return true;
        }
    }
    return false;
}

/*
 * Returns the first operation that provides what a block waits for: `op` itself, or an operation in the pipeline `op`.
 * Sets *inner_p to the operation's position in the pipeline; -1: it is `op`. NULL: there is none.
 */
static const mscclpp_plan_op_t *find_provider(const mscclpp_sim_t *sim, uint32_t rank_number,
                                              const mscclpp_plan_op_t *op, const mscclpp_sim_block_t *waiter,
                                              uint32_t operand_index, provides_fn_t provides, int *inner_p)
{
    *inner_p = -1;
    if (provides(sim, rank_number, op, waiter, operand_index)) {
        return op;
    }
    for (uint32_t i = 0; i < op->body_count; ++i) {
        if (provides(sim, rank_number, &op->body[i], waiter, operand_index)) {
            *inner_p = (int)i;
            return &op->body[i];
        }
    }
    return NULL;
}

/*
 * Says in `text` which operation would provide what a block waits for: the first one that has not been done yet, in the
 * order of blocks. Says so if there is none. If a block is in a pipeline, all operations of the pipeline count as not
 * done.
 */
static void describe_provider(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *waiter, uint32_t operand_index,
                              provides_fn_t provides, char *text, size_t size)
{
    char position[120], place_text[80];

    for (uint32_t block_index = 0; block_index < sim->block_count; ++block_index) {
        const mscclpp_sim_block_t *block = &sim->blocks[block_index];
        const mscclpp_plan_block_t *code = &sim->plan->ranks[block->rank].blocks[block->block];

        for (uint32_t i = block->has_ended ? code->op_count : block->op; i < code->op_count; ++i) {
            mscclpp_plan_place_t place = {.rank = (int)block->rank, .block = (int)block->block, .op = (int)i};
            const mscclpp_plan_op_t *provider =
                find_provider(sim, block->rank, &code->ops[i], waiter, operand_index, provides, &place.inner);

            if (provider != NULL) {
                place.name = mscclpp_plan_op_name(provider->kind);
                snprintf(text, size, "the next would come from %s, but %s",
                         mscclpp_plan_place_text(place, place_text, sizeof(place_text)),
                         describe_position(block, position, sizeof(position)));
                return;
            }
        }
    }
    snprintf(text, size, "no block has an operation before it that gives one");
}

/*
 * The explain functions add one line to the finding of the deadlock. `place` says in words where `op` is, at which
 * `block` stands.
 */

/* Adds a line only for the first channel whose signal is missing. */
static void explain_wait(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                         const char *place)
{
    char provider[300];

    for (uint32_t i = 0; i < op->channel_count; ++i) {
        const mscclpp_sim_inbox_t *inbox = &sim->ranks[block->rank].inboxes[op->channel_type][op->channels[i]];

        if (inbox->count > 0) {
            continue;
        }
        describe_provider(sim, block, i, provides_signal, provider, sizeof(provider));
        mscclpp_plan_explain(
            sim->report, "%s in launch %u waits for signal %llu from rank %u over %s channel %u; %llu came; %s.", place,
            block->launch, (unsigned long long)inbox->waited + 1,
            sim->plan->ranks[block->rank].channels[op->channel_type][op->channels[i]].peer,
            mscclpp_plan_channel_name(op->channel_type), op->channels[i], (unsigned long long)inbox->arrived, provider);
        return;
    }
}

/*
 * Adds a line only for the first semaphore that is 0. There may be none, and then no line: an acquire that needs a
 * semaphore twice also waits while its value is 1.
 */
static void explain_acquire(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                            const char *place)
{
    char provider[300];

    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        if (sim->ranks[block->rank].semaphores[op->semaphores[i]].value > 0) {
            continue;
        }
        describe_provider(sim, block, i, provides_release, provider, sizeof(provider));
        mscclpp_plan_explain(sim->report, "%s in launch %u waits for a release of semaphore %u, which is at 0; %s.",
                             place, block->launch, op->semaphores[i], provider);
        return;
    }
}

/*
 * Explains why a block waits for packets. block->missing_cell is the cell whose packet was missing at the block's last
 * attempt.
 */
static void explain_packets(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                            const char *place)
{
    const mscclpp_sim_cell_t *cell = &sim->cells[block->missing_cell];
    char provider[300], cell_text[100], writer_text[160];
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);
    uint32_t operand_index = 0;

    mscclpp_sim_cell_text(sim, block->missing_cell, true, cell_text, sizeof(cell_text));
    if (cell->packet != NULL && cell->launch > block->launch) {
        mscclpp_plan_explain(
            sim->report, "%s in launch %u waits for packets in %s, which %s has overwritten.", place, block->launch,
            cell_text,
            mscclpp_sim_actor_text(sim, cell->write.agent, cell->write.clock, writer_text, sizeof(writer_text)));
        return;
    }
    /* Find the source that the missing packet belongs to. */
    for (uint32_t i = 0; i < op->src_count; ++i) {
        if (mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i)) &&
            mscclpp_sim_source_covers(sim, block, op, i, block->missing_cell)) {
            operand_index = i;
        }
    }
    describe_provider(sim, block, operand_index, provides_packets, provider, sizeof(provider));
    mscclpp_plan_explain(sim->report, "%s in launch %u waits for packets in %s; %s.", place, block->launch, cell_text,
                         provider);
}

/* Adds a line that says how many blocks have arrived. No block can move, so no block is at a barrier that is open. */
static void explain_barrier(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block, const mscclpp_plan_op_t *op,
                            const char *place)
{
    uint32_t arrived = 0;

    for (uint32_t i = 0; i < sim->block_count; ++i) {
        const mscclpp_sim_block_t *other = &sim->blocks[i];

        arrived += other->rank == block->rank && other->at_barrier &&
                   mscclpp_sim_current_op(sim, other)->barrier == op->barrier;
    }
    mscclpp_plan_explain(sim->report, "%s in launch %u waits at barrier %u, to which %u of %u blocks have come.", place,
                         block->launch, op->barrier, arrived, op->barrier_blocks);
}

/*
 * Adds a line that says what a block waits for. A block that waits only for its proxy gets no line, because the proxy
 * waits for nobody.
 */
static void explain_block(const mscclpp_sim_t *sim, const mscclpp_sim_block_t *block)
{
    const mscclpp_plan_op_t *op = mscclpp_sim_current_op(sim, block);
    char place[80];

    if (block->is_flushing) {
        return;
    }
    mscclpp_plan_place_text(find_place(sim, block), place, sizeof(place));
    switch (op->kind) {
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        explain_wait(sim, block, op, place);
        break;
    case MSCCLPP_PLAN_OP_ACQUIRE:
        explain_acquire(sim, block, op, place);
        break;
    case MSCCLPP_PLAN_OP_BARRIER:
        explain_barrier(sim, block, op, place);
        break;
    default:
        explain_packets(sim, block, op, place);
        break;
    }
}

/*
 * Adds a single finding for all blocks that wait. Its place is the first block among those in the earliest launch. The
 * first MAX_LINES blocks are explained.
 */
void mscclpp_sim_explain_stuck(mscclpp_sim_t *sim)
{
    const mscclpp_sim_block_t *first = NULL;
    uint32_t stuck = 0;
    int explained = 0;

    for (uint32_t i = 0; i < sim->block_count; ++i) {
        const mscclpp_sim_block_t *block = &sim->blocks[i];

        if (!block->has_ended) {
            ++stuck;
            first = first == NULL || block->launch < first->launch ? block : first;
        }
    }
    if (first == NULL) {
        return;
    }
    if (!mscclpp_plan_add_finding(sim->report, MSCCLPP_PLAN_DEADLOCK, "deadlock", find_place(sim, first),
                                  "in launch %u, %u blocks wait for ever", first->launch, stuck)) {
        return;
    }
    for (uint32_t i = 0; i < sim->block_count && explained < MAX_LINES; ++i) {
        if (!sim->blocks[i].has_ended) {
            explain_block(sim, &sim->blocks[i]);
            ++explained;
        }
    }
}
