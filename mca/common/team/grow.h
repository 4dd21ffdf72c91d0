/*
 * The sizes of a team's scratch. A team of few ranks on one node begins with a piece of the process's pool, of some
 * 160 KiB for each rank. So an application may have many communicators. Other teams begin with less than 1 MiB.
 * This is enough for messages of some KiB at full speed. The first message that is larger and goes through the scratch
 * makes it grow on all ranks: to less than 1 MiB if that is enough, else to its full size. On one node the full size is
 * a lease (lease.h), which the team may lose again.
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

/* Yields the layout that a growth for messages of `bytes` bytes aims at. */
void mscclpp_team_grown_layout(const mscclpp_team_t *team, uint64_t bytes, mscclpp_layout_t *layout);

/*
 * Grows the scratch for messages of `bytes` bytes, or to its full size if `queued` is set. All ranks call it at the
 * same point of a call, while no operation of the team is in flight. If any rank cannot get the memory, all keep the
 * small scratch, which serves all sizes, though slowly. An error breaks the team.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes, bool queued);

/*
 * To be called around each operation of a team whose host waits for it, by all ranks alike. Other teams of the process
 * may have taken over the scratch for large messages since the last one (lease.h): then `enter` returns to the small
 * scratch. After an error the caller must break the team.
 */
mscclpp_status_t mscclpp_team_enter(mscclpp_team_t *team);
void mscclpp_team_leave(mscclpp_team_t *team);

/* At the end of a team: closes mappings of the peers' small scratch that it has kept beside a larger one. */
void mscclpp_team_close_kept(mscclpp_team_t *team);

/* Frees all scratch of the team, which no peer maps any more. */
void mscclpp_team_free_scratch(mscclpp_team_t *team);

#endif
