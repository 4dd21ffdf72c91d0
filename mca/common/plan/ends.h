/* How a plan's chunks divide the block of a rank, and where the end of the block matters. */
#ifndef MCA_COMMON_PLAN_ENDS_H
#define MCA_COMMON_PLAN_ENDS_H

#include "mca/common/plan/plan.h"

/*
 * Returns the number of chunks in a rank's block: one rank's part of a buffer that has a part for each rank, such as
 * all-gather's output and reduce-scatter's input. For all-reduce, that of the whole buffer. For collectives that MPI
 * does not have, 1. In each case 0 if the plan has neither input nor output.
 */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan);

/*
 * Tells whether a whole number of chunks has to fill each block of input and output: because an operation crosses the
 * end of a block, or because data of one chunk of a block get into another one, which may be shorter. Also if that is
 * not found out: scratch that holds data of several positions in a block counts as if all got everywhere from there.
 * The plan must have passed mscclpp_plan_check.
 */
bool mscclpp_plan_needs_whole_chunks(const mscclpp_plan_t *plan);

/*
 * Sets the bytes of a chunk for a message with blocks of `block_bytes`. Returns false if the plan cannot serve such a
 * message: because it has neither input nor output, or because it needs whole chunks, and they do not fill the block.
 */
bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_p);

#endif
