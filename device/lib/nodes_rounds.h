/*
 * Rounds between nodes: which node sends which blocks to which node, in a number of rounds that grows with the
 * logarithm of the number of nodes. Kernels, the lists of steps (mca/common/algo/schedule) and the host's view of a
 * waiting rank all use these functions. All functions are pure. "Behind" and "before" mean the cyclic order of the
 * nodes' numbers: node 0 comes behind the last node.
 *
 * With radix k, round i has the distances j * k^i, for j from 1 to k - 1. In each round, every node sends one message
 * to the node behind it at each of these distances, and waits for one message from the node before it at each distance.
 * Distances that are not smaller than the number of nodes n are left out. Every number below n is a sum of such
 * distances, at most one of each round. So a node that has ended the last round has received signals from all nodes,
 * directly or through others. This is the dissemination barrier (D. Hensgen et al., Two Algorithms for Barrier
 * Synchronization, IJPP 17(1), 1988).
 *
 * What a message carries depends on the way of the collective:
 *
 *   collect  Gather, all-gather, reduce. Rounds go from short distances to long distances. A node passes on its own
 *            blocks and those of nodes before it. For a gather or a reduce to a root, it passes them on once, along a
 *            k-nomial tree; its other messages are empty.
 *   spread   Broadcast, scatter. The reverse: from long distances to short distances, along the same tree.
 *   turn     All-to-all. A block that has to travel d nodes goes j * k^i of them in round i, where j is digit i of d
 *            in base k (J. Bruck et al., Efficient Algorithms for All-to-All Communications in Multiport
 *            Message-Passing Systems, IEEE TPDS 8(11), 1997).
 *   fold     Reduce-scatter. As spread, but each node has a block for all others, and combines what arrives with its
 *            own block for the same node.
 *   prefix   Scan. Rounds go from short distances to long ones. Before the round with the distances j * v, a node has
 *            the total of itself and the v - 1 nodes before it, as far as there are so many. It sends this one block.
 *            Messages that would go around are empty (W. D. Hillis, G. L. Steele, Data Parallel Algorithms, CACM
 *            29(12), 1986, with radix 2).
 *
 * Blocks lie at positions, which count from the node itself. In a collect, position d has the block from the node d
 * before this node. Otherwise position d has the block for the node d behind this node. In a scan, position i has the
 * total after i rounds, and the last position has the total of all nodes before this node.
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_ROUNDS_H
#define MSCCLPP_DEVICE_LIB_NODES_ROUNDS_H

#include "device/shim/shim.h"
#include "device/types/coll.h"

/* The values that determine all rounds of a collective, as one node sees them. */
typedef struct {
    uint32_t nnodes;
    uint32_t radix;   /* 2 or more */
    uint32_t node;    /* this node */
    uint32_t root;    /* the root's node, for patterns that have a root */
    uint32_t pattern; /* mscclpp_dev_pattern_t */
    uint32_t rounds;  /* as mscclpp_dev_rounds_count says */
} mscclpp_dev_rounds_t;

/* A message as its sender sees it. */
typedef struct {
    uint32_t distance; /* distance from the sender to the receiver; 0: there is no such message */
    uint32_t first;    /* position of its first block at the sender; for an all-to-all, the lowest position */
    uint32_t count;    /* number of its blocks; 0: it is empty */
    uint32_t to;       /* position of its first block at the receiver; for an all-to-all, the lowest position */
} mscclpp_dev_rounds_message_t;

/*
 * "Block" below is the unit in which data move: a node's block, or all data of an owner of a shard for another node. A
 * place holds one block.
 */

/* Returns the number of rounds: the number of digits of the largest number below `nnodes` in base `radix`. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_count(uint32_t nnodes, uint32_t radix)
{
    uint64_t digit_value = 1;
    uint32_t rounds = 0;

    while (digit_value < nnodes) {
        digit_value *= radix;
        ++rounds;
    }
    return rounds;
}

/* Returns true if a pattern's rounds begin with the longest distances. */
MSCCLPP_DEV bool mscclpp_dev_rounds_start_long(uint32_t pattern)
{
    return pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_SCATTER || pattern == MSCCLPP_DEV_REDUCE_SCATTER;
}

/* Returns the shortest distance of a round: the value of the round's digit, a power of the radix. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_digit_value(const mscclpp_dev_rounds_t *scheme, uint32_t round)
{
    uint32_t digit = mscclpp_dev_rounds_start_long(scheme->pattern) ? scheme->rounds - 1 - round : round;
    uint32_t digit_value = 1;

    for (; digit > 0; --digit) {
        digit_value *= scheme->radix;
    }
    return digit_value;
}

/*
 * Returns how many numbers below `nnodes` have a digit from 1 to `max_digit` at the place of value `digit_value`, a
 * power of the radix.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_count_with_digit(const mscclpp_dev_rounds_t *scheme, uint32_t digit_value,
                                                         uint32_t max_digit)
{
    const uint64_t period = (uint64_t)digit_value * scheme->radix;
    const uint64_t remainder = scheme->nnodes % period;
    const uint64_t per_period = (uint64_t)max_digit * digit_value;
    const uint64_t in_remainder = remainder > digit_value ? remainder - digit_value : 0;

    return (uint32_t)(scheme->nnodes / period * per_period + (in_remainder < per_period ? in_remainder : per_period));
}

/*
 * Returns true if the node with this number, counted from the root, passes its blocks on along the tree, towards the
 * root, in the message of this distance. A node does so if the lowest digit of its number that is not 0 belongs to the
 * distance.
 */
