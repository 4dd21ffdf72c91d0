/*
 * Puts through the scratch: a block of the grid stores its data piece by piece into slots in a peer's memory, and then
 * signals that the piece has arrived. The data contain no flags, so links carry them at full speed.
 *
 * A block deals only with the blocks of the same number on other ranks. It counts barriers and pieces together, in the
 * word that barriers use. A piece's number selects its slot. In each operation, each rank signals every piece to each
 * peer, and waits for every piece of each peer, even if some of them carry no data.
 *
 * Four slots are enough, whatever the size of a call, if a block signals piece k before it reads piece k - 1. A peer
 * signals piece k - 2 only after it has read piece k - 4. So a block that has received the signal of piece k - 2 from a
 * peer may overwrite piece k - 4 with piece k.
 */
#ifndef MSCCLPP_DEVICE_LIB_PUT_H
#define MSCCLPP_DEVICE_LIB_PUT_H

#include "device/lib/barrier.h"
#include "device/lib/reduce.h"

/*
 * BATCH: the number of units that a thread loads before it sends them. OPERANDS: the number of units, of all ranks
 * together, that a thread loads before it combines them. The variants for aligned buffers (`is_aligned`), which only
 * lingering kernels use, combine half as many units, because a thread of a lingering kernel has fewer registers.
 */
#define MSCCLPP_DEV_PUT_BATCH 8
#define MSCCLPP_DEV_PUT_OPERANDS 16

/* The size of a piece, in units, is a multiple of this number, since links transfer such stores most efficiently. */
#define MSCCLPP_DEV_PUT_GRAIN 8u

/*
 * Returns peer `i` of this rank, `i` places after this rank in cyclic order. `i` is at most `nranks`. Loops begin with
 * the next rank, so that the ranks do not all send to the same peer at the same time.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_peer(const mscclpp_dev_args_t *args, uint32_t nranks, uint32_t i)
{
    return args->rank + i < nranks ? args->rank + i : args->rank + i - nranks;
}

/*
 * Returns the address at which the block of `sender` with this block's number puts piece number `piece` in the memory
 * of `receiver`.
 */
MSCCLPP_DEV char *mscclpp_dev_put_slot(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint32_t receiver,
                                       uint32_t sender, uint64_t piece)
{
    const uint32_t place = sender < receiver ? sender : sender - 1;
    const uint32_t slot =
        (place * MSCCLPP_DEV_PUT_BLOCKS + ctx->block) * MSCCLPP_DEV_PUT_SLOTS + (uint32_t)piece % MSCCLPP_DEV_PUT_SLOTS;

    return args->scratch[receiver] + args->put_offset + (uint64_t)slot * args->put_capacity * MSCCLPP_DEV_UNIT;
}

/*
 * Returns the size of a full piece, in units, if `nblocks` blocks share `units` units. The size is a block's share,
 * rounded up to a multiple of MSCCLPP_DEV_PUT_GRAIN, but at most the size of a slot.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_full_piece_units(const mscclpp_dev_args_t *args, uint64_t units, uint32_t nblocks)
{
    uint32_t share;

    if (units >= (uint64_t)args->put_capacity * nblocks) {
        return args->put_capacity;
    }
    share = ((uint32_t)units + nblocks - 1) / nblocks;
    share = (share + MSCCLPP_DEV_PUT_GRAIN - 1) / MSCCLPP_DEV_PUT_GRAIN * MSCCLPP_DEV_PUT_GRAIN;
    return share < args->put_capacity ? share : args->put_capacity;
}

/*
 * Signals all peers that piece number `piece` has arrived. Called by all threads of the block, after they have stored
 * their parts of the piece. If a thread has failed, sets ctx->failed in all threads and signals nothing, because a part
 * of the piece may be missing.
 */
MSCCLPP_DEV void mscclpp_dev_put_signal(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint32_t nranks,
                                        uint64_t piece)
{
    uint32_t i;

    ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
    for (i = 1 + ctx->tid; i < nranks && !ctx->failed; i += ctx->nthreads) {
        mscclpp_dev_sync_t *peer_sync = mscclpp_dev_sync_of(args, mscclpp_dev_put_peer(args, nranks, i));

        mscclpp_dev_st_release_sys_u64(&peer_sync->arrived[ctx->block][args->rank], piece);
    }
}

