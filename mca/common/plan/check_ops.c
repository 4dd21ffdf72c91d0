/*
 * Checks every operation of a plan separately: the objects that an operation names must exist and fit. The functions
 * that return a bool report the first fault that they find in an operation, and return false.
 */
#include <stdarg.h>
#include <stdio.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/json.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

/* The plan that is checked, the report, and the state of the checks of this file. */
typedef struct {
    mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;

    mscclpp_plan_place_t place;         /* of the current operation */
    const mscclpp_plan_op_t *reduction; /* the last reduction; all have to agree in `reduce`; NULL: none yet */
    bool has_chunks;                    /* some rank has input or output chunks, which give a chunk its size */
} state_t;

/*
 * Reports that the current operation breaks `rule`, with the text that `format` yields. Always returns false, so that a
 * check can return its result.
 */
static bool refuse(const state_t *state, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(const state_t *state, const char *rule, const char *format, ...)
{
    char text[300];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    mscclpp_plan_add_finding(state->report, MSCCLPP_PLAN_INVALID, rule, state->place, "%s", text);
    return false;
}

/* Returns the rank of the operation that is being checked. */
static const mscclpp_plan_rank_t *get_rank(const state_t *state)
{
    return &state->plan->ranks[state->place.rank];
}

/* Returns the block of the operation that is being checked. */
static const mscclpp_plan_block_t *get_block(const state_t *state)
{
    return &get_rank(state)->blocks[state->place.block];
}

/*
 * Looks up the operation's channels: fills in op->channels, in memory of the plan, from op->channel_ids. An id is a
 * position in the block's table, whose entry is a position in the rank's list. Checks both, because both are used as
 * indices. An operation without channels is accepted; whether its kind needs channels is checked later. Returns false
 * also if there is no memory, which is noted in the report.
 */
static bool find_channels(const state_t *state, mscclpp_plan_op_t *op)
{
    const mscclpp_plan_rank_t *rank = get_rank(state);
    const mscclpp_plan_table_t *table;
    uint32_t count;

    if (op->channel_count == 0 || op->channel_type == MSCCLPP_PLAN_NO_CHANNEL) {
        return true;
    }
    table = &get_block(state)->channels[op->channel_type];
    count = op->channel_type == MSCCLPP_PLAN_SWITCH ? rank->group_count : rank->channel_count[op->channel_type];
    op->channels = mscclpp_plan_arena_get(state->plan->arena, op->channel_count, sizeof(*op->channels));
    if (op->channels == NULL) {
        state->report->no_memory = true;
        return false;
    }
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        if (op->channel_ids[i] >= table->count) {
            return refuse(state, "channel-id", "channel id %u, but the block has %u %s channels", op->channel_ids[i],
                          table->count, mscclpp_plan_channel_name(op->channel_type));
        }
        op->channels[i] = table->ids[op->channel_ids[i]];
        if (op->channels[i] >= count) {
            return refuse(state, "channel-id", "the block's channel %u is %s channel %u, but the rank has %u",
                          op->channel_ids[i], mscclpp_plan_channel_name(op->channel_type), op->channels[i], count);
        }
    }
    return true;
}

/*
 * Looks up the remote buffer that an item names, and sets the item's rank and type. check_data has checked that the
 * operation's channel type is memory or port.
 */
static bool find_remote(const state_t *state, const mscclpp_plan_op_t *op, mscclpp_plan_item_t *item)
{
    const mscclpp_plan_rank_t *rank = get_rank(state);
    const mscclpp_plan_table_t *table;
    const mscclpp_plan_remote_t *remote;

    table = &get_block(state)->remotes[op->channel_type];
    if (item->id >= table->count) {
        return refuse(state, "buffer-id", "buffer_id %u, but the block has %u remote buffers over %s channels",
                      item->id, table->count, mscclpp_plan_channel_name(op->channel_type));
    }
    if (table->ids[item->id] >= rank->remote_count) {
        return refuse(state, "buffer-id", "the block's buffer_id %u is remote buffer %u, but the rank has %u", item->id,
                      table->ids[item->id], rank->remote_count);
    }
    remote = &rank->remotes[table->ids[item->id]];
    if (!remote->by[op->channel_type]) {
        return refuse(state, "access", "remote buffer %u does not list %s in its \"access_channel_types\"",
                      table->ids[item->id], mscclpp_plan_channel_name(op->channel_type));
    }
    item->rank = remote->rank;
    item->type = remote->type;
    return true;
}

