/*
 * The sizes of a team's scratch. A team of few ranks begins with a piece of the process's pool, of some 160 KiB for
 * each rank. So an application may have many communicators. Other teams begin with less than 1 MiB. This is enough for
 * messages of some KiB at full speed. The first message that is larger and goes through the scratch makes it grow on
 * all ranks: to less than 1 MiB if that is enough, else to its full size. The full size is a lease (lease.h), which the
 * team may lose again. A team for queued operations (queue.h) has memory of its own, and grows to the full size at
 * once. It keeps the first scratch with its mappings and counters, because queued operations and graphs may still use
 * it.
 *
 * Over several nodes, the area for what travels between them grows with the scratch (mscclpp_fabric_grow). There a call
 * also makes both grow if it would take several turns of short tiles. All nodes choose algorithms by one layout, but
 * each node may lose its leased scratch at another time. So a node that has lost its scratch goes on choosing by the
 * layout of that scratch (mscclpp_team_layout). It serves a call with the small scratch if the choice by the small
 * layout is the same. Otherwise it first takes a chunk again (mscclpp_team_reclaim), and other nodes need not know.
 */
#ifndef MCA_COMMON_TEAM_GROW_H
#define MCA_COMMON_TEAM_GROW_H

#include "mca/common/team/parts.h"

/*
 * Lays out the team's first scratch, which may later grow to `scratch_size`. Allocates no memory. `ranks` is the number
 * of ranks of the communicator, on all nodes, and `node_ranks` that of its largest node.
 */
void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks, int node_ranks);

/*
 * Stores whether users have chosen algorithms for which the first scratch has no room. Must be called when the protocol
 * is known.
 */
void mscclpp_team_note_choices(mscclpp_team_t *team);

/*
 * Makes the team also grow for messages for which the area between nodes is too small. Must be called when the team has
 * a fabric.
 */
void mscclpp_team_note_nodes(mscclpp_team_t *team);

/*
 * Returns true if a call of `bytes` bytes needs a larger scratch than the team has. `queued`: the host does not wait
 * for it.
 */
bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued);

/*
 * The same for a queued call that may wait for other ranks. Equal on all ranks, if `bytes` is. The team never grows for
 * later calls once ranks have not come to such a call in time.
 */
bool mscclpp_team_wants_more_queued(const mscclpp_team_t *team, uint64_t bytes);

/* Returns true if the middle size is enough for messages of `bytes` bytes, and the team can grow to that. */
bool mscclpp_team_has_middle(const mscclpp_team_t *team, uint64_t bytes);

/*
 * Makes *input say what the choice of algorithm will know after a growth to the middle or to the full size. `layout`
 * becomes the layout then, and has to stay as long as *input is used.
 */
void mscclpp_team_describe_grown(const mscclpp_team_t *team, bool to_middle, mscclpp_layout_t *layout,
                                 mscclpp_select_input_t *input);

/*
 * Grows the scratch for messages of `bytes` bytes, or to its full size if `to_full_size` is set. All ranks call it at
 * the same point of a call, while no operation of the team is in flight. If any rank cannot get the memory, all keep
 * the small scratch, which serves all sizes, though slowly. An error breaks the team.
 *
 * A team for queued operations on one node may have operations in flight. Its ranks wait for one another for at most
 * mscclpp_group_exchange_patience. If a rank does not come, all keep the small scratch, and group->gave_up is true.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes, bool to_full_size);

/*
 * Returns the layout by which algorithms are chosen, which is equal on all nodes: that of the scratch or, if this node
 * has lost a leased scratch, the layout of that one.
 */
const mscclpp_layout_t *mscclpp_team_layout(const mscclpp_team_t *team);

/*
 * Returns true if an all-reduce needs the leased scratch that this node has lost. Returns false if the node has lost
 * none, or if the call goes on the same way with the small scratch. `choice` is the one by mscclpp_team_layout.
 */
bool mscclpp_team_needs_lost(const mscclpp_team_t *team, const mscclpp_select_input_t *input,
                             const mscclpp_choice_t *choice);

/*
 * If this node of several has lost a leased scratch, takes another chunk of the same size. All ranks of the node call
 * it at the same point of a call, between mscclpp_team_enter and mscclpp_team_leave. `bytes` is the size of the call,
 * for messages. An error breaks the team.
 */
mscclpp_status_t mscclpp_team_reclaim(mscclpp_team_t *team, uint64_t bytes);

/*
 * Begin and end an operation of a team whose host waits for it. All ranks call them in the same way. Other teams of the
 * process may have taken over the scratch for large messages since the last operation (lease.h). mscclpp_team_enter
 * then returns to the small scratch. After an error the caller must break the team.
 */
mscclpp_status_t mscclpp_team_enter(mscclpp_team_t *team);
void mscclpp_team_leave(mscclpp_team_t *team);

/* Closes, at the end of a team, the mappings of the peers' small scratch that it has kept beside a larger one. */
void mscclpp_team_close_kept(mscclpp_team_t *team);

/* Frees all scratch of the team, which no peer maps any more. */
void mscclpp_team_free_scratch(mscclpp_team_t *team);

#endif
