/* From a plan to the flat programs that kernels run (device/types/plan.h): once, for all sizes and types. */
#ifndef MCA_COMMON_PLAN_LOWER_H
#define MCA_COMMON_PLAN_LOWER_H

#include "device/types/plan.h"
#include "mca/common/plan/plan.h"

/* Of one rank. */
typedef struct {
    mscclpp_dev_plan_step_t *steps;
    mscclpp_dev_plan_item_t *items;
    mscclpp_dev_plan_link_t *links;
    uint32_t *starts; /* of each block */
    uint32_t step_count, item_count, link_count, block_count;
    uint32_t channels; /* that signals come over */
    uint32_t barriers; /* numbers that are used, from 0 on */
} mscclpp_plan_program_t;

/*
 * For a plan without faults, whose ranks all reach one another's memory: what a plan asks of a proxy, the block then
 * does itself. MSCCLPP_ERR_NOT_SUPPORTED, with a constant that says why, where kernels have no room for it. Packets of
 * these kernels do not order stores before them, so a plan that is simulated with a note `packet-order` is not for
 * them.
 */
mscclpp_status_t mscclpp_plan_lower(const mscclpp_plan_t *plan, uint32_t rank, mscclpp_plan_program_t *program,
                                    const char **why_p);
void mscclpp_plan_program_destroy(mscclpp_plan_program_t *program);

/* Chunks of a rank's block of the input, which with others makes up the output, or the other way round. */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan);

/*
 * Bytes of a chunk of a message whose blocks are of so many bytes. False if the plan cannot serve it: chunks have to
 * divide a block where an operation goes over the end of one.
 */
bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_p);

/*
 * Bytes of the scratch for chunks of so many bytes, and of one half of it, 0 if it has none. The same on all ranks,
 * however many chunks each has: a rank finds the half of its peers by it, too.
 */
uint64_t mscclpp_plan_scratch_bytes(const mscclpp_plan_t *plan, uint64_t chunk, uint64_t *half_p);

#endif
