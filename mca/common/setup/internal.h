/* The steps of a set-up, in the order in which create.c calls them; several of them use probe.c. */
#ifndef MCA_COMMON_SETUP_INTERNAL_H
#define MCA_COMMON_SETUP_INTERNAL_H

#include "mca/common/oob/topology.h"
#include "mca/common/team/parts.h"

/*
 * node.c: creates a team of the ranks of `oob`, which are all on one node. If `nodes` is NULL, this is the whole team;
 * otherwise it becomes part of a team that spans nodes. `tried` says that kernels of the same ranks on the same devices
 * have met already, so that this is not tried again; it is equal on all ranks. Collective over these ranks, and all of
 * them return the same status. *own_status_p is always set: to this rank's own error, or MSCCLPP_OK.
 */
mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, bool tried, mscclpp_status_t *own_status_p,
                                    mscclpp_team_t **team_p);

/*
 * align.c: makes the nodes agree. All nodes then use rank 0's settings, also in `config`, and the tightest limits, and
 * control messages are connected. Collective over all ranks. Returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks if the
 * nodes cannot work together, or if a rank has no team.
 *
 * Before the call *own_status_p says whether this rank has a team of its node; otherwise `team` may be NULL. After the
 * call it says whether the control messages of this rank are connected, and the ranks have not voted on it.
 * *has_plans_p becomes true if some rank has been given execution plans.
 */
mscclpp_status_t mscclpp_setup_align(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                     const mscclpp_nodes_t *nodes, mscclpp_config_t *config,
                                     mscclpp_status_t *own_status_p, bool *has_plans_p);

/*
 * inherit.c: sets up a team whose ranks have agreed on kin, without an exchange. `team_id` is equal on all ranks, and
 * no other team has it. Returns this rank's own status, on which the ranks have not voted.
 */
mscclpp_status_t mscclpp_setup_inherit(mscclpp_team_t *team, const mscclpp_kin_t *kin, uint64_t team_id,
                                       mscclpp_config_t *config);

/*
 * probe.c: launches a kernel of one block on each rank of the node, `rounds` times. In each round the kernels of all
 * ranks meet. Fills in the arguments that all calls share; the caller has filled in the others. *seconds_p is the
 * duration of the shortest meeting, without the first one; 0 if there is only one. A failure breaks the team, and the
 * peers are told.
 */
mscclpp_status_t mscclpp_setup_probe(mscclpp_team_t *team, mscclpp_dev_kernel_t kernel, uint32_t nthreads,
                                     mscclpp_dev_args_t *args, int rounds, double *seconds_p);

/*
 * plans.c: finds the execution plans that all ranks have, and stores them in the team. Collective. `has_plans` says
 * that some rank has been given plans, and is equal on all ranks. *own_status_p is this rank's own error.
 */
mscclpp_status_t mscclpp_setup_plans(mscclpp_team_t *team, const mscclpp_team_params_t *params, bool has_plans,
                                     mscclpp_status_t *own_status_p);

/*
 * ll128.c: determines whether two-phase packets may be in the format LL128, and sets the team's `ll128`. Collective.
 * `uuids` has the UUIDs of the ranks' GPUs, at distances of `stride` bytes. `shared` says that ranks may have to take
 * turns on a GPU. A link that cannot carry LL128 is not a failure. *own_status_p is this rank's own error.
 */
mscclpp_status_t mscclpp_setup_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride, bool shared,
                                     mscclpp_status_t *own_status_p);

#endif
