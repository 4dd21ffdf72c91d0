#include "mca/common/plan/lower.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/ends.h"
#include "mca/common/plan/fuse.h"
#include "mca/common/plan/in_place.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

typedef struct {
    const mscclpp_plan_t *plan;
    uint32_t rank;
    const bool *far_ranks; /* by rank: it is on another node; NULL: no rank is */
    mscclpp_plan_program_t *program;
    mscclpp_dev_plan_start_t block_start;                 /* of the block that is being lowered */
    uint32_t step_capacity, item_capacity, link_capacity; /* entries allocated for the program's lists */
    bool no_memory;     /* there was none for some entry; no more blocks are lowered */
    const char *reason; /* why the plan cannot be lowered; NULL: it can */
} lowering_t;

/* The helpers that append to the program set state->no_memory if there is no memory. They append nothing then. */

/*
 * Makes room for one more entry of a list. `list_p` is the address of the pointer to the list, which may have any type;
 * memcpy accesses that pointer without breaking the aliasing rules. If there is no memory, the list is unchanged.
 */
static bool reserve_entry(lowering_t *state, void *list_p, uint32_t count, uint32_t *capacity_p, size_t size)
{
    uint32_t capacity = *capacity_p > 0 ? 2 * *capacity_p : 64;
    void *list, *enlarged;

    if (count < *capacity_p) {
        return true;
    }
    memcpy(&list, list_p, sizeof(list));
    enlarged = realloc(list, capacity * size);
    if (enlarged == NULL) {
        state->no_memory = true;
        return false;
    }
    memcpy(list_p, &enlarged, sizeof(enlarged));
    *capacity_p = capacity;
    return true;
}

/*
 * Appends a step, and returns it. The items and links that are appended next belong to the step. Returns NULL if there
 * is no memory. The pointer is valid only until the next step is appended.
 */
static mscclpp_dev_plan_step_t *add_step(lowering_t *state, uint32_t step_code)
{
    mscclpp_plan_program_t *program = state->program;
    mscclpp_dev_plan_step_t *step;

    if (!reserve_entry(state, &program->steps, program->step_count, &state->step_capacity, sizeof(*program->steps))) {
        return NULL;
    }
    step = &program->steps[program->step_count++];
    memset(step, 0, sizeof(*step));
    step->code = step_code;
    step->items = program->item_count - state->block_start.item;
    step->links = program->link_count - state->block_start.link;
    return step;
}

/*
 * Appends a link to the peer. The meaning of `slot` depends on the step: a signal slot for signals and waits, a port
 * channel of this rank for requests to the proxy, and a semaphore of this rank for semaphores.
 */
static void add_link(lowering_t *state, uint32_t peer, uint32_t slot)
{
    mscclpp_plan_program_t *program = state->program;

    if (reserve_entry(state, &program->links, program->link_count, &state->link_capacity, sizeof(*program->links))) {
        program->links[program->link_count++] = (mscclpp_dev_plan_link_t){.peer = peer, .slot = slot};
    }
}

/*
 * Appends an item, which lies in the memory of rank `owner`, to the program in the kernel's form: its base, the block
 * of the buffer, and the chunk in that block. `are_packets` says that the item is stored as packets. Appends nothing if
 * memory runs out. The scratch is not divided into blocks, so its block is always 0. The division by the number of
 * chunks is safe, because mscclpp_plan_check refuses an item whose blocks have no chunks.
 */
static void add_item(lowering_t *state, const mscclpp_plan_item_t *item, uint32_t owner, bool are_packets)
{
    mscclpp_plan_program_t *program = state->program;
    uint32_t chunks = item->type == MSCCLPP_PLAN_SCRATCH ? UINT32_MAX : mscclpp_plan_block_chunks(state->plan);

    if (reserve_entry(state, &program->items, program->item_count, &state->item_capacity, sizeof(*program->items))) {
        program->items[program->item_count++] =
            (mscclpp_dev_plan_item_t){.base = MSCCLPP_DEV_PLAN_BUFFERS * owner + (uint32_t)item->type,
                                      .block = item->index / chunks,
                                      .chunk = item->index % chunks,
                                      .packets = are_packets};
    }
}