/*
 * Looks up the switch channel that an item names, and sets the item's group and type. The item's rank becomes the rank
 * of the operation, which is a member of the group (check.c).
 */
static bool find_multicast(const state_t *state, mscclpp_plan_item_t *item)
{
    const mscclpp_plan_rank_t *rank = get_rank(state);
    const mscclpp_plan_table_t *table = &get_block(state)->channels[MSCCLPP_PLAN_SWITCH];

    if (item->id >= table->count || table->ids[item->id] >= rank->group_count) {
        return refuse(state, "channel-id", "switch_channel_id %u, but the block has %u switch channels and the rank %u",
                      item->id, table->count, rank->group_count);
    }
    item->group = table->ids[item->id];
    item->type = rank->groups[item->group].type;
    item->rank = (uint32_t)state->place.rank;
    return true;
}

/*
 * Checks that the item's chunks exist. The chunks must exist on every rank where they are read or written: on all ranks
 * of a switch channel, otherwise on the item's rank. The item's rank, group and type must be filled in.
 */
static bool check_chunks(const state_t *state, const mscclpp_plan_item_t *item, bool are_packets)
{
    const mscclpp_plan_t *plan = state->plan;
    const mscclpp_plan_group_t *group =
        item->where == MSCCLPP_PLAN_MULTICAST ? &get_rank(state)->groups[item->group] : NULL;
    uint64_t end = (uint64_t)item->index + item->size;
    uint32_t count = group != NULL ? group->count : 1;

    /* Packets take twice the bytes of their data. Plans of protocol LL have a scratch of twice the size for this. */
    if (are_packets && !plan->uses_packets) {
        end *= 2;
    }
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t rank_number = group != NULL ? group->ranks[i] : item->rank;

        if (end > plan->ranks[rank_number].chunks[item->type]) {
            return refuse(state, "chunk-range", "chunks %u to %llu%s of the %s of rank %u, which has %u", item->index,
                          (unsigned long long)item->index + item->size - 1,
                          are_packets && !plan->uses_packets ? ", as packets of twice the size," : "",
                          mscclpp_plan_buffer_name(item->type), rank_number,
                          plan->ranks[rank_number].chunks[item->type]);
        }
    }
    return true;
}

/*
 * Checks entry `i` of the operation's sources or targets, and fills in the fields that plan.h marks with (*). `takes`
 * says what the operation allows there, and `list` is the list's name for messages. Both tables have one entry for each
 * mscclpp_plan_takes_t, in the order of that type.
 */
static bool check_item(const state_t *state, const mscclpp_plan_op_t *op, const char *list, uint32_t i,
                       mscclpp_plan_takes_t takes, mscclpp_plan_item_t *item)
{
    static const char *const wanted[] = {"nothing",
                                         "a buffer of the rank itself",
                                         "a remote buffer (\"buffer_id\")",
                                         "a switch channel (\"switch_channel_id\")",
                                         "packets in the rank's own scratch",
                                         "packets in the scratch of a peer",
                                         "packets in the scratch of a switch channel"};
    static const mscclpp_plan_where_t where_taken[] = {MSCCLPP_PLAN_LOCAL,     MSCCLPP_PLAN_LOCAL, MSCCLPP_PLAN_REMOTE,
                                                       MSCCLPP_PLAN_MULTICAST, MSCCLPP_PLAN_LOCAL, MSCCLPP_PLAN_REMOTE,
                                                       MSCCLPP_PLAN_MULTICAST};

    if (item->where != where_taken[takes]) {
        return refuse(state, "operand", "\"%s\"[%u] has to be %s", list, i, wanted[takes]);
    }
    item->rank = (uint32_t)state->place.rank;
    if ((item->where == MSCCLPP_PLAN_REMOTE && !find_remote(state, op, item)) ||
        (item->where == MSCCLPP_PLAN_MULTICAST && !find_multicast(state, item))) {
        return false;
    }
    if (mscclpp_plan_takes_packets(takes) && item->type != MSCCLPP_PLAN_SCRATCH) {
        return refuse(state, "operand", "\"%s\"[%u] has to be %s, and is %s", list, i, wanted[takes],
                      mscclpp_plan_buffer_name(item->type));
    }
    if (item->size == 0) {
        return refuse(state, "size", "\"%s\"[%u] has size 0", list, i);
    }
    return check_chunks(state, item, mscclpp_plan_takes_packets(takes));
}

