/* Data shared by the host and the all-reduce over several nodes: the exchange area and the arguments. */
#ifndef MSCCLPP_DEVICE_TYPES_NODES_H
#define MSCCLPP_DEVICE_TYPES_NODES_H

#include "device/types/launch.h"
#include "device/types/trigger.h"

/* The most blocks of a kernel that exchange data with other nodes. Each has its own slots. */
#define MSCCLPP_DEV_NODES_BLOCKS 16u

/* Communicators with more nodes have no kernels. */
#define MSCCLPP_DEV_NODES_MAX 16384u

/*
 * The most blocks of a kernel that exchange data with other nodes, for a given number of nodes: each block has a port
 * channel to each other node.
 */
#define MSCCLPP_DEV_NODES_BLOCKS_OF(nnodes_)                                                                           \
    ((nnodes_) < 2 || MSCCLPP_DEV_NODES_BLOCKS * ((nnodes_)-1) <= MSCCLPP_DEV_PORT_CHANNELS                            \
         ? MSCCLPP_DEV_NODES_BLOCKS                                                                                    \
         : MSCCLPP_DEV_PORT_CHANNELS / ((nnodes_)-1))

/* Sets of slots, used in turn. device/kern/allreduce/allreduce_nodes.h says why this number is enough. */
#define MSCCLPP_DEV_NODES_SETS 5u

/*
 * The exchange area begins with the slots. Two sets of slots for packets follow, and then the places of sparse calls
 * (device/kern/coll/nodes_rounds.h); both only ever hold packets. Epochs use the two sets in turn, except for those of
 * sparse calls, which use neither. See device/kern/allreduce/allreduce_nodes_packets.h.
 */
#define MSCCLPP_DEV_NODES_PACKET_SLOTS(nnodes_) (2 * ((uint64_t)(nnodes_) + 1))

/*
 * A set has one slot to send from, and one receive slot for each node. The receive slot of this rank's own node is
 * unused. There are sets for as many blocks as a kernel may have.
 */
#define MSCCLPP_DEV_NODES_SLOTS(nnodes_)                                                                               \
    ((uint64_t)MSCCLPP_DEV_NODES_BLOCKS_OF(nnodes_) * MSCCLPP_DEV_NODES_SETS * ((uint64_t)(nnodes_) + 1))

/* Number of the slot that a block's set is sent from. What node k sends arrives in the slot with the number + 1 + k. */
#define MSCCLPP_DEV_NODES_SLOT(nnodes_, block_, set_)                                                                  \
    (((uint64_t)(block_)*MSCCLPP_DEV_NODES_SETS + (set_)) * ((uint64_t)(nnodes_) + 1))

/* Maximum number of nodes whose exchange areas kernels can reach by themselves. Such nodes are imitated on one host. */
#define MSCCLPP_DEV_NODES_MAPPED 8u

/* Who sends what to whom. device/kern/allreduce/allreduce_nodes.h describes the patterns. */
typedef enum {
    MSCCLPP_DEV_NODES_DIRECT,   /* everything to all other nodes; each combines all of it */
    MSCCLPP_DEV_NODES_SPLIT,    /* to each other node the part that it combines; it sends the result back */
    MSCCLPP_DEV_NODES_RING,     /* from each node to the next one */
    MSCCLPP_DEV_NODES_DOUBLING, /* packets: with one partner after another, as the list of steps says */
    MSCCLPP_DEV_NODES_HALVING,  /* tiles: with one partner after another, as another list of steps says; in other
                                   collectives, in rounds (device/kern/coll/nodes_halving.h) */
    MSCCLPP_DEV_NODES_TREES,    /* over two trees (device/lib/nodes_trees.h): to a root, from it, or both */
    MSCCLPP_DEV_NODES_WINDOWS   /* as DIRECT, but to a few nodes at a time (device/lib/nodes_windows.h); not in an
                                   all-reduce */
} mscclpp_dev_nodes_pattern_t;

/*
 * Steps of a node's list (mca/common/algo/schedule/schedule.h), as kernels carry them out: each sends one message or
 * receives one. A node has at most MSCCLPP_DEV_NODES_STEPS of them, whatever the number of nodes.
 *
 * A message of packets arrives in slot `slot` of its receiver. A message of tiles has the parts `first` to `first +
 * count` - 1, and arrives at part `place` of the receiver's set.
 */
