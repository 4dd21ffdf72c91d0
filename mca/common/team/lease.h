/*
 * The scratch for large messages, which the teams of a process lend one another. A team that sends its first large
 * message gets a chunk of device memory. The process makes a few chunks. When all are held, a team takes one over from
 * a team that has no operation in progress. If there is no such team, the process makes one more chunk. A team that has
 * lost its chunk goes back to the small scratch that it has kept. It asks for a chunk again with its next large
 * message. Teams for queued operations have memory of their own. Any rank may take a chunk at any time. So all ranks
 * agree as follows that a team has lost its chunks:
 *
 * 1. The uses of a team are its operations, from the one that has got the chunks on. All ranks count them alike. Before
 *    a use, each rank writes its number to its line of the board (`lease_begun`), then reads the word `recall`. After
 *    it, the rank writes the number to `lease_ended`.
 * 2. Whoever wants a chunk of the team checks that all ranks have ended the same use and begun no other. It writes to
 *    `recall` that it proposes to recall the chunks from the next use on. Then it checks again. If no rank has begun
 *    that use, it changes the proposal to a grant. Any rank that begins the use later sees that.
 * 3. A rank that begins the use and sees the proposal changes it to a refusal. Both changes compare the word with the
 *    proposal first, so only one of them happens.
 *
 * Steps 1 and 2 each store one word and then load the other one. Both use sequentially consistent order, so at least
 * one side sees the store of the other. A rank takes chunks of its own process alone. The peers still map the chunk,
 * but write nothing there: kernels of the team that lost it have ended on all ranks, and its later kernels use the
 * small scratch.
 *
 * Of a team over several nodes, "all ranks" are those of one node: no other node accesses the scratch. Its nodes lose
 * their chunks at different times, and take others when they need them (mscclpp_team_reclaim).
 */
#ifndef MCA_COMMON_TEAM_LEASE_H
#define MCA_COMMON_TEAM_LEASE_H

#include "mca/common/team/parts.h"

/* The number of chunks that a process allocates before teams take chunks from one another. */
#define MSCCLPP_LEASE_CHUNKS 4

/*
 * Gets a chunk of `size` bytes for the team, which is in a use (mscclpp_lease_begin). The chunk's bytes may have any
 * value, except that flags in its packet areas are at most *epochs_p. May wait for kernels, as allocations do. If there
 * is no memory, and no team at rest that has a chunk, returns the error of the allocation and sets nothing.
 */
mscclpp_status_t mscclpp_lease_take(mscclpp_team_t *team, uint64_t size, char **memory_p, uint64_t *epochs_p);

/* Notes that the team no longer holds a chunk on this rank. Peers may still map the chunk. */
void mscclpp_lease_leave(mscclpp_team_t *team);

/* Prevents, when the team ends, that another team takes over its chunk. The chunk is free once it is given back. */
void mscclpp_lease_retire(const mscclpp_team_t *team);

/*
 * Gives back `memory`, which no peer of the team maps any more. Returns true if it is a chunk, which is then freed if
 * no other team uses it. Returns false if it is other memory, or NULL.
 */
bool mscclpp_lease_give(const mscclpp_team_t *team, void *memory);

/* Begins the team's next use. Returns true if the chunks are recalled from this use on. */
bool mscclpp_lease_begin(mscclpp_team_t *team);

/* Ends the use. The operations of this use must have ended. */
void mscclpp_lease_end(mscclpp_team_t *team);

#endif