/*
 * Checks that a list of the operation has `min` entries, or, if `max` is 0, at least `min` entries. A `max` other than
 * 0 equals `min`. `list` is the list's name for messages.
 */
static bool check_count(const state_t *state, const char *list, uint32_t count, uint32_t min, uint32_t max)
{
    if (count == min || (max == 0 && count > min)) {
        return true;
    }
    return refuse(state, "count", "\"%s\" has %u entries; allowed are %u%s", list, count, min,
                  max == 0 ? " or more" : "");
}

/*
 * Checks that sources and targets fit together in size. If the operation works on pairs, there must be as many sources
 * as targets, and the two of each pair must have the same size. Otherwise all sources and targets must have the same
 * size.
 */
static bool check_sizes(const state_t *state, const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    if (shape->paired) {
        if (op->src_count != op->dst_count) {
            return refuse(state, "count", "%u entries in \"src_buff\", but %u in \"dst_buff\"", op->src_count,
                          op->dst_count);
        }
        for (uint32_t i = 0; i < op->src_count; ++i) {
            if (op->src[i].size != op->dst[i].size) {
                return refuse(state, "size", "\"src_buff\"[%u] has %u chunks, but \"dst_buff\"[%u] has %u", i,
                              op->src[i].size, i, op->dst[i].size);
            }
        }
        return true;
    }
    for (uint32_t i = 1; i < op->src_count; ++i) {
        if (op->src[i].size != op->src[0].size) {
            return refuse(state, "size", "\"src_buff\"[%u] has %u chunks, but \"src_buff\"[0] has %u", i,
                          op->src[i].size, op->src[0].size);
        }
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        if (op->dst[i].size != op->src[0].size) {
            return refuse(state, "size", "\"dst_buff\"[%u] has %u chunks, but \"src_buff\"[0] has %u", i,
                          op->dst[i].size, op->src[0].size);
        }
    }
    return true;
}

/*
 * Checks the channels of an operation that puts data over ports. Each target needs a channel of its own that leads to
 * the target's rank, because only the signal of that channel tells the rank that its data has arrived.
 */
static bool check_port_targets(const state_t *state, const mscclpp_plan_op_t *op)
{
    const mscclpp_plan_rank_t *rank = get_rank(state);

    if (op->channel_count != op->dst_count) {
        return refuse(state, "port-channel", "%u channel_ids for %u remote buffers; each needs one", op->channel_count,
                      op->dst_count);
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        uint32_t peer = rank->channels[MSCCLPP_PLAN_PORT][op->channels[i]].peer;

        if (peer != op->dst[i].rank) {
            return refuse(state, "port-channel", "\"dst_buff\"[%u] is of rank %u, but its channel leads to rank %u", i,
                          op->dst[i].rank, peer);
        }
    }
    return true;
}

/* Returns true if the operation combines data. The "reduce_op" of other operations does not matter. */
static bool is_reduction(mscclpp_plan_op_kind_t kind)
{
    switch (kind) {
    case MSCCLPP_PLAN_OP_RE:
    case MSCCLPP_PLAN_OP_RES:
    case MSCCLPP_PLAN_OP_RRE:
    case MSCCLPP_PLAN_OP_RRES:
    case MSCCLPP_PLAN_OP_REPKT:
    case MSCCLPP_PLAN_OP_RESPKT:
    case MSCCLPP_PLAN_OP_RECPKT:
    case MSCCLPP_PLAN_OP_RECSPKT:
    case MSCCLPP_PLAN_OP_GLRES:
        return true;
    default:
        return false;
    }
}

/*
 * Checks an operation that moves or combines data in the pipeline `pipeline`. Each source must have as many chunks as
 * the pipeline handles. Targets need no check: check_sizes has compared them with the sources.
 */