#define MSCCLPP_DEV_NODES_STEPS 64u

typedef enum {
    MSCCLPP_DEV_STEP_SEND,
    MSCCLPP_DEV_STEP_STORE,  /* what is received replaces what this node has */
    MSCCLPP_DEV_STEP_BEFORE, /* what is received, combined with what this node has */
    MSCCLPP_DEV_STEP_AFTER   /* what this node has, combined with what is received */
} mscclpp_dev_step_kind_t;

typedef struct {
    uint32_t kind; /* mscclpp_dev_step_kind_t */
    uint32_t peer; /* the other node */
    uint32_t slot;
    uint32_t round; /* the round of the schedule, counted from 0 */
    uint32_t first;
    uint32_t count;
    uint32_t place;
    uint32_t number; /* to receive: the message's number among those that the peer sends here for one tile, from 1 */
    uint32_t total;  /* to receive: how many messages the peer sends here for one tile */
} mscclpp_dev_step_t;

/* A node's list of steps, and what the kernels of all nodes know of it. */
typedef struct {
    const mscclpp_dev_step_t *step; /* device memory; NULL on ranks that own no shard */
    uint32_t count;
    uint32_t slots;  /* number of slots for packets; equal on all ranks, like the following fields */
    uint32_t parts;  /* of a tile */
    uint32_t places; /* parts that a set has to hold */
} mscclpp_dev_steps_t;

/*
 * Units that a packet slot holds. There is one slot for each node and one to send from. With steps, there is one for
 * each message and one to send from in each round; `slots_` is the number of both.
 */
#define MSCCLPP_DEV_NODES_PACKET_UNITS(pattern_, nnodes_, packet_units_, slots_)                                       \
    ((pattern_) == MSCCLPP_DEV_NODES_DOUBLING ? ((uint64_t)(nnodes_) + 1) * (packet_units_) / (2 * (uint64_t)(slots_)) \
                                              : (uint64_t)(packet_units_))

/*
 * Partners in an exchange of all nodes. The node that is `i_` nodes after or before `node_`, going around; `i_` is at
 * most nnodes_.
 */
#define MSCCLPP_DEV_NODES_AHEAD(nnodes_, node_, i_) (((node_) + (i_)) % (nnodes_))
#define MSCCLPP_DEV_NODES_BEHIND(nnodes_, node_, i_) (((node_) + (nnodes_) - (i_)) % (nnodes_))

/*
 * Parts that a node of a ring has combined after step `step_` of round reduce, or received after one of round gather.
 */
#define MSCCLPP_DEV_NODES_RING_REDUCED(nnodes_, node_, step_) MSCCLPP_DEV_NODES_BEHIND(nnodes_, node_, step_)
#define MSCCLPP_DEV_NODES_RING_GATHERED(nnodes_, node_, step_) MSCCLPP_DEV_NODES_BEHIND(nnodes_, (node_) + 1, step_)

/*
 * Bytes of a tile that a set can hold. This is one slot if each node receives the whole tile from all others. If split,
 * it is half of all the set's slots, since a node receives one part from each other node; where a part has less than a
 * unit then, one unit for each node is left for what arrives. For a ring, it is half of all the set's slots, too. With
 * steps, it is as much as lets `places_` parts fit the set, where a tile has `parts_` parts. Over trees, all slots of a
 * block are divided anew (device/kern/allreduce/allreduce_nodes_trees.h).
 */
#define MSCCLPP_DEV_NODES_TREES_WINDOW 8u /* sets, so at most this many tiles are under way */
#define MSCCLPP_DEV_NODES_TREES_PLACES 3u /* of a set: the node's own, and one for each child */
/* The most bytes of a tile over trees: each level of a tree passes a tile on only after all of it has come. */
#define MSCCLPP_DEV_NODES_TREES_TILE ((uint64_t)256 * 1024)
#define MSCCLPP_DEV_NODES_TREES_CAPPED(room_)                                                                          \
    ((room_) < MSCCLPP_DEV_NODES_TREES_TILE ? (room_) : MSCCLPP_DEV_NODES_TREES_TILE)