/*
 * Appends an item; for an item of a switch channel, one for each of its ranks. Returns the number of items, even if
 * memory has run out.
 */
static uint32_t add_items(lowering_t *state, const mscclpp_plan_item_t *item, bool are_packets)
{
    const mscclpp_plan_group_t *group;

    if (item->where != MSCCLPP_PLAN_MULTICAST) {
        add_item(state, item, item->rank, are_packets);
        return 1;
    }
    group = &state->plan->ranks[state->rank].groups[item->group];
    for (uint32_t i = 0; i < group->count; ++i) {
        add_item(state, item, group->ranks[i], are_packets);
    }
    return group->count;
}

/* Returns true if the rank is on another node. */
static bool is_far(const lowering_t *state, uint32_t rank)
{
    return state->far_ranks != NULL && state->far_ranks[rank];
}

/* Appends a step that moves data, and returns it, for the caller to add its items. Returns NULL if memory runs out. */
static mscclpp_dev_plan_step_t *add_data_step(lowering_t *state, const mscclpp_plan_op_t *op, uint32_t size)
{
    mscclpp_dev_plan_step_t *step = add_step(state, MSCCLPP_DEV_PLAN_DATA);

    if (step != NULL) {
        step->size = size;
        step->part = op->tb_id;
        step->parts = op->tbg_size;
    }
    return step;
}

/* Returns true if two items name the same chunks of the same buffer. */
static bool is_same_item(const mscclpp_plan_item_t *first, const mscclpp_plan_item_t *second)
{
    return first->where == second->where && first->type == second->type && first->rank == second->rank &&
           first->index == second->index && first->size == second->size;
}

/*
 * Appends the steps that ask the proxy for an operation's puts to other nodes. Successive puts of one size become one
 * step. Each put has its own channel: mscclpp_plan_check has checked that channel i leads to the rank of target i.
 */
static void lower_port_puts(lowering_t *state, const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    mscclpp_dev_plan_step_t *step = NULL;

    for (uint32_t i = 0; i < op->dst_count && op->channel_type == MSCCLPP_PLAN_PORT; ++i) {
        const uint32_t source = shape->paired ? i : 0;

        if (!is_far(state, op->dst[i].rank)) {
            continue;
        }
        if (step == NULL || step->size != op->src[source].size) {
            step = add_data_step(state, op, op->src[source].size);
            if (step == NULL) {
                return;
            }
            step->code = MSCCLPP_DEV_PLAN_PORT_PUT;
        }
        add_link(state, op->dst[i].rank, op->channels[i]);
        add_item(state, &op->src[source], state->rank,
                 mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, source)));
        add_item(state, &op->dst[i], op->dst[i].rank, mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)));
        ++step->count;
    }
}

/*
 * Appends the steps of an operation that copies each source to its own target. Handles only the targets on this node;
 * lower_port_puts handles the others. Successive pairs with the same source become one step, which reads the source
 * once.
 */
static void lower_pairs(lowering_t *state, const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    for (uint32_t i = 0, next; i < op->src_count; i = next) {
        if (is_far(state, op->dst[i].rank)) {
            next = i + 1;
            continue;
        }
        mscclpp_dev_plan_step_t *step = add_data_step(state, op, op->src[i].size);
        uint32_t targets = 0;

        if (step == NULL) {
            return;
        }
        step->sources = add_items(state, &op->src[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i)));
        for (next = i;
             next < op->src_count && is_same_item(&op->src[i], &op->src[next]) && !is_far(state, op->dst[next].rank);
             ++next) {
            targets +=
                add_items(state, &op->dst[next], mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, next)));
        }
        step->targets = targets;
    }
}

/*
 * Appends the step of an operation that combines data. If all targets are on other nodes, the step has no targets and
 * only waits for its sources, which are packets in that case (rppkt).
 */
