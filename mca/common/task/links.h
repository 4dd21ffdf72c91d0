/* Tests and measures a team's links, by transfers around the ring of its ranks over memory channels. */
#ifndef MCA_COMMON_TASK_LINKS_H
#define MCA_COMMON_TASK_LINKS_H

#include "mca/common/team/team.h"

/*
 * Runs `rounds` rounds around the ring. In each round, every rank puts `bytes` bytes from `in` into the next rank's
 * memory, or with `by_get` copies them from it. Then it waits for its neighbour. `out` receives the data of the last
 * round: the input of the previous rank, or with `by_get` of the next rank.
 *
 * Blocking and collective. All arguments except the buffers must be equal on all ranks. *seconds_p is the time from
 * before the ranks meet to the end of the kernel. If the team's scratch is too small for the bytes, it first grows to
 * its full size. Returns MSCCLPP_ERR_INVALID, on all ranks and with the team unbroken, if the bytes do not fit into
 * half of its bulk area even then. Returns MSCCLPP_ERR_PEER if the team is broken already. Any other error breaks the
 * team.
 */
mscclpp_status_t mscclpp_links_try(mscclpp_team_t *team, const void *in, void *out, uint64_t bytes, uint32_t rounds,
                                   bool by_get, double *seconds_p);

/* Returns the largest `bytes` of a ring with the current scratch of the team: half of its bulk area. */
uint64_t mscclpp_links_max(const mscclpp_team_t *team);

#endif
