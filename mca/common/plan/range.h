/*
 * The memory that steps of a lowered plan use, as ranges of chunks, and how steps divide their data among threads. For
 * fuse.c and in_place.c.
 */
#ifndef MCA_COMMON_PLAN_RANGE_H
#define MCA_COMMON_PLAN_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/plan.h"
#include "mca/common/plan/plan.h"

/* Chunks in a rank's memory: `count` chunks from `first` on. In place, input and output are one buffer here. */
typedef struct {
    uint32_t buffer; /* in the table of buffers, as `base` of mscclpp_dev_plan_item_t */
    uint64_t first;
    uint32_t count;
} mscclpp_plan_range_t;

/*
 * Returns the memory that a step of `size` chunks uses of an item. A packet counts as the plain chunks whose memory it
 * occupies. With `in_place`, input and output are one buffer, which is called the output, whichever of the two is
 * larger.
 */
static inline mscclpp_plan_range_t mscclpp_plan_find_range(const mscclpp_plan_t *plan, uint32_t block_chunks,
                                                           bool in_place, const mscclpp_dev_plan_item_t *item,
                                                           uint32_t size)
{
    const uint32_t rank = item->base / MSCCLPP_DEV_PLAN_BUFFERS, type = item->base % MSCCLPP_DEV_PLAN_BUFFERS;
    const uint64_t own_block = (uint64_t)rank * block_chunks;
    mscclpp_plan_range_t range = {
        .buffer = item->base, .first = (uint64_t)item->block * block_chunks + item->chunk, .count = size};

    if (type == MSCCLPP_DEV_PLAN_SCRATCH) {
        /* Packets take twice the bytes of their data; only the scratch holds packets. */
        range.first = item->packets != 0 ? 2 * (uint64_t)item->chunk : item->chunk;
        range.count = item->packets != 0 ? 2 * size : size;
    } else if (in_place) {
        /* The smaller buffer is the rank's own block of the larger one. */
        range.buffer = MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_OUTPUT;
        if ((plan->collective == MSCCLPP_PLAN_ALLGATHER && type == MSCCLPP_DEV_PLAN_INPUT) ||
            (plan->collective == MSCCLPP_PLAN_REDUCESCATTER && type == MSCCLPP_DEV_PLAN_OUTPUT)) {
            range.first += own_block;
        }
    }
    return range;
}

/* Returns true if the two ranges are the same chunks. */
static inline bool mscclpp_plan_ranges_are_equal(mscclpp_plan_range_t left, mscclpp_plan_range_t right)
{
    return left.buffer == right.buffer && left.first == right.first && left.count == right.count;
}

/*
 * Returns true if two steps divide their data among threads in the same way. If two such steps have items at the same
 * place, the same thread handles each byte in both steps.
 */
static inline bool mscclpp_plan_divide_alike(const mscclpp_dev_plan_step_t *first,
                                             const mscclpp_dev_plan_step_t *second)
{
    return first->size == second->size && first->part == second->part && first->parts == second->parts;
}

#endif
