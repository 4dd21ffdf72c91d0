/*
 * Schedules: the messages that nodes send one another in a collective call, and their order.
 *
 * A schedule is for one shard. The ranks that own the shard, one on each node, execute it. Schedules of several shards
 * are independent. Exchanges between the ranks of one node are not part of a schedule.
 *
 * A schedule is a list of steps for each node. No function here has side effects or allocates memory. Any thread may
 * call them. Kernels and hosts take partners and parts from here and from device/types/nodes.h. mscclpp_sim runs the
 * lists on a model of a network.
 *
 * Steps refer to blocks by number:
 *
 * - In an all-reduce, a block is a part of the shard. In all other collectives, it is the data of one node for another
 *   node, or for all nodes.
 * - A broadcast, a reduce and a scan have only block 0.
 * - In an all-gather and a gather, the number of a block is the number of the node from which it comes; in a scatter
 *   and a reduce-scatter, the number of the node to which it is sent.
 * - In an all-to-all, the number of a block is the number of the peer, on both sides. Messages of BRUCK contain blocks
 *   of several nodes, which the steps do not name.
 */
#ifndef MCA_COMMON_ALGO_SCHEDULE_SCHEDULE_H
#define MCA_COMMON_ALGO_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/coll.h"
#include "mca/common/base/numbers.h"

/* The pattern of an all-reduce, which has no entry in mscclpp_dev_pattern_t. */
#define MSCCLPP_SCHEDULE_ALLREDUCE (-1)

/* The maximum number of nodes of a schedule, and the largest radix. */
#define MSCCLPP_SCHEDULE_MAX_NODES 16384u
#define MSCCLPP_SCHEDULE_MAX_RADIX 64u

typedef enum {
    MSCCLPP_SCHEDULE_DIRECT,   /* each block from its source to its destination, in one step */
    MSCCLPP_SCHEDULE_SPLIT,    /* all-reduce: each node combines one part and sends all others the result */
    MSCCLPP_SCHEDULE_RING,     /* from each node to the next one */
    MSCCLPP_SCHEDULE_DOUBLING, /* all-reduce: everything with a partner, at twice the distance in each step */
    MSCCLPP_SCHEDULE_HALVING,  /* all-reduce: half of the remaining blocks with a partner in each step, and back;
                                  all-gather, reduce-scatter: only one of these ways, as BRUCK with radix 2, for tiles
                                  (device/kern/coll/nodes_halving.h) */
    MSCCLPP_SCHEDULE_TREE,     /* over a k-nomial tree, in an all-reduce to the root and back; no empty messages */
    MSCCLPP_SCHEDULE_BRUCK, /* all-gather, all-to-all, reduce-scatter, scans: in rounds (device/lib/nodes_rounds.h) */
    MSCCLPP_SCHEDULE_TREES, /* broadcast, reduce, all-reduce: over one of two trees, of which each carries every other
                               tile (device/lib/nodes_trees.h) */
    MSCCLPP_SCHEDULE_LAST
} mscclpp_schedule_kind_t;

typedef enum {
    MSCCLPP_STEP_SEND,   /* sends the blocks to the peer, and waits for nothing */
    MSCCLPP_STEP_STORE,  /* waits for the peer's next message, and puts its blocks in place */
    MSCCLPP_STEP_BEFORE, /* as STORE, but combines the received data, as the first operand, with this node's data */
    MSCCLPP_STEP_AFTER,  /* as STORE, but combines the received data, as the second operand, with this node's data */
    MSCCLPP_STEP_KEEP,   /* as STORE, but keeps the blocks until a merge */
    MSCCLPP_STEP_MERGE   /* combines this node's blocks with all kept ones, in the order of the nodes; has no peer */
} mscclpp_step_kind_t;

/* A step of a node. Messages from one node to another are received in the order in which they were sent. */
typedef struct {
    mscclpp_step_kind_t kind;
    uint32_t peer;  /* number of the other node */
    uint32_t first; /* number of the first block; block 0 follows the last block */
    uint32_t count; /* number of blocks */
    uint32_t slot;  /* slot of the receiver in which the message arrives; each message to a node has a separate slot */
    uint32_t place; /* HALVING: place where the message arrives, counted in blocks; the node's blocks come first */
    uint32_t round; /* number of the round in the node's list; a round has sends, then receptions, then at most one
                       merge */
} mscclpp_step_t;

typedef struct {
    mscclpp_schedule_kind_t kind;
    int pattern; /* mscclpp_dev_pattern_t, or MSCCLPP_SCHEDULE_ALLREDUCE */
    uint32_t nodes;
    uint32_t root;   /* number of the root's node */
    uint32_t fanout; /* DIRECT, SPLIT: maximum number of sends of a node ahead of its receptions; 0: any number */
    uint32_t radix;  /* TREE, BRUCK: base of the numbers of nodes */
    uint32_t tree;   /* TREES: 0 or 1; mscclpp_schedule_init sets it to 0, and its caller may change it */
    uint32_t blocks; /* number of blocks to which steps refer */
    uint32_t slots;  /* number of slots that is enough for any node */
    uint32_t places; /* HALVING, all-reduce: number of blocks that a node has room for, including messages; else 0 */
    uint32_t rounds; /* the largest number of rounds of any node */
} mscclpp_schedule_t;

/*
 * Returns the size in bytes of `count` blocks from block `first` on, if `bytes` bytes are divided into `blocks` blocks.
 * Does not wrap around at the last block. Blocks have whole units; the last blocks may be shorter or empty.
 */
static inline uint64_t mscclpp_schedule_part_bytes(uint64_t bytes, uint32_t blocks, uint32_t first, uint32_t count)
{
    const uint64_t units = mscclpp_divide_up(bytes, MSCCLPP_DEV_UNIT);
    const uint64_t block_bytes = mscclpp_divide_up(units, blocks) * MSCCLPP_DEV_UNIT;
    const uint64_t begin = mscclpp_min(first * block_bytes, bytes);
    const uint64_t end = mscclpp_min(((uint64_t)first + count) * block_bytes, bytes);

    return end - begin;
}

/* Returns the name of a kind. */
const char *mscclpp_schedule_kind_name(mscclpp_schedule_kind_t kind);

/* Returns the kind with this name, or MSCCLPP_SCHEDULE_LAST if there is none. */
mscclpp_schedule_kind_t mscclpp_schedule_find_kind(const char *name);

/*
 * Fills in a schedule. `root` is the number of the root's node; other patterns than those with a root ignore it. Other
 * kinds than those that use them ignore `fanout` and `radix`; a radix of 0 means 2. Returns false, with *schedule
 * unchanged, if this kind does not support this pattern, or if a number is out of range.
 */
bool mscclpp_schedule_init(mscclpp_schedule_t *schedule, mscclpp_schedule_kind_t kind, int pattern, uint32_t nodes,
                           uint32_t root, uint32_t fanout, uint32_t radix);

/*
 * Finds step `index` of a node's list, counted from 0. Returns false, with *step_p undefined, if the list has no such
 * step.
 */
bool mscclpp_schedule_find_step(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index,
                                mscclpp_step_t *step_p);

/* Returns the number of steps of a node's list. */
uint64_t mscclpp_schedule_count_steps(const mscclpp_schedule_t *schedule, uint32_t node);

/*
 * Returns the size in bytes of a step's message. `bytes` is the size of the shard in an all-reduce, and the size of a
 * block otherwise.
 */
uint64_t mscclpp_schedule_message_bytes(const mscclpp_schedule_t *schedule, const mscclpp_step_t *step, uint64_t bytes);

#endif
