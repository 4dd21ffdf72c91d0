/*
 * Collectives over several nodes: the bytes that a turn moves, the owners that send them to other nodes for other
 * ranks, and the places where they are stored on the way. nodes.h describes the steps of a turn.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_NODES_TURN_H
#define MSCCLPP_DEVICE_KERN_COLL_NODES_TURN_H

#include "device/kern/coll/blocks.h"
#include "device/lib/nodes_rounds.h"
#include "device/lib/nodes_trees.h"
#include "device/lib/nodes_windows.h"
#include "device/types/coll_nodes.h"

/* The call, as a block of the grid sees it, and the block's progress. */
typedef struct {
    const mscclpp_dev_coll_nodes_args_t *args;
    uint64_t turns;      /* number of turns of this block of the grid */
    uint64_t exchanged;  /* exchanges of this block in earlier calls */
    uint64_t barriers;   /* barriers that the block has passed */
    uint64_t set_rows;   /* number of rows in a set of the scratch */
    uint64_t relay_row;  /* number of the first row in which an owner gets what it sends for other ranks */
    uint64_t node_bytes; /* the most bytes that a set of the exchange area holds for one other node */
    uint32_t windows;    /* number of windows of a pass (lib/nodes_windows.h); 0: the exchange is not in windows */
    uint64_t *flushes;   /* of this thread, in windows: by set and place, the flush of the last put from there */
    uint32_t index;      /* this rank's number in its node */
    int dtype;
    int op;
    bool sends_many;  /* a sender has a separate block for each receiver; else one block for all of them */
    bool merges;      /* nodes send the combined blocks of their ranks */
    bool any_relayed; /* in some turn, an owner of this node sends blocks of other ranks */
    bool is_owner;    /* this rank owns a shard, so it exchanges data with other nodes */
} mscclpp_dev_coll_nodes_state_t;

/* The data that a turn moves: one tile of each block of data. */
typedef struct {
    uint64_t index; /* number of the turn, from 0 */
    uint64_t begin; /* where the tile begins in each block of data, offset in bytes */
    uint64_t set;   /* where its set of slots begins in the exchange area, offset in bytes */
    uint32_t owner; /* the owner that sends in this turn, for patterns in which only one does; its number in its node */
    uint32_t tree;  /* the tree that carries the turn, 0 or 1 */
    uint32_t first_distance; /* the turn is for the nodes from this distance on: those of a window, else all nodes */
    uint32_t distances_end;  /* one more than the last distance */
} mscclpp_dev_coll_nodes_turn_t;

/*
 * Describes turn `index` of this block of the grid. Exchanges are counted over all calls, and the sets of slots are
 * used in this order. Tiles, owners, and the sets of an exchange in windows are counted within the call.
 */
MSCCLPP_DEV mscclpp_dev_coll_nodes_turn_t mscclpp_dev_coll_nodes_turn(const mscclpp_dev_ctx_t *ctx,
                                                                      const mscclpp_dev_coll_nodes_state_t *state,
                                                                      uint64_t index)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const uint32_t set = (uint32_t)((state->exchanged + index) % MSCCLPP_DEV_NODES_SETS);
    mscclpp_dev_coll_nodes_turn_t turn;

    turn.index = index;
    turn.begin = (ctx->block + index * ctx->nblocks) * state->args->tile;
    turn.set = MSCCLPP_DEV_NODES_SLOT(nodes->nnodes, ctx->block, set) * nodes->slot_size;
    turn.first_distance = 0;
    turn.distances_end = nodes->nnodes;
    if (state->windows > 0) {
        turn.begin = (ctx->block + index / state->windows * ctx->nblocks) * state->args->tile;
        turn.set = MSCCLPP_DEV_COLL_NODES_WINDOW_PLACES(ctx->block) * state->node_bytes +
                   index % MSCCLPP_DEV_COLL_NODES_WINDOW_SETS * 2 * MSCCLPP_DEV_COLL_NODES_WINDOW * state->node_bytes;
        turn.first_distance = (uint32_t)(index % state->windows) * MSCCLPP_DEV_COLL_NODES_WINDOW;
        turn.distances_end = nodes->nnodes - turn.first_distance < MSCCLPP_DEV_COLL_NODES_WINDOW
                                 ? nodes->nnodes
                                 : turn.first_distance + MSCCLPP_DEV_COLL_NODES_WINDOW;
    }
    turn.owner = (uint32_t)((ctx->block + index) % nodes->shards);
    turn.tree = ctx->block % 2;
    return turn;
}

