/* Packs a program as the kernels of blocks copy it, for programs that run plans without teams. */
#ifndef TEST_PLANS_PACKED_H
#define TEST_PLANS_PACKED_H

#include <stdlib.h>

#include "mca/common/plan/program.h"

/*
 * Resolves the program's links, and returns the program in the form for a block's own memory, to be freed; NULL: it is
 * too long for that. counters[r] are the counters of rank r.
 */
static inline void *packed_program(mscclpp_plan_program_t *program, uint32_t rank, uint64_t *const *counters)
{
    mscclpp_dev_plan_args_t args;
    const uint64_t bytes = mscclpp_plan_program_measure(program, &args);
    void *packed = bytes > 0 ? malloc(bytes) : NULL;

    mscclpp_plan_program_resolve(program, rank, counters);
    if (packed != NULL) {
        mscclpp_plan_program_pack(program, &args, packed);
    }
    return packed;
}

#endif
