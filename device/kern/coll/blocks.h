/*
 * Finds the blocks of data that a rank sends to other ranks, and the places of the blocks that it receives. See
 * device/types/coll.h.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_BLOCKS_H
#define MSCCLPP_DEVICE_KERN_COLL_BLOCKS_H

#include "device/types/coll.h"
#include "device/lib/row.h"
#include "device/lib/unit.h"

/* Returns true if, by the pattern, `sender` has a block for `receiver`. */
MSCCLPP_DEV bool mscclpp_dev_coll_sends(const mscclpp_dev_coll_args_t *coll, uint32_t sender, uint32_t receiver)
{
    return MSCCLPP_DEV_COLL_SENDS(coll->pattern, coll->root, sender, receiver);
}

/*
 * Returns this rank's block for `peer`: its offset in the input, and its size. The size is 0 if this rank sends nothing
 * to `peer`. Here and below, `blocks` is NULL if all blocks have the same size.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_send_block(const mscclpp_dev_coll_args_t *coll,
                                                            const mscclpp_dev_blocks_args_t *blocks, uint32_t peer)
{
    mscclpp_dev_block_t block;

    if (blocks != NULL) {
        return blocks->send[peer];
    }
    block.offset = 0;
    block.bytes = mscclpp_dev_coll_sends(coll, coll->common.rank, peer) ? coll->common.bytes : 0;
    if (MSCCLPP_DEV_COLL_SENDS_MANY(coll->pattern)) {
        block.offset = peer * coll->stride;
    }
    return block;
}

/*
 * Returns the place for the block of `peer` in this rank's output: its offset, and the size of the block. The size is 0
 * if `peer` sends nothing to this rank. In patterns that combine, this is the place for the result.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_coll_recv_block(const mscclpp_dev_coll_args_t *coll,
                                                            const mscclpp_dev_blocks_args_t *blocks, uint32_t peer)
{
    mscclpp_dev_block_t block;

    if (blocks != NULL) {
        return blocks->recv[peer];
    }
    block.offset = 0;
    block.bytes = mscclpp_dev_coll_sends(coll, peer, coll->common.rank) ? coll->common.bytes : 0;
    if (MSCCLPP_DEV_COLL_RECVS_MANY(coll->pattern)) {
        block.offset = peer * coll->stride;
    }
    return block;
}

/* Returns the size of this rank's result, for patterns that combine. 0: this rank gets no result. */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_result_bytes(const mscclpp_dev_coll_args_t *coll,
                                                   const mscclpp_dev_blocks_args_t *blocks)
{
    const uint32_t rank = coll->common.rank;

    if (blocks != NULL) {
        return blocks->recv[rank].bytes;
    }
    if (coll->pattern == MSCCLPP_DEV_EXSCAN) {
        return rank == 0 ? 0 : coll->common.bytes;
    }
    return mscclpp_dev_coll_sends(coll, rank, rank) ? coll->common.bytes : 0;
}

/*
 * Returns the rank `i` places after this rank in cyclic order; `i` is at most the number of ranks. Loops over peers
 * begin with the next rank, so that the ranks do not all access the same peer at the same time.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_next(const mscclpp_dev_args_t *args, uint32_t i)
{
    return args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;
}

/* Returns the rank `i` places before this rank in cyclic order; `i` is at most the number of ranks. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_previous(const mscclpp_dev_args_t *args, uint32_t i)
{
    return args->rank >= i ? args->rank - i : args->rank + args->nranks - i;
}

/*
 * The number of whole units that a thread loads before it stores the first unit. A load takes most of a microsecond, so
 * a thread needs several loads in progress.
 */
#define MSCCLPP_DEV_COLL_BATCH 8

/* The same number if an address is not a multiple of a unit. Such a unit takes several loads. */
#define MSCCLPP_DEV_COLL_BATCH_UNALIGNED 4

/*
 * The number of whole units of each operand that a thread loads before it combines them, if it looks up the type at run
 * time. The look-up takes registers. With a constant type the number is half of MSCCLPP_DEV_COLL_BATCH, because the
 * thread holds two operands at once.
 */
