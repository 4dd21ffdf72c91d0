/*
 * Parked teams: teams of ended communicators, kept for a later communicator of the same ranks. That communicator takes
 * over the scratch, the mappings, the board and the control messages as they are. So applications that duplicate a
 * communicator for each of many short tasks pay for one set-up only.
 *
 * Ranks end communicators at different times. So each rank has its own list of parked teams, and the ranks must agree
 * on the team to take over. Each rank claims the teams that fit from its list, tells the others their numbers, and puts
 * back those that were not chosen.
 *
 * Why this is safe: a team's number differs from that of every other team of any of its ranks. So a number that all
 * ranks offer, with equal ranks and sizes, belongs to a team of the same processes in the same order. As each rank has
 * taken that team off its list, no other thread can claim it.
 */
#ifndef MCA_COMMON_TEAM_PARK_H
#define MCA_COMMON_TEAM_PARK_H

#include "mca/common/team/team.h"

/* The maximum number of teams that a rank offers to one communicator. */
#define MSCCLPP_PARK_OFFERS 4

/* Returns a digest of the parameters, which is never 0. Teams with equal keys can replace one another. */
uint64_t mscclpp_park_key(const mscclpp_team_params_t *params);

/*
 * Removes the teams with this key from the list, at most MSCCLPP_PARK_OFFERS, and stores them in `teams`, the one that
 * ended last first. The other elements of `teams` become NULL. The caller reopens one of the teams and puts back the
 * others.
 */
void mscclpp_park_claim(uint64_t key, mscclpp_team_t *teams[MSCCLPP_PARK_OFFERS]);

/*
 * Parks a team that has ended, or that was claimed and not taken over. Returns false if the team cannot be kept; the
 * caller then destroys it. *evicted_p is a team that was removed from the list to make room, and which the caller has
 * to destroy, too; NULL: none.
 */
bool mscclpp_park_put(mscclpp_team_t *team, mscclpp_team_t **evicted_p);

/* Removes the oldest parked team from the list, for the caller to destroy. Returns NULL if the list is empty. */
mscclpp_team_t *mscclpp_park_pop(void);

/* Converts a claimed team, on which all ranks have agreed, into the team of a new communicator. */
void mscclpp_park_reopen(mscclpp_team_t *team, const mscclpp_oob_t *oob);

#endif
