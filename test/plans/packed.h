/* Memory and programs of blocks, for programs that run plans without teams. */
#ifndef TEST_PLANS_PACKED_H
#define TEST_PLANS_PACKED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/program.h"

/* Returns memory filled with zeros, which may be scratch of any kind. Ends the program if there is none. */
static inline void *zeroed(size_t size)
{
    void *address = NULL;

    if (posix_memalign(&address, 2 * MSCCLPP_DEV_PLAN_PLANE, size + 64) != 0) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memset(address, 0, size + 64);
}

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

/* Sets *has_packets_p and *has_plain_p to true if the program uses scratch with packets, and with other data. */
static inline void note_scratch(const mscclpp_plan_program_t *program, bool *has_packets_p, bool *has_plain_p)
{
    for (uint32_t i = 0; i < program->item_count; ++i) {
        const mscclpp_dev_plan_item_t *item = &program->items[i];

        if (item->base % MSCCLPP_DEV_PLAN_BUFFERS == MSCCLPP_DEV_PLAN_SCRATCH) {
            *(item->packets != 0 ? has_packets_p : has_plain_p) = true;
        }
    }
}

#endif