static bool check_in_pipeline(const state_t *state, const mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape,
                              const mscclpp_plan_op_t *pipeline)
{
    if (mscclpp_plan_takes_packets(shape->src0) || mscclpp_plan_takes_packets(shape->srcs) ||
        mscclpp_plan_takes_packets(shape->dst0)) {
        return refuse(state, "pipeline", "packets are not allowed in a pipeline: they do not follow its turns");
    }
    if (op->tbg_size > 0) {
        return refuse(state, "pipeline",
                      "a group of blocks (\"tbg_info\") is not allowed in a pipeline, which divides the same chunks");
    }
    for (uint32_t i = 0; i < op->src_count; ++i) {
        if (op->src[i].size != pipeline->num_chunks) {
            return refuse(state, "pipeline", "it moves %u chunks in a pipeline over %u", op->src[i].size,
                          pipeline->num_chunks);
        }
    }
    return true;
}

/*
 * Checks that the lists of sources and targets have allowed lengths, and checks and looks up each of their entries
 * (check_item).
 */
static bool check_items(const state_t *state, mscclpp_plan_op_t *op, const mscclpp_plan_shape_t *shape)
{
    if (!check_count(state, "src_buff", op->src_count, shape->src_min, shape->src_max) ||
        !check_count(state, "dst_buff", op->dst_count, shape->dst_min, shape->dst_max)) {
        return false;
    }
    for (uint32_t i = 0; i < op->src_count; ++i) {
        if (!check_item(state, op, "src_buff", i, mscclpp_plan_takes_src(shape, i), &op->src[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < op->dst_count; ++i) {
        if (!check_item(state, op, "dst_buff", i, mscclpp_plan_takes_dst(shape, i), &op->dst[i])) {
            return false;
        }
    }
    return true;
}

/*
 * Checks that a reduction combines by the same operation as the reductions before it, because a call has only one
 * operation. Accepts operations that do not combine.
 */
static bool check_reduction(state_t *state, const mscclpp_plan_op_t *op)
{
    if (!is_reduction(op->kind)) {
        return true;
    }
    if (state->reduction != NULL && state->reduction->reduce != op->reduce) {
        return refuse(state, "reduce-op", "it says \"%s\", but operations before it say \"%s\"",
                      mscclpp_plan_reduce_words[op->reduce], mscclpp_plan_reduce_words[state->reduction->reduce]);
    }
    state->reduction = op;
    return true;
}

/*
 * Checks an operation that moves or combines data. The operation's channels must have been looked up before. `pipeline`
 * is the pipeline around the operation, or NULL.
 */
static bool check_data(state_t *state, mscclpp_plan_op_t *op, const mscclpp_plan_op_t *pipeline)
{
    const mscclpp_plan_shape_t *shape = mscclpp_plan_op_shape(op);

    if (!state->has_chunks) {
        return refuse(state, "chunks",
                      "it moves data, but no rank has input or output chunks, which say how large one is");
    }
    if (!shape->on[op->channel_type]) {
        return refuse(state, "channel-type", "it cannot be done over a channel of type %s",
                      mscclpp_plan_channel_name(op->channel_type));
    }
    if (!check_items(state, op, shape) || !check_sizes(state, op, shape)) {
        return false;
    }
    if (mscclpp_plan_puts_over_ports(op) && !check_port_targets(state, op)) {
        return false;
    }
    return check_reduction(state, op) && (pipeline == NULL || check_in_pipeline(state, op, shape, pipeline));
}

/*
 * Checks the channels of a signal, a wait or a flush. Each channel is handled by one thread of the block, so there may
 * not be more channels than threads. A wait may name a channel only once, because two threads would take each other's
 * signals; a signal may name a channel several times.
 */
static bool check_signals(const state_t *state, const mscclpp_plan_op_t *op)
{
    bool is_wait = op->kind == MSCCLPP_PLAN_OP_WAIT || op->kind == MSCCLPP_PLAN_OP_RLXWAIT;

    if (op->channel_type != MSCCLPP_PLAN_MEMORY && op->channel_type != MSCCLPP_PLAN_PORT) {
        return refuse(state, "channel-type", "\"channel_type\" has to be memory or port, and is %s",
                      mscclpp_plan_channel_name(op->channel_type));
    }
    if (op->kind == MSCCLPP_PLAN_OP_FLUSH && op->channel_type != MSCCLPP_PLAN_PORT) {
        return refuse(state, "channel-type", "\"channel_type\" has to be port: only ports have a queue");
    }
    if (op->channel_count == 0) {
        return refuse(state, "count", "it has no \"channel_ids\"");
    }
    if (op->channel_count > state->plan->threads) {
        return refuse(state, "threads", "%u channels for %u threads; each channel needs its own thread",
                      op->channel_count, state->plan->threads);
    }
    for (uint32_t i = 0; is_wait && i < op->channel_count; ++i) {
        for (uint32_t j = 0; j < i; ++j) {
            if (op->channels[j] == op->channels[i]) {
                return refuse(state, "channel-id", "two threads wait on %s channel %u at once",
                              mscclpp_plan_channel_name(op->channel_type), op->channels[i]);
            }
        }
    }
    return true;
}

/*
 * Checks the semaphores of a release or an acquire. Each semaphore is handled by one thread of the block, so there may
 * not be more semaphores than threads.
 */
static bool check_semaphores(const state_t *state, const mscclpp_plan_op_t *op)
{
    if (op->semaphore_count == 0) {
        return refuse(state, "count", "it has no \"semaphore_ids\"");
    }
    if (op->semaphore_count > state->plan->threads) {
        return refuse(state, "threads", "%u semaphores for %u threads; each semaphore needs its own thread",
                      op->semaphore_count, state->plan->threads);
    }
    for (uint32_t i = 0; i < op->semaphore_count; ++i) {
        if (op->semaphores[i] >= get_rank(state)->semaphore_count) {
            return refuse(state, "semaphore-id", "semaphore %u, but the rank has %u", op->semaphores[i],
                          get_rank(state)->semaphore_count);
        }
    }
    return true;
}

/*
 * Checks a pipeline itself. The operations of a pipeline are visited separately. Kernels move units of 16 bytes, so a
 * turn must consist of whole units.
 */
static bool check_pipeline(const state_t *state, const mscclpp_plan_op_t *op)
{
    if (op->unit == 0 || op->unit % state->plan->alignment != 0 || op->unit % 16 != 0) {
        return refuse(state, "pipeline",
                      "\"unit_size\" is %llu; allowed are multiples of 16 bytes and of \"buffer_alignment\", "
                      "which is %u",
                      (unsigned long long)op->unit, state->plan->alignment);
    }
    if (op->num_chunks == 0) {
        return refuse(state, "pipeline", "\"num_chunks\" is 0");
    }
    return true;
}

/*
 * Checks one operation (mscclpp_plan_visit_fn_t). Ignores the results of the checks, because each fault is already in
 * the report. Does nothing after memory has run out.
 */
static void check_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                     const mscclpp_plan_op_t *pipeline)
{
    state_t *state = context;

    state->place = place;
    if (state->report->no_memory || !find_channels(state, op)) {
        return;
    }
    switch (op->kind) {
    case MSCCLPP_PLAN_OP_NOP:
        break;
    case MSCCLPP_PLAN_OP_BARRIER:
        if (op->barrier_blocks == 0) {
            refuse(state, "barrier", "\"num_threadblocks\" is 0");
        }
        break;
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
    case MSCCLPP_PLAN_OP_FLUSH:
        check_signals(state, op);
        break;
    case MSCCLPP_PLAN_OP_ACQUIRE:
    case MSCCLPP_PLAN_OP_RELEASE:
        check_semaphores(state, op);
        break;
    case MSCCLPP_PLAN_OP_PIPELINE:
        check_pipeline(state, op);
        break;
    case MSCCLPP_PLAN_OP_GLRE:
        refuse(state, "glre", "it stands for half an operation and cannot be executed; \"glres\" can");
        break;
    default:
        check_data(state, op, pipeline);
        return;
    }
    /* An operation of these kinds has no data. Buffers that the file names all the same have not been looked up. */
    op->src_count = op->dst_count = 0;
}

void mscclpp_plan_check_ops(mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    state_t state = {.plan = plan, .report = report, .place = mscclpp_plan_nowhere};

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        state.has_chunks = state.has_chunks || plan->ranks[rank_number].chunks[MSCCLPP_PLAN_INPUT] > 0 ||
                           plan->ranks[rank_number].chunks[MSCCLPP_PLAN_OUTPUT] > 0;
    }
    mscclpp_plan_visit(plan, check_op, &state);
}
