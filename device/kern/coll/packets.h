/*
 * Small blocks as packets (lib/packet.h), in one epoch. Each rank stores its block for a peer into its slot in the
 * peer's scratch. The peer moves the block to its place or combines it with others. This takes one step of latency.
 *
 * A rank that has no block for a peer sends an empty packet in place of the block's first unit. So every kernel
 * receives a packet from every peer, as lib/packet.h requires: a rank that has ended kernel k + 1 knows that all peers
 * have ended kernel k. Without empty packets, a rank could get two kernels ahead of a peer with which it exchanges
 * nothing. Kernel k + 2, of another pattern, could then overwrite packets of kernel k in the same half while that peer
 * still reads them.
 *
 * The slots are those of the one-shot all-reduce, so kernels of both kinds take turns in the same memory.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_PACKETS_H
#define MSCCLPP_DEVICE_KERN_COLL_PACKETS_H

#include "device/lib/barrier.h"
#include "device/types/hot.h"
#include "device/kern/coll/blocks.h"
#include "device/lib/packet.h"
#include "device/lib/reduce.h"

/*
 * The number of operands that a thread loads before it waits for the first operand. Lingering kernels have registers
 * for fewer operands. Further operands would lie in local memory, which costs a small call more than a second batch.
 */
#define MSCCLPP_DEV_COLL_PACKET_BATCH 8
#define MSCCLPP_DEV_COLL_LINGER_BATCH 4

/* A call as one thread sees it. The threads of the grid form rows: each row works on one block of data at a time. */
typedef struct {
    const mscclpp_dev_coll_args_t *coll;
    const mscclpp_dev_blocks_args_t *blocks; /* NULL: all blocks have the same size */
    uint64_t half_gap;                       /* bytes from the first half of a unit's packets to the second half */
    uint64_t slots;       /* where the slots that this epoch uses begin in a scratch, offset in bytes */
    uint32_t flag;        /* the flag in the packets */
    uint32_t row_threads; /* number of threads in a row */
    uint32_t lane;        /* this thread's index in its row */
    uint32_t rows;        /* number of rows */
    uint32_t row;         /* index of this thread's row; the number of ranks if it is in none */
    bool own_uses_slot;   /* this rank's own block, too, goes through a slot: its own */
} mscclpp_dev_coll_packets_t;

