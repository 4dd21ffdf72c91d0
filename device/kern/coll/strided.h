/*
 * Moves blocks with holes between mapped buffers of all ranks, in one pass. Each rank reads its blocks in the layout of
 * its own type, and writes them in the layout of the peer's type. Neither side packs. Ranks meet before and after, as
 * in direct.h.
 */
#ifndef MSCCLPP_DEVICE_KERN_COLL_STRIDED_H
#define MSCCLPP_DEVICE_KERN_COLL_STRIDED_H

#include "device/kern/coll/direct.h"
#include "device/kern/coll/pack.h"

/* The number of items of a segment that a thread loads before it stores the first item. */
#define MSCCLPP_DEV_STRIDED_BATCH 4

/*
 * Threads share a segment by whole batches only if the segment has batches for at least this many threads. Together
 * they access a whole line of 128 bytes at a time.
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
 * Returns the number of threads that share a segment of `items` items: a power of 2, at most `items`, and at most
 * `threads`. In long segments of wide items, fewer threads share a segment, so that each has a whole batch of items: a
 * link is used fully only if enough bytes are in transit.
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
 * Returns the offset in bytes at which segment `segment` begins in the source or target. Runs of `run_segments`
 * segments of `size` bytes are `stride` bytes apart. Runs of one segment, the most frequent case, are computed without
 * a 64-bit division, which is slow on GPUs.
 */
MSCCLPP_DEV int64_t mscclpp_dev_strided_offset(uint64_t segment, uint64_t run_segments, int64_t stride, uint64_t size)
{
    return run_segments == 1 ? (int64_t)segment * stride
                             : (int64_t)(segment / run_segments) * stride + (int64_t)(segment % run_segments * size);
}

/*
 * Copies a block. `thread` is the thread's number among the `threads` threads of the grid. Several threads share each
 * segment, the whole grid if the segment is long enough. Threads that are left over do nothing.
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
 * Runs the kernel: copies all blocks of the list between two barriers. If the first barrier fails, nothing is copied.
 * If the second barrier fails, the output may be incomplete. Does not call mscclpp_dev_enter, because the kernel is
 * never queued: the hosts first exchange the layouts.
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
