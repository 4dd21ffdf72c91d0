/*
 * Ended teams that wait for a communicator of the same ranks, which takes one over as it is: scratch, mappings, board
 * and control messages. Applications that duplicate a communicator for each of many short tasks pay for one set-up.
 *
 * Ranks end a communicator at different times, and each has its own few. Which one is taken over is agreed: a rank
 * takes those that fit out of its list, tells the others their numbers, and puts back what was not chosen. A team has a
 * number that no other one of any of its ranks has, so a number that all ranks tell, each of them at the same rank of
 * as many, is that of a team of the same processes in the same order; and one that is in nobody else's hand in any of
 * them.
 */
#ifndef MCA_COMMON_TEAM_PARK_H
#define MCA_COMMON_TEAM_PARK_H

#include "mca/common/team/team.h"

/* How many teams a rank offers to one communicator. */
#define MSCCLPP_PARK_OFFERS 4

/* A number that is equal only where a team made with the one set of parameters does for the other; never 0. */
uint64_t mscclpp_park_key(const mscclpp_team_params_t *params);

/* Takes those with the key out of the list, the last one to end first; NULL for each that is lacking. */
void mscclpp_park_claim(uint64_t key, mscclpp_team_t *teams[MSCCLPP_PARK_OFFERS]);

/*
 * Keeps a team that has ended, or was claimed and not taken over. False if it cannot be kept. *evicted_p, which the
 * caller is to destroy, is one that had to make room; NULL: none.
 */
bool mscclpp_park_put(mscclpp_team_t *team, mscclpp_team_t **evicted_p);

/* One of all, to be destroyed; NULL if there is none left. */
mscclpp_team_t *mscclpp_park_drain(void);

/* Makes a claimed team that of a new communicator. */
void mscclpp_park_reopen(mscclpp_team_t *team, const mscclpp_oob_t *oob);

#endif