#define MSCCLPP_DEV_COLL_BATCH_ANY 2

/* Returns the index of target number `i` of `count`, counted from `first_target` in cyclic order. */
MSCCLPP_DEV uint32_t mscclpp_dev_coll_target(uint32_t count, uint32_t first_target, uint32_t i)
{
    return first_target + i < count ? first_target + i : first_target + i - count;
}

/*
 * Copies whole units as mscclpp_dev_coll_copy_units does, `batch` units at a time, beginning with unit `unit`. Returns
 * the first unit that is left for this thread, with less than a batch left. `batch` and `is_aligned` are constants.
 * `is_aligned`: all addresses are multiples of a unit; false is always correct.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_coll_copy_batches(char *const *to, uint32_t count, uint32_t first_target,
                                                   const char *from, int batch, uint64_t bytes, bool is_aligned,
                                                   uint64_t unit, uint64_t step)
{
    const uint64_t whole_units = bytes / MSCCLPP_DEV_UNIT;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_COLL_BATCH];
    uint32_t i;
    int j;

    for (; unit + (uint64_t)(batch - 1) * step < whole_units; unit += (uint64_t)batch * step) {
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch; ++j) {
            const uint64_t index = unit + (uint64_t)j * step;

            values[j] = is_aligned ? mscclpp_dev_ld_vec(from + index * MSCCLPP_DEV_UNIT)
                                   : mscclpp_dev_ld_unit(from, index, bytes);
        }
        for (i = 0; i < count; ++i) {
            char *target = to[mscclpp_dev_coll_target(count, first_target, i)];

            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                const uint64_t index = unit + (uint64_t)j * step;

                if (is_aligned) {
                    mscclpp_dev_st_vec(target + index * MSCCLPP_DEV_UNIT, values[j]);
                } else {
                    mscclpp_dev_st_unit(target, index, bytes, values[j], MSCCLPP_DEV_WHOLE_UNIT);
                }
            }
        }
    }
    return unit;
}

/*
 * Copies units `unit`, `unit` + `step` and so on of a block of `bytes` bytes to each of `count` places, beginning with
 * place `first_target`. Each rank passes a different first target, so that the ranks do not all store to one place at
 * the same time. `is_aligned`: all addresses are multiples of MSCCLPP_DEV_UNIT.
 */
MSCCLPP_DEV void mscclpp_dev_coll_copy_units(char *const *to, uint32_t count, uint32_t first_target, const char *from,
                                             uint64_t bytes, bool is_aligned, uint64_t unit, uint64_t step)
{
    const uint64_t units = mscclpp_dev_units(bytes);
    uint32_t i;

    if (is_aligned) {
        unit = mscclpp_dev_coll_copy_batches(to, count, first_target, from, MSCCLPP_DEV_COLL_BATCH, bytes, true, unit,
                                             step);
        unit = mscclpp_dev_coll_copy_batches(to, count, first_target, from, MSCCLPP_DEV_COLL_BATCH / 4, bytes, true,
                                             unit, step);
    } else {
        unit = mscclpp_dev_coll_copy_batches(to, count, first_target, from, MSCCLPP_DEV_COLL_BATCH_UNALIGNED, bytes,
                                             false, unit, step);
    }
    for (; unit < units; unit += step) {
        const mscclpp_dev_vec_t value = mscclpp_dev_ld_unit(from, unit, bytes);

        for (i = 0; i < count; ++i) {
            mscclpp_dev_st_unit(to[mscclpp_dev_coll_target(count, first_target, i)], unit, bytes, value,
                                MSCCLPP_DEV_WHOLE_UNIT);
        }
    }
}

