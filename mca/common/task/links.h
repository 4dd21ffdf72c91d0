/* A check and a measure of a team's links: transfers round the ring of its ranks over memory channels. */
#ifndef MCA_COMMON_TASK_LINKS_H
#define MCA_COMMON_TASK_LINKS_H

#include "mca/common/team/team.h"

/*
 * In each of `rounds` rounds every rank puts `bytes` from `in` to the next rank (with `get`: fetches those of the next
 * one) and awaits its neighbour. `out` receives what the last round brought: the previous rank's input, or the next
 * one's. Blocking and collective; arguments but the buffers are equal on all ranks. *seconds_p is the time of the call.
 * MSCCLPP_ERR_INVALID if `bytes` is more than mscclpp_links_max.
 */
mscclpp_status_t mscclpp_links_try(mscclpp_team_t *team, const void *in, void *out, uint64_t bytes, uint32_t rounds,
                                   bool get, double *seconds_p);

/* Largest `bytes` of a ring: half of the team's bulk area. */
uint64_t mscclpp_links_max(const mscclpp_team_t *team);

#endif
