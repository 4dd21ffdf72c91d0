/* Data shared by the host and the collectives other than all-reduce over several nodes. */
#ifndef MSCCLPP_DEVICE_TYPES_COLL_NODES_H
#define MSCCLPP_DEVICE_TYPES_COLL_NODES_H

#include "device/types/coll.h"
#include "device/types/nodes.h"

/*
 * True for patterns in which only one rank has blocks. The owners of shards on that rank's node take turns to send
 * these blocks to the other nodes. In other patterns that move blocks, each owner sends the blocks of its own rank. It
 * also sends the blocks of those ranks beyond the owners whose number equals the owner's modulo the number of shards.
 */
#define MSCCLPP_DEV_COLL_ONE_SENDS(pattern_) ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_SCATTER)

/*
 * True for patterns in which a node combines the blocks of its ranks and sends the result to another node. If the
 * result is for one rank, the owners take turns. If there is a result for each rank, it is sent by the owner that has
 * that rank's number modulo the number of shards.
 */
#define MSCCLPP_DEV_COLL_MERGES(pattern_) ((pattern_) == MSCCLPP_DEV_REDUCE || (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER)

/* The most ranks of a node that share one owner. */
#define MSCCLPP_DEV_COLL_NODES_RANKS_PER_OWNER(max_, shards_) (((max_) + (shards_)-1) / (shards_))

/*
 * The most blocks that an owner puts to another node in a turn. A block that several ranks of a node need is sent once.
 */
#define MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern_, max_, shards_)                                                         \
    ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_REDUCE ? 1u                                          \
     : (pattern_) == MSCCLPP_DEV_SCATTER                                 ? (max_)                                      \
     : (pattern_) == MSCCLPP_DEV_ALLTOALL ? (max_)*MSCCLPP_DEV_COLL_NODES_RANKS_PER_OWNER(max_, shards_)               \
                                          : MSCCLPP_DEV_COLL_NODES_RANKS_PER_OWNER(max_, shards_))

/*
 * Scans in rounds. If `prefixes_` is true, a node sends the combined operands of its ranks and of nodes before it: one
 * block, and the owners take turns to send it. That needs ranks in the order of their nodes. Otherwise the operands of
 * all ranks go to all nodes, as the blocks of an all-gather do. The macros below are for all patterns; `prefixes_` is
 * true for scans only. They return the pattern that determines the rounds, the most blocks of a place (see above), and
 * true if one owner of a node has all data of a call.
 */
#define MSCCLPP_DEV_COLL_ROUNDS_PATTERN(pattern_, prefixes_)                                                           \
    (MSCCLPP_DEV_COLL_SCANS(pattern_) && !(prefixes_) ? (uint32_t)MSCCLPP_DEV_ALLGATHER : (uint32_t)(pattern_))
#define MSCCLPP_DEV_COLL_ROUNDS_BLOCKS(pattern_, prefixes_, max_, shards_)                                             \
    ((prefixes_) ? 1u : MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern_, max_, shards_))
#define MSCCLPP_DEV_COLL_ROUNDS_BY_ONE(pattern_, prefixes_)                                                            \
    (MSCCLPP_DEV_COLL_ONE_SENDS(pattern_) || (pattern_) == MSCCLPP_DEV_REDUCE || (prefixes_))

/* Sets of rows, used in turn. device/kern/coll/nodes.h explains why three are enough. */
#define MSCCLPP_DEV_COLL_NODES_SETS 3u

/*
 * Blocks of data that differ from node to node can be exchanged in windows if there are more nodes than a window has
 * (lib/nodes_windows.h). Then rows and slots are needed only for the nodes of a window. Windows have fewer sets of
 * slots than other exchanges, because credits tell when a slot is free: a set more than the two that are in use lets
 * credits arrive in time.
 */
#define MSCCLPP_DEV_COLL_NODES_WINDOW 8u
#define MSCCLPP_DEV_COLL_NODES_WINDOW_SETS 3u
#define MSCCLPP_DEV_COLL_NODES_MAY_WINDOW(pattern_, nnodes_)                                                           \
    ((nnodes_) > MSCCLPP_DEV_COLL_NODES_WINDOW &&                                                                      \
     ((pattern_) == MSCCLPP_DEV_ALLTOALL || (pattern_) == MSCCLPP_DEV_SCATTER))
