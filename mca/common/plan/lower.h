/* Turns a plan into the flat programs that kernels run (device/types/plan.h): once, for all sizes and types. */
#ifndef MCA_COMMON_PLAN_LOWER_H
#define MCA_COMMON_PLAN_LOWER_H

#include "device/types/plan.h"
#include "mca/common/plan/plan.h"

/* The program of one rank. */
typedef struct {
    mscclpp_dev_plan_step_t *steps;
    mscclpp_dev_plan_item_t *items;
    mscclpp_dev_plan_link_t *links;
    mscclpp_dev_plan_start_t *starts; /* of each block, and the end of the last one */
    uint32_t step_count, item_count, link_count;
    uint32_t block_count; /* at least 1; the only block of a rank without any does nothing */
    uint32_t channels;    /* channels that signals arrive over */
    uint32_t barriers;    /* barrier numbers in use, from 0 on */
} mscclpp_plan_program_t;

/*
 * Needs a plan without faults. `far` says of each rank whether its memory is out of reach, as that of other nodes is;
 * NULL: none is. Channels to such ranks must be port channels, and numbers of ports are those of the rank's port
 * channels. Between ranks that reach one another's memory, blocks themselves do the work that the plan gives to a
 * proxy. MSCCLPP_ERR_NOT_SUPPORTED, with a constant reason, if kernels have no room for the plan. Packets of these
 * kernels do not order the stores before them, so a plan whose simulation gives the note `packet-order` must not be
 * used.
 */
mscclpp_status_t mscclpp_plan_lower(const mscclpp_plan_t *plan, uint32_t rank, const bool *far,
                                    mscclpp_plan_program_t *program, const char **why_p);
void mscclpp_plan_program_destroy(mscclpp_plan_program_t *program);

/* The number of a channel of a rank, among those that signals arrive over. */
uint32_t mscclpp_plan_slot(const mscclpp_plan_t *plan, uint32_t rank, mscclpp_plan_channel_type_t type,
                           uint32_t channel);

/*
 * Why ranks that do not reach one another's memory cannot run the plan: a constant text; NULL: they can. *packets_p: it
 * sends packets through ports.
 */
const char *mscclpp_plan_needs_reach(const mscclpp_plan_t *plan, const int *node_of, bool *packets_p);

/*
 * Chunks of a rank's block of the input, where several such blocks make up the output, or the other way round. Of plans
 * of collectives that MPI does not have, each chunk is a block.
 */
uint32_t mscclpp_plan_block_chunks(const mscclpp_plan_t *plan);

/*
 * Sets the bytes of a chunk for a message with blocks of `block_bytes`. False if the plan cannot serve it: chunks must
 * divide a block if an operation crosses the end of one.
 */
bool mscclpp_plan_chunk_bytes(const mscclpp_plan_t *plan, uint64_t block_bytes, uint64_t *chunk_p);

/*
 * Bytes of the scratch for chunks of `chunk` bytes, and of one half of it, 0 if it has no halves. Equal on all ranks,
 * however many chunks each has: a rank also uses it to find the halves of its peers.
 */
uint64_t mscclpp_plan_scratch_bytes(const mscclpp_plan_t *plan, uint64_t chunk, uint64_t *half_p);

#endif
