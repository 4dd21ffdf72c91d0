/* The steps of a set-up, in the order in which create.c calls them; several of them use probe.c. */
#ifndef MCA_COMMON_SETUP_INTERNAL_H
#define MCA_COMMON_SETUP_INTERNAL_H

#include "mca/common/oob/topology.h"
#include "mca/common/team/kin.h"
#include "mca/common/team/parts.h"

/*
 * node.c: creates a team of the ranks of `oob`, which are all on one node. If `nodes` is NULL, this is the whole team;
 * otherwise it becomes part of a team that spans nodes. `have_met` says that kernels of the same ranks on the same
 * devices have met before, so that this is not tried again. It is equal on all ranks. Collective over these ranks, and
 * all of them return the same status. *own_status_p is always set: to this rank's own error, or MSCCLPP_OK. *team_p is
 * set only with MSCCLPP_OK.
 */
mscclpp_status_t mscclpp_setup_node(const mscclpp_team_params_t *params, const mscclpp_oob_t *oob,
                                    const mscclpp_nodes_t *nodes, bool have_met, mscclpp_status_t *own_status_p,
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

/* What a rank has made before the ranks have agreed on kin (ahead.c). */
typedef struct {
    const mscclpp_kin_t *kin;     /* the kin that it offers; NULL: it has made nothing */
    mscclpp_nodes_t nodes;        /* until the fabric has them */
    mscclpp_team_t *team;         /* NULL: it could not be made */
    mscclpp_status_t node_status; /* own status after this rank's part of the team was made */
    mscclpp_fabric_t *fabric;     /* NULL: its ends of the connections could not be made */
    mscclpp_status_t status;      /* own status after all so far */
    mscclpp_oob_ahead_t exchange; /* connects the ends */
    uint64_t *connected_p;        /* where the card has the number of the kin if this rank is connected, else 0 */
} mscclpp_setup_ahead_t;

/*
 * ahead.c: makes what can be made before the ranks agree. Local. If something fails, mscclpp_setup_ahead_gather tells
 * the ranks that wait for this one. `kin` may be NULL; the caller keeps its reference to it until
 * mscclpp_setup_ahead_drop.
 */
void mscclpp_setup_ahead_begin(mscclpp_setup_ahead_t *ahead, const mscclpp_team_params_t *params,
                               const mscclpp_kin_t *kin);

/*
 * ahead.c: gathers the cards of all ranks, and connects meanwhile what was made. *connected_p is a field of `card`,
 * which is filled in once the ends are connected. Collective. Returns the error of the all-gather.
 */
mscclpp_status_t mscclpp_setup_ahead_gather(mscclpp_setup_ahead_t *ahead, const mscclpp_oob_t *oob, const void *card,
                                            uint64_t *connected_p, void *cards, size_t length);

/*
 * ahead.c: completes the team, once all ranks are connected, and gives it to the caller. `team_id` is as for
 * mscclpp_setup_name. Local.
 */
mscclpp_team_t *mscclpp_setup_ahead_finish(mscclpp_setup_ahead_t *ahead, uint64_t team_id);

/*
 * ahead.c: returns true if the ranks have agreed on `kin`, and this rank has made its part of the team by them. Gives
 * that part to the caller; NULL: it could not be made, and *own_status_p is the reason. For ranks that are not all
 * connected, after mscclpp_setup_ahead_drop.
 */
bool mscclpp_setup_ahead_take(mscclpp_setup_ahead_t *ahead, const mscclpp_kin_t *kin, mscclpp_status_t *own_status_p,
                              mscclpp_team_t **team_p);

/* ahead.c: frees the connections if the team does not have them. */
void mscclpp_setup_ahead_drop(mscclpp_setup_ahead_t *ahead);

/*
 * ahead.c: makes a node's team part of that of all ranks: gives it the exchange of all ranks, and the first ranks of
 * the other nodes.
 */
void mscclpp_setup_widen(mscclpp_team_t *team, const mscclpp_team_params_t *params, const mscclpp_nodes_t *nodes);

/*
 * inherit.c: sets up a team whose ranks have agreed on kin, without an exchange. Returns this rank's own status, on
 * which the ranks have not voted. After a success, mscclpp_setup_name gives the team its number, which is equal on all
 * ranks, and which no other team has.
 */
mscclpp_status_t mscclpp_setup_inherit(mscclpp_team_t *team, const mscclpp_kin_t *kin, mscclpp_config_t *config);
void mscclpp_setup_name(mscclpp_team_t *team, uint64_t team_id);

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
 * `uuids` has the UUIDs of the ranks' GPUs, at distances of `stride` bytes. `may_take_turns` says that ranks may have
 * to take turns on a GPU. A link that cannot carry LL128 is not a failure. *own_status_p is this rank's own error.
 */
mscclpp_status_t mscclpp_setup_ll128(mscclpp_team_t *team, const unsigned char *uuids, size_t stride,
                                     bool may_take_turns, mscclpp_status_t *own_status_p);

#endif
