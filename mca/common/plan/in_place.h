/* Finds out whether a lowered plan works in place: with input and output in one buffer. */
#ifndef MCA_COMMON_PLAN_IN_PLACE_H
#define MCA_COMMON_PLAN_IN_PLACE_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/program.h"

/*
 * Returns true if a rank's program of an out-of-place plan can also serve a call in place. For that, each thread must
 * read its part of the input before it overwrites the same part of the output, and no other thread may overwrite that
 * part. This alone is not enough. The caller must also know that the plan does not write its input, and that no peer
 * uses the two buffers. Returns false also if the plan has too many chunks to examine, or if there is no memory.
 */
bool mscclpp_plan_works_in_place(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks,
                                 const mscclpp_plan_program_t *program);

#endif