/* Returns the place where the receiver finds one unit of the sender's block. */
MSCCLPP_DEV char *mscclpp_dev_coll_slot(const mscclpp_dev_coll_packets_t *packets, uint32_t receiver, uint32_t sender,
                                        uint32_t unit)
{
    return packets->coll->common.scratch[receiver] + packets->slots + sender * 2 * packets->half_gap +
           (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP;
}

/*
 * Sets in *packets which units of the blocks this thread handles; reads nothing but arguments. A row has as many
 * threads as the largest block has units, rounded up to whole warps, but at most as many as the grid. If the output may
 * overwrite the input, the whole grid is one row. Threads that are left over when the grid is divided into rows neither
 * send nor move blocks.
 */
MSCCLPP_DEV void mscclpp_dev_coll_packets_divide(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_packets_t *packets,
                                                 const mscclpp_dev_coll_args_t *coll,
                                                 const mscclpp_dev_blocks_args_t *blocks)
{
    const mscclpp_dev_args_t *args = &coll->common;
    const uint32_t threads = ctx->nblocks * ctx->nthreads, thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t largest_bytes =
        blocks == NULL ? args->bytes
        : blocks->varied == MSCCLPP_DEV_UNSIZED && blocks->largest_block > blocks->packets_max
            ? blocks->packets_max /* larger blocks do not go as packets */
            : blocks->largest_block;
    /* Limited before it is narrowed: this rank's own block may have more units than 32 bits can count. */
    const uint64_t largest_units = mscclpp_dev_units(largest_bytes);
    const uint32_t max_units = largest_units < threads ? (uint32_t)largest_units : threads;
    const uint32_t grain = MSCCLPP_DEV_WARP; /* whole warps, so that all threads of a warp take the same branches */
    /*
     * In a scan, one thread handles a unit for all peers. If the scan is in place, this thread reads the unit for all
     * peers before it writes the unit. The same holds for the other patterns whose output may overwrite their input.
     */
    const bool may_overwrite_input =
        coll->pattern == MSCCLPP_DEV_SCAN || coll->pattern == MSCCLPP_DEV_EXSCAN ||
        (coll->in_place != 0 && (coll->pattern == MSCCLPP_DEV_ALLTOALL || coll->pattern == MSCCLPP_DEV_REDUCE_SCATTER));
    const uint32_t wanted_threads = may_overwrite_input ? threads
                                    : max_units == 0    ? grain
                                                        : (max_units + grain - 1) / grain * grain;

    packets->coll = coll;
    packets->blocks = blocks;
    /*
     * In this case the result may overlap any part of the input, so the kernel writes it only after all of the input
     * has been sent.
     */
    packets->own_uses_slot = blocks != NULL && coll->in_place != 0 && coll->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    packets->half_gap = (uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP;
    packets->row_threads = wanted_threads < threads ? wanted_threads : threads;
    packets->rows = threads / packets->row_threads;
    packets->lane = thread % packets->row_threads;
    packets->row = thread / packets->row_threads < packets->rows ? thread / packets->row_threads : args->nranks;
}

/*
 * Begins a call, for whose units mscclpp_dev_coll_packets_divide has been called: waits for the kernel in front in the
 * stream, enters the operation, and sets the flag and the slots. Returns the number of the team's earlier operations.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_packets_begin(mscclpp_dev_ctx_t *ctx, mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    uint64_t launches;

    mscclpp_dev_await_stream(ctx);
    launches = mscclpp_dev_last_launch(ctx, args);
    mscclpp_dev_enter(ctx, args);
    packets->flag = mscclpp_dev_last_epoch(ctx, args) + 1;
    packets->slots = MSCCLPP_DEV_PACKET_OFFSET + (packets->flag & 1) * args->packet_half;
    return launches;
}

/* Sends this thread's units to all peers, and the empty packets of its row. After a failure, sends nothing. */
MSCCLPP_DEV void mscclpp_dev_coll_packets_send(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;
    uint32_t i, unit;

    for (i = (packets->own_uses_slot ? 0 : 1) + packets->row; i < args->nranks && !ctx->failed; i += packets->rows) {
        const uint32_t peer = mscclpp_dev_coll_next(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_send_block(packets->coll, packets->blocks, peer);
        const uint32_t units = (uint32_t)mscclpp_dev_units(block.bytes);

        if (units == 0 && packets->lane == 0) {
            mscclpp_dev_put_unit(mscclpp_dev_coll_slot(packets, peer, args->rank, 0), packets->half_gap,
                                 mscclpp_dev_vec_zero(), packets->flag, MSCCLPP_DEV_LL16);
        }
        for (unit = packets->lane; unit < units; unit += packets->row_threads) {
            mscclpp_dev_put_unit(mscclpp_dev_coll_slot(packets, peer, args->rank, unit), packets->half_gap,
                                 mscclpp_dev_ld_unit((const char *)args->in + block.offset, unit, block.bytes),
                                 packets->flag, MSCCLPP_DEV_LL16);
        }
    }
}

/*
 * Waits until all threads of the grid have sent their units. Called by all threads of the grid, whose blocks must all
 * be on the device at once. If a thread gives up, sets ctx->failed in all threads of its block.
 */
MSCCLPP_DEV void mscclpp_dev_coll_packets_meet(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    if (ctx->nblocks > 1) {
        mscclpp_dev_gate(ctx, args);
    } else {
        mscclpp_dev_block_sync(ctx);
    }
}

/*
 * Waits for one unit of a peer's block, and reads it into *value. If the wait fails, sets ctx->failed, and *value is
 * undefined.
 */
MSCCLPP_DEV void mscclpp_dev_coll_packets_get(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_packets_t *packets,
                                              uint32_t peer, uint32_t unit, mscclpp_dev_vec_t *value)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;

    mscclpp_dev_get_unit(ctx, args, mscclpp_dev_coll_slot(packets, args->rank, peer, unit), packets->half_gap, value,
                         packets->flag, MSCCLPP_DEV_LL16, peer);
}

/*
 * Runs the kernel for patterns that move blocks. `blocks` is NULL if all blocks have the same size. After a failure,
 * sends no more blocks to peers, and stores no more blocks from peers. Copies this rank's own block even after a
 * failure.
 */
MSCCLPP_DEV void mscclpp_dev_coll_move_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_args_t *coll,
                                               const mscclpp_dev_blocks_args_t *blocks)
{
    const mscclpp_dev_args_t *args = &coll->common;
    mscclpp_dev_coll_packets_t packets;
    mscclpp_dev_vec_t value;
    uint64_t launches;
    uint32_t i, unit;

    mscclpp_dev_coll_packets_divide(ctx, &packets, coll, blocks);
    launches = mscclpp_dev_coll_packets_begin(ctx, &packets);
    mscclpp_dev_coll_packets_send(ctx, &packets);
    mscclpp_dev_coll_copy_own(ctx, coll, blocks);
    for (i = 1 + packets.row; i < args->nranks; i += packets.rows) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);
        const mscclpp_dev_block_t block = mscclpp_dev_coll_recv_block(coll, blocks, peer);
        const uint32_t units = (uint32_t)mscclpp_dev_units(block.bytes);

        if (units == 0 && packets.lane == 0) {
            mscclpp_dev_coll_packets_get(ctx, &packets, peer, 0, &value);
        }
        for (unit = packets.lane; unit < units; unit += packets.row_threads) {
            mscclpp_dev_coll_packets_get(ctx, &packets, peer, unit, &value);
            if (!ctx->failed) {
                mscclpp_dev_st_unit((char *)args->out + block.offset, unit, block.bytes, value, MSCCLPP_DEV_WHOLE_UNIT);
            }
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, packets.flag);
}

