/* What the all-reduce over several nodes shares with the host: the exchange area and the arguments. */
#ifndef MSCCLPP_DEVICE_TYPES_NODES_H
#define MSCCLPP_DEVICE_TYPES_NODES_H

#include "device/types/launch.h"

/* Blocks that exchange with other nodes at most; each has slots of its own. */
#define MSCCLPP_DEV_NODES_BLOCKS 16u

/* So many sets of slots take turns; device/kern/allreduce/allreduce_nodes.h says why that is enough. */
#define MSCCLPP_DEV_NODES_SETS 5u

/*
 * The exchange area begins with the slots. Behind them lie two sets of slots for packets, in which nothing but packets
 * is ever written; which set is used follows from the flag's parity. See
 * device/kern/allreduce/allreduce_nodes_packets.h.
 */
#define MSCCLPP_DEV_NODES_PACKET_SLOTS(nnodes_) (2 * ((uint64_t)(nnodes_) + 1))

/* A set has one slot to send from and one to receive into for each node, the own one included but unused. */
#define MSCCLPP_DEV_NODES_SLOTS(nnodes_)                                                                               \
    ((uint64_t)MSCCLPP_DEV_NODES_BLOCKS * MSCCLPP_DEV_NODES_SETS * ((uint64_t)(nnodes_) + 1))

/* Number of the slot of a block's set that is sent from; that which node k's partial result arrives in is 1 + k on. */
#define MSCCLPP_DEV_NODES_SLOT(nnodes_, block_, set_)                                                                  \
    (((uint64_t)(block_)*MSCCLPP_DEV_NODES_SETS + (set_)) * ((uint64_t)(nnodes_) + 1))

/* Nodes whose exchange areas kernels can reach by themselves, at most: such nodes are imitated on one host. */
#define MSCCLPP_DEV_NODES_MAPPED 8u

/* Who sends what to whom; device/kern/allreduce/allreduce_nodes.h describes them. */
typedef enum {
    MSCCLPP_DEV_NODES_DIRECT, /* everything to all others, each of which combines all of it */
    MSCCLPP_DEV_NODES_SPLIT,  /* to each other node the part that it combines, and back */
    MSCCLPP_DEV_NODES_RING    /* from each node to the next one */
} mscclpp_dev_nodes_pattern_t;

/* Bytes that a set holds of a tile: a slot, or in a ring half of all its slots. */
#define MSCCLPP_DEV_NODES_RING_ROOM(nnodes_, slot_size_)                                                               \
    (((uint64_t)(nnodes_) + 1) * (slot_size_) / (2 * (uint64_t)MSCCLPP_DEV_UNIT) * MSCCLPP_DEV_UNIT)
#define MSCCLPP_DEV_NODES_ROOM(pattern_, nnodes_, slot_size_)                                                          \
    ((pattern_) == MSCCLPP_DEV_NODES_RING ? MSCCLPP_DEV_NODES_RING_ROOM(nnodes_, slot_size_) : (slot_size_))

/*
 * Signals that `tiles_` tiles take from node `from_` to node `to_`. In a ring those come from the predecessor, and one
 * from each other node in each operation, counted with the `first_` block.
 */
#define MSCCLPP_DEV_NODES_SIGNALS(pattern_, nnodes_, to_, from_, tiles_, first_)                                       \
    ((pattern_) == MSCCLPP_DEV_NODES_DIRECT  ? (uint64_t)(tiles_)                                                      \
     : (pattern_) == MSCCLPP_DEV_NODES_SPLIT ? 2 * (uint64_t)(tiles_)                                                  \
     : ((from_) + 1) % (nnodes_) == (to_)    ? 2 * ((uint64_t)(nnodes_)-1) * (tiles_)                                  \
                                             : (uint64_t)(first_))

/* Tokens and channels of block b and node k have this number; the token is that which node k's signals are added to. */
#define MSCCLPP_DEV_NODES_NUMBER(nnodes_, block_, node_) ((uint64_t)(block_) * (nnodes_) + (node_))

/*
 * Units of a tile for each shard: what a block's part of the bulk area holds twice as operands and as results, or what
 * a set has room for.
 */
#define MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_)                                                          \
    ((bulk_size_) / (4 * (uint64_t)MSCCLPP_DEV_UNIT * (nblocks_) * (shards_)))
#define MSCCLPP_DEV_NODES_TILE(bulk_size_, nblocks_, shards_, room_)                                                   \
    (MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_) < (room_) / MSCCLPP_DEV_UNIT                                \
         ? MSCCLPP_DEV_NODES_ROWS(bulk_size_, nblocks_, shards_)                                                       \
         : (room_) / MSCCLPP_DEV_UNIT)

/*
 * Units of a shard that go into one epoch at most: what a slot of the exchange area holds, and where a node has several
 * ranks what their packet areas hold. `most_` is the number of ranks of the largest node.
 */
#define MSCCLPP_DEV_NODES_CAPACITY(packet_half_, most_, packet_units_)                                                 \
    ((most_) > 1 && MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, most_) < (packet_units_)                               \
         ? MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half_, most_)                                                          \
         : (packet_units_))

/*
 * In `common`, rank and nranks are those of the own node. Shard s of a tile belongs to the s-th rank of each node; the
 * smallest node has `shards` ranks, and those beyond on other nodes own nothing.
 */
typedef struct {
    mscclpp_dev_args_t common;
    const mscclpp_dev_port_channel_t *channels; /* device memory; NULL on ranks that own no shard */
    char *exchange;                             /* the area of slots, as kernels see it; likewise */
    uint64_t *exchanged;                        /* device memory: how often each block has exchanged; likewise */
    uint64_t slot_size;                         /* bytes, a multiple of MSCCLPP_DEV_UNIT; equal on all ranks */
    uint64_t packets_offset;                    /* of the slots for packets in the area, bytes; equal on all ranks */
    uint64_t packet_units;                      /* that such a slot holds; 0: none; equal on all ranks */
    uint32_t node;
    uint32_t nnodes;
    uint32_t shards;
    uint32_t most;    /* ranks of the largest node */
    uint32_t pattern; /* mscclpp_dev_nodes_pattern_t; equal on all ranks */
    uint32_t maps;    /* not 0: packets for other nodes are stored through `mapped`, else put; any rank may do either */
    char *mapped[MSCCLPP_DEV_NODES_MAPPED]; /* the slots for packets of other nodes, as kernels of this rank see them */
} mscclpp_dev_nodes_args_t;

#endif