static void lower_combination(lowering_t *state, const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    mscclpp_dev_plan_step_t *step = add_data_step(state, op, op->src[0].size);
    uint32_t sources = 0, targets = 0;

    if (step == NULL) {
        return;
    }
    for (uint32_t i = 0; i < op->src_count; ++i) {
        sources += add_items(state, &op->src[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_src(shape, i)));
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        if (is_far(state, op->dst[i].rank)) {
            continue; /* the proxy moves the result there; see lower_port_puts */
        }
        targets += add_items(state, &op->dst[i], mscclpp_plan_takes_packets(mscclpp_plan_takes_dst(shape, i)));
    }
    step->sources = sources;
    step->targets = targets;
}

/* The slots of a rank's port channels follow those of its memory channels. */
uint32_t mscclpp_plan_slot(const mscclpp_plan_t *plan, uint32_t rank, mscclpp_plan_channel_type_t type,
                           uint32_t channel)
{
    return type == MSCCLPP_PLAN_PORT ? plan->ranks[rank].channel_count[MSCCLPP_PLAN_MEMORY] + channel : channel;
}

/*
 * Appends the step that asks the proxy for the operation's transfers. One step asks on all port channels of the
 * operation that lead to other nodes. A channel without a pair gets no signal, because no rank waits for it.
 */
static void lower_proxy_requests(lowering_t *state, const mscclpp_plan_op_t *op, uint32_t step_code)
{
    const mscclpp_plan_rank_t *rank = &state->plan->ranks[state->rank];
    mscclpp_dev_plan_step_t *step = NULL;

    for (uint32_t i = 0; i < op->channel_count && op->channel_type == MSCCLPP_PLAN_PORT; ++i) {
        const mscclpp_plan_channel_t *channel = &rank->channels[MSCCLPP_PLAN_PORT][op->channels[i]];

        if (!is_far(state, channel->peer) || (step_code == MSCCLPP_DEV_PLAN_PORT_SIGNAL && channel->pair < 0)) {
            continue;
        }
        step = step == NULL ? add_step(state, step_code) : step;
        if (step == NULL) {
            return;
        }
        add_link(state, channel->peer, op->channels[i]);
        ++step->count;
    }
}

/*
 * Appends the step of a signal or a wait. `step_code` is MSCCLPP_DEV_PLAN_SIGNAL or MSCCLPP_DEV_PLAN_WAIT.
 *
 * A wait also covers channels from other nodes, because the proxy's signals arrive like any others. Signals to other
 * nodes become requests to the proxy, in a step of their own at the end. Nobody waits for a signal over a channel
 * without a pair, so none is sent.
 */
static void lower_signals_or_waits(lowering_t *state, const mscclpp_plan_op_t *op, uint32_t step_code)
{
    const mscclpp_plan_rank_t *rank = &state->plan->ranks[state->rank];
    mscclpp_dev_plan_step_t *step = add_step(state, step_code);
    uint32_t count = 0;

    if (step == NULL) {
        return;
    }
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        const mscclpp_plan_channel_t *channel = &rank->channels[op->channel_type][op->channels[i]];

        if (step_code == MSCCLPP_DEV_PLAN_WAIT) {
            add_link(state, channel->peer,
                     mscclpp_plan_slot(state->plan, state->rank, op->channel_type, op->channels[i]));
        } else if (channel->pair >= 0 && !is_far(state, channel->peer)) {
            add_link(state, channel->peer,
                     mscclpp_plan_slot(state->plan, channel->peer, op->channel_type, (uint32_t)channel->pair));
        } else {
            continue;
        }
        ++count;
    }
    step->count = count;
    if (step_code == MSCCLPP_DEV_PLAN_SIGNAL) {
        lower_proxy_requests(state, op, MSCCLPP_DEV_PLAN_PORT_SIGNAL);
    }
}

/* Appends the step of a release or an acquire. All semaphores belong to this rank. */
static void lower_semaphores(lowering_t *state, const mscclpp_plan_op_t *op, uint32_t step_code)
{
    mscclpp_dev_plan_step_t *step = add_step(state, step_code);

    if (step == NULL) {
        return;
    }
    step->count = op->semaphore_count;
    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        add_link(state, state->rank, op->semaphores[i]);
    }
}

/*
 * Appends a nop, unless the last step is one. A nop lets the block's threads meet, so a second one in a row would do
 * nothing.
 */