#define MSCCLPP_DEV_NODES_SET_UNITS(nnodes_, slot_size_) (((uint64_t)(nnodes_) + 1) * ((slot_size_) / MSCCLPP_DEV_UNIT))
#define MSCCLPP_DEV_NODES_SPLIT_ROOM(nnodes_, slot_size_)                                                              \
    ((MSCCLPP_DEV_NODES_SET_UNITS(nnodes_, slot_size_) < 2 * (uint64_t)(nnodes_)                                       \
          ? MSCCLPP_DEV_NODES_SET_UNITS(nnodes_, slot_size_) - (nnodes_)                                               \
          : MSCCLPP_DEV_NODES_SET_UNITS(nnodes_, slot_size_) / (2 * (uint64_t)(nnodes_)) * (nnodes_)) *                \
     MSCCLPP_DEV_UNIT)
#define MSCCLPP_DEV_NODES_RING_ROOM(nnodes_, slot_size_)                                                               \
    (((uint64_t)(nnodes_) + 1) * (slot_size_) / (2 * (uint64_t)MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT)
#define MSCCLPP_DEV_NODES_STEPS_ROOM(nnodes_, slot_size_, parts_, places_)                                             \
    (((uint64_t)(nnodes_) + 1) * (slot_size_) / ((uint64_t)(places_)*MSCCLPP_DEV_UNIT) * (parts_)*MSCCLPP_DEV_UNIT)
#define MSCCLPP_DEV_NODES_TREES_ROOM(nnodes_, slot_size_)                                                              \
    MSCCLPP_DEV_NODES_TREES_CAPPED(                                                                                    \
        (uint64_t)MSCCLPP_DEV_NODES_SETS *((uint64_t)(nnodes_) + 1) * (slot_size_) /                                   \
        ((uint64_t)MSCCLPP_DEV_NODES_TREES_WINDOW * MSCCLPP_DEV_NODES_TREES_PLACES * MSCCLPP_DEV_UNIT) *               \
        MSCCLPP_DEV_UNIT)
#define MSCCLPP_DEV_NODES_ROOM(pattern_, nnodes_, slot_size_, parts_, places_)                                         \
    ((pattern_) == MSCCLPP_DEV_NODES_SPLIT     ? MSCCLPP_DEV_NODES_SPLIT_ROOM(nnodes_, slot_size_)                     \
     : (pattern_) == MSCCLPP_DEV_NODES_RING    ? MSCCLPP_DEV_NODES_RING_ROOM(nnodes_, slot_size_)                      \
     : (pattern_) == MSCCLPP_DEV_NODES_TREES   ? MSCCLPP_DEV_NODES_TREES_ROOM(nnodes_, slot_size_)                     \
     : (pattern_) == MSCCLPP_DEV_NODES_HALVING ? MSCCLPP_DEV_NODES_STEPS_ROOM(nnodes_, slot_size_, parts_, places_)    \
                                               : (slot_size_))

/*
 * Signals that `tiles_` tiles need from node `from_` to node `to_`. In a ring, these come from the predecessor. Each
 * other node adds one signal in each operation, counted with the block for which `first_` is 1. With steps, the list
 * has the number of signals.
 */
#define MSCCLPP_DEV_NODES_SIGNALS(pattern_, nnodes_, to_, from_, tiles_, first_)                                       \
    ((pattern_) == MSCCLPP_DEV_NODES_DIRECT  ? (uint64_t)(tiles_)                                                      \
     : (pattern_) == MSCCLPP_DEV_NODES_SPLIT ? 2 * (uint64_t)(tiles_)                                                  \
     : ((from_) + 1) % (nnodes_) == (to_)    ? 2 * ((uint64_t)(nnodes_)-1) * (tiles_)                                  \
                                             : (uint64_t)(first_))

/*
 * Number of the token that counts a node's signals to a block. The tokens of a block are side by side, because its
 * threads wait for several nodes at once.
 */
#define MSCCLPP_DEV_NODES_TOKEN(nnodes_, block_, node_) ((uint64_t)(block_) * (nnodes_) + (node_))

/*
 * A block's channel to a node. The channels to a node are side by side: a rank writes those of the few nodes that it is
 * connected with, and so touches few pages of a table that grows with the number of nodes.
 */
#define MSCCLPP_DEV_NODES_CHANNEL(nodes_, block_, node_)                                                               \
    (&(nodes_)->channels[(uint64_t)(node_) * (nodes_)->node_channels + (block_)])

/*
 * The most units of a tile for each shard. The limit is a block's part of the bulk area, which holds both operands and
 * results twice, or the room in a set, whichever is smaller.
 */
#define MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_)                                                          \
    ((bulk_size_) / (4 * (uint64_t)MSCCLPP_DEV_UNIT * (nblocks_) * (shards_)))
#define MSCCLPP_DEV_NODES_TILE(bulk_size_, nblocks_, shards_, room_)                                                   \
    (MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_) < (room_) / MSCCLPP_DEV_UNIT                                \
         ? MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_)                                                       \
         : (room_) / MSCCLPP_DEV_UNIT)