/*
 * Fills in the fields that are equal on all blocks of the grid, except `node_bytes` and `any_relayed`. The caller sets
 * these two if it needs them, and the counters `turns`, `exchanged` and `barriers`. For tiles, it replaces the numbers
 * of rows.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_begin(mscclpp_dev_coll_nodes_state_t *state,
                                              const mscclpp_dev_coll_nodes_args_t *args, int dtype, int op)
{
    const mscclpp_dev_nodes_args_t *nodes = &args->nodes;

    state->args = args;
    state->index = nodes->common.rank;
    state->sends_many = MSCCLPP_DEV_COLL_SENDS_MANY(args->pattern);
    state->merges = MSCCLPP_DEV_COLL_MERGES(args->pattern);
    state->dtype = dtype;
    state->op = op;
    state->relay_row = MSCCLPP_DEV_COLL_NODES_PACKET_RECEIVE_ROWS(args->pattern, args->radix != 0, args->nranks,
                                                                  nodes->nnodes, nodes->largest_node);
    state->windows = 0;
    state->flushes = NULL;
    state->set_rows = state->relay_row + MSCCLPP_DEV_COLL_NODES_RELAY_ROWS(args->pattern, args->nranks, nodes->nnodes,
                                                                           nodes->largest_node, nodes->shards);
    state->is_owner = nodes->common.rank < nodes->shards;
}

/* Returns true if the nodes exchange data in a ring. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_in_ring(const mscclpp_dev_coll_nodes_state_t *state)
{
    return state->args->nodes.pattern == MSCCLPP_DEV_NODES_RING;
}

/* Returns true if the nodes exchange data over two trees. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_in_trees(const mscclpp_dev_coll_nodes_state_t *state)
{
    return state->args->nodes.pattern == MSCCLPP_DEV_NODES_TREES;
}

/* Returns true if the nodes exchange data by halving or doubling. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_in_halving(const mscclpp_dev_coll_nodes_state_t *state)
{
    return state->args->nodes.pattern == MSCCLPP_DEV_NODES_HALVING;
}

/*
 * Returns this node's place in the tree that this block uses. Even blocks use the first tree and odd blocks the second,
 * so that each tree carries half of the data. The tree's root is the node of the call's root rank.
 */
MSCCLPP_DEV mscclpp_dev_tree_place_t mscclpp_dev_coll_nodes_tree_place(const mscclpp_dev_ctx_t *ctx,
                                                                       const mscclpp_dev_coll_nodes_state_t *state)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_tree_place_t place;

    place.nnodes = args->nodes.nnodes;
    place.node = args->nodes.node;
    place.root = args->place[args->root].node;
    place.tree = ctx->block % 2;
    return place;
}

/* Returns the place of any node in the tree that the turn uses. */
MSCCLPP_DEV mscclpp_dev_tree_place_t mscclpp_dev_coll_nodes_tree_place_of(const mscclpp_dev_coll_nodes_state_t *state,
                                                                          const mscclpp_dev_coll_nodes_turn_t *turn,
                                                                          uint32_t node)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_tree_place_t place;

    place.nnodes = args->nodes.nnodes;
    place.node = node;
    place.root = args->place[args->root].node;
    place.tree = turn->tree;
    return place;
}

