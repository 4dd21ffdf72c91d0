/* Notes what MSCCL++'s own executor has no room for. This library has room for it, so no plan is refused. */
#include "mca/common/plan/check.h"

#include "mca/common/plan/visit.h"

/* What that executor has room for. */
enum {
    OPS = 64,        /* in a block */
    CHANNELS = 16,   /* of one type, in a block */
    REMOTES = 16,    /* remote buffers of one type, in a block */
    IDS = 8,         /* channels of an operation */
    ITEMS = 10,      /* sources, and targets, of an operation */
    SEMAPHORES = 16, /* of an operation */
    BARRIERS = 16    /* of a rank */
};

/* The state of the comparison, which goes from operation to operation. */
typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    uint32_t ops; /* operations of the current block so far, those in pipelines included */
} count_t;

/* Notes a limit of MSCCL++'s executor that the plan exceeds. */
static void note_limit(const count_t *count, mscclpp_plan_place_t place, const char *what, uint32_t has, uint32_t limit)
{
    mscclpp_plan_add_finding(count->report, MSCCLPP_PLAN_NOTE, "portable", place,
                             "MSCCL++'s executor has room for %u %s, this has %u", limit, what, has);
}

/*
 * Compares one operation with the executor's limits, and counts it. The first operation of a block stands for the
 * block. mscclpp_plan_visit calls it for each operation.
 */
static void compare_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                       const mscclpp_plan_op_t *pipeline)
{
    count_t *count = context;
    const mscclpp_plan_block_t *block = &count->plan->ranks[place.rank].blocks[place.block];
    mscclpp_plan_place_t block_place = {place.rank, place.block, -1, -1, NULL};

    (void)pipeline;
    if (place.op == 0 && place.inner < 0) {
        count->ops = 0;
        for (int type = 0; type < MSCCLPP_PLAN_CHANNEL_TYPES; ++type) {
            if (block->channels[type].count > CHANNELS) {
                note_limit(count, block_place, "channels of a type in a block", block->channels[type].count, CHANNELS);
            }
        }
        for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
            if (block->remotes[type].count > REMOTES) {
                note_limit(count, block_place, "remote buffers of a type in a block", block->remotes[type].count,
                           REMOTES);
            }
        }
    }
    if (++count->ops == OPS + 1) {
        note_limit(count, block_place, "operations in a block", block->op_count, OPS);
    }
    if (op->channel_count > IDS) {
        note_limit(count, place, "channel_ids", op->channel_count, IDS);
    }
    if (op->src_count > ITEMS || op->dst_count > ITEMS) {
        note_limit(count, place, "buffers on a side", op->src_count > op->dst_count ? op->src_count : op->dst_count,
                   ITEMS);
    }
    if (op->semaphore_count > SEMAPHORES) {
        note_limit(count, place, "semaphore_ids", op->semaphore_count, SEMAPHORES);
    }
    if (op->kind == MSCCLPP_PLAN_OP_BARRIER && op->barrier >= BARRIERS) {
        mscclpp_plan_add_finding(count->report, MSCCLPP_PLAN_NOTE, "portable", block_place,
                                 "MSCCL++'s executor has the barriers 0 to %d, this has %u", BARRIERS - 1, op->barrier);
    }
}

void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    count_t count = {plan, report, 0};

    mscclpp_plan_visit(plan, compare_op, &count);
}