static void add_nop(lowering_t *state)
{
    const mscclpp_plan_program_t *program = state->program;

    if (program->step_count == state->block_start.step ||
        program->steps[program->step_count - 1].code != MSCCLPP_DEV_PLAN_NOP) {
        add_step(state, MSCCLPP_DEV_PLAN_NOP);
    }
}

/*
 * Appends the steps of an operation that moves or combines data. An operation may end with a signal (pws) or with a
 * signal and a flush (pwsf), which are lowered here, too.
 */
static void lower_data(lowering_t *state, const mscclpp_plan_op_t *op)
{
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);
    bool is_over_port = op->channel_type == MSCCLPP_PLAN_PORT;

    /*
     * Earlier operations have written these packets. All threads must have finished writing before one thread asks the
     * proxy to move the packets.
     */
    if (is_over_port && op->kind == MSCCLPP_PLAN_OP_PPKT) {
        add_nop(state);
    }
    if (shape->paired) {
        lower_pairs(state, op, shape);
    } else {
        lower_combination(state, op, shape);
    }
    /*
     * In the step above, each thread has waited for its own packets. All threads must have finished waiting before one
     * thread asks the proxy to move the packets.
     */
    if (is_over_port && op->kind == MSCCLPP_PLAN_OP_RPPKT) {
        add_nop(state);
    }
    lower_port_puts(state, op, shape);
    if (op->kind == MSCCLPP_PLAN_OP_PWS || op->kind == MSCCLPP_PLAN_OP_PWSF) {
        /* The signal follows the puts of all threads. */
        add_nop(state);
        lower_signals_or_waits(state, op, MSCCLPP_DEV_PLAN_SIGNAL);
    }
    if (op->kind == MSCCLPP_PLAN_OP_PWSF) {
        lower_proxy_requests(state, op, MSCCLPP_DEV_PLAN_PORT_FLUSH);
        add_nop(state);
    }
}

/*
 * Appends the steps of one operation. A nop is a meeting of the block's threads. Without memory, sets state->no_memory.
 */
static void lower_op(lowering_t *state, const mscclpp_plan_op_t *op)
{
    mscclpp_plan_program_t *program = state->program;
    mscclpp_dev_plan_step_t *step;

    switch (op->kind) {
    case MSCCLPP_PLAN_OP_NOP:
        add_nop(state);
        return;
    case MSCCLPP_PLAN_OP_FLUSH:
        /*
         * The flush must come after the requests of all threads, and no thread may continue before the flush is
         * complete.
         */
        add_nop(state);
        lower_proxy_requests(state, op, MSCCLPP_DEV_PLAN_PORT_FLUSH);
        add_nop(state);
        return;
    case MSCCLPP_PLAN_OP_BARRIER:
        step = add_step(state, MSCCLPP_DEV_PLAN_BARRIER);
        if (step != NULL) {
            step->links = op->barrier;
            step->count = op->barrier_blocks;
        }
        program->barriers = op->barrier >= program->barriers ? op->barrier + 1 : program->barriers;
        return;
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
        /* A port's signal must come after the puts before it, whichever thread made them. */
        if (op->channel_type == MSCCLPP_PLAN_PORT) {
            add_nop(state);
        }
        lower_signals_or_waits(state, op, MSCCLPP_DEV_PLAN_SIGNAL);
        return;
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        lower_signals_or_waits(state, op, MSCCLPP_DEV_PLAN_WAIT);
        return;
    case MSCCLPP_PLAN_OP_ACQUIRE:
        lower_semaphores(state, op, MSCCLPP_DEV_PLAN_ACQUIRE);
        return;
    case MSCCLPP_PLAN_OP_RELEASE:
        lower_semaphores(state, op, MSCCLPP_DEV_PLAN_RELEASE);
        return;
    default:
        lower_data(state, op);
        return;
    }
}

/*
 * Appends the steps of all operations of a block. Each pipeline becomes a loop around its operations. Stops at the
 * first failure, which is in state->no_memory or state->reason.
 */
