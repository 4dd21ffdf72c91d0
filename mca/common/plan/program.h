/*
 * The flat program of one rank, as kernels run it (device/types/plan.h): its memory, and the form that blocks copy to
 * their own memory.
 */
#ifndef MCA_COMMON_PLAN_PROGRAM_H
#define MCA_COMMON_PLAN_PROGRAM_H

#include <stdbool.h>

#include "device/types/plan.h"

typedef struct {
    mscclpp_dev_plan_step_t *steps;
    mscclpp_dev_plan_item_t *items;
    mscclpp_dev_plan_link_t *links;
    mscclpp_dev_plan_start_t *starts; /* start of each block, and end of the last block */
    uint32_t step_count, item_count, link_count;
    uint32_t block_count; /* at least 1; a rank without blocks gets one block that does nothing */
    uint32_t channels;    /* number of memory and port channels, over which signals arrive */
    uint32_t barriers;    /* one more than the largest number of a barrier; 0: no barrier */
    uint32_t max_chunks;  /* see mscclpp_plan_program_max_chunks */
    bool works_in_place;  /* the program can also serve calls in place (mscclpp_plan_works_in_place) */
} mscclpp_plan_program_t;

/* Frees the lists of a program, which is then empty. The lists may be NULL. */
void mscclpp_plan_program_destroy(mscclpp_plan_program_t *program);

/* Returns the maximum number of chunks that a step of the program moves, or that a loop goes over; 0: no such step. */
uint32_t mscclpp_plan_program_max_chunks(const mscclpp_plan_program_t *program);

/*
 * Returns the kernel's argument `brief_chunks`. It is program->max_chunks, which the caller has set, if all steps of
 * all blocks only move data or let the block's threads meet, and no group of blocks shares a step. Otherwise it is 0.
 */
uint32_t mscclpp_plan_program_brief_chunks(const mscclpp_plan_program_t *program);

/*
 * Sets the addresses of the counters that the program's links increment or wait for. counters[r] are the counters of
 * rank r, one for each of its channels, at the addresses for this rank's kernels. Only those of ranks on this node are
 * used, because no link to another node has such a counter.
 */
void mscclpp_plan_program_resolve(mscclpp_plan_program_t *program, uint32_t rank, uint64_t *const *counters);

/*
 * Returns the size, in bytes, of all blocks' programs in the form that blocks copy to their own memory
 * (args->programs). Returns 0 if the program of some block is too long for that form. In both cases, sets max_steps,
 * max_items and program_bytes of `args`.
 */
uint64_t mscclpp_plan_program_measure(const mscclpp_plan_program_t *program, mscclpp_dev_plan_args_t *args);

/*
 * Writes the programs of all blocks to `to`, in the form that blocks copy to their own memory.
 * mscclpp_plan_program_measure must have set the fields of `args`, and returned a size above 0, which is the size of
 * `to`. The links must have been resolved.
 */
void mscclpp_plan_program_pack(const mscclpp_plan_program_t *program, const mscclpp_dev_plan_args_t *args, void *to);

#endif
