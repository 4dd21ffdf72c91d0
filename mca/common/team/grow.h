/*
 * The sizes of a team's scratch. A team of few ranks on one node begins with a piece of the process's pool, of some
 * 160 KiB for each rank. So an application may have many communicators. Other teams begin with less than 1 MiB.
 * This is enough for messages of some KiB at full speed. The first message that is larger makes the scratch grow on all
 * ranks: to less than 1 MiB if that is enough, else to its full size.
 */
#ifndef MCA_COMMON_TEAM_GROW_H
#define MCA_COMMON_TEAM_GROW_H

#include "mca/common/team/parts.h"

/*
 * Lays out the team's first scratch, which may later grow to `scratch_size`. Allocates nothing. `ranks` is the number
 * of ranks of the communicator, on all nodes.
 */
void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks);

/* To be called when the protocol is known: notes whether users have chosen what the first scratch has no room for. */
void mscclpp_team_note_choices(mscclpp_team_t *team);

/* True if a call of `bytes` bytes needs a larger scratch than the team has. `queued`: the host does not wait for it. */
bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued);

/*
 * Grows the scratch for messages of `bytes` bytes, or to its full size if `queued` is set. All ranks call it at the
 * same point of a call, while no operation of the team is in flight. If any rank cannot get the memory, all keep the
 * small scratch, which serves all sizes, though slowly. An error breaks the team.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes, bool queued);

#endif
