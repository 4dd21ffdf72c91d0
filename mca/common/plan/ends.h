/* How a plan's chunks divide the block of a rank, and whether the end of the block matters. */
#ifndef MCA_COMMON_PLAN_ENDS_H
#define MCA_COMMON_PLAN_ENDS_H

#include "mca/common/plan/plan.h"

/*
 * Returns the number of chunks in a rank's block. A block is one rank's part of a buffer that has a part for each rank,
 * such as the output of an all-gather. For an all-reduce, the block is the whole buffer. For collectives that MPI does
 * not have, the result is 1. If the plan has neither input nor output, the result is 0.
 */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan);

/*
 * Returns true if a whole number of chunks has to fill each block of input and output. There are three reasons:
 * - An operation crosses the end of a block.
 * - Data of one chunk of a block is moved into another chunk, which may be shorter.
 * - This cannot be determined. If scratch contains data of several positions in a block, each of them counts as moved
 *   to every place that is filled from there.
 *
 * The plan must have passed mscclpp_plan_check.
 */
bool mscclpp_plan_needs_whole_chunks(const mscclpp_plan_t *plan);

/*
 * Sets *chunk_bytes_p to the size of a chunk, in bytes, for a message with blocks of `block_bytes` bytes. The size is
 * rounded up to a multiple of the plan's alignment, or of MSCCLPP_DEV_UNIT if the alignment is no multiple of
 * MSCCLPP_DEV_UNIT. Returns false if the plan cannot serve such a message, for one of two reasons:
 * - The plan has neither input nor output. *chunk_bytes_p is then unchanged.
 * - The plan needs whole chunks, and these do not fill the block. *chunk_bytes_p is set nevertheless.
 *
 * The plan must have passed mscclpp_plan_check.
 */
bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_bytes_p);

#endif