MSCCLPP_DEV bool mscclpp_dev_rounds_sends_up_tree(const mscclpp_dev_rounds_t *scheme, uint32_t number,
                                                  uint32_t digit_value, uint32_t distance)
{
    return number % ((uint64_t)digit_value * scheme->radix) == distance;
}

/*
 * Returns message `j` that `node` sends in a round, for j from 1 to radix - 1. The receiver is the node that is j times
 * the round's shortest distance behind `node`. If this distance is not smaller than the number of nodes, there is no
 * message, and all fields are 0. The default case is an all-gather.
 */
MSCCLPP_DEV mscclpp_dev_rounds_message_t mscclpp_dev_rounds_message(const mscclpp_dev_rounds_t *scheme, uint32_t node,
                                                                    uint32_t round, uint32_t j)
{
    const uint32_t nnodes = scheme->nnodes, digit_value = mscclpp_dev_rounds_digit_value(scheme, round);
    const uint64_t distance = (uint64_t)digit_value * j;
    const uint32_t behind_root = (node + nnodes - scheme->root) % nnodes;
    const uint32_t before_root = (scheme->root + nnodes - node) % nnodes;
    mscclpp_dev_rounds_message_t message = {0, 0, 0, 0};
    uint32_t blocks_left; /* number of blocks from the message's first position to the last position */

    if (distance >= nnodes) {
        return message;
    }
    message.distance = (uint32_t)distance;
    blocks_left = nnodes - message.distance;
    switch (scheme->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_SCATTER:
        if (behind_root % ((uint64_t)digit_value * scheme->radix) == 0 && behind_root + distance < nnodes) {
            message.count = blocks_left - behind_root < digit_value ? blocks_left - behind_root : digit_value;
            message.first = message.distance;
        }
        if (scheme->pattern == MSCCLPP_DEV_BCAST && message.count > 0) {
            message.count = 1;
            message.first = 0;
        }
        break;
    case MSCCLPP_DEV_GATHER:
    case MSCCLPP_DEV_REDUCE:
        if (mscclpp_dev_rounds_sends_up_tree(scheme, before_root, digit_value, message.distance)) {
            message.count = scheme->pattern == MSCCLPP_DEV_REDUCE ? 1
                            : nnodes - before_root < digit_value  ? nnodes - before_root
                                                                  : digit_value;
            message.to = scheme->pattern == MSCCLPP_DEV_REDUCE ? 0 : message.distance;
        }
        break;
    case MSCCLPP_DEV_ALLTOALL:
        message.first = message.to = message.distance;
        message.count = mscclpp_dev_rounds_count_with_digit(scheme, digit_value, j) -
                        mscclpp_dev_rounds_count_with_digit(scheme, digit_value, j - 1);
        break;
    case MSCCLPP_DEV_REDUCE_SCATTER:
        message.first = message.distance;
        message.count = blocks_left < digit_value ? blocks_left : digit_value;
        break;
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        message.count = node + distance < nnodes ? 1 : 0;
        break;
    default:
        message.to = message.distance;
        message.count = blocks_left < digit_value ? blocks_left : digit_value;
        break;
    }
    return message;
}

/* Returns the node that is `distance` nodes before this node. It sends the messages of that distance to this node. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_before(const mscclpp_dev_rounds_t *scheme, uint32_t distance)
{
    return (scheme->node + scheme->nnodes - distance) % scheme->nnodes;
}

/*
 * Returns the node that is `distance` nodes behind this node. It receives the messages of that distance from this node.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_behind(const mscclpp_dev_rounds_t *scheme, uint32_t distance)
{
    return (scheme->node + distance) % scheme->nnodes;
}

/* ---- The positions of blocks ---- */