/*
 * Reads the operand of `rank` for one unit of the result into *value. Returns false, with *value undefined, if the
 * operand has not arrived. Never waits. This rank's own operand is in the user's buffer, unless packets->own_uses_slot.
 * `bytes` is the size of the whole result.
 */
MSCCLPP_DEV bool mscclpp_dev_coll_packets_poll(const mscclpp_dev_coll_packets_t *packets, uint32_t rank, uint32_t unit,
                                               uint64_t bytes, mscclpp_dev_vec_t *value)
{
    const mscclpp_dev_args_t *args = &packets->coll->common;

    if (rank == args->rank && !packets->own_uses_slot) {
        const mscclpp_dev_block_t own_block = mscclpp_dev_coll_send_block(packets->coll, packets->blocks, rank);

        *value = mscclpp_dev_ld_unit((const char *)args->in + own_block.offset, unit, bytes);
        return true;
    }
    return mscclpp_dev_poll_unit(mscclpp_dev_coll_slot(packets, args->rank, rank, unit), packets->half_gap, value,
                                 packets->flag, MSCCLPP_DEV_LL16);
}

/*
 * Waits for the operands of ranks 0 to `ranks_end` - 1 for one unit, and returns their combination in rank order. If a
 * wait fails, sets ctx->failed, and the result is arbitrary. `ranks_end` is at least 1. `bytes` is the size of the
 * whole result. `batch` and `hot` are constants: `batch` is at most MSCCLPP_DEV_COLL_PACKET_BATCH; `hot` true: `dtype`
 * and `op` are constants as well.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_coll_packets_combine(mscclpp_dev_ctx_t *ctx,
                                                               const mscclpp_dev_coll_packets_t *packets,
                                                               uint32_t ranks_end, uint64_t bytes, bool hot, int dtype,
                                                               int op, uint32_t batch, uint32_t unit)
{
    mscclpp_dev_acc_t acc;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_COLL_PACKET_BATCH];
    bool has_arrived[MSCCLPP_DEV_COLL_PACKET_BATCH];
    uint32_t first_rank, i;

    for (first_rank = 0; first_rank < ranks_end; first_rank += batch) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < batch; ++i) {
            has_arrived[i] = first_rank + i >= ranks_end ||
                             mscclpp_dev_coll_packets_poll(packets, first_rank + i, unit, bytes, &values[i]);
        }
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < batch; ++i) {
            if (!has_arrived[i]) {
                mscclpp_dev_coll_packets_get(ctx, packets, first_rank + i, unit, &values[i]);
            }
            if (first_rank + i == 0) {
                mscclpp_dev_acc_set(&acc, dtype, values[i]);
            } else if (first_rank + i < ranks_end) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, values[i]);
            }
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/*
 * Runs the kernel for patterns that combine blocks. `blocks` is NULL if all blocks have the same size. `batch` and
 * `hot` are constants, as in mscclpp_dev_coll_packets_combine. After a failure, sends nothing more, and stores nothing
 * more in the output.
 */
MSCCLPP_DEV void mscclpp_dev_coll_combine_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_args_t *coll,
                                                  const mscclpp_dev_blocks_args_t *blocks, bool hot, int dtype, int op,
                                                  uint32_t batch)
{
    const mscclpp_dev_args_t *args = &coll->common;
    const uint32_t threads = ctx->nblocks * ctx->nthreads, thread = ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t bytes = mscclpp_dev_coll_result_bytes(coll, blocks);
    const uint32_t units = (uint32_t)mscclpp_dev_units(bytes), mask = mscclpp_dev_unit_mask(dtype);
    /* A scan combines the operands of lower ranks. Other patterns combine those of all ranks. */
    const uint32_t ranks_end = coll->pattern == MSCCLPP_DEV_SCAN     ? args->rank + 1
                               : coll->pattern == MSCCLPP_DEV_EXSCAN ? args->rank
                                                                     : args->nranks;
    mscclpp_dev_coll_packets_t packets;
    mscclpp_dev_vec_t value;
    uint64_t launches;
    uint32_t i, unit;

    mscclpp_dev_coll_packets_divide(ctx, &packets, coll, blocks);
    launches = mscclpp_dev_coll_packets_begin(ctx, &packets);
    mscclpp_dev_coll_packets_send(ctx, &packets);
    if (packets.own_uses_slot) {
        mscclpp_dev_coll_packets_meet(ctx, args);
    }
    for (unit = thread; unit < units; unit += threads) {
        value = mscclpp_dev_coll_packets_combine(ctx, &packets, ranks_end, bytes, hot, dtype, op, batch, unit);
        if (!ctx->failed) {
            mscclpp_dev_st_unit(args->out, unit, bytes, value, mask);
        }
    }
    /* Receives the empty packets of the ranks that have no operand for this rank. */
    for (i = 1 + thread; i < args->nranks; i += threads) {
        const uint32_t peer = mscclpp_dev_coll_previous(args, i);

        if (units == 0 || peer >= ranks_end) {
            mscclpp_dev_coll_packets_get(ctx, &packets, peer, 0, &value);
        }
    }
    mscclpp_dev_finish_packets(ctx, args, launches, packets.flag);
}

#endif
