/* Schedules in rounds (device/lib/nodes_rounds.h), which kernels execute without changes. */
#include "device/lib/nodes_rounds.h"
#include "mca/common/algo/schedule/kinds.h"

/* Returns the rounds of a schedule as `node` sees them, in the form that kernels use. */
static mscclpp_dev_rounds_t rounds_of(const mscclpp_schedule_t *schedule, uint32_t node)
{
    return (mscclpp_dev_rounds_t){.nnodes = schedule->nodes,
                                  .radix = schedule->radix,
                                  .node = node,
                                  .root = schedule->root,
                                  .pattern = (uint32_t)schedule->pattern,
                                  .rounds = mscclpp_dev_rounds_count(schedule->nodes, schedule->radix)};
}

/*
 * Returns the number of the first block of a message. In a gather or an all-gather, a message ends with the sender's
 * own block; the blocks before it come from the nodes before the sender. The blocks of an all-to-all message are not
 * consecutive, so they have no number, and the result is 0.
 */
static uint32_t first_block(const mscclpp_schedule_t *schedule, uint32_t sender, mscclpp_dev_rounds_message_t message)
{
    const uint32_t nodes = schedule->nodes;

    switch (schedule->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_ALLTOALL:
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        return 0;
    case MSCCLPP_DEV_SCATTER:
    case MSCCLPP_DEV_REDUCE_SCATTER:
        return (uint32_t)(((uint64_t)sender + message.first) % nodes);
    default:
        return (sender + nodes - (message.count > 0 ? message.count - 1 : 0)) % nodes;
    }
}

/*
 * Finds message number `index` of those that a node sends in a round, or receives in it. Calls with a root have no
 * empty messages (device/kern/coll/nodes_rounds.h). Sets *multiple_p to the message's number among the distances of the
 * round, and *sender_p to its sender. If there are not so many messages, returns false, and subtracts their number from
 * *index.
 */
static bool find_message(const mscclpp_dev_rounds_t *rounds, uint32_t round, bool sends, uint64_t *index,
                         uint32_t *multiple_p, uint32_t *sender_p)
{
    const uint32_t digit_value = mscclpp_dev_rounds_digit_value(rounds, round);
    const bool is_sparse = MSCCLPP_DEV_COLL_ROOTED(rounds->pattern);
    uint32_t j;

    for (j = 1; j < rounds->radix && (uint64_t)digit_value * j < rounds->nnodes; ++j) {
        *multiple_p = j;
        *sender_p = sends ? rounds->node : mscclpp_dev_rounds_before(rounds, digit_value * j);
        if (is_sparse && mscclpp_dev_rounds_message(rounds, *sender_p, round, j).count == 0) {
            continue;
        }
        if (*index == 0) {
            return true;
        }
        --*index;
    }
    return false;
}

/*
 * In each round, a node first sends its messages, and then receives those of others. In a scan the nearest of these
 * comes first, and each one is combined before what is there.
 */
bool mscclpp_schedule_rounds(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const mscclpp_dev_rounds_t rounds = rounds_of(schedule, node);
    const bool combines = schedule->pattern == MSCCLPP_DEV_REDUCE || schedule->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    const bool scans = MSCCLPP_DEV_COLL_SCANS(schedule->pattern);
    mscclpp_dev_rounds_message_t message;
    uint32_t half, round = 0, multiple = 0, sender = node;
    bool sends = true, is_found = false;

    for (half = 0; half < 2 * rounds.rounds && !is_found; ++half) {
        round = half / 2;
        sends = half % 2 == 0;
        is_found = find_message(&rounds, round, sends, &index, &multiple, &sender);
    }
    if (!is_found) {
        return false;
    }
    message = mscclpp_dev_rounds_message(&rounds, sender, round, multiple);
    (void)mscclpp_step_set(step_p,
                           sends      ? MSCCLPP_STEP_SEND
                           : combines ? MSCCLPP_STEP_AFTER
                           : scans    ? MSCCLPP_STEP_BEFORE
                                      : MSCCLPP_STEP_STORE,
                           sends ? mscclpp_dev_rounds_behind(&rounds, message.distance) : sender,
                           first_block(schedule, sender, message), message.count);
    return mscclpp_step_set_slot(step_p, round, round * (rounds.radix - 1) + multiple - 1, true);
}
