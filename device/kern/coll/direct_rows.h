/*
 * Does on the host twin, for large blocks, what the functions of direct.h do. Each thread handles adjacent units, so
 * that the compiler can vectorise the code, and memcpy can copy the units. The results are the same, bit by bit. The
 * twin handles small blocks unit by unit, so that its tests run the GPU's code.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_DIRECT_ROWS_H
#define MSCCLPP_DEVICE_KERN_COLL_DIRECT_ROWS_H

#include "device/kern/coll/blocks.h"

/* The smallest block that is handled by rows, in bytes. */
#define MSCCLPP_DEV_DIRECT_ROWS_MIN 16384u

#if MSCCLPP_DEV_ROWS

#define MSCCLPP_DEV_ROW_BYTES ((uint64_t)MSCCLPP_DEV_ROW_UNITS * MSCCLPP_DEV_UNIT)

/*
 * Returns the part of a block of `bytes` bytes that thread `thread` of `threads` handles. The part consists of whole
 * units, except at the block's end.
 */
MSCCLPP_DEV mscclpp_dev_block_t mscclpp_dev_rows_part(uint64_t bytes, uint64_t thread, uint64_t threads)
{
    const uint64_t part_bytes = (mscclpp_dev_units(bytes) + threads - 1) / threads * MSCCLPP_DEV_UNIT;
    mscclpp_dev_block_t part;

    part.offset = thread * part_bytes < bytes ? thread * part_bytes : bytes;
    part.bytes = bytes - part.offset < part_bytes ? bytes - part.offset : part_bytes;
    return part;
}

/* Returns the size of the next row of a part of which `done_bytes` bytes are done. */
MSCCLPP_DEV uint64_t mscclpp_dev_rows_next_bytes(mscclpp_dev_block_t part, uint64_t done_bytes)
{
    return part.bytes - done_bytes < MSCCLPP_DEV_ROW_BYTES ? part.bytes - done_bytes : MSCCLPP_DEV_ROW_BYTES;
}

/*
 * Copies a block to each of `count` places, row by row, each row to all places. The arguments are those of
 * mscclpp_dev_direct_copy.
 */
MSCCLPP_DEV void mscclpp_dev_rows_copy(char *const *to, uint32_t count, uint32_t first_target, const char *from,
                                       uint64_t bytes, uint64_t thread, uint64_t threads)
{
    const mscclpp_dev_block_t part = mscclpp_dev_rows_part(bytes, thread, threads);
    uint64_t done_bytes, row_bytes;
    uint32_t i;

    if (count == 1) {
        memcpy(to[0] + part.offset, from + part.offset, part.bytes);
        return;
    }
    for (done_bytes = 0; done_bytes < part.bytes; done_bytes += row_bytes) {
        row_bytes = mscclpp_dev_rows_next_bytes(part, done_bytes);
        for (i = 0; i < count; ++i) {
            memcpy(to[(first_target + i) % count] + part.offset + done_bytes, from + part.offset + done_bytes,
                   row_bytes);
        }
    }
}

/*
 * Swaps this thread's part of `bytes` bytes at `here` with the same part at `there`, row by row. The two ranges must
 * not overlap. `thread` and `threads` are as in mscclpp_dev_direct_copy.
 */
MSCCLPP_DEV void mscclpp_dev_rows_swap(char *here, char *there, uint64_t bytes, uint64_t thread, uint64_t threads)
{
    const mscclpp_dev_block_t part = mscclpp_dev_rows_part(bytes, thread, threads);
    mscclpp_dev_vec_t row[MSCCLPP_DEV_ROW_UNITS];
    uint64_t done_bytes, row_bytes;

    here += part.offset;
    there += part.offset;
    for (done_bytes = 0; done_bytes < part.bytes; done_bytes += row_bytes) {
        row_bytes = mscclpp_dev_rows_next_bytes(part, done_bytes);
        memcpy(row, there + done_bytes, row_bytes);
        memcpy(there + done_bytes, here + done_bytes, row_bytes);
        memcpy(here + done_bytes, row, row_bytes);
    }
}

/*
 * Combines one row, the `row_bytes` bytes at `offset` of each operand, with the same results as
 * mscclpp_dev_direct_combine. Works in place: a reduction reads all operands before it writes the result, and a scan
 * writes each result after it has read the operands that the result may overwrite.
 */
MSCCLPP_DEV void mscclpp_dev_rows_combine_row(const mscclpp_dev_direct_args_t *args, int dtype, int op, uint64_t offset,
                                              uint64_t row_bytes)
{
    const uint32_t nranks = args->common.nranks;
    mscclpp_dev_vec_t acc[MSCCLPP_DEV_ROW_UNITS];
    uint32_t rank;

    for (rank = 0; rank < nranks; ++rank) {
        char *to = args->mode == MSCCLPP_DEV_DIRECT_REDUCE ? (rank + 1 == nranks ? args->to[0] : NULL) : args->to[rank];
        const bool is_exclusive = args->mode == MSCCLPP_DEV_DIRECT_EXSCAN;
        const char *operand = args->from[rank] + offset;
        mscclpp_dev_vec_t operand_copy[MSCCLPP_DEV_ROW_UNITS];

        if (rank == 0) {
            acc[(row_bytes - 1) / MSCCLPP_DEV_UNIT] = mscclpp_dev_vec_zero();
            memcpy(acc, operand, row_bytes);
        } else if (is_exclusive || ((uintptr_t)operand | row_bytes) % MSCCLPP_DEV_UNIT != 0) {
            /* An exclusive result may replace the operand. */
            operand_copy[(row_bytes - 1) / MSCCLPP_DEV_UNIT] = mscclpp_dev_vec_zero();
            memcpy(operand_copy, operand, row_bytes);
            operand = (const char *)operand_copy;
        }
        if (is_exclusive && rank > 0 && to != NULL) {
            memcpy(to + offset, acc, row_bytes);
        }
        if (rank > 0) {
            (void)mscclpp_dev_row_add(dtype, op, acc, operand, mscclpp_dev_units(row_bytes));
        }
        if (!is_exclusive && to != NULL) {
            memcpy(to + offset, acc, row_bytes);
        }
    }
}

/* Combines this thread's part of a block for which mscclpp_dev_rows_serve is true. */
MSCCLPP_DEV void mscclpp_dev_rows_combine(const mscclpp_dev_direct_args_t *args, int dtype, int op, uint64_t thread,
                                          uint64_t threads)
{
    const mscclpp_dev_block_t part = mscclpp_dev_rows_part(args->common.bytes, thread, threads);
    uint64_t done_bytes, row_bytes;

    for (done_bytes = 0; done_bytes < part.bytes; done_bytes += row_bytes) {
        row_bytes = mscclpp_dev_rows_next_bytes(part, done_bytes);
        mscclpp_dev_rows_combine_row(args, dtype, op, part.offset + done_bytes, row_bytes);
    }
}

/* Returns true if a block of `bytes` bytes is combined by rows. */
MSCCLPP_DEV bool mscclpp_dev_rows_serve(int dtype, int op, uint64_t bytes)
{
    return bytes >= MSCCLPP_DEV_DIRECT_ROWS_MIN && mscclpp_dev_row_is_known(dtype, op);
}

#endif
#endif
