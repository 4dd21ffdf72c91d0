/*
 * The exchange between nodes by a list of steps, with one partner after another: recursive halving and doubling. The
 * list comes from mca/common/algo/schedule/schedule.h, which says who sends which parts of a tile to whom.
 *
 * A set begins with the tile: a node's partial results, then those combined over more and more nodes, and then the
 * results. It is followed by the places of the messages that are combined with what the node has. A message with
 * results arrives in the tile itself, in parts that its receiver has sent to its sender before.
 *
 * The steps of one tile follow one another. Blocks of the grid work on different tiles at the same time.
 *
 * Sets are used in turn as with the other patterns (allreduce_nodes.h). A node that has a tile's results has, through
 * others, what every node gave of that tile. So it has in effect seen signals of all nodes.
 *
 * Each node rounds the data that it forwards to the type of the elements. Types that are combined in a wider type are
 * not exchanged like this.
 */
#ifndef MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_STEPS_H
#define MSCCLPP_DEVICE_KERN_ALLREDUCE_ALLREDUCE_NODES_STEPS_H

#include "device/kern/allreduce/allreduce_nodes_tile.h"
#include "device/lib/port_channel.h"

/*
 * Returns true if the nodes exchange by a list of steps. Hosts never choose steps for 16-bit floats. The second
 * condition lets compilers leave out the code for steps in kernels for such a type alone.
 */
MSCCLPP_DEV bool mscclpp_dev_nodes_in_steps(const mscclpp_dev_nodes_block_t *block)
{
    return block->nodes->pattern == MSCCLPP_DEV_NODES_HALVING && !mscclpp_dev_is_float16(block->dtype);
}

/*
 * Asks for a put of a step's parts to its peer, with a signal, and does not wait for it. Called by one thread. This
 * function and the next one are not inlined, to save registers.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_steps_send(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                const mscclpp_dev_nodes_tile_t *tile, const mscclpp_dev_step_t *step)
{
    const uint64_t first_unit = mscclpp_dev_nodes_part_begin(tile, step->first);
    const uint64_t end_unit = mscclpp_dev_nodes_part_begin(tile, step->first + step->count);

    mscclpp_dev_port_put_with_signal(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, step->peer),
                                     tile->set + step->place * tile->part_units * MSCCLPP_DEV_UNIT,
                                     tile->set + first_unit * MSCCLPP_DEV_UNIT,
                                     (end_unit - first_unit) * MSCCLPP_DEV_UNIT);
}

/*
 * Waits until the message of a receiving step has arrived. Called by one thread. If the wait fails, sets ctx->failed.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_steps_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_args_t *nodes,
                                                 const mscclpp_dev_nodes_tile_t *tile, const mscclpp_dev_step_t *step)
{
    mscclpp_dev_port_wait_ahead(ctx, &nodes->common, MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, step->peer),
                                tile->index * step->total + step->number);
}

/*
 * Combines a message that has arrived with this node's values, and stores the result in the tile. The step's kind tells
 * which of the two comes first in the order of nodes. Called by all threads, each of which combines other units.
 */
MSCCLPP_DEV void mscclpp_dev_steps_combine(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                           const mscclpp_dev_nodes_tile_t *tile, const mscclpp_dev_step_t *step)
{
    const uint64_t first_unit = mscclpp_dev_nodes_part_begin(tile, step->first);
    const uint64_t end_unit = mscclpp_dev_nodes_part_begin(tile, step->first + step->count);
    const char *received = block->nodes->exchange + tile->set + step->place * tile->part_units * MSCCLPP_DEV_UNIT;
    const bool is_received_first = step->kind == MSCCLPP_DEV_STEP_BEFORE;
    mscclpp_dev_acc_t acc;
    uint64_t unit;

    for (unit = first_unit + ctx->tid; unit < end_unit; unit += ctx->nthreads) {
        char *place = block->nodes->exchange + tile->set + unit * MSCCLPP_DEV_UNIT;
        const mscclpp_dev_vec_t own_value = mscclpp_dev_ld_vec(place);
        const mscclpp_dev_vec_t received_value = mscclpp_dev_ld_vec(received + (unit - first_unit) * MSCCLPP_DEV_UNIT);

        mscclpp_dev_acc_set(&acc, block->dtype, is_received_first ? received_value : own_value);
        mscclpp_dev_acc_add(&acc, block->hot, block->dtype, block->op, is_received_first ? own_value : received_value);
        mscclpp_dev_st_vec(place, mscclpp_dev_acc_get(&acc, block->dtype));
    }
}

/*
 * Carries out all steps of a tile, whose partial results must be in place. Afterwards the tile holds the result. Called
 * by all threads. The block synchronises after each receiving step, because the first thread sends data that all
 * threads have combined. If a wait fails, sets ctx->failed in all threads, and skips the steps that follow.
 */
MSCCLPP_DEV void mscclpp_dev_steps_turn(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block,
                                        const mscclpp_dev_nodes_tile_t *tile)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t i;

    for (i = 0; i < nodes->halving.count && !ctx->failed; ++i) {
        const mscclpp_dev_step_t *step = &nodes->halving.step[i];

        if (step->kind == MSCCLPP_DEV_STEP_SEND) {
            if (ctx->tid == 0) {
                mscclpp_dev_steps_send(ctx, nodes, tile, step);
            }
            continue;
        }
        if (ctx->tid == 0) {
            mscclpp_dev_steps_await(ctx, nodes, tile, step);
        }
        ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
        if (step->kind != MSCCLPP_DEV_STEP_STORE && !ctx->failed) {
            mscclpp_dev_steps_combine(ctx, block, tile, step);
        }
        mscclpp_dev_block_sync(ctx);
    }
    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
}

/*
 * Adds this operation's signals to the counts that later operations wait for. A peer's last message in a tile has the
 * number of its messages in the tile, `total`. Called by one thread.
 */
MSCCLPP_DEV void mscclpp_dev_steps_count_signals(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_nodes_block_t *block)
{
    const mscclpp_dev_nodes_args_t *nodes = block->nodes;
    uint32_t i;

    for (i = 0; i < nodes->halving.count; ++i) {
        const mscclpp_dev_step_t *step = &nodes->halving.step[i];

        if (step->kind != MSCCLPP_DEV_STEP_SEND && step->number == step->total) {
            *MSCCLPP_DEV_NODES_CHANNEL(nodes, ctx->block, step->peer)->expected += block->tiles * step->total;
        }
    }
}

#endif
