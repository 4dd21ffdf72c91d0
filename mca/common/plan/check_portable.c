/* Features that MSCCL++'s own executor has no room for. They do not limit this library, so they are notes. */
#include "mca/common/plan/check.h"

#include "mca/common/plan/visit.h"

enum { OPS = 64, CHANNELS = 16, REMOTES = 16, IDS = 8, ITEMS = 10, SEMAPHORES = 16, BARRIERS = 16 };

typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    uint32_t ops;
} count_t;

/* Notes a limit of MSCCL++'s executor that the plan exceeds. */
static void note_limit(const count_t *count, mscclpp_plan_place_t place, const char *what, uint32_t has, uint32_t most)
{
    mscclpp_plan_found(count->report, MSCCLPP_PLAN_NOTE, "portable", place,
                       "MSCCL++'s executor has room for %u %s, this has %u", most, what, has);
}

/* Compares one operation with the executor's limits, and counts it. */
static void compare_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                       const mscclpp_plan_op_t *pipeline)
{
    count_t *count = context;
    const mscclpp_plan_block_t *block = &count->plan->ranks[place.rank].blocks[place.block];
    mscclpp_plan_place_t whole = {place.rank, place.block, -1, -1, NULL};

    (void)pipeline;
    if (place.op == 0 && place.inner < 0) {
        count->ops = 0;
        for (int type = 0; type < MSCCLPP_PLAN_CHANNEL_TYPES; ++type) {
            if (block->channels[type].count > CHANNELS) {
                note_limit(count, whole, "channels of a type in a block", block->channels[type].count, CHANNELS);
            }
        }
        for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
            if (block->remotes[type].count > REMOTES) {
                note_limit(count, whole, "remote buffers of a type in a block", block->remotes[type].count, REMOTES);
            }
        }
    }
    if (++count->ops == OPS + 1) {
        note_limit(count, whole, "operations in a block", block->op_count, OPS);
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
        mscclpp_plan_found(count->report, MSCCLPP_PLAN_NOTE, "portable", whole,
                           "MSCCL++'s executor has the barriers 0 to %d, this has %u", BARRIERS - 1, op->barrier);
    }
}

void mscclpp_plan_check_portable(const mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    count_t count = {plan, report, 0};

    mscclpp_plan_visit(plan, compare_op, &count);
}