/* Returns the number of a node's positions. A broadcast and a reduction have only one block. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_count_positions(const mscclpp_dev_rounds_t *scheme)
{
    return scheme->pattern == MSCCLPP_DEV_BCAST || scheme->pattern == MSCCLPP_DEV_REDUCE ? 1
           : MSCCLPP_DEV_COLL_SCANS(scheme->pattern)                                     ? (uint64_t)scheme->rounds + 1
                                                                                         : scheme->nnodes;
}

/* Returns the place at which a scan has the total of all nodes before this node. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_prefix_place(const mscclpp_dev_rounds_t *scheme)
{
    return scheme->rounds;
}

/*
 * Returns the number of messages with data that this node receives in a round of a scan. They are the messages with the
 * lowest numbers. If a round has no such message, later rounds have none either.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_count_prefixes(const mscclpp_dev_rounds_t *scheme, uint32_t round)
{
    const uint32_t senders = scheme->node / mscclpp_dev_rounds_digit_value(scheme, round);

    return senders < scheme->radix - 1 ? senders : scheme->radix - 1;
}

/* Returns the maximum number of messages that a node receives. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_max_messages(const mscclpp_dev_rounds_t *scheme)
{
    return scheme->rounds * (scheme->radix - 1);
}

/*
 * Returns the number of places that a node needs. The positions have places of their own. Behind them are the places
 * for messages that are combined or rearranged: in a reduce and a scan, one place for each message; in a fold, as many
 * places as positions; in a turn, twice as many for each round, to receive and to send.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_count_places(const mscclpp_dev_rounds_t *scheme)
{
    const uint64_t positions = mscclpp_dev_rounds_count_positions(scheme);

    return scheme->pattern == MSCCLPP_DEV_REDUCE || MSCCLPP_DEV_COLL_SCANS(scheme->pattern)
               ? positions + mscclpp_dev_rounds_max_messages(scheme)
           : scheme->pattern == MSCCLPP_DEV_REDUCE_SCATTER ? 2 * positions
           : scheme->pattern == MSCCLPP_DEV_ALLTOALL       ? positions * (1 + 2 * (uint64_t)scheme->rounds)
                                                           : positions;
}

/* Returns the first place in which a message arrives. `j` is the message's number in the round, from 1 on. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_arrival_place(const mscclpp_dev_rounds_t *scheme,
                                                      mscclpp_dev_rounds_message_t message, uint32_t round, uint32_t j)
{
    const uint64_t positions = mscclpp_dev_rounds_count_positions(scheme);

    return scheme->pattern == MSCCLPP_DEV_REDUCE || MSCCLPP_DEV_COLL_SCANS(scheme->pattern)
               ? positions + (uint64_t)round * (scheme->radix - 1) + j - 1
           : scheme->pattern == MSCCLPP_DEV_REDUCE_SCATTER ? positions + message.distance
           : scheme->pattern == MSCCLPP_DEV_ALLTOALL
               ? positions * (1 + 2 * (uint64_t)round) +
                     mscclpp_dev_rounds_count_with_digit(scheme, mscclpp_dev_rounds_digit_value(scheme, round), j - 1)
               : message.to;
}

/*
 * Returns the first place from which this node sends a message. `j` is the message's number in the round, from 1 on.
 * The position of a scan's total is the number of rounds so far in which this node has received data.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_departure_place(const mscclpp_dev_rounds_t *scheme,
                                                        mscclpp_dev_rounds_message_t message, uint32_t round,
                                                        uint32_t j)
{
    uint32_t changes = 0;

    while (MSCCLPP_DEV_COLL_SCANS(scheme->pattern) && changes < round &&
           mscclpp_dev_rounds_count_prefixes(scheme, changes) > 0) {
        ++changes;
    }
    return MSCCLPP_DEV_COLL_SCANS(scheme->pattern)   ? changes
           : scheme->pattern == MSCCLPP_DEV_ALLTOALL ? mscclpp_dev_rounds_arrival_place(scheme, message, round, j) +
                                                           mscclpp_dev_rounds_count_positions(scheme)
                                                     : message.first;
}

/* Returns the position of block `i` of message `j` in a round of an all-to-all. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_alltoall_position(const mscclpp_dev_rounds_t *scheme, uint32_t round,
                                                          uint32_t j, uint32_t i)
{
    const uint32_t digit_value = mscclpp_dev_rounds_digit_value(scheme, round);

    return (i / digit_value * scheme->radix + j) * digit_value + i % digit_value;
}

/*
 * Returns the place at which a node has the block of a position after the first `rounds` rounds. In an all-to-all, this
 * is the place in which the block arrived in the last of these rounds that moved it. If no round has moved the block,
 * and in all other collectives, this is the position's own place.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_block_place(const mscclpp_dev_rounds_t *scheme, uint32_t position,
                                                    uint32_t rounds)
{
    const mscclpp_dev_rounds_message_t none = {0, 0, 0, 0};
    uint32_t round = rounds;

    while (round > 0 && scheme->pattern == MSCCLPP_DEV_ALLTOALL) {
        const uint32_t digit_value = mscclpp_dev_rounds_digit_value(scheme, --round),
                       digit = position / digit_value % scheme->radix;

        if (digit != 0) {
            return mscclpp_dev_rounds_arrival_place(scheme, none, round, digit) +
                   position / digit_value / scheme->radix * (uint64_t)digit_value + position % digit_value;
        }
    }
    return position;
}

#endif
