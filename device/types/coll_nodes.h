/* What the collectives other than all-reduce share with the host where they go over several nodes. */
#ifndef MSCCLPP_DEVICE_TYPES_COLL_NODES_H
#define MSCCLPP_DEVICE_TYPES_COLL_NODES_H

#include "device/types/coll.h"
#include "device/types/nodes.h"

/*
 * True for patterns in which one rank alone has blocks. The owners of shards on its node take turns to send them to the
 * other nodes; of others that move, each owner sends those of its own rank, and of the ranks beyond the owners that
 * have its number modulo the number of shards.
 */
#define MSCCLPP_DEV_COLL_ALONE(pattern_) ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_SCATTER)

/*
 * True for patterns of which a node sends another one what the blocks of its ranks combine to: for one rank the owners
 * do that by turns, for each rank the one that has its number modulo the number of shards.
 */
#define MSCCLPP_DEV_COLL_MERGES(pattern_) ((pattern_) == MSCCLPP_DEV_REDUCE || (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER)

/* Ranks of a node that have one owner, at most. */
#define MSCCLPP_DEV_COLL_NODES_EACH(most_, shards_) (((most_) + (shards_)-1) / (shards_))

/* Blocks that an owner puts to another node in a turn, at most. One for several ranks of a node is sent there once. */
#define MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern_, most_, shards_)                                                        \
    ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_REDUCE ? 1u                                          \
     : (pattern_) == MSCCLPP_DEV_SCATTER                                 ? (most_)                                     \
     : (pattern_) == MSCCLPP_DEV_ALLTOALL ? (most_)*MSCCLPP_DEV_COLL_NODES_EACH(most_, shards_)                        \
                                          : MSCCLPP_DEV_COLL_NODES_EACH(most_, shards_))

/* So many sets of rows take turns; device/kern/coll/nodes.h says why that is enough. */
#define MSCCLPP_DEV_COLL_NODES_SETS 3u

/*
 * Rows of the bulk area, some sets for each block of the grid: one for each rank's block for this one, and those in
 * which an owner is given what it sends for others. A row has a unit for the size of what is in it, and a tile.
 */
#define MSCCLPP_DEV_COLL_NODES_GIVEN(pattern_, nranks_, nnodes_, most_, shards_)                                       \
    ((pattern_) == MSCCLPP_DEV_BCAST     ? (uint64_t)1                                                                 \
     : (pattern_) == MSCCLPP_DEV_SCATTER ? (uint64_t)(nranks_)                                                         \
     : (pattern_) == MSCCLPP_DEV_REDUCE  ? (uint64_t)(most_)                                                           \
     : (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER                                                                        \
         ? (uint64_t)(nnodes_)*MSCCLPP_DEV_COLL_NODES_EACH(most_, shards_) * (most_)                                   \
         : ((uint64_t)(most_)-1) / (shards_) * ((pattern_) == MSCCLPP_DEV_ALLTOALL ? (nranks_) : 1u))
#define MSCCLPP_DEV_COLL_NODES_ROWS(pattern_, nranks_, nnodes_, most_, shards_)                                        \
    ((nranks_) + MSCCLPP_DEV_COLL_NODES_GIVEN(pattern_, nranks_, nnodes_, most_, shards_))
#define MSCCLPP_DEV_COLL_NODES_PITCH(bulk_size_, nblocks_, rows_)                                                      \
    ((bulk_size_) / (MSCCLPP_DEV_COLL_NODES_SETS * (uint64_t)(nblocks_) * (rows_)) / MSCCLPP_DEV_UNIT *                \
     MSCCLPP_DEV_UNIT)

/*
 * Bytes of what an owner puts to another node at once. Of a set (types/nodes.h) every node is sent the same, from one
 * slot; or, where each rank has blocks of its own for each, something else, from a place for each of them.
 */
#define MSCCLPP_DEV_COLL_NODES_ROOM(pattern_, nnodes_, slot_size_)                                                     \
    (MSCCLPP_DEV_COLL_SENDS_MANY(pattern_)                                                                             \
         ? ((uint64_t)(nnodes_) + 1) * (slot_size_) / (2 * (uint64_t)(nnodes_)*MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT    \
         : (slot_size_))

/* In front of that lie the sizes of the blocks, 32 bits each. */
#define MSCCLPP_DEV_COLL_NODES_HEAD(blocks_)                                                                           \
    (((blocks_) * sizeof(uint32_t) + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT)

/*
 * The same as packets, in units: a row of the packet area, and what goes to another node, which the slot of the
 * exchange area has room for that packets are sent from.
 */
#define MSCCLPP_DEV_COLL_NODES_CAPACITY(packet_half_, rows_) ((packet_half_) / ((rows_)*MSCCLPP_DEV_PACKET_UNIT))
#define MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern_, nnodes_, packet_units_)                                           \
    (MSCCLPP_DEV_COLL_SENDS_MANY(pattern_) ? (packet_units_) / (nnodes_) : (packet_units_))

/*
 * In `nodes.common` rank and nranks are those of the own node, bytes those of one block where all are of one size.
 * `nodes.pattern` is not used. Everything else here counts ranks as the communicator does.
 */
typedef struct {
    mscclpp_dev_nodes_args_t nodes;
    uint64_t stride;  /* as in mscclpp_dev_coll_args_t */
    uint64_t most;    /* bytes of the largest block of all ranks */
    uint64_t tile;    /* bytes of a block that a turn moves, a multiple of MSCCLPP_DEV_UNIT; not used by packets */
    uint32_t pattern; /* mscclpp_dev_pattern_t */
    uint32_t root;
    uint32_t in_place; /* not 0: this rank's own block lies in the output already */
    uint32_t varied;   /* 0: all blocks are of one size, and the lists are not used */
    uint32_t rank;
    uint32_t nranks;
    uint8_t node_of[MSCCLPP_DEV_MAX_RANKS];
    uint8_t index_of[MSCCLPP_DEV_MAX_RANKS]; /* among the ranks of its node */
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_block_t recv[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_dev_coll_nodes_args_t;

#endif
