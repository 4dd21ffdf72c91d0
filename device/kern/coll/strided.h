/*
 * Blocks with holes in mapped buffers of all ranks, moved in one pass. Each rank reads its blocks where the user's type
 * has them, and writes them where the peer's type wants them. Neither side packs. Ranks meet before and after, as in
 * direct.h.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_STRIDED_H
#define MSCCLPP_DEVICE_KERN_COLL_STRIDED_H

#include "device/kern/coll/direct.h"
#include "device/kern/coll/pack.h"

/* The number of items of a segment that a thread loads before it stores the first one. */
#define MSCCLPP_DEV_STRIDED_BATCH 4

/*
 * The least number of threads that share a segment so that each has a whole batch. Together they access whole lines of
 * 128 bytes at a time.
 */
#define MSCCLPP_DEV_STRIDED_LANES 8

/*
 * Copies the items of a segment of `size` bytes that belong to lane `lane` of `lanes`. An item has `width` bytes. Only
 * items of 16 bytes are moved in batches.
 */
MSCCLPP_DEV void mscclpp_dev_strided_segment(char *to, const char *from, uint64_t size, uint32_t width, uint64_t lane,
                                             uint64_t lanes)
{
    const uint64_t items = size / width;
    uint64_t item = lane;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_STRIDED_BATCH];
    int j;

    for (; width == 16 && item + (MSCCLPP_DEV_STRIDED_BATCH - 1) * lanes < items;
         item += MSCCLPP_DEV_STRIDED_BATCH * lanes) {
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_STRIDED_BATCH; ++j) {
            values[j] = mscclpp_dev_ld_vec(from + (item + (uint64_t)j * lanes) * 16);
        }
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_STRIDED_BATCH; ++j) {
            mscclpp_dev_st_vec(to + (item + (uint64_t)j * lanes) * 16, values[j]);
        }
    }
    for (; item < items; item += lanes) {
        mscclpp_dev_coll_copy_item(to + item * width, from + item * width, width);
    }
}

/*
 * Returns the number of threads that handle a segment: a power of 2, at most the number of its items. A link is used
 * fully only if enough bytes are in transit, so fewer threads handle a segment if each of them then has a whole batch
 * of items.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_strided_lanes(uint64_t items, uint32_t width, uint64_t threads)
{
    const uint64_t batches = width == 16 ? items / MSCCLPP_DEV_STRIDED_BATCH : 0;
    const uint64_t max_lanes = batches >= MSCCLPP_DEV_STRIDED_LANES ? batches : items;
    uint64_t lanes = 1;

    while (2 * lanes <= max_lanes && 2 * lanes <= threads) {
        lanes *= 2;
    }
    return lanes;
}

/*
 * Returns where segment `segment` of a side begins, as an offset in bytes. The side's runs hold `run_segments` segments
 * of `size` bytes, and are `stride` bytes apart. A 64-bit division takes a GPU long, and most runs, of one segment, do
 * not need it.
 */
MSCCLPP_DEV int64_t mscclpp_dev_strided_offset(uint64_t segment, uint64_t run_segments, int64_t stride, uint64_t size)
{
    return run_segments == 1 ? (int64_t)segment * stride
                             : (int64_t)(segment / run_segments) * stride + (int64_t)(segment % run_segments * size);
}

/*
 * Copies a block. The threads of the grid share its segments: several threads handle a segment, or the whole grid if it
 * is long enough. Threads that are left over do nothing.
 */
MSCCLPP_DEV void mscclpp_dev_strided_block(const mscclpp_dev_strided_t *block, uint64_t thread, uint64_t threads)
{
    const uint64_t lanes = mscclpp_dev_strided_lanes(block->size / block->width, block->width, threads);
    uint64_t segment;

    if (thread >= threads / lanes * lanes) {
        return;
    }
    for (segment = thread / lanes; segment < block->segments; segment += threads / lanes) {
        const char *from =
            block->from + mscclpp_dev_strided_offset(segment, block->from_run, block->from_stride, block->size);
        char *to = block->to + mscclpp_dev_strided_offset(segment, block->to_run, block->to_stride, block->size);

        mscclpp_dev_strided_segment(to, from, block->size, block->width, thread % lanes, lanes);
    }
}

/*
 * Runs the kernel: copies all blocks of the list between two barriers. If the first one fails, nothing is copied. It is
 * never queued, because the hosts first exchange the layouts; so it does not call mscclpp_dev_enter.
 */
MSCCLPP_DEV void mscclpp_dev_coll_move_strided(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_strided_args_t *args)
{
    const mscclpp_dev_args_t *common = &args->common;
    const uint64_t threads = (uint64_t)ctx->nblocks * ctx->nthreads;
    const uint64_t thread = (uint64_t)ctx->block * ctx->nthreads + ctx->tid;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, common);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, common);
    const uint64_t barriers_before = mscclpp_dev_last_barrier(ctx, common);
    uint32_t i;

    mscclpp_dev_barrier(ctx, common, barriers_before + 1);
    for (i = 0; i < args->count && !ctx->failed; ++i) {
        mscclpp_dev_strided_block(&args->blocks[i], thread, threads);
    }
    mscclpp_dev_direct_end(ctx, common, launches, epoch, barriers_before);
}

#endif