/* Returns the exchange in windows, as this block sees it. Its `passes` is 0 if the exchange is not in windows. */
MSCCLPP_DEV mscclpp_dev_windows_t mscclpp_dev_coll_nodes_windows(const mscclpp_dev_coll_nodes_state_t *state)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    mscclpp_dev_windows_t windows;

    windows.nnodes = args->nodes.nnodes;
    windows.node = args->nodes.node;
    windows.sender = MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) ? args->place[args->root].node : MSCCLPP_DEV_TREES_NONE;
    windows.passes = state->windows > 0 ? state->turns / state->windows : 0;
    return windows;
}

/* ---- Which bytes ---- */

/* Returns true if, by the pattern, `sender` has a block for `receiver`. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_sends(const mscclpp_dev_coll_nodes_args_t *args, uint32_t sender,
                                              uint32_t receiver)
{
    return MSCCLPP_DEV_COLL_SENDS(args->pattern, args->root, sender, receiver);
}

/* Returns the part of a block that the turn moves. The part has 0 bytes if the block ends before the turn's tile. */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_nodes_part(const mscclpp_dev_coll_nodes_args_t *args,
                                                            const mscclpp_dev_coll_nodes_turn_t *turn,
                                                            mscclpp_dev_block_t block)
{
    const uint64_t bytes_left = block.bytes > turn->begin ? block.bytes - turn->begin : 0;

    block.offset += turn->begin;
    block.bytes = bytes_left < args->tile ? bytes_left : args->tile;
    return block;
}

/* Returns this rank's block for `peer`, as a place in the input. The size is 0 if there is no such block. */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_nodes_send_block(const mscclpp_dev_coll_nodes_args_t *args,
                                                                  uint32_t peer)
{
    mscclpp_dev_block_t block;

    if (args->varied != 0) {
        return args->send[peer];
    }
    block.offset = MSCCLPP_DEV_COLL_SENDS_MANY(args->pattern) ? peer * args->stride : 0;
    block.bytes = mscclpp_dev_coll_nodes_sends(args, args->rank, peer) ? args->nodes.common.bytes : 0;
    return block;
}

/* Returns the place in the output for the block of `peer`. The size is 0 if `peer` has no block for this rank. */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_nodes_recv_block(const mscclpp_dev_coll_nodes_args_t *args,
                                                                  uint32_t peer)
{
    mscclpp_dev_block_t block;

    if (args->varied != 0) {
        return args->recv[peer];
    }
    block.offset = MSCCLPP_DEV_COLL_RECVS_MANY(args->pattern) ? peer * args->stride : 0;
    block.bytes = mscclpp_dev_coll_nodes_sends(args, peer, args->rank) ? args->nodes.common.bytes : 0;
    return block;
}

/* Returns the size of this rank's result, for patterns that combine. 0: this rank gets no result. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_result_bytes(const mscclpp_dev_coll_nodes_args_t *args)
{
    if (args->varied != 0) {
        return args->recv[args->rank].bytes;
    }
    if (args->pattern == MSCCLPP_DEV_EXSCAN) {
        return args->rank == 0 ? 0 : args->nodes.common.bytes;
    }
    return mscclpp_dev_coll_nodes_sends(args, args->rank, args->rank) ? args->nodes.common.bytes : 0;
}

/*
 * Returns the block for all receivers, as a place in the input, for patterns with one such block. The size is 0 if no
 * rank of another node receives the block.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_nodes_common_block(const mscclpp_dev_coll_nodes_args_t *args)
{
    const bool may_send = !MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) || args->rank == args->root;
    mscclpp_dev_block_t block = {0, 0};
    uint32_t peer;

    for (peer = 0; peer < args->nranks && block.bytes == 0 && may_send; ++peer) {
        if (args->place[peer].node != args->nodes.node) {
            block = mscclpp_dev_coll_nodes_send_block(args, peer);
        }
    }
    return block;
}

/* Returns true if, by the pattern, `sender` has a block for at least one rank of the node. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_reaches(const mscclpp_dev_coll_nodes_args_t *args, uint32_t sender,
                                                uint32_t node)
{
    bool is_found = false;
    uint32_t i;

    for (i = args->begin[node]; i < args->begin[node + 1] && !is_found; ++i) {
        is_found = mscclpp_dev_coll_nodes_sends(args, sender, args->members[i]);
    }
    return is_found;
}

/* ---- Who sends for whom ---- */

