/* Calls the host library for a collective other than all-reduce. */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/task/collective.h"

static mscclpp_dev_block_t make_block(const bench_operation_t *operation, size_t first, size_t count)
{
    mscclpp_dev_block_t block = {.offset = first * operation->type->size, .bytes = count * operation->type->size};

    return block;
}

/*
 * Returns the block that this rank sends to `peer`, or an empty one if it sends that rank nothing. A collective that
 * gathers sends the whole operand to each receiver; the others send a different block to each.
 */
static mscclpp_dev_block_t block_to_send(const bench_operation_t *operation, int peer)
{
    const bench_layout_t *layout = operation->layout;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    const bool to_root = BENCH_GATHERS == layout->coll->blocks && layout->coll->has_root;

    if (0 == input.count || (to_root && peer != layout->root)) {
        return make_block(operation, 0, 0);
    }
    if (BENCH_GATHERS == layout->coll->blocks) {
        return make_block(operation, input.first, input.count);
    }
    return make_block(operation, bench_layout_displacement(layout, layout->rank, peer),
                      bench_layout_block_size(layout, layout->rank, peer));
}

/*
 * Returns the block that this rank receives from `peer`, or an empty one if it receives nothing from that rank. In a
 * reduce-scatter this is the result, which is the same for each peer and is stored at the beginning of the buffer.
 */
static mscclpp_dev_block_t block_to_receive(const bench_operation_t *operation, int peer)
{
    const bench_layout_t *layout = operation->layout;
    const bool is_root = layout->rank == layout->root;

    if (BENCH_SCATTERS == layout->coll->blocks) {
        return layout->coll->has_root && peer != layout->root
                   ? make_block(operation, 0, 0)
                   : make_block(operation, 0, bench_layout_block_size(layout, layout->rank, layout->rank));
    }
    return layout->coll->has_root && !is_root
               ? make_block(operation, 0, 0)
               : make_block(operation, bench_layout_displacement(layout, layout->rank, peer),
                            bench_layout_block_size(layout, layout->rank, peer));
}

/* Returns true if MPI's arguments of the collective tell each rank the sizes of all blocks. */
static bool are_sizes_known(const bench_coll_t *coll)
{
    return !coll->has_unequal_blocks || MSCCLPP_COLL_ALLGATHERV == coll->coll ||
           MSCCLPP_COLL_REDUCE_SCATTER == coll->coll;
}

/* Returns the bytes of the largest one of `count` blocks, but at least args->largest_block. */
static uint64_t largest_block(const mscclpp_coll_args_t *args, const mscclpp_dev_block_t *blocks, int count)
{
    uint64_t largest = args->largest_block;

    for (int i = 0; i < count; ++i) {
        largest = blocks[i].bytes > largest ? blocks[i].bytes : largest;
    }
    return largest;
}

/*
 * Sets both buffers of a call, and whether it is in place. A buffer that this rank does not use is NULL, and so is a
 * buffer for which MPI takes MPI_IN_PLACE.
 */
static void set_buffers(const bench_operation_t *operation, mscclpp_coll_args_t *args)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const bool is_root = layout->rank == layout->root;
    const bool to_root = MSCCLPP_COLL_REDUCE == coll->coll || (coll->has_root && BENCH_GATHERS == coll->blocks);
    const bool from_root = coll->has_root && !to_root;

    args->in = from_root && !is_root ? NULL : operation->send;
    args->out = to_root && !is_root ? NULL : operation->recv;
    if (MSCCLPP_COLL_BCAST == coll->coll) {
        args->in = is_root ? operation->recv : NULL;
        args->out = is_root ? NULL : operation->recv;
    } else if (operation->in_place && (is_root || !coll->has_root)) {
        args->in_place = true;
        args->passed_in_place = true;
        if (from_root) {
            args->out = NULL;
        } else {
            args->in = NULL;
        }
    }
}

/*
 * Calls the host library. For unequal blocks, lists the block that this rank sends to each rank, and the one that it
 * receives from each. The lists are freed after the call, which waits for its end. Equal blocks are described by
 * args.count alone: the elements of a block, or its bytes if data are only moved. Returns MSCCLPP_ERR_NO_MEMORY,
 * without a line, if there is no memory for the lists.
 */
mscclpp_status_t bench_call_collective(mscclpp_team_t *team, const bench_operation_t *operation, uint64_t call)
{
    const bench_layout_t *layout = operation->layout;
    const bench_coll_t *coll = layout->coll;
    const size_t count_unit = coll->reduces ? 1 : operation->type->size; /* data that only move are counted in bytes */
    mscclpp_coll_args_t args = {.coll = coll->coll,
                                .varied = coll->has_unequal_blocks,
                                .is_size_known = are_sizes_known(coll),
                                .dtype = coll->reduces ? operation->type->dtype : MSCCLPP_DTYPE_UINT8,
                                .op = coll->reduces ? operation->op->op : MSCCLPP_OP_SUM,
                                .root = layout->root,
                                .call = call};
    mscclpp_dev_block_t *blocks = NULL;
    mscclpp_status_t status;

    set_buffers(operation, &args);
    args.count = (BENCH_WHOLE == coll->blocks ? layout->count : layout->count / (size_t)layout->size) * count_unit;
    if (coll->has_unequal_blocks) {
        /* The blocks that this rank sends to each rank, followed by the blocks that it receives from each rank. */
        blocks = calloc(2 * (size_t)layout->size, sizeof(blocks[0]));
        if (blocks == NULL) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        for (int i = 0; i < layout->size; ++i) {
            blocks[i] = block_to_send(operation, i);
            blocks[layout->size + i] = block_to_receive(operation, i);
        }
        args.send = blocks;
        args.recv = blocks + layout->size;
        /* If all ranks know all sizes, one of the two lists contains the largest block. */
        args.largest_block = largest_block(&args, blocks, 2 * layout->size);
    }
    status = mscclpp_collective(team, &args);
    free(blocks);
    return status;
}
