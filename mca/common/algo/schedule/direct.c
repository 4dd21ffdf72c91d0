/*
 * Schedules in which each message goes directly from the node that has the data to the node that needs the data.
 * Functions that find a step return false if the node's list has no such step.
 */
#include "device/types/nodes.h"
#include "mca/common/algo/schedule/kinds.h"

/*
 * Finds step `index` of an exchange of each node with all others. *sends_p becomes true if the step sends, and false if
 * it receives. *distance_p becomes the distance of the peer, at least 1.
 *
 * A node sends to the nodes after it and receives from the nodes before it, the nearest first. So no node receives from
 * all others at once. With a fan-out, a node sends message i only after it has received message i - fanout.
 */
static bool find_exchange_step(const mscclpp_schedule_t *schedule, uint64_t index, bool *sends_p, uint32_t *distance_p)
{
    const uint64_t peers = schedule->nodes - 1;
    const uint64_t ahead = schedule->fanout == 0 || schedule->fanout > peers ? peers : schedule->fanout;

    if (index >= 2 * peers) {
        return false;
    }
    if (index < ahead) {
        *sends_p = true;
        *distance_p = (uint32_t)index + 1;
    } else if (index < 2 * peers - ahead) {
        *sends_p = (index - ahead) % 2 == 1;
        *distance_p = (uint32_t)((index - ahead) / 2 + 1 + (*sends_p ? ahead : 0));
    } else {
        *sends_p = false;
        *distance_p = (uint32_t)(index - peers) + 1;
    }
    return true;
}

/*
 * Finds step `index` of a schedule in which each node exchanges with all others. A node sends either a separate block
 * to each other node, or the same block to all. If blocks are combined, the last step merges the blocks that the node
 * has received.
 */
static bool find_step_with_all(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                               mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes;
    const bool combines = schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE || MSCCLPP_DEV_COMBINES(schedule->pattern);
    const bool has_block_for_each =
        schedule->pattern == MSCCLPP_DEV_ALLTOALL || schedule->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    const uint32_t own_block = schedule->blocks == 1 ? 0 : node;
    uint32_t distance, peer;
    bool sends;

    if (!find_exchange_step(schedule, index, &sends, &distance)) {
        return combines && index == 2 * ((uint64_t)nodes - 1) &&
               mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, node, own_block, 1);
    }
    peer = sends ? MSCCLPP_DEV_NODES_AHEAD(nodes, node, distance) : MSCCLPP_DEV_NODES_BEHIND(nodes, node, distance);
    if (sends) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, peer, has_block_for_each ? peer : own_block, 1) &&
               mscclpp_step_set_slot(step_p, 0, node);
    }
    return mscclpp_step_set(step_p, combines ? MSCCLPP_STEP_KEEP : MSCCLPP_STEP_STORE, peer,
                            combines || schedule->blocks == 1 ? own_block : peer, 1) &&
           mscclpp_step_set_slot(step_p, 0, peer);
}

/*
 * Finds step `index` of a scan. Each node first sends its block to all later nodes, then receives the blocks of all
 * earlier nodes, and finally merges all blocks. The nearest node comes first. Node 0 receives nothing, so it has no
 * merge.
 */
static bool find_scan_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t later = schedule->nodes - 1 - node;

    if (index < later) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, node + 1 + (uint32_t)index, 0, 1) &&
               mscclpp_step_set_slot(step_p, 0, node);
    }
    if (index < later + node) {
        const uint32_t peer = node - 1 - ((uint32_t)index - later);

        return mscclpp_step_set(step_p, MSCCLPP_STEP_KEEP, peer, 0, 1) && mscclpp_step_set_slot(step_p, 0, peer);
    }
    return index == (uint64_t)later + node && node > 0 && mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, node, 0, 1);
}

/*
 * Finds step `index` of a schedule in which the root sends to all other nodes, the next node first. Each of the others
 * receives one message.
 */
static bool find_step_from_root(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p)
{
    const uint32_t peer = MSCCLPP_DEV_NODES_AHEAD(schedule->nodes, node, 1 + (uint32_t)index);
    const bool has_block_for_each = schedule->blocks > 1;

    if (node != schedule->root) {
        return index == 0 &&
               mscclpp_step_set(step_p, MSCCLPP_STEP_STORE, schedule->root, has_block_for_each ? node : 0, 1);
    }
    return index + 1 < schedule->nodes &&
           mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, peer, has_block_for_each ? peer : 0, 1);
}