/*
 * Copies a block of `bytes` bytes between places of any alignment. Callers use it if one side, or both, begin at no
 * multiple of a unit. All of the `threads` threads call it. Each handles units that are aligned in the target, because
 * stores of parts of units to a peer take several times as long. So a unit here is another one than in
 * mscclpp_dev_coll_copy_units: callers must not rely on which thread copies which bytes.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_copy_shifted(char *to, const char *from, uint64_t bytes, uint64_t thread,
                                                       uint64_t threads)
{
    const uint64_t until_aligned = (MSCCLPP_DEV_UNIT - (uintptr_t)to % MSCCLPP_DEV_UNIT) % MSCCLPP_DEV_UNIT;
    const uint64_t head = until_aligned < bytes ? until_aligned : bytes;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_COLL_BATCH_UNALIGNED];
    uint64_t unit = thread, whole_units;
    int j;

    /* Another thread than the one that copies the first unit. */
    if (thread == threads - 1) {
        mscclpp_dev_st_unit(to, 0, head, mscclpp_dev_ld_unit(from, 0, head), MSCCLPP_DEV_WHOLE_UNIT);
    }
    to += head;
    from += head;
    bytes -= head;
    if ((uintptr_t)from % MSCCLPP_DEV_UNIT == 0) {
        mscclpp_dev_coll_copy_units(&to, 1, 0, from, bytes, true, thread, threads);
        return;
    }
    whole_units = bytes / MSCCLPP_DEV_UNIT;
    /* The loads of a batch read beyond their units, so the first unit and the last one are in no batch. */
    if (thread == 0) {
        mscclpp_dev_st_unit(to, 0, bytes, mscclpp_dev_ld_unit(from, 0, bytes), MSCCLPP_DEV_WHOLE_UNIT);
        unit = threads;
    }
    for (; unit + (MSCCLPP_DEV_COLL_BATCH_UNALIGNED - 1) * threads + 1 < whole_units;
         unit += MSCCLPP_DEV_COLL_BATCH_UNALIGNED * threads) {
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_COLL_BATCH_UNALIGNED; ++j) {
            values[j] = mscclpp_dev_ld_inner_unit(from + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT);
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_COLL_BATCH_UNALIGNED; ++j) {
            mscclpp_dev_st_vec(to + (unit + (uint64_t)j * threads) * MSCCLPP_DEV_UNIT, values[j]);
        }
    }
    for (; unit < mscclpp_dev_units(bytes); unit += threads) {
        mscclpp_dev_st_unit(to, unit, bytes, mscclpp_dev_ld_unit(from, unit, bytes), MSCCLPP_DEV_WHOLE_UNIT);
    }
}

/*
 * Copies the part of a block of `bytes` bytes that belongs to thread `thread` of `threads`: units `thread`, `thread` +
 * `threads` and so on. Moves whole units if both addresses are multiples of a unit, and otherwise words or bytes. The
 * host twin instead copies adjacent units with one memmove. Not inlined, because the callers need the registers.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_coll_copy(char *to, const char *from, uint64_t bytes, uint64_t thread,
                                               uint64_t threads)
{
#if MSCCLPP_DEV_ROWS
    const uint64_t units = mscclpp_dev_units(bytes);
    const uint64_t part = (units + threads - 1) / threads * MSCCLPP_DEV_UNIT, begin = thread * part;

    if (begin < bytes) {
        memmove(to + begin, from + begin, bytes - begin < part ? bytes - begin : part);
    }
#else
    mscclpp_dev_coll_copy_units(&to, 1, 0, from, bytes, ((uintptr_t)to | (uintptr_t)from) % MSCCLPP_DEV_UNIT == 0,
                                thread, threads);
#endif
}

/*
 * Copies this rank's own block from the input to the output, unless the operation is in place. Called by all threads of
 * the grid.
 */
MSCCLPP_DEV void mscclpp_dev_coll_copy_own(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_coll_args_t *coll,
                                           const mscclpp_dev_blocks_args_t *blocks)
{
    const mscclpp_dev_args_t *args = &coll->common;

    if (coll->in_place == 0) {
        const mscclpp_dev_block_t from = mscclpp_dev_coll_send_block(coll, blocks, args->rank);
        const mscclpp_dev_block_t to = mscclpp_dev_coll_recv_block(coll, blocks, args->rank);

        mscclpp_dev_coll_copy((char *)args->out + to.offset, (const char *)args->in + from.offset, to.bytes,
                              (uint64_t)ctx->block * ctx->nthreads + ctx->tid, (uint64_t)ctx->nblocks * ctx->nthreads);
    }
}

#endif
