/*
 * Rounds between nodes: who sends which blocks to whom, in a number of rounds that grows with the logarithm of the
 * number of nodes. Kernels, the lists of steps (mca/common/algo/schedule) and the host's view of a waiting rank all
 * take it from here. All functions are pure.
 *
 * With radix k, round i has the distances j * k^i, for j from 1 to k - 1. In each round, every node sends one message
 * to the node behind it at each of these distances, and waits for one from each node before it. A distance that is not
 * smaller than the number of nodes is left out. Every number below n is a sum of such distances, one of each round at
 * most. So whoever has ended the last round has heard from all nodes, directly or through others. This is the
 * dissemination barrier (D. Hensgen et al., Two Algorithms for Barrier Synchronization, IJPP 17(1), 1988).
 *
 * What a message carries depends on the way of the collective:
 *
 *   collect  Gather, all-gather, scan, reduce. Rounds go from short distances to long ones. A node passes on what it
 *            has from itself and the nodes before it. For a gather or a reduce to a root, it does so once, along a
 *            k-nomial tree; its other messages are empty.
 *   spread   Broadcast, scatter. The reverse: from long distances to short ones, along the same tree from the root.
 *   turn     All-to-all. A block that has to travel d nodes goes j * k^i of them in round i, where j is digit i of d
 *            in base k (J. Bruck et al., Efficient Algorithms for All-to-All Communications in Multiport
 *            Message-Passing Systems, IEEE TPDS 8(11), 1997).
 *   fold     Reduce-scatter. As spread, but each node has a block for all others, and combines what arrives with its
 *            own block for the same node.
 *
 * Blocks lie at positions, which count from the node itself: position d has the block from the node d before it
 * (collect), or the block for the node d behind it (the others).
 */
#ifndef MSCCLPP_DEVICE_LIB_NODES_ROUNDS_H
#define MSCCLPP_DEVICE_LIB_NODES_ROUNDS_H

#include "device/shim/shim.h"
#include "device/types/coll.h"

typedef struct {
    uint32_t nnodes;
    uint32_t radix; /* from 2 on */
    uint32_t node;
    uint32_t root; /* node of the root, for patterns that have one */
    uint32_t pattern;
    uint32_t rounds;
} mscclpp_dev_rounds_t;

/* A message as its sender sees it. */
typedef struct {
    uint32_t distance; /* from the sender to the receiver; 0: there is no such message */
    uint32_t first;    /* position of its first block at the sender; of an all-to-all, the first of its positions */
    uint32_t count;    /* of blocks; 0: it is empty */
    uint32_t to;       /* position of its first block at the receiver; likewise */
} mscclpp_dev_rounds_message_t;

/* What follows counts places. A place holds a node's block, or all that an owner of a shard has for another node. */

/* The number of rounds: digits of the numbers below `nnodes` in base `radix`. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_count(uint32_t nnodes, uint32_t radix)
{
    uint64_t worth = 1;
    uint32_t rounds = 0;

    while (worth < nnodes) {
        worth *= radix;
        ++rounds;
    }
    return rounds;
}

/* True if rounds go from long distances to short ones. */
MSCCLPP_DEV bool mscclpp_dev_rounds_falls(uint32_t pattern)
{
    return pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_SCATTER || pattern == MSCCLPP_DEV_REDUCE_SCATTER;
}

/* The shortest distance of a round. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_worth(const mscclpp_dev_rounds_t *r, uint32_t round)
{
    uint32_t left = mscclpp_dev_rounds_falls(r->pattern) ? r->rounds - 1 - round : round;
    uint32_t worth = 1;

    for (; left > 0; --left) {
        worth *= r->radix;
    }
    return worth;
}

/* How many numbers below `nnodes` have a digit from 1 to `most` at the place that is worth `worth`. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_digits(const mscclpp_dev_rounds_t *r, uint32_t worth, uint32_t most)
{
    const uint64_t period = (uint64_t)worth * r->radix, rest = r->nnodes % period, all = (uint64_t)most * worth;
    const uint64_t more = rest > worth ? rest - worth : 0;

    return (uint32_t)(r->nnodes / period * all + (more < all ? more : all));
}

/* True if a node passes its blocks on along the tree in this message: the digit is its lowest one that is not 0. */
MSCCLPP_DEV bool mscclpp_dev_rounds_is_lowest(const mscclpp_dev_rounds_t *r, uint32_t number, uint32_t worth,
                                              uint32_t distance)
{
    return number % ((uint64_t)worth * r->radix) == distance;
}