/* Returns the owner that sends the blocks of `sender` to other nodes, by its number within its node. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_owner_of(const mscclpp_dev_coll_nodes_args_t *args,
                                                     const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender)
{
    return MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) ? turn->owner : args->place[sender].index % args->nodes.shards;
}

/*
 * Returns the owner that merges and sends blocks for `receiver`, and receives partial results of other nodes for it.
 * The result is the owner's number within a node.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_merger_of(const mscclpp_dev_coll_nodes_args_t *args,
                                                      const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t receiver)
{
    return args->pattern == MSCCLPP_DEV_REDUCE ? turn->owner : args->place[receiver].index % args->nodes.shards;
}

/* Returns true if owner `owner` of a node sends its node's partial result for `receiver` to node `to`. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_merges_for(const mscclpp_dev_coll_nodes_args_t *args,
                                                   const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t owner,
                                                   uint32_t receiver, uint32_t to)
{
    return args->place[receiver].node == to && (args->pattern != MSCCLPP_DEV_REDUCE || receiver == args->root) &&
           mscclpp_dev_coll_nodes_merger_of(args, turn, receiver) == owner;
}

/* Returns true if owner `owner` of node `node` sends the blocks of `sender` in this turn. */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_sends_for(const mscclpp_dev_coll_nodes_args_t *args,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender,
                                                  uint32_t node, uint32_t owner)
{
    return args->place[sender].node == node && (!MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) || sender == args->root) &&
           mscclpp_dev_coll_nodes_owner_of(args, turn, sender) == owner;
}

/*
 * Returns true if, in some turn, an owner of this node sends data of another rank. Equal on all ranks of the node,
 * which meet in each turn if the result is true.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_any_relayed(const mscclpp_dev_coll_nodes_args_t *args)
{
    const bool root_is_here = args->place[args->root].node == args->nodes.node;

    /* On the root's node, all ranks give the root itself their operands. */
    if (args->pattern == MSCCLPP_DEV_REDUCE) {
        return args->nodes.common.nranks > 1 && !root_is_here;
    }
    if (args->pattern == MSCCLPP_DEV_REDUCE_SCATTER) {
        return args->nodes.common.nranks > 1;
    }
    /* The owners take turns, so only a root that is the only owner always sends its own blocks. */
    if (MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern)) {
        return root_is_here && (args->nodes.shards > 1 || args->place[args->root].index != 0);
    }
    /* In other patterns all ranks have blocks to send, and an owner sends the blocks of ranks that own no shard. */
    return args->nodes.common.nranks > args->nodes.shards;
}

/*
 * Returns row number `row` of the turn's set in the scratch of rank `index` of this node. The data follow the row's
 * first unit, which may hold their size.
 */
MSCCLPP_DEV char *mscclpp_dev_coll_nodes_row(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_nodes_state_t *state,
                                             const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t index, uint64_t row)
{
    const mscclpp_dev_args_t *common = &state->args->nodes.common;
    const uint32_t set =
        ctx->block * MSCCLPP_DEV_COLL_NODES_SETS + (uint32_t)(turn->index % MSCCLPP_DEV_COLL_NODES_SETS);
    const uint64_t number = set * state->set_rows + row;

    return common->scratch[index] + common->bulk_offset + number * (state->args->tile + MSCCLPP_DEV_UNIT);
}