/*
 * Finds step `index` of a schedule in which all other nodes send one message to the root. In a reduce, the root merges
 * the blocks in its last step.
 */
static bool find_step_to_root(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t peer = MSCCLPP_DEV_NODES_BEHIND(schedule->nodes, node, 1 + (uint32_t)index);
    const bool combines = schedule->pattern == MSCCLPP_DEV_REDUCE;

    if (node != schedule->root) {
        return index == 0 && mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, schedule->root, combines ? 0 : node, 1) &&
               mscclpp_step_set_slot(step_p, 0, node);
    }
    if (index + 1 < schedule->nodes) {
        return mscclpp_step_set(step_p, combines ? MSCCLPP_STEP_KEEP : MSCCLPP_STEP_STORE, peer, combines ? 0 : peer,
                                1) &&
               mscclpp_step_set_slot(step_p, 0, peer);
    }
    return combines && index + 1 == schedule->nodes && mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, node, 0, 1);
}

/* The pattern decides which nodes send: the root, all but the root, each to the later nodes, or each to all. */
bool mscclpp_find_direct_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    switch (schedule->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_SCATTER:
        return find_step_from_root(schedule, node, index, step_p);
    case MSCCLPP_DEV_GATHER:
    case MSCCLPP_DEV_REDUCE:
        return find_step_to_root(schedule, node, index, step_p);
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        return find_scan_step(schedule, node, index, step_p);
    default:
        return find_step_with_all(schedule, node, index, step_p);
    }
}

/*
 * In round 0, each node receives the operands of its part from all others, and merges them. In round 1, each node sends
 * the result to all others.
 */
bool mscclpp_find_split_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes;
    const uint64_t exchange_steps = 2 * ((uint64_t)nodes - 1);
    const uint32_t round = index > exchange_steps;
    uint32_t distance, peer;
    bool sends;

    if (index == exchange_steps) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_MERGE, node, node, 1);
    }
    if (!find_exchange_step(schedule, index < exchange_steps ? index : index - exchange_steps - 1, &sends, &distance)) {
        return false;
    }
    peer = sends ? MSCCLPP_DEV_NODES_AHEAD(nodes, node, distance) : MSCCLPP_DEV_NODES_BEHIND(nodes, node, distance);
    if (sends) {
        return mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, peer, round == 0 ? peer : node, 1) &&
               mscclpp_step_set_slot(step_p, round, round * nodes + node);
    }
    return mscclpp_step_set(step_p, round == 0 ? MSCCLPP_STEP_KEEP : MSCCLPP_STEP_STORE, peer, round == 0 ? node : peer,
                            1) &&
           mscclpp_step_set_slot(step_p, round, round * nodes + peer);
}

/*
 * Steps alternate between sending to the next node and receiving from the previous one.
 *
 * In an all-reduce, part p starts at node p, is combined on the way to node p - 1, and then goes around once more
 * (device/kern/allreduce/allreduce_nodes_ring.h). An all-gather has only the second trip. A reduce-scatter has only the
 * first trip: block d starts at node d + 1 and is combined on the way to node d.
 */
bool mscclpp_find_ring_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step_p)
{
    const uint32_t nodes = schedule->nodes;
    const bool sends = index % 2 == 0, scatters = schedule->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    const bool reduces = scatters || schedule->pattern == MSCCLPP_SCHEDULE_ALLREDUCE;
    const uint64_t round = index / 2;
    const bool is_second_trip = reduces && round >= nodes - 1;
    const uint32_t trip_round = (uint32_t)(is_second_trip ? round - (nodes - 1) : round);
    const uint32_t hops = trip_round + (sends ? 0 : 1); /* from the start of the trip to this node */
    const uint32_t block = is_second_trip ? MSCCLPP_DEV_NODES_RING_GATHERED(nodes, node, hops)
                                          : MSCCLPP_DEV_NODES_RING_REDUCED(nodes, node, hops + (scatters ? 1 : 0));

    if (round >= schedule->rounds) {
        return false;
    }
    if (sends) {
        (void)mscclpp_step_set(step_p, MSCCLPP_STEP_SEND, MSCCLPP_DEV_NODES_AHEAD(nodes, node, 1), block, 1);
    } else {
        (void)mscclpp_step_set(step_p, reduces && !is_second_trip ? MSCCLPP_STEP_BEFORE : MSCCLPP_STEP_STORE,
                               MSCCLPP_DEV_NODES_BEHIND(nodes, node, 1), block, 1);
    }
    return mscclpp_step_set_slot(step_p, (uint32_t)round, (uint32_t)round);
}
