/*
 * Lowers a plan: converts it, once for all sizes and types, into the flat programs that kernels run
 * (device/types/plan.h).
 */
#ifndef MCA_COMMON_PLAN_LOWER_H
#define MCA_COMMON_PLAN_LOWER_H

#include "mca/common/plan/plan.h"
#include "mca/common/plan/program.h"

/*
 * Creates the program of one rank from a plan without faults, whose numbers are used as indices without further checks.
 *
 * far_ranks[r] says that rank r is on another node, so its memory cannot be accessed; NULL: no rank is. Channels to
 * such ranks must be port channels. Between ranks of one node, blocks do the work that the plan gives to a proxy.
 *
 * `packets_order_stores` says that packets have to order other stores; the simulation of the plan notes this as
 * `packet-order`. If it is not set, steps that change no result are removed (mscclpp_plan_fuse).
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, with a constant text in *reason_p, if the plan exceeds the limits of kernels, or
 * MSCCLPP_ERR_NO_MEMORY, after which *reason_p may be NULL. After a failure *program is empty, and nothing has been
 * logged. After a success *reason_p is unchanged, and the caller destroys the program by mscclpp_plan_program_destroy.
 */
mscclpp_status_t mscclpp_plan_lower(const mscclpp_plan_t *plan, uint32_t rank, const bool *far_ranks,
                                    bool packets_order_stores, mscclpp_plan_program_t *program, const char **reason_p);

/*
 * Returns the signal slot of a rank's channel, which is its number among the memory and port channels of the rank
 * together.
 */
uint32_t mscclpp_plan_slot(const mscclpp_plan_t *plan, uint32_t rank, mscclpp_plan_channel_type_t type,
                           uint32_t channel);

/*
 * Returns the reason why a plan cannot run on several nodes, as a constant text, or NULL if it can. Rank r is on
 * node_of[r]. In either case, sets *has_packets_p to true if the plan sends packets to other nodes, through ports, and
 * otherwise to false.
 */
const char *mscclpp_plan_nodes_misfit(const mscclpp_plan_t *plan, const int *node_of, bool *has_packets_p);

/*
 * Returns the size in bytes of the scratch for chunks of `chunk_bytes` bytes. Sets *half_bytes_p to the size in bytes
 * of a half of the scratch, or to 0 if the scratch has no halves. Both sizes are equal on all ranks, whatever their
 * numbers of chunks, because a rank also uses them to find the halves of its peers.
 */
uint64_t mscclpp_plan_scratch_bytes(const mscclpp_plan_t *plan, uint64_t chunk_bytes, uint64_t *half_bytes_p);

#endif
