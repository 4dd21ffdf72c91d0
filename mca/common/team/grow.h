/*
 * The two sizes of a team's scratch. A team begins with less than 1 MiB for each rank, so that an application may have
 * many communicators. This is enough for messages of a few KiB at full speed. The first larger message makes the
 * scratch grow on all ranks.
 */
#ifndef MCA_COMMON_TEAM_GROW_H
#define MCA_COMMON_TEAM_GROW_H

#include "mca/common/team/parts.h"

/* Lays out the team's first scratch. `ranks` is the number of ranks of the communicator, on all nodes. */
void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks);

/* True if a call of `bytes` bytes needs a larger scratch than the team has. `queued`: the host does not wait for it. */
bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued);

/*
 * Grows the scratch. All ranks call it at the same point of a call, while no operation of the team is in flight. If any
 * rank cannot get the memory, all keep the small scratch, which serves all sizes, though slowly. An error breaks the
 * team.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes);

#endif