/* Returns the number of the row of rank `rank` in an exchange in windows. Its node has place `place` in the window. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_window_row(const mscclpp_dev_coll_nodes_state_t *state, uint32_t place,
                                                       uint32_t rank)
{
    return (uint64_t)place * state->args->nodes.largest_node + state->args->place[rank].index;
}

/*
 * Returns the number of the row in which a rank gets the block of `sender`, or the partial result of the node whose
 * first rank is `sender`. In a reduce, the rows of partial results follow the rows of the node's own operands.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_receive_row(const mscclpp_dev_coll_nodes_state_t *state,
                                                        const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    uint32_t node;

    if (state->windows > 0) {
        return mscclpp_dev_coll_nodes_window_row(
            state,
            MSCCLPP_DEV_NODES_BEHIND(args->nodes.nnodes, args->nodes.node, args->place[sender].node) -
                turn->first_distance,
            sender);
    }
    if (args->pattern != MSCCLPP_DEV_REDUCE) {
        return args->pattern == MSCCLPP_DEV_BCAST ? 0 : sender;
    }
    node = args->place[sender].node;
    if (node == args->nodes.node) {
        return args->place[sender].index;
    }
    if (mscclpp_dev_coll_nodes_in_trees(state)) {
        const mscclpp_dev_tree_place_t child = mscclpp_dev_coll_nodes_tree_place_of(state, turn, node);

        return args->nodes.largest_node + mscclpp_dev_trees_child_index(&child);
    }
    return args->nodes.largest_node + node;
}

/*
 * Returns the number of the row in which an owner receives the block of `sender` for `receiver`. These rows follow the
 * rows of the blocks for the owner itself, except in a reduce by tiles, where an owner has only one of the two.
 * `receiver` matters only if a sender has a separate block for each receiver.
 *
 * If all ranks have blocks that are not merged, `sender` must not be an owner: an owner sends its own blocks from the
 * input, and has no row. So the sender's number among the owner's clients, counted from 0, is its number in the node
 * divided by the number of shards, minus 1.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_relay_row(const mscclpp_dev_coll_nodes_state_t *state, uint32_t sender,
                                                      uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t clients_per_owner =
        MSCCLPP_DEV_COLL_NODES_RANKS_PER_OWNER(args->nodes.largest_node, args->nodes.shards);
    uint64_t client;

    if (state->merges) {
        client = state->sends_many
                     ? args->place[receiver].node * clients_per_owner + args->place[receiver].index / args->nodes.shards
                     : 0;
        return state->relay_row + client * args->nodes.largest_node + args->place[sender].index;
    }
    client = MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) ? 0 : args->place[sender].index / args->nodes.shards - 1;
    return state->relay_row + (state->sends_many ? client * args->nranks + receiver : client);
}

/*
 * Returns the row of mscclpp_dev_coll_nodes_relay_row for tiles. In windows, there are rows only for the window's
 * receivers.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_tile_relay_row(const mscclpp_dev_coll_nodes_state_t *state,
                                                           const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t sender,
                                                           uint32_t receiver)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    uint32_t place, client;

    if (state->windows == 0) {
        return mscclpp_dev_coll_nodes_relay_row(state, sender, receiver);
    }
    place = MSCCLPP_DEV_NODES_BEHIND(args->nodes.nnodes, args->place[receiver].node, args->nodes.node) -
            turn->first_distance;
    client = MSCCLPP_DEV_COLL_ONE_SENDS(args->pattern) ? 0 : args->place[sender].index / args->nodes.shards - 1;
    return state->relay_row + client * MSCCLPP_DEV_COLL_NODES_WINDOW_ROWS(args->nodes.largest_node) +
           mscclpp_dev_coll_nodes_window_row(state, place, receiver);
}

/*
 * Returns the number of blocks that owner `owner` of node `from` sends to node `to` in this turn, including empty
 * blocks.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_count_blocks(const mscclpp_dev_coll_nodes_state_t *state,
                                                         const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t from,
                                                         uint32_t owner, uint32_t to)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint32_t node = state->merges ? to : from;
    uint32_t count = 0, i;

    for (i = args->begin[node]; i < args->begin[node + 1]; ++i) {
        count += state->merges ? mscclpp_dev_coll_nodes_merges_for(args, turn, owner, args->members[i], to)
                               : mscclpp_dev_coll_nodes_sends_for(args, turn, args->members[i], from, owner);
    }
    return state->sends_many && !state->merges ? count * (args->begin[to + 1] - args->begin[to]) : count;
}

/*
 * Returns true if owner `owner` of node `from` may have data for node `to` in this turn. Otherwise it sends that node
 * only a signal or an empty packet. Sender and receiver compute the same result, so the receiver knows whether to
 * expect data.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_nodes_has_data(const mscclpp_dev_coll_nodes_state_t *state,
                                                 const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t from,
                                                 uint32_t owner, uint32_t to)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    bool is_found = state->merges && mscclpp_dev_coll_nodes_count_blocks(state, turn, from, owner, to) > 0;
    uint32_t i;

    for (i = args->begin[from]; i < args->begin[from + 1] && !is_found && !state->merges; ++i) {
        is_found = mscclpp_dev_coll_nodes_sends_for(args, turn, args->members[i], from, owner) &&
                   mscclpp_dev_coll_nodes_reaches(args, args->members[i], to);
    }
    return is_found;
}

/* Returns a size, rounded up to whole units. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_padded(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT;
}

/*
 * Returns the distance from one place of a set to the next in bytes, for halving or doubling. A place has room for the
 * data that any owner has for any node in this turn.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_pitch(const mscclpp_dev_coll_nodes_state_t *state,
                                                  const mscclpp_dev_coll_nodes_turn_t *turn)
{
    const mscclpp_dev_coll_nodes_args_t *args = state->args;
    const uint64_t blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(args->pattern, args->nodes.largest_node, args->nodes.shards);
    const uint64_t bytes_left = args->largest_block - turn->begin;

    return MSCCLPP_DEV_COLL_NODES_HEAD(blocks) +
           blocks * mscclpp_dev_coll_nodes_padded(bytes_left < args->tile ? bytes_left : args->tile);
}

/*
 * Returns the offset, in the exchange area, of the data that this node sends to node `to_node`. In windows, the data
 * for a window's nodes lie in the order of the nodes' distance from this node. By halving, the data for all nodes lie
 * in this order, beginning with this node's own data (nodes_halving.h). Otherwise they lie in the order of the nodes'
 * numbers. If all nodes get the same data, which is never so in windows, `to_node` does not matter.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_outgoing_offset(const mscclpp_dev_coll_nodes_state_t *state,
                                                            const mscclpp_dev_coll_nodes_turn_t *turn, uint32_t to_node)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;

    if (mscclpp_dev_coll_nodes_in_halving(state)) {
        const uint32_t position = state->sends_many ? MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, to_node, nodes->node) : 0;

        return turn->set + position * mscclpp_dev_coll_nodes_pitch(state, turn);
    }
    if (state->windows > 0) {
        return turn->set + (MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, to_node, nodes->node) - turn->first_distance) *
                               state->node_bytes;
    }
    return turn->set + (state->sends_many ? to_node * state->node_bytes : 0);
}

/*
 * Returns the place at which data from a node arrive, as an offset in the exchange area. By halving, the combined data
 * of all other nodes arrive at position 0. Over trees, a set is divided in another way: a broadcast arrives at its
 * beginning, and the partial results of a child behind the place of this node's results. In windows, the places to
 * receive at follow the places to send from, in the order of distances.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_incoming_offset(const mscclpp_dev_coll_nodes_state_t *state,
                                                            const mscclpp_dev_coll_nodes_turn_t *turn,
                                                            uint32_t from_node)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;

    if (mscclpp_dev_coll_nodes_in_halving(state)) {
        const uint32_t position = state->merges ? 0 : MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, from_node);

        return turn->set + position * mscclpp_dev_coll_nodes_pitch(state, turn);
    }
    if (state->windows > 0) {
        return turn->set + (MSCCLPP_DEV_COLL_NODES_WINDOW +
                            MSCCLPP_DEV_NODES_BEHIND(nodes->nnodes, nodes->node, from_node) - turn->first_distance) *
                               state->node_bytes;
    }
    if (mscclpp_dev_coll_nodes_in_trees(state)) {
        const mscclpp_dev_tree_place_t child = mscclpp_dev_coll_nodes_tree_place_of(state, turn, from_node);

        return turn->set + (state->merges ? 1 + mscclpp_dev_trees_child_index(&child) : 0) * state->node_bytes;
    }
    return turn->set + ((state->sends_many ? state->args->nodes.nnodes : 1) + (uint64_t)from_node) * state->node_bytes;
}

/*
 * Returns the number of bytes that the owner with this rank's number sends from node `from` to node `to`. The data are
 * at `slot`, an offset in this rank's exchange area. They begin with the sizes of the blocks, which must have been
 * stored or have arrived there. Returns 0 if `to` needs no data of this turn, because the slot may then still hold data
 * of an earlier turn.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_nodes_slot_bytes(const mscclpp_dev_coll_nodes_state_t *state,
                                                       const mscclpp_dev_coll_nodes_turn_t *turn, uint64_t slot,
                                                       uint32_t from, uint32_t to)
{
    const uint32_t count = mscclpp_dev_coll_nodes_count_blocks(state, turn, from, state->index, to);
    const uint32_t *sizes = (const uint32_t *)(state->args->nodes.exchange + slot);
    const bool has_data = mscclpp_dev_coll_nodes_has_data(state, turn, from, state->index, to);
    uint64_t bytes = MSCCLPP_DEV_COLL_NODES_HEAD(count);
    uint32_t i;

    for (i = 0; i < count && has_data; ++i) {
        bytes += mscclpp_dev_coll_nodes_padded(sizes[i]);
    }
    return has_data ? bytes : 0;
}

/* Returns the first rank of a node. In the receiver's scratch, the row of this rank takes the node's partial result. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_nodes_first_rank(const mscclpp_dev_coll_nodes_args_t *args, uint32_t node)
{
    return args->members[args->begin[node]];
}

/* Copies this rank's own block to the output, unless it is already there. Called by all threads of the grid. */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_copy_own(const mscclpp_dev_ctx_t *ctx,
                                                 const mscclpp_dev_coll_nodes_args_t *args)
{
    const mscclpp_dev_block_t from = mscclpp_dev_coll_nodes_send_block(args, args->rank);
    const mscclpp_dev_block_t to = mscclpp_dev_coll_nodes_recv_block(args, args->rank);

    if (args->in_place == 0 && !MSCCLPP_DEV_COMBINES(args->pattern)) {
        mscclpp_dev_coll_copy((char *)args->nodes.common.out + to.offset,
                              (const char *)args->nodes.common.in + from.offset, to.bytes,
                              (uint64_t)ctx->block * ctx->nthreads + ctx->tid, (uint64_t)ctx->nblocks * ctx->nthreads);
    }
}