static void lower_block(lowering_t *state, const mscclpp_plan_block_t *block)
{
    mscclpp_dev_plan_step_t *step;
    uint32_t loop_position;

    for (uint32_t i = 0; i < block->op_count && !state->no_memory && state->reason == NULL; ++i) {
        const mscclpp_plan_op_t *op = &block->ops[i];

        if (op->kind != MSCCLPP_PLAN_OP_PIPELINE) {
            lower_op(state, op);
            continue;
        }
        loop_position = state->program->step_count - state->block_start.step;
        step = add_step(state, MSCCLPP_DEV_PLAN_LOOP);
        if (step == NULL) {
            return;
        }
        step->unit = op->unit;
        step->size = op->num_chunks;
        for (uint32_t j = 0; j < op->body_count && !state->no_memory && state->reason == NULL; ++j) {
            lower_op(state, &op->body[j]);
        }
        /* The kernel continues with the step after this position. */
        step = add_step(state, MSCCLPP_DEV_PLAN_AGAIN);
        if (step != NULL) {
            step->items = loop_position;
        }
    }
    add_step(state, MSCCLPP_DEV_PLAN_END);
}

/* Returns the position at which the next block of the program begins. */
static mscclpp_dev_plan_start_t get_position(const mscclpp_plan_program_t *program)
{
    return (mscclpp_dev_plan_start_t){
        .step = program->step_count, .item = program->item_count, .link = program->link_count};
}

/* If the operation writes to an input, sets the bool at `context` to false (mscclpp_plan_visit_fn_t). */
static void look_for_input_target(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                                  const mscclpp_plan_op_t *pipeline)
{
    bool *keeps_input = context;

    (void)place;
    (void)pipeline;
    for (uint32_t i = 0; mscclpp_plan_op_shape(op) != NULL && i < op->dst_count; ++i) {
        *keeps_input = *keeps_input && op->dst[i].type != MSCCLPP_PLAN_INPUT;
    }
}

/*
 * Appends the programs of all blocks of the rank, and sets their starts. `fuses` says that they are shortened. Kernels
 * are launched on all ranks, so a rank without blocks gets one block, which ends at once. Stops at the first failure.
 */
static void lower_blocks(lowering_t *state, bool fuses)
{
    const mscclpp_plan_t *plan = state->plan;
    const mscclpp_plan_rank_t *plan_rank = &plan->ranks[state->rank];
    mscclpp_plan_program_t *program = state->program;
    bool keeps_input = !plan->in_place;

    mscclpp_plan_visit(plan, look_for_input_target, &keeps_input);
    for (uint32_t i = 0; i < plan_rank->block_count && !state->no_memory && state->reason == NULL; ++i) {
        program->starts[i] = state->block_start = get_position(program);
        lower_block(state, &plan_rank->blocks[i]);
        if (fuses && !state->no_memory) {
            mscclpp_plan_fuse(plan, state->rank, mscclpp_plan_block_chunks(plan), keeps_input, program,
                              state->block_start);
        }
    }
    if (plan_rank->block_count == 0) {
        add_step(state, MSCCLPP_DEV_PLAN_END);
    }
    program->starts[program->block_count] = get_position(program);
}