/*
 * Waits until piece number `piece` of every peer has arrived. Returns false, with ctx->failed set, if a wait fails or
 * the thread has failed before. Each thread waits for itself, so the block needs no barrier. `is_outlined` is as in
 * mscclpp_dev_wait_turn_by.
 */
MSCCLPP_DEV bool mscclpp_dev_put_await(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint32_t nranks,
                                       bool is_outlined, uint64_t piece)
{
    const mscclpp_dev_sync_t *own_sync = mscclpp_dev_sync_of(args, args->rank);
    mscclpp_dev_wait_t wait = {0, 0};
    uint32_t i;

    for (i = 1; i < nranks; ++i) {
        const uint32_t peer = mscclpp_dev_put_peer(args, nranks, i);

        while (mscclpp_dev_ld_acquire_sys_u64(&own_sync->arrived[ctx->block][peer]) < piece) {
            if (!mscclpp_dev_wait_turn_by(ctx, args, &wait, peer, is_outlined)) {
                return false;
            }
        }
    }
    return !ctx->failed;
}

/*
 * Returns the calling thread's first unit in the block's next batch, which begins at unit `begin`. Each thread takes
 * `batch` units; `batch` is a constant. A warp's units form `batch` adjacent rows with one unit per lane, so that the
 * addresses of a thread's units differ by constants.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_first_unit(const mscclpp_dev_ctx_t *ctx, int batch, uint32_t begin)
{
    return begin + ctx->tid / MSCCLPP_DEV_WARP * MSCCLPP_DEV_WARP * (uint32_t)batch + ctx->tid % MSCCLPP_DEV_WARP;
}

/*
 * Loads the thread's units of a batch into registers, so that all loads are in progress at once. `from` is the address
 * of the first unit; successive units are one warp's width apart. `batch` is a constant.
 */
MSCCLPP_DEV void mscclpp_dev_put_load(const char *from, int batch, mscclpp_dev_vec_t *values)
{
    int row;

    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        values[row] = mscclpp_dev_ld_vec(from + (size_t)row * MSCCLPP_DEV_WARP * MSCCLPP_DEV_UNIT);
    }
}

/*
 * Stores units that mscclpp_dev_put_load has loaded, with the same distances, from address `to` on. `batch` is a
 * constant.
 */
MSCCLPP_DEV void mscclpp_dev_put_store(char *to, int batch, const mscclpp_dev_vec_t *values)
{
    int row;

    MSCCLPP_DEV_UNROLL
    for (row = 0; row < batch; ++row) {
        mscclpp_dev_st_vec(to + (size_t)row * MSCCLPP_DEV_WARP * MSCCLPP_DEV_UNIT, values[row]);
    }
}

/*
 * Combines units `begin` to `end` - 1 of a piece, as far as they fill whole batches of all threads, and stores the
 * results at `out`. Returns the first unit that is left. `from` lists the piece's operands by rank. The number of ranks
 * `const_ranks`, `batch` and `hot` are constants; `hot` true: `dtype` and `op` are constants as well.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_put_combine_batches(const mscclpp_dev_ctx_t *ctx, const char *const *from, char *out,
                                                     int const_ranks, int batch, bool hot, int dtype, int op,
                                                     uint32_t begin, uint32_t end)
{
    const uint32_t block_units = (uint32_t)batch * ctx->nthreads;
    mscclpp_dev_vec_t operands[MSCCLPP_DEV_PUT_OPERANDS];
    int i, row;

    for (; begin + block_units <= end; begin += block_units) {
        const uint64_t own_offset = (uint64_t)mscclpp_dev_put_first_unit(ctx, batch, begin) * MSCCLPP_DEV_UNIT;

        MSCCLPP_DEV_UNROLL
        for (i = 0; i < const_ranks; ++i) {
            mscclpp_dev_put_load(from[i] + own_offset, batch, &operands[i * batch]);
        }
        MSCCLPP_DEV_UNROLL
        for (row = 0; row < batch; ++row) {
            mscclpp_dev_acc_t acc;

            mscclpp_dev_acc_set(&acc, dtype, operands[row]);
            MSCCLPP_DEV_UNROLL
            for (i = 1; i < const_ranks; ++i) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, operands[i * batch + row]);
            }
            operands[row] = mscclpp_dev_acc_get(&acc, dtype);
        }
        mscclpp_dev_put_store(out + own_offset, batch, operands);
    }
    return begin;
}

#endif