/*
 * Units of a tile of which `most_` is the most. A shard that takes several turns of all blocks is divided evenly among
 * them, so that no block waits for others that have one tile more.
 */
#define MSCCLPP_DEV_NODES_TURN_UNITS(nblocks_, most_) ((nblocks_) * (uint64_t)(most_))
#define MSCCLPP_DEV_NODES_TURNS(shard_, nblocks_, most_)                                                               \
    (((shard_) + MSCCLPP_DEV_NODES_TURN_UNITS(nblocks_, most_) - 1) / MSCCLPP_DEV_NODES_TURN_UNITS(nblocks_, most_))
#define MSCCLPP_DEV_NODES_EVEN_TILE(shard_, nblocks_, most_)                                                           \
    ((shard_) <= MSCCLPP_DEV_NODES_TURN_UNITS(nblocks_, most_)                                                         \
         ? (uint64_t)(most_)                                                                                           \
         : ((shard_)-1) / (MSCCLPP_DEV_NODES_TURNS(shard_, nblocks_, most_) * (nblocks_)) + 1)

/*
 * Maximum number of units of a shard in one epoch. The limit is a slot of the exchange area and, if a node has several
 * ranks, also their packet areas. `max_` is the number of ranks of the largest node.
 */
#define MSCCLPP_DEV_NODES_CAPACITY(packet_half_, max_, packet_units_)                                                  \
    ((max_) > 1 && MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, max_) < (packet_units_)                                 \
         ? MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, max_)                                                           \
         : (packet_units_))

/* What the kernels of an owner of a shard keep of sparse calls. Equal on all owners after the same calls. */
typedef struct {
    uint64_t calls; /* number of sparse calls so far */
    uint64_t units; /* units of the places of sparse calls that are in use */
} mscclpp_dev_nodes_sparse_t;

/* The set of packet slots of an epoch with this flag, after `calls_` sparse calls: 0 or 1. */
#define MSCCLPP_DEV_NODES_PACKET_SET(flag_, calls_) ((uint32_t)((uint64_t)(flag_) + (calls_)) & 1)

/*
 * In `common`, rank and nranks count only the ranks of this rank's node. Shard s of a tile belongs to the s-th rank of
 * each node. There are as many shards as the smallest node has ranks; any further ranks on other nodes own nothing.
 */
typedef struct {
    mscclpp_dev_args_t common;
    const mscclpp_dev_port_channel_t *channels; /* device memory; NULL on ranks that own no shard */
    char *exchange;                             /* the exchange area, as kernels see it; NULL where `channels` is */
    uint64_t *exchanged;                /* device memory: number of exchanges of each block; NULL where `channels` is */
    mscclpp_dev_nodes_sparse_t *sparse; /* device memory; NULL where `channels` is */
    uint64_t slot_size;                 /* bytes, a multiple of MSCCLPP_DEV_UNIT; equal on all ranks */
    uint64_t packets_offset;            /* offset of the packet slots in the area, bytes; equal on all ranks */
    uint64_t packet_units;              /* units that a packet slot holds; 0: none; equal on all ranks */
    uint32_t node;                      /* this rank's */
    uint32_t nnodes;
    uint32_t shards;                       /* ranks of the smallest node */
    uint32_t largest_node;                 /* ranks of the largest node */
    uint32_t fanout;                       /* how many other nodes are sent to at a time; at least 1 */
    uint32_t pattern;                      /* mscclpp_dev_nodes_pattern_t; equal on all ranks */
    mscclpp_dev_steps_t doubling, halving; /* for these patterns */
    uint32_t is_mapped; /* not 0: packets for other nodes are stored through `mapped`, else put; may differ by rank */
    uint32_t node_channels;                 /* number of channels to a node: MSCCLPP_DEV_NODES_BLOCKS_OF(nnodes) */
    char *mapped[MSCCLPP_DEV_NODES_MAPPED]; /* other nodes' packet slots, as kernels of this rank see them */
} mscclpp_dev_nodes_args_t;

#endif
