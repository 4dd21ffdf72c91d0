/*
 * How a scratch replaces that of a team (team/grow.h): the ranks of the node allocate it, exchange handles, map one
 * another's, and vote. All ranks of the node call these functions at the same point.
 */
#ifndef MCA_COMMON_TEAM_LARGER_H
#define MCA_COMMON_TEAM_LARGER_H

#include "mca/common/team/parts.h"

/* A scratch that is to replace that of a team. */
typedef struct {
    mscclpp_layout_t layout;
    bool is_leased;    /* it is a chunk of team/lease.h */
    bool is_queued;    /* it is for queued operations, on one node */
    bool is_reclaimed; /* only this node replaces its scratch, by one of the same layout as it had before */
    char *own_scratch; /* this rank's; NULL: it has none */
    uint64_t epochs;   /* flags of packets in the scratch of any rank are at most this */
    char *scratch[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_mapping_t *mapping[MSCCLPP_DEV_MAX_RANKS];
} mscclpp_larger_t;

/*
 * Allocates this rank's scratch. Unless it is reclaimed, larger->epochs becomes at least the number of the last flag in
 * a chunk. larger->own_scratch may be set even after an error, and then the caller has to free it.
 */
mscclpp_status_t mscclpp_larger_allocate(mscclpp_team_t *team, mscclpp_larger_t *larger);

/*
 * Exchanges handles with the ranks of the node, maps the new scratch of the peers, and votes. A rank that has failed
 * takes part in all of this, because the others wait for it.
 *
 * Ranks need not come to the exchange of a queued call (mscclpp_group_meet_exchange_by_deadline). Others may be in an
 * exchange of buffers meanwhile, if they capture other calls. Such an exchange publishes the arguments of its call, and
 * this one their complement, so the ranks see that they differ.
 *
 * *own_status_p is this rank's own status, before and after. *all_succeeded_p says whether all ranks have succeeded,
 * and is equal on all of them: on all nodes or, for a reclaimed scratch, on this node. larger->epochs is then equal,
 * too. Returns an error only if the exchange or the vote itself fails, or the counters cannot be written, which breaks
 * the team.
 */
mscclpp_status_t mscclpp_larger_exchange(mscclpp_team_t *team, uint64_t bytes, mscclpp_larger_t *larger,
                                         mscclpp_status_t *own_status_p, bool *all_succeeded_p);

/* Closes the mappings, if the scratch does not become the team's. */
void mscclpp_larger_close(mscclpp_larger_t *larger);

/*
 * Replaces the team's scratch by the larger one, which all ranks have mapped. Returns the old scratch, which is still
 * allocated. Returns NULL if the team keeps the old one with its mappings: if the new one is leased, and if queued
 * operations or graphs may use the old one.
 */
char *mscclpp_larger_install(mscclpp_team_t *team, const mscclpp_larger_t *larger);

/*
 * Sets the counters of a scratch for all blocks. The number of launches becomes the number that the runner has
 * counted, so that kernels and host agree. The flags of packets become `epochs`.
 */
mscclpp_status_t mscclpp_larger_write_progress(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout,
                                               uint64_t epochs);

#endif
