/* Schedules in rounds. Kernels execute the same rounds (device/lib/nodes_rounds.h). */
#include "device/lib/nodes_rounds.h"
#include "mca/common/algo/schedule/kinds.h"

/* Returns the rounds of a schedule for `node`, in the form that kernels use. */
static mscclpp_dev_rounds_t make_rounds(const mscclpp_schedule_t *schedule, uint32_t node)
{
    return (mscclpp_dev_rounds_t){.nnodes = schedule->nodes,
                                  .radix = schedule->radix,
                                  .node = node,
                                  .root = schedule->root,
                                  .pattern = (uint32_t)schedule->pattern,
                                  .rounds = mscclpp_dev_rounds_count(schedule->nodes, schedule->radix)};
}

/*
 * Returns the number of the first block of a message. In a gather or an all-gather, a message ends with the block of
 * the sender; the blocks before it are those of the nodes before the sender. The blocks of an all-to-all message are
 * not consecutive, so the result is 0.
 */
static uint32_t find_first_block(const mscclpp_schedule_t *schedule, uint32_t sender,
                                 mscclpp_dev_rounds_message_t message)
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
 * Finds message *index_p of the messages that a node sends in a round or, if `sends` is false, receives in it. Calls
 * with a root have no empty messages (device/kern/coll/nodes_rounds.h). Stores the sender, and which multiple of the
 * round's distance the message has. If the round has fewer messages, returns false, and subtracts their number from
 * *index_p.
 */
static bool find_message(const mscclpp_dev_rounds_t *rounds, uint32_t round, bool sends, uint64_t *index_p,
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
        if (*index_p == 0) {
            return true;
        }
        --*index_p;
    }
    return false;
}

/* Returns the kind of a step that receives a message of this pattern. */
static mscclpp_step_kind_t find_reception(int pattern)
{
    if (pattern == MSCCLPP_DEV_REDUCE || pattern == MSCCLPP_DEV_REDUCE_SCATTER) {
        return MSCCLPP_STEP_AFTER;
    }
    return MSCCLPP_DEV_COLL_SCANS(pattern) ? MSCCLPP_STEP_BEFORE : MSCCLPP_STEP_STORE;
}

/*
 * In each round, a node first sends its messages, and then receives those of others, from the nearest sender first. So
 * a scan can combine each received message before the data that the node has.
 */
bool mscclpp_find_rounds_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const mscclpp_dev_rounds_t rounds = make_rounds(schedule, node);
    mscclpp_dev_rounds_message_t message;
    uint32_t half, round = 0, multiple = 0, sender = node, first_block;
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
    first_block = find_first_block(schedule, sender, message);
    if (sends) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, mscclpp_dev_rounds_behind(&rounds, message.distance),
                               first_block, message.count);
    } else {
        (void)mscclpp_step_set(step_p, find_reception(schedule->pattern), sender, first_block, message.count);
    }
    return mscclpp_step_set_slot(step_p, round, round * (rounds.radix - 1) + multiple - 1);
}
