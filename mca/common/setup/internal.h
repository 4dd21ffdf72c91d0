/* The steps of a set-up. create.c takes them in order; probe.c serves several. */
#ifndef MCA_COMMON_SETUP_INTERNAL_H
#define MCA_COMMON_SETUP_INTERNAL_H

#include "mca/common/oob/topology.h"
#include "mca/common/team/parts.h"

/*
 * node.c: the team of the ranks of `oob`, which are on one node. `nodes` NULL: it is whole; else it becomes a part of
 * one over several nodes. *own_p, written in any case, is this rank's own trouble, if it has any.
 */
mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, mscclpp_status_t *own_p, mscclpp_team_t **team_p);

/*
 * align.c: puts rank 0's settings in force on all nodes, `config` among them, and the tightest limits, and connects
 * control messages. Collective over all ranks. MSCCLPP_ERR_NOT_SUPPORTED, equal on all ranks, if the nodes cannot work
 * together.
 */
mscclpp_status_t mscclpp_setup_align(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                     const mscclpp_nodes_t *nodes, mscclpp_config_t *config);

/*
 * probe.c: lets a kernel of one block on each rank meet those of the others, `rounds` times, and says how long the
 * shortest meeting but the first took if there are several. Fills in the arguments that all calls share. A failure
 * tells the peers.
 */
mscclpp_status_t mscclpp_setup_probe(mscclpp_team_t *team, mscclpp_dev_kernel_t kernel, uint32_t nthreads,
                                     mscclpp_dev_args_t *args, int rounds, double *seconds_p);

/*
 * ll128.c: finds out whether two-phase packets may be LL128, the last step for one node; called by all ranks alike.
 * `uuids` are those of the ranks' GPUs, so many bytes apart; `shared`: ranks may have to take turns on one. A link that
 * cannot carry LL128 is no failure. *own_p is this rank's own trouble.
 */
mscclpp_status_t mscclpp_setup_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride, bool shared,
                                     mscclpp_status_t *own_p);

#endif
