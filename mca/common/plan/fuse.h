/* Shortens the programs of blocks: steps that kernels need not execute are left out or joined. */
#ifndef MCA_COMMON_PLAN_FUSE_H
#define MCA_COMMON_PLAN_FUSE_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/program.h"

/*
 * Shortens a rank's program of the block that begins at `first` and ends the program so far. Its results stay the same,
 * as long as packets of the plan order nothing but themselves. Without memory, leaves the program as it is.
 * `block_chunks` is the number of chunks in a rank's block of input or output (mscclpp_plan_block_chunks).
 * `keeps_input`: no rank writes to any rank's input.
 *
 * - A step that reads what an earlier step has copied from the input reads the input, if `keeps_input`.
 * - What a later step overwrites before anyone can read it is not stored.
 * - Threads do not meet between steps if each thread reads and writes only what is its own in both.
 * - Neighbouring copies of the same data become one.
 */
void mscclpp_plan_fuse(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks, bool keeps_input,
                       mscclpp_plan_program_t *program, mscclpp_dev_plan_start_t first);

/*
 * Tells whether a rank's program of a plan that is out of place also serves a call in place: whether each thread reads
 * its part of the input before it overwrites the same part of the output, and no other thread does either. This alone
 * is not enough. The caller also has to know that the plan does not write its input, and that no peer uses the two
 * buffers, which this does not look at. False without memory.
 */
bool mscclpp_plan_works_in_place(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks,
                                 const mscclpp_plan_program_t *program);

#endif
