/* Schedules in rounds (device/lib/nodes_rounds.h), which kernels carry out as they are. */
#include "device/lib/nodes_rounds.h"
#include "mca/common/algo/schedule/kinds.h"

static mscclpp_dev_rounds_t rounds_of(const mscclpp_schedule_t *schedule, uint32_t node)
{
    return (mscclpp_dev_rounds_t){.nnodes = schedule->nodes,
                                  .radix = schedule->radix,
                                  .node = node,
                                  .root = schedule->root,
                                  .pattern = (uint32_t)schedule->pattern,
                                  .rounds = mscclpp_dev_rounds_count(schedule->nodes, schedule->radix)};
}

/* The first block of a message. An all-to-all moves blocks that do not follow one another; they are not named. */
static uint32_t first_block(const mscclpp_schedule_t *schedule, uint32_t sender, mscclpp_dev_rounds_message_t m)
{
    const uint32_t n = schedule->nodes;

    switch (schedule->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_ALLTOALL:
        return 0;
    case MSCCLPP_DEV_SCATTER:
    case MSCCLPP_DEV_REDUCE_SCATTER:
        return (uint32_t)(((uint64_t)sender + m.first) % n);
    default:
        return (sender + n - (m.count > 0 ? m.count - 1 : 0)) % n;
    }
}

/* How many distances a round has. */
static uint32_t count_distances(const mscclpp_dev_rounds_t *r, uint32_t round)
{
    const uint32_t most = (r->nnodes - 1) / mscclpp_dev_rounds_worth(r, round);

    return most < r->radix - 1 ? most : r->radix - 1;
}

bool mscclpp_schedule_rounds(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const mscclpp_dev_rounds_t r = rounds_of(schedule, node);
    const bool combines = schedule->pattern == MSCCLPP_DEV_REDUCE || schedule->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    mscclpp_dev_rounds_message_t m;
    uint32_t round = 0, distances, j, sender;
    bool sends;

    while (round < r.rounds && index >= 2 * (uint64_t)count_distances(&r, round)) {
        index -= 2 * (uint64_t)count_distances(&r, round++);
    }
    if (round == r.rounds) {
        return false;
    }
    distances = count_distances(&r, round);
    sends = index < distances;
    j = (uint32_t)(sends ? index : index - distances) + 1;
    sender = sends ? node : mscclpp_dev_rounds_before(&r, j * mscclpp_dev_rounds_worth(&r, round));
    m = mscclpp_dev_rounds_message(&r, sender, round, j);
    (void)mscclpp_step_set(step_p,
                           sends      ? MSCCLPP_STEP_SEND
                           : combines ? MSCCLPP_STEP_AFTER
                                      : MSCCLPP_STEP_STORE,
                           sends ? mscclpp_dev_rounds_behind(&r, m.distance) : sender, first_block(schedule, sender, m),
                           m.count);
    return mscclpp_step_at(step_p, round, round * (r.radix - 1) + j - 1, true);
}
