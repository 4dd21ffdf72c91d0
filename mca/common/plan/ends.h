/* How a plan's chunks divide the block of a rank, and whether the end of the block matters. */
#ifndef MCA_COMMON_PLAN_ENDS_H
#define MCA_COMMON_PLAN_ENDS_H

#include "mca/common/plan/plan.h"

/*
 * Returns the number of chunks in a rank's block. A block is one rank's part of a buffer that has a part for each rank,
 * such as the output of an all-gather and the input of a reduce-scatter. For all-reduce, it is the whole buffer. For
 * collectives that MPI does not have, the result is 1. In each case it is 0 if the plan has neither input nor output.
 */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan);

/*
 * Returns true if a whole number of chunks has to fill each block of input and output. One reason is that an operation
 * crosses the end of a block. The other is that data of one chunk of a block is moved into another chunk, which may be
 * shorter. The result is also true if this cannot be determined: if scratch contains data of several positions in a
 * block, each of them counts as moved to every place that is filled from there. The plan must have passed
 * mscclpp_plan_check.
 */
bool mscclpp_plan_needs_whole_chunks(const mscclpp_plan_t *plan);

/*
 * Stores the size in bytes of a chunk, for a message with blocks of `block_bytes` bytes. Returns false if the plan
 * cannot serve such a message: it has neither input nor output, or it needs whole chunks, and they do not fill the
 * block.
 */
bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_p);

#endif
