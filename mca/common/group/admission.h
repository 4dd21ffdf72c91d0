/*
 * Decides when a team may start a kernel that waits for other ranks, in a process that starts such kernels
 * independently: in several threads, or early (before anybody waits for them). A process has one slot for such kernels;
 * a kernel starts only when its team holds the slot.
 *
 * Why only one slot: two such kernels at a time could deadlock. Some driver calls, such as freeing memory, wait for all
 * kernels of the process, and no kernel starts until they return. Say process P runs kernel A and process Q runs kernel
 * B, and each waits for the other process to start the same kernel. If a thread of each process now frees memory,
 * neither kernel starts. A single thread does the same if it frees memory while early kernels run. With one slot this
 * cannot happen: a process that has not started the awaited kernel runs no other kernel that a driver call would wait
 * for.
 *
 * Why all processes admit teams in the same order: early kernels of several communicators could wait for one another in
 * a circle if each rank started them in its own order. To find that order, the ranks must meet once more.
 *
 * A pledge saves that meeting on one node. A call pledges the slot of its process as it arrives. If all ranks have
 * pledged their slots, and no pledge has been revoked when the last rank arrives, the pledges are granted: the call has
 * the slot on every rank. So a process in which one thread calls, or starts calls, takes turns with nobody. A pledge
 * must not keep other calls waiting, since a late rank may wait for one of these before it arrives. So a call that
 * needs the slot revokes the pledge. Granting and revoking are one atomic step on a word that the ranks of the team
 * share, so all ranks see the same outcome.
 */
#ifndef MCA_COMMON_GROUP_ADMISSION_H
#define MCA_COMMON_GROUP_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A team that waits for the slot. It is in the list from mscclpp_admission_add to mscclpp_admission_remove. */
typedef struct mscclpp_admission_candidate {
    struct mscclpp_admission_candidate *next;
    uint64_t key; /* its place in the order: the lowest key comes first */
} mscclpp_admission_candidate_t;

/* The slot of one process, and the teams that wait for it. Only admission.c uses the fields. */
typedef struct {
    pthread_mutex_t lock;
    bool slot_taken;          /* the slot is taken or pledged */
    uint64_t *pledge;         /* the word that decides on the pledge; NULL: there is no pledge */
    uint64_t pledge_number;   /* number of the meeting that has the pledge */
    uint32_t reserved_blocks; /* blocks of queued kernels, which may start at any time */
    mscclpp_admission_candidate_t *candidates;
} mscclpp_admission_t;

/*
 * mscclpp_admission_init initializes zeroed memory; there is nothing to undo at the end. mscclpp_admission_process
 * returns the one object of this process, which is never freed.
 */
void mscclpp_admission_init(mscclpp_admission_t *admission);
mscclpp_admission_t *mscclpp_admission_process(void);

/*
 * All functions below are thread-safe and do not wait. The candidate with the lowest key is the first to get the slot.
 * All ranks of a team use the same key, so processes with the same candidates admit the same team.
 */
void mscclpp_admission_add(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate, uint64_t key);
void mscclpp_admission_remove(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate);
void mscclpp_admission_change_key(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate,
                                  uint64_t key);

/* True if no candidate has a lower key than this one. */
bool mscclpp_admission_is_first(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/* Takes the slot, and revokes a pledge. False if the slot is taken, or if another candidate has a lower key. */
bool mscclpp_admission_take_slot(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/*
 * Pledges the slot to the meeting with number `meeting` of a team. `decision` is in memory that the ranks of the team
 * share. It starts as 0, and holds 2 * the last meeting whose pledges were decided on, + 1 if they were granted. A
 * team's numbers only increase. False if the slot is taken or pledged, or if another team waits for it: that team comes
 * first. The caller ends the pledge by one of the two functions below.
 *
 * Premise of the next three functions: a team has one meeting at a time, so in one process one thread at a time calls
 * them for one `decision`, and ends a pledge before it makes the next. Only mscclpp_admission_take_slot of another
 * thread may end the pledge meanwhile.
 */
bool mscclpp_admission_pledge(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting);

/*
 * Called by every rank of the team once each rank that needs a slot has pledged it. Returns the same on all ranks.
 * True: the pledges are granted, and each rank that has pledged holds its slot. False: a pledge was revoked, and no
 * rank holds a slot.
 *
 * It decides on the pledges first, and takes the lock only then. In between, another thread may try to revoke the
 * pledge. If the pledges were granted, the attempt changes nothing. If they were revoked, it ends the pledge before
 * this function does, which then finds none. By the premise above, no later pledge of this team can be in its place.
 */
bool mscclpp_admission_redeem(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting);

/* Gives up this process's pledge, if it is the one that `decision` decides on. Does nothing if it has been revoked. */
void mscclpp_admission_give_up(mscclpp_admission_t *admission, const uint64_t *decision);

/*
 * Queued kernels start without asking, so their teams reserve blocks of the GPU in advance. Reserves `blocks` more;
 * false if all reservations of the process together would exceed `limit`.
 */
bool mscclpp_admission_reserve_blocks(mscclpp_admission_t *admission, uint32_t blocks, uint32_t limit);
void mscclpp_admission_release_blocks(mscclpp_admission_t *admission, uint32_t blocks);

/* Gives back the slot that mscclpp_admission_take_slot or mscclpp_admission_redeem has taken. */
void mscclpp_admission_give_slot(mscclpp_admission_t *admission);

#endif
