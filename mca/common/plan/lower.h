/* Turns a plan into the flat programs that kernels run (device/types/plan.h): once, for all sizes and types. */
#ifndef MCA_COMMON_PLAN_LOWER_H
#define MCA_COMMON_PLAN_LOWER_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/program.h"

/*
 * Makes the program of one rank from a plan without faults: its numbers are used as indices without further checks.
 *
 * far_ranks[r] says that rank r is on another node, so its memory is out of reach; NULL: no rank is. Channels to such
 * ranks must be port channels. Between ranks of one node, blocks do the work that the plan gives to a proxy.
 *
 * orders: packets have to order other stores, as the plan's simulation notes by `packet-order`. Else steps that change
 * no result are left out (mscclpp_plan_fuse).
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, with a constant text in *why_p, if the plan exceeds what kernels can run, or
 * MSCCLPP_ERR_NO_MEMORY. After a failure there is nothing to destroy; else mscclpp_plan_program_destroy.
 */
mscclpp_status_t mscclpp_plan_lower(const mscclpp_plan_t *plan, uint32_t rank, const bool *far_ranks, bool orders,
                                    mscclpp_plan_program_t *program, const char **why_p);

/* Returns the signal slot of a rank's channel: its number among the memory and port channels of the rank together. */
uint32_t mscclpp_plan_slot(const mscclpp_plan_t *plan, uint32_t rank, mscclpp_plan_channel_type_t type,
                           uint32_t channel);

/*
 * Tells whether the plan can run on several nodes; rank r is on node_of[r]. Returns NULL if it can, or a constant text
 * that says why not. Sets *has_packets_p to whether it sends packets to other nodes, through ports.
 */
const char *mscclpp_plan_needs_reach(const mscclpp_plan_t *plan, const int *node_of, bool *has_packets_p);

/*
 * Returns the bytes of scratch for chunks of `chunk` bytes. *half_p: bytes of one of its halves; 0 if it has none. Both
 * are equal on all ranks, however many chunks each has: a rank also uses them to find the halves of its peers.
 */
uint64_t mscclpp_plan_scratch_bytes(const mscclpp_plan_t *plan, uint64_t chunk, uint64_t *half_p);

#endif