#define MSCCLPP_DEV_COLL_NODES_WINDOWS(nnodes_)                                                                        \
    (((nnodes_) + MSCCLPP_DEV_COLL_NODES_WINDOW - 1) / MSCCLPP_DEV_COLL_NODES_WINDOW)

/*
 * Rows of the bulk area, in several sets for each block of the grid. A set has one row for each rank's block for this
 * rank, and the rows in which other ranks give an owner the data that it sends for them. A row consists of a unit for
 * the size of its contents, and a tile.
 *
 * Tiles of two patterns take fewer rows, so that they may be longer. In a broadcast there is one block for this rank.
 * In a reduce, the root gets one operand of each rank of its node, and then one partial result of each other node or,
 * over trees, of each child. Owners of other nodes get operands only, which take the same rows as those of the root.
 */
#define MSCCLPP_DEV_COLL_NODES_RELAY_ROWS(pattern_, nranks_, nnodes_, max_, shards_)                                   \
    ((pattern_) == MSCCLPP_DEV_BCAST     ? (uint64_t)1                                                                 \
     : (pattern_) == MSCCLPP_DEV_SCATTER ? (uint64_t)(nranks_)                                                         \
     : (pattern_) == MSCCLPP_DEV_REDUCE  ? (uint64_t)(max_)                                                            \
     : (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER                                                                        \
         ? (uint64_t)(nnodes_)*MSCCLPP_DEV_COLL_NODES_RANKS_PER_OWNER(max_, shards_) * (max_)                          \
         : ((uint64_t)(max_)-1) / (shards_) * ((pattern_) == MSCCLPP_DEV_ALLTOALL ? (nranks_) : 1u))
/*
 * Rows of the packet area. The two patterns above have one row for each rank of the node, and behind these, at FAR, one
 * for what comes from other nodes: a block, or in rounds a combined result. A reduce without rounds has one for each
 * node there. So their number does not grow with the ranks of the communicator. Other patterns have the rows above.
 */
#define MSCCLPP_DEV_COLL_NODES_FEW_ROWS(pattern_) ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_REDUCE)
#define MSCCLPP_DEV_COLL_NODES_FAR(pattern_, in_rounds_, nnodes_)                                                      \
    ((pattern_) == MSCCLPP_DEV_BCAST || (in_rounds_) ? (uint64_t)1 : (uint64_t)(nnodes_))
#define MSCCLPP_DEV_COLL_NODES_PACKET_RECEIVE_ROWS(pattern_, in_rounds_, nranks_, nnodes_, max_)                       \
    (MSCCLPP_DEV_COLL_NODES_FEW_ROWS(pattern_) ? (max_) + MSCCLPP_DEV_COLL_NODES_FAR(pattern_, in_rounds_, nnodes_)    \
                                               : (uint64_t)(nranks_))
#define MSCCLPP_DEV_COLL_NODES_PACKET_ROWS(pattern_, in_rounds_, nranks_, nnodes_, max_, shards_)                      \
    (MSCCLPP_DEV_COLL_NODES_PACKET_RECEIVE_ROWS(pattern_, in_rounds_, nranks_, nnodes_, max_) +                        \
     MSCCLPP_DEV_COLL_NODES_RELAY_ROWS(pattern_, nranks_, nnodes_, max_, shards_))
#define MSCCLPP_DEV_COLL_NODES_RECEIVE_ROWS(pattern_, exchange_, nranks_, nnodes_, max_)                               \
    ((pattern_) == MSCCLPP_DEV_BCAST          ? (uint64_t)1                                                            \
     : (pattern_) != MSCCLPP_DEV_REDUCE       ? (uint64_t)(nranks_)                                                    \
     : (exchange_) == MSCCLPP_DEV_NODES_TREES ? (uint64_t)(max_) + MSCCLPP_DEV_NODES_TREES_PLACES - 1                  \
                                              : (uint64_t)(max_) + (nnodes_))
#define MSCCLPP_DEV_COLL_NODES_TILE_ROWS(pattern_, exchange_, nranks_, nnodes_, max_, shards_)                         \
    (MSCCLPP_DEV_COLL_NODES_RECEIVE_ROWS(pattern_, exchange_, nranks_, nnodes_, max_) +                                \
     ((pattern_) == MSCCLPP_DEV_REDUCE                                                                                 \
          ? 0                                                                                                          \
          : MSCCLPP_DEV_COLL_NODES_RELAY_ROWS(pattern_, nranks_, nnodes_, max_, shards_)))
/* The same for an exchange in windows: a row for each rank of the window's nodes, as if all had as many as any has. */
#define MSCCLPP_DEV_COLL_NODES_WINDOW_ROWS(max_) (MSCCLPP_DEV_COLL_NODES_WINDOW * (uint64_t)(max_))
#define MSCCLPP_DEV_COLL_NODES_WINDOWED_ROWS(pattern_, max_, shards_)                                                  \
    (MSCCLPP_DEV_COLL_NODES_WINDOW_ROWS(max_) *                                                                        \
     (1 + ((pattern_) == MSCCLPP_DEV_SCATTER ? 1 : ((uint64_t)(max_)-1) / (shards_))))
#define MSCCLPP_DEV_COLL_NODES_PITCH(bulk_size_, nblocks_, rows_)                                                      \
    ((bulk_size_) / (MSCCLPP_DEV_COLL_NODES_SETS * (uint64_t)(nblocks_) * (rows_)) / MSCCLPP_DEV_UNIT *                \
     MSCCLPP_DEV_UNIT)

/*
 * Bytes that an owner can put to another node at once. If every node is sent the same data, they come from the one send
 * slot of a set (types/nodes.h). If each rank has blocks of its own for each other rank, the data differ from node to
 * node, and each node has a place in the set. Over trees, all slots of a set are divided anew: a broadcast has one
 * place, and a reduce one for the node's own partial results and one for each child.
 */
#define MSCCLPP_DEV_COLL_NODES_ROOM(pattern_, exchange_, nnodes_, slot_size_)                                          \
    (MSCCLPP_DEV_COLL_SENDS_MANY(pattern_)                                                                             \
         ? ((uint64_t)(nnodes_) + 1) * (slot_size_) / (2 * (uint64_t)(nnodes_)*MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT    \
     : (exchange_) != MSCCLPP_DEV_NODES_TREES ? (slot_size_)                                                           \
     : (pattern_) == MSCCLPP_DEV_BCAST        ? ((uint64_t)(nnodes_) + 1) * (slot_size_)                               \
                                              : ((uint64_t)(nnodes_) + 1) * (slot_size_) /                             \
                                             (MSCCLPP_DEV_NODES_TREES_PLACES * MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT)

/*
 * The same for an exchange in windows. All slots of the area are divided anew among the blocks of the grid: a set has
 * one place to send from and one to receive at for each node of a window.
 */
#define MSCCLPP_DEV_COLL_NODES_WINDOW_PLACES(nblocks_)                                                                 \
    ((uint64_t)(nblocks_)*MSCCLPP_DEV_COLL_NODES_WINDOW_SETS * 2 * MSCCLPP_DEV_COLL_NODES_WINDOW)
#define MSCCLPP_DEV_COLL_NODES_WINDOW_ROOM(nnodes_, slot_size_, nblocks_)                                              \
    (MSCCLPP_DEV_NODES_SLOTS(nnodes_) * (slot_size_) /                                                                 \
     (MSCCLPP_DEV_COLL_NODES_WINDOW_PLACES(nblocks_) * MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT)

/*
 * Signals that node `to_` receives from node `from_` in each turn of tiles, except in windows. `exchange_` is
 * MSCCLPP_DEV_NODES_DIRECT or, where MSCCLPP_DEV_COLL_RINGS holds, MSCCLPP_DEV_NODES_RING or MSCCLPP_DEV_NODES_HALVING.
 * By halving, a node hears from those that are a power of 2 before it.
 */
#define MSCCLPP_DEV_COLL_NODES_BY_POWER(distance_) (((distance_) & ((distance_)-1)) == 0)
#define MSCCLPP_DEV_COLL_NODES_SIGNALS(exchange_, nnodes_, to_, from_)                                                 \
    ((uint64_t)((from_) == (to_) ? 0                                                                                   \
                : (exchange_) == MSCCLPP_DEV_NODES_HALVING                                                             \
                    ? MSCCLPP_DEV_COLL_NODES_BY_POWER(MSCCLPP_DEV_NODES_BEHIND(nnodes_, to_, from_))                   \
                : (exchange_) != MSCCLPP_DEV_NODES_RING                ? 1                                             \
                : (from_) == MSCCLPP_DEV_NODES_BEHIND(nnodes_, to_, 1) ? (nnodes_)-1                                   \
                                                                       : 0))

/*
 * RINGS is true for patterns whose tiles can go around a ring of nodes, or by halving or doubling. In these, each rank
 * has one block for all others, or each node one partial result for each other one. TREES is true for patterns whose
 * tiles can go over two trees. In these, one rank has a block for all, or each node one partial result for the same
 * rank.
 */
#define MSCCLPP_DEV_COLL_RINGS(pattern_)                                                                               \
    ((pattern_) == MSCCLPP_DEV_ALLGATHER || (pattern_) == MSCCLPP_DEV_REDUCE_SCATTER)
#define MSCCLPP_DEV_COLL_TREES(pattern_) ((pattern_) == MSCCLPP_DEV_BCAST || (pattern_) == MSCCLPP_DEV_REDUCE)

/* The sizes of the blocks, 32 bits each, precede the data. */
#define MSCCLPP_DEV_COLL_NODES_HEAD(blocks_)                                                                           \
    (((blocks_) * sizeof(uint32_t) + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT)

/*
 * Limits for packets, in units: a row of the packet area, and the data for another node. The latter must fit in the
 * slot of the exchange area that packets are sent from.
 */
#define MSCCLPP_DEV_COLL_NODES_CAPACITY(packet_half_, rows_) ((packet_half_) / ((rows_)*MSCCLPP_DEV_PACKET_UNIT))
#define MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern_, nnodes_, packet_units_)                                           \
    (MSCCLPP_DEV_COLL_SENDS_MANY(pattern_) ? (packet_units_) / (nnodes_) : (packet_units_))

/* Where a rank is: its node, and its number there. */
typedef struct {
    uint16_t node;
    uint16_t index; /* the rank's number within its node */
} mscclpp_dev_place_t;

/*
 * Arguments of the kernels of these collectives. In `nodes.common`, rank and nranks count only the ranks of this rank's
 * node, and bytes is the size of one block if all have the same size. `nodes.pattern` says how tiles go from node to
 * node: MSCCLPP_DEV_NODES_DIRECT, MSCCLPP_DEV_NODES_WINDOWS where MSCCLPP_DEV_COLL_NODES_MAY_WINDOW holds,
 * MSCCLPP_DEV_NODES_RING, MSCCLPP_DEV_NODES_HALVING or MSCCLPP_DEV_NODES_TREES. All other ranks here are numbered as in
 * the communicator. The lists are in device memory, since a communicator may have any number of ranks.
 */
typedef struct {
    mscclpp_dev_nodes_args_t nodes;
    uint64_t stride;        /* as in mscclpp_dev_coll_args_t */
    uint64_t largest_block; /* size of the largest block on any rank, bytes */
    uint64_t tile;     /* bytes of a block that one turn moves, a multiple of MSCCLPP_DEV_UNIT; not used by packets */
    uint32_t pattern;  /* mscclpp_dev_pattern_t */
    uint32_t root;     /* rank; for patterns that have one */
    uint32_t in_place; /* not 0: this rank's own block is already in the output */
    uint32_t varied;   /* not 0: block sizes differ and the lists below are used; 0: all blocks have the same size */
    uint32_t radix;    /* not 0: packets go in rounds with this radix (device/lib/nodes_rounds.h) */
    uint32_t prefixes; /* not 0: a scan in rounds, whose nodes send combined operands (MSCCLPP_DEV_COLL_ROUNDS_*) */
    uint32_t sparse;   /* not 0: rounds without empty messages (device/kern/coll/nodes_rounds.h) */
    uint32_t rank;     /* this rank's number in the communicator */
    uint32_t nranks;   /* of the communicator */
    const mscclpp_dev_place_t *place; /* one entry for each rank of the communicator */
    const uint32_t *members;          /* ranks of node 0, then those of node 1 and so on, ascending within each node */
    const uint32_t *begin;            /* by node: index in `members` of its first rank; one more entry for the end */
    const mscclpp_dev_block_t *send;  /* the block for each rank; used if `varied` */
    const mscclpp_dev_block_t *recv;  /* the block from each rank; used if `varied` */
} mscclpp_dev_coll_nodes_args_t;

#endif