/*
 * Adds this operation's exchanges to the counts with which later operations begin: the number of the block's exchanges,
 * and the number of signals expected from each other node. Called by one thread of an owner, after all exchanges, and
 * also after a failure.
 */
MSCCLPP_DEV void mscclpp_dev_coll_nodes_count_exchanges(const mscclpp_dev_ctx_t *ctx,
                                                        const mscclpp_dev_coll_nodes_state_t *state)
{
    const mscclpp_dev_nodes_args_t *nodes = &state->args->nodes;
    const mscclpp_dev_tree_place_t place = mscclpp_dev_coll_nodes_tree_place(ctx, state);
    const mscclpp_dev_windows_t windows = mscclpp_dev_coll_nodes_windows(state);
    uint32_t node;

    nodes->exchanged[ctx->block] = state->exchanged + state->turns;
    for (node = 0; node < nodes->nnodes; ++node) {
        const uint64_t signals =
            mscclpp_dev_coll_nodes_in_trees(state) ? mscclpp_dev_trees_count_signals(&place, node, state->turns)
            : state->windows > 0
                ? mscclpp_dev_windows_count_signals(&windows, node)
                : state->turns * MSCCLPP_DEV_COLL_NODES_SIGNALS(nodes->pattern, nodes->nnodes, nodes->node, node);

        if (signals > 0) {
            *MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, node)->expected += signals;
        }
    }
}

#endif
