/* The steps of a set-up, in the order in which create.c calls them; several of them use probe.c. */
#ifndef MCA_COMMON_SETUP_INTERNAL_H
#define MCA_COMMON_SETUP_INTERNAL_H

#include "mca/common/oob/topology.h"
#include "mca/common/team/parts.h"

/*
 * node.c: creates a team of the ranks of `oob`, which are all on one node. If `nodes` is NULL, this is the whole team;
 * else it becomes part of a team that spans nodes. Collective over these ranks, and all return the same status.
 * *own_status_p is always written: this rank's own error, or MSCCLPP_OK.
 */
mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, mscclpp_status_t *own_status_p,
                                    mscclpp_team_t **team_p);

/*
 * align.c: makes the nodes agree: puts rank 0's settings and the tightest limits in force on all nodes, also in
 * `config`, and connects control messages. *own_status_p: in, whether this rank has a node's team (else `team` may be
 * NULL); out, whether its control messages are connected, on which the ranks have not voted. *has_plans_p becomes true
 * if some rank has been given execution plans. Collective over all ranks. Returns MSCCLPP_ERR_NOT_SUPPORTED on all
 * ranks if the nodes cannot work together, or a rank has no team.
 */
mscclpp_status_t mscclpp_setup_align(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                     const mscclpp_nodes_t *nodes, mscclpp_config_t *config,
                                     mscclpp_status_t *own_status_p, bool *has_plans_p);

/*
 * inherit.c: the same for a team whose ranks have agreed on kin, without an exchange. `team_id` is equal on all ranks
 * and no other team's. Returns this rank's own status, on which the ranks have not voted.
 */
mscclpp_status_t mscclpp_setup_inherit(mscclpp_team_t *team, const mscclpp_kin_t *kin, uint64_t team_id,
                                       mscclpp_config_t *config);

/*
 * probe.c: launches a kernel of one block on each rank of the node, `rounds` times; in each round the kernels of all
 * ranks meet. Fills in the arguments that all calls share; the caller has filled in the others. *seconds_p is the
 * duration of the shortest meeting, without the first; 0 if there is only one. A failure breaks the team, and the peers
 * are told.
 */
mscclpp_status_t mscclpp_setup_probe(mscclpp_team_t *team, mscclpp_dev_kernel_t kernel, uint32_t nthreads,
                                     mscclpp_dev_args_t *args, int rounds, double *seconds_p);

/*
 * plans.c: finds the execution plans that all ranks have, and gives them to the team. Collective. `has_plans`: some
 * rank has been given plans; equal on all ranks. *own_status_p is this rank's own error.
 */
mscclpp_status_t mscclpp_setup_plans(mscclpp_team_t *team, const mscclpp_team_params_t *params, bool has_plans,
                                     mscclpp_status_t *own_status_p);

/*
 * ll128.c: finds out whether two-phase packets may be in the format LL128, and sets the team's `ll128`. Collective.
 * `uuids` are those of the ranks' GPUs, `stride` bytes apart. `shared`: ranks may have to take turns on a GPU. That a
 * link cannot carry LL128 is no failure. *own_status_p is this rank's own error.
 */
mscclpp_status_t mscclpp_setup_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride, bool shared,
                                     mscclpp_status_t *own_status_p);

#endif