/* Packets that order other stores rule out mscclpp_plan_fuse, which assumes that they order only themselves. */
mscclpp_status_t mscclpp_plan_lower(const mscclpp_plan_t *plan, uint32_t rank, const bool *far_ranks,
                                    bool packets_order_stores, mscclpp_plan_program_t *program, const char **reason_p)
{
    lowering_t state = {.plan = plan, .rank = rank, .far_ranks = far_ranks, .program = program};
    const mscclpp_plan_rank_t *plan_rank = &plan->ranks[rank];

    memset(program, 0, sizeof(*program));
    program->block_count = plan_rank->block_count > 0 ? plan_rank->block_count : 1;
    program->channels = plan_rank->channel_count[MSCCLPP_PLAN_MEMORY] + plan_rank->channel_count[MSCCLPP_PLAN_PORT];
    program->starts = calloc((size_t)program->block_count + 1, sizeof(*program->starts));
    state.no_memory = program->starts == NULL;
    if (plan_rank->block_count > MSCCLPP_DEV_MAX_BLOCKS || plan->rank_count > MSCCLPP_DEV_MAX_RANKS) {
        state.reason = "more blocks or ranks than kernels have";
    }
    if (!state.no_memory && state.reason == NULL) {
        lower_blocks(&state, !packets_order_stores);
    }
    if (state.no_memory || state.reason != NULL) {
        mscclpp_plan_program_destroy(program);
        *reason_p = state.reason;
        return state.no_memory ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    program->max_chunks = mscclpp_plan_program_max_chunks(program);
    program->works_in_place = mscclpp_plan_works_in_place(plan, rank, mscclpp_plan_block_chunks(plan), program);
    return MSCCLPP_OK;
}

typedef struct {
    const mscclpp_plan_t *plan;
    const int *node_of; /* node of each rank */
    const char *reason; /* why nodes cannot run the plan; NULL: they can */
    bool has_packets;   /* packets go through ports to other nodes */
} reach_t;

/* Returns true if some rank of a switch channel is on another node than the rank that has it. */
static bool spans_nodes(const reach_t *reach, const mscclpp_plan_group_t *group, int own_node)
{
    for (uint32_t i = 0; i < group->count; ++i) {
        if (reach->node_of[group->ranks[i]] != own_node) {
            return true;
        }
    }
    return false;
}

/*
 * Looks for accesses of an operation that cannot reach another node (mscclpp_plan_visit_fn_t). In the end,
 * reach->reason describes the plan's last such access. Also notes packets that go to other nodes.
 */
static void check_reach(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                        const mscclpp_plan_op_t *pipeline)
{
    reach_t *reach = context;
    const mscclpp_plan_rank_t *rank = &reach->plan->ranks[place.rank];
    const int own_node = reach->node_of[place.rank];
    const bool is_over_port = op->channel_type == MSCCLPP_PLAN_PORT;

    (void)pipeline;
    for (uint32_t i = 0; i < op->src_count + op->dst_count; ++i) {
        const mscclpp_plan_item_t *item = i < op->src_count ? &op->src[i] : &op->dst[i - op->src_count];

        if (item->where == MSCCLPP_PLAN_MULTICAST) {
            if (spans_nodes(reach, &rank->groups[item->group], own_node)) {
                reach->reason = "a switch channel joins ranks of several nodes";
            }
        } else if (item->where == MSCCLPP_PLAN_REMOTE && reach->node_of[item->rank] != own_node) {
            reach->reason =
                is_over_port ? reach->reason : "a rank accesses memory of another node otherwise than by a port";
            reach->has_packets =
                reach->has_packets || op->kind == MSCCLPP_PLAN_OP_PPKT || op->kind == MSCCLPP_PLAN_OP_RPPKT;
        }
    }
    for (uint32_t i = 0; i < op->channel_count && op->channel_type == MSCCLPP_PLAN_MEMORY; ++i) {
        if (reach->node_of[rank->channels[MSCCLPP_PLAN_MEMORY][op->channels[i]].peer] != own_node) {
            reach->reason = "a memory channel joins ranks of two nodes";
        }
    }
}

const char *mscclpp_plan_nodes_misfit(const mscclpp_plan_t *plan, const int *node_of, bool *has_packets_p)
{
    reach_t reach = {.plan = plan, .node_of = node_of};

    mscclpp_plan_visit(plan, check_reach, &reach);
    *has_packets_p = reach.has_packets;
    return reach.reason;
}

/* The largest scratch of all ranks counts. Packets (protocol LL) take twice the bytes. */
uint64_t mscclpp_plan_scratch_bytes(const mscclpp_plan_t *plan, uint64_t chunk_bytes, uint64_t *half_bytes_p)
{
    uint64_t max_chunks = 0, bytes;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        max_chunks = plan->ranks[rank_number].chunks[MSCCLPP_PLAN_SCRATCH] > max_chunks
                         ? plan->ranks[rank_number].chunks[MSCCLPP_PLAN_SCRATCH]
                         : max_chunks;
    }
    bytes = max_chunks * chunk_bytes * (plan->uses_packets ? 2 : 1);
    *half_bytes_p = plan->halves ? bytes : 0;
    return plan->halves ? 2 * bytes : bytes;
}