/* The message of `node` in a round, to the node at the distance `j` times the shortest one. */
MSCCLPP_DEV mscclpp_dev_rounds_message_t mscclpp_dev_rounds_message(const mscclpp_dev_rounds_t *r, uint32_t node,
                                                                    uint32_t round, uint32_t j)
{
    const uint32_t n = r->nnodes, worth = mscclpp_dev_rounds_worth(r, round);
    const uint64_t distance = (uint64_t)worth * j;
    const uint32_t behind = (node + n - r->root) % n, before = (r->root + n - node) % n;
    mscclpp_dev_rounds_message_t m = {0, 0, 0, 0};
    uint32_t left; /* blocks from the first one to the last one that there can be */

    if (distance >= n) {
        return m;
    }
    m.distance = (uint32_t)distance;
    left = n - m.distance;
    switch (r->pattern) {
    case MSCCLPP_DEV_BCAST:
    case MSCCLPP_DEV_SCATTER:
        if (behind % ((uint64_t)worth * r->radix) == 0 && behind + distance < n) {
            m.count = left - behind < worth ? left - behind : worth;
            m.first = m.distance;
        }
        if (r->pattern == MSCCLPP_DEV_BCAST && m.count > 0) {
            m.count = 1;
            m.first = 0;
        }
        break;
    case MSCCLPP_DEV_GATHER:
    case MSCCLPP_DEV_REDUCE:
        if (mscclpp_dev_rounds_is_lowest(r, before, worth, m.distance)) {
            m.count = r->pattern == MSCCLPP_DEV_REDUCE ? 1 : n - before < worth ? n - before : worth;
            m.to = r->pattern == MSCCLPP_DEV_REDUCE ? 0 : m.distance;
        }
        break;
    case MSCCLPP_DEV_ALLTOALL:
        m.first = m.to = m.distance;
        m.count = mscclpp_dev_rounds_digits(r, worth, j) - mscclpp_dev_rounds_digits(r, worth, j - 1);
        break;
    case MSCCLPP_DEV_REDUCE_SCATTER:
        m.first = m.distance;
        m.count = left < worth ? left : worth;
        break;
    default:
        m.to = m.distance;
        m.count = left < worth ? left : worth;
        break;
    }
    return m;
}

/* The node that a message comes from, at a distance. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_before(const mscclpp_dev_rounds_t *r, uint32_t distance)
{
    return (r->node + r->nnodes - distance) % r->nnodes;
}

/* The node that a message goes to. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_behind(const mscclpp_dev_rounds_t *r, uint32_t distance)
{
    return (r->node + distance) % r->nnodes;
}

/* ---- Where blocks lie ---- */

/* Places for the positions of a node. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_positions(const mscclpp_dev_rounds_t *r)
{
    return r->pattern == MSCCLPP_DEV_BCAST || r->pattern == MSCCLPP_DEV_REDUCE ? 1 : r->nnodes;
}

/* The messages that a node receives at most. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_messages(const mscclpp_dev_rounds_t *r)
{
    return r->rounds * (r->radix - 1);
}

/*
 * Places that a node needs. Behind the positions come those for messages that are combined or rearranged: for a reduce
 * one for each message, for a fold as many as positions, for a turn as many for each round, once to receive and once
 * to send from.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_places(const mscclpp_dev_rounds_t *r)
{
    const uint64_t positions = mscclpp_dev_rounds_positions(r);

    return r->pattern == MSCCLPP_DEV_REDUCE           ? positions + mscclpp_dev_rounds_messages(r)
           : r->pattern == MSCCLPP_DEV_REDUCE_SCATTER ? 2 * positions
           : r->pattern == MSCCLPP_DEV_ALLTOALL       ? positions * (1 + 2 * (uint64_t)r->rounds)
                                                      : positions;
}

/* The place at which a message arrives. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_arrival(const mscclpp_dev_rounds_t *r, mscclpp_dev_rounds_message_t m,
                                                uint32_t round, uint32_t j)
{
    const uint64_t positions = mscclpp_dev_rounds_positions(r);

    return r->pattern == MSCCLPP_DEV_REDUCE           ? positions + (uint64_t)round * (r->radix - 1) + j - 1
           : r->pattern == MSCCLPP_DEV_REDUCE_SCATTER ? positions + m.distance
           : r->pattern == MSCCLPP_DEV_ALLTOALL
               ? positions * (1 + 2 * (uint64_t)round) +
                     mscclpp_dev_rounds_digits(r, mscclpp_dev_rounds_worth(r, round), j - 1)
               : m.to;
}

/* The place from which a message is sent. */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_departure(const mscclpp_dev_rounds_t *r, mscclpp_dev_rounds_message_t m,
                                                  uint32_t round, uint32_t j)
{
    return r->pattern == MSCCLPP_DEV_ALLTOALL
               ? mscclpp_dev_rounds_arrival(r, m, round, j) + mscclpp_dev_rounds_positions(r)
               : m.first;
}

/* The position of block `i` of a message of an all-to-all. */
MSCCLPP_DEV uint32_t mscclpp_dev_rounds_turned(const mscclpp_dev_rounds_t *r, uint32_t round, uint32_t j, uint32_t i)
{
    const uint32_t worth = mscclpp_dev_rounds_worth(r, round);

    return (i / worth * r->radix + j) * worth + i % worth;
}

/*
 * The place at which a node has the block at a position after so many rounds: where the last of these rounds that moved
 * it brought it, if there was one.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_rounds_place(const mscclpp_dev_rounds_t *r, uint32_t position, uint32_t rounds)
{
    const mscclpp_dev_rounds_message_t none = {0, 0, 0, 0};
    uint32_t round = rounds;

    while (round > 0 && r->pattern == MSCCLPP_DEV_ALLTOALL) {
        const uint32_t worth = mscclpp_dev_rounds_worth(r, --round), digit = position / worth % r->radix;

        if (digit != 0) {
            return mscclpp_dev_rounds_arrival(r, none, round, digit) + position / worth / r->radix * (uint64_t)worth +
                   position % worth;
        }
    }
    return position;
}

#endif
