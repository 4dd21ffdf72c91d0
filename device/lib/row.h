/*
 * Rows: consecutive units, which the threads of a block divide among themselves. The GPU and the twin divide the units
 * in different ways, so the threads must synchronise before they access units that another call wrote.
 *
 *     mscclpp_dev_row_load     copies `count` units from unit `index` of a user's buffer on to aligned memory; units
 *                              behind the buffer's end read as 0
 *     mscclpp_dev_row_store    the reverse, with a mask as in mscclpp_dev_st_unit
 *     mscclpp_dev_row_is_known whether mscclpp_dev_row_combine handles the type and operation
 *     mscclpp_dev_row_combine  combines `count` units of all ranks' aligned memory, in the order of `in`, and writes
 *                              the result to all of `out`. Returns false, with nothing done, if the caller has to do it
 *                              unit by unit. Exists only where MSCCLPP_DEV_ROWS is 1, which is on the twin.
 */
#ifndef MSCCLPP_DEVICE_LIB_ROW_H
#define MSCCLPP_DEVICE_LIB_ROW_H

#include "device/lib/unit.h"

/* The size of a tile, in units, that stays in the CPU's caches from one phase to the next. */
#define MSCCLPP_DEV_ROW_TILE 32768u

#ifndef __CUDACC__
#include "device/lib/row_host.h"
#define MSCCLPP_DEV_ROWS 1
#else
#define MSCCLPP_DEV_ROWS 0

/* Returns false: a GPU combines unit by unit. */
MSCCLPP_DEV bool mscclpp_dev_row_is_known(int dtype, int op)
{
    (void)dtype;
    (void)op;
    return false;
}

/* Loads `count` units from unit `index` of a buffer of `bytes` bytes on. Thread t takes units t, t + nthreads ... */
MSCCLPP_DEV void mscclpp_dev_row_load(const mscclpp_dev_ctx_t *ctx, char *to, const void *buffer, uint64_t index,
                                      uint64_t count, uint64_t bytes)
{
    uint64_t unit;

    for (unit = ctx->tid; unit < count; unit += ctx->nthreads) {
        mscclpp_dev_st_vec(to + unit * MSCCLPP_DEV_UNIT, mscclpp_dev_ld_unit(buffer, index + unit, bytes));
    }
}

/* Stores `count` units to a buffer of `bytes` bytes, from unit `index` on, divided as in mscclpp_dev_row_load. */
MSCCLPP_DEV void mscclpp_dev_row_store(const mscclpp_dev_ctx_t *ctx, void *buffer, uint64_t index, uint64_t count,
                                       uint64_t bytes, const char *from, uint32_t mask)
{
    uint64_t unit;

    for (unit = ctx->tid; unit < count; unit += ctx->nthreads) {
        mscclpp_dev_st_unit(buffer, index + unit, bytes, mscclpp_dev_ld_vec(from + unit * MSCCLPP_DEV_UNIT), mask);
    }
}

#endif
#endif
