/*
 * Notes the parts of a plan that exceed the limits of MSCCL++'s own executor. This library has no such limits, so no
 * plan is refused.
 */
#include "mca/common/plan/check.h"

#include "mca/common/plan/visit.h"

enum {
    OPS = 64,        /* in a block */
    CHANNELS = 16,   /* of one type, in a block */
    REMOTES = 16,    /* remote buffers of one type, in a block */
    IDS = 8,         /* channels of an operation */
    ITEMS = 10,      /* sources, and targets, of an operation */
    SEMAPHORES = 16, /* of an operation */
    BARRIERS = 16    /* of a rank */
};

/* The plan that is compared with the limits, and the report for the notes. */
typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
} compared_t;

/* Counts the operations of a block: a pipeline, and each operation of its body, count as one. */
static uint32_t count_ops(const mscclpp_plan_block_t *block)
{
    uint32_t ops = block->op_count;

    for (uint32_t i = 0; i < block->op_count; ++i) {
        ops += block->ops[i].body_count;
    }
    return ops;
}

/* Notes in the report that the plan has more `things` than the executor of MSCCL++ has room for. */
static void note_limit(const compared_t *compared, mscclpp_plan_place_t place, const char *things, uint32_t count,
                       uint32_t limit)
{
    mscclpp_plan_add_finding(compared->report, MSCCLPP_PLAN_NOTE, "portable", place,
                             "MSCCL++'s executor has room for %u %s, but this plan has %u", limit, things, count);
}

/* Notes each limit that the block at `place` exceeds. */
static void compare_block(const compared_t *compared, mscclpp_plan_place_t place)
{
    const mscclpp_plan_block_t *block = &compared->plan->ranks[place.rank].blocks[place.block];

    if (count_ops(block) > OPS) {
        note_limit(compared, place, "operations in a block", count_ops(block), OPS);
    }
    for (int type = 0; type < MSCCLPP_PLAN_CHANNEL_TYPES; ++type) {
        if (block->channels[type].count > CHANNELS) {
            note_limit(compared, place, "channels of a type in a block", block->channels[type].count, CHANNELS);
        }
    }
    for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
        if (block->remotes[type].count > REMOTES) {
            note_limit(compared, place, "remote buffers of a type in a block", block->remotes[type].count, REMOTES);
        }
    }
}

/*
 * Notes each limit that an operation exceeds (mscclpp_plan_visit_fn_t). The first operation of a block also compares
 * the block, so a block without operations is not compared.
 */
static void compare_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                       const mscclpp_plan_op_t *pipeline)
{
    compared_t *compared = context;
    mscclpp_plan_place_t block_place = {.rank = place.rank, .block = place.block, .op = -1, .inner = -1};

    (void)pipeline;
    if (place.op == 0 && place.inner < 0) {
        compare_block(compared, block_place);
    }
    if (op->channel_count > IDS) {
        note_limit(compared, place, "channel_ids", op->channel_count, IDS);
    }
    if (op->src_count > ITEMS || op->dst_count > ITEMS) {
        note_limit(compared, place, "buffers on a side", op->src_count > op->dst_count ? op->src_count : op->dst_count,
                   ITEMS);
    }
    if (op->semaphore_count > SEMAPHORES) {
        note_limit(compared, place, "semaphore_ids", op->semaphore_count, SEMAPHORES);
    }
    if (op->kind == MSCCLPP_PLAN_OP_BARRIER && op->barrier >= BARRIERS) {
        mscclpp_plan_add_finding(compared->report, MSCCLPP_PLAN_NOTE, "portable", block_place,
                                 "MSCCL++'s executor has the barriers 0 to %d, but this plan has barrier %u",
                                 BARRIERS - 1, op->barrier);
    }
}

void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    compared_t compared = {plan, report};

    mscclpp_plan_visit(plan, compare_op, &compared);
}
