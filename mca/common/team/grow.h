/*
 * Scratch in two sizes. A team begins with less than 1 MiB a rank, which is as good as more for messages of a few KiB,
 * so that an application may have many communicators; its first larger message makes it grow, on all ranks alike.
 */
#ifndef MCA_COMMON_TEAM_GROW_H
#define MCA_COMMON_TEAM_GROW_H

#include "mca/common/team/parts.h"

/* Lays out the scratch that a team begins with. `ranks`: of the communicator, those of other nodes included. */
void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks);

/* Whether a call of so many bytes is for a larger scratch than the team has. `queued`: nobody waits for it. */
bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued);

/*
 * Called by all ranks at the same point of a call, in which no operation of the team is under way. Where any rank
 * cannot have the memory, all go on with what they have, which serves all sizes, though slowly. An error breaks the
 * team.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes);

#endif
