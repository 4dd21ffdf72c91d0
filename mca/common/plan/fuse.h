/* Shortens the programs of blocks: steps that kernels need not execute are left out or joined. */
#ifndef MCA_COMMON_PLAN_FUSE_H
#define MCA_COMMON_PLAN_FUSE_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/program.h"

/*
 * Shortens the program of the block that begins at `start`, the last block of the rank's program so far. The results
 * stay the same, as long as packets of the plan order only themselves. Without memory, the program is unchanged.
 * `block_chunks` is the number of chunks in a rank's block of input or output (mscclpp_plan_block_chunks).
 * `keeps_input` promises that no rank writes to any rank's input.
 *
 * - A step that reads data that an earlier step has copied from the input reads the input instead, if `keeps_input` is
 *   set.
 * - Data that a later step overwrites before any thread can read it is not stored.
 * - Threads do not meet between two steps if each thread reads and writes only its own elements in both.
 * - Neighbouring copies of the same data are joined.
 */
void mscclpp_plan_fuse(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks, bool keeps_input,
                       mscclpp_plan_program_t *program, mscclpp_dev_plan_start_t start);

#endif
