/*
 * Decides when a team may start a kernel that waits for other ranks, in a process that starts such kernels
 * independently: in several threads, or early (before anybody waits for them). A process has one slot for such kernels;
 * a kernel starts only when its team holds the slot.
 *
 * Why only one slot: two such kernels at a time could deadlock.
 * 1. Some driver calls, such as freeing memory, wait for all kernels of the process, and no kernel starts until they
 *    return.
 * 2. Say process P runs kernel A and process Q runs kernel B, and each waits for the other process to start the same
 *    kernel. If a thread of each process now frees memory, neither kernel starts. A single thread does the same if it
 *    frees memory while early kernels run.
 * 3. With one slot this cannot happen: a process that has not started the awaited kernel runs no other kernel that a
 *    driver call would wait for.
 *
 * Why all processes admit teams in the same order: early kernels of several communicators could wait for one another in
 * a circle if each rank started them in its own order. To find that order, the ranks must meet once more.
 *
 * A pledge saves that meeting on one node:
 * 1. A call pledges the slot of its process as it arrives.
 * 2. If all ranks have pledged their slots, and no pledge has been revoked when the last rank arrives, the pledges are
 *    granted: the call has the slot on every rank. So a process in which one thread calls, or starts calls, need not
 *    take turns.
 * 3. A pledge must not keep other calls waiting, since a late rank may wait for one of these before it arrives. So a
 *    call that needs the slot revokes the pledge.
 *
 * Granting and revoking are one atomic step on a word that the ranks of the team share, so all ranks see the same
 * outcome.
 */
#ifndef MCA_COMMON_GROUP_ADMISSION_H
#define MCA_COMMON_GROUP_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A team that waits for the slot. It is in the list from mscclpp_admission_add to mscclpp_admission_remove. */
typedef struct mscclpp_admission_candidate {
    struct mscclpp_admission_candidate *next;
    uint64_t key; /* the team's position in the order: the lowest key comes first */
} mscclpp_admission_candidate_t;

/* The slot of one process, and the teams that wait for it. Only admission.c uses the fields. */
typedef struct {
    pthread_mutex_t lock;
    bool is_slot_taken;       /* the slot is taken or pledged */
    uint64_t *pledge;         /* the word that decides on the pledge; NULL: there is no pledge */
    uint64_t pledge_number;   /* number of the meeting for which the slot is pledged */
    uint32_t reserved_blocks; /* number of blocks of queued kernels, which may start at any time */
    mscclpp_admission_candidate_t *candidates;
} mscclpp_admission_t;

/*
 * Initialize an object, and return that of this process. mscclpp_admission_init takes zeroed memory; nothing has to be
 * undone at the end. mscclpp_admission_process returns the only object of this process, which is never freed.
 */
void mscclpp_admission_init(mscclpp_admission_t *admission);
mscclpp_admission_t *mscclpp_admission_process(void);

/*
 * Add a candidate, remove it and change its key. The candidate with the lowest key gets the slot first. All ranks of a
 * team use the same key, so processes with the same candidates admit the same team. These functions and all below are
 * thread-safe, and do not wait.
 */
void mscclpp_admission_add(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate, uint64_t key);
void mscclpp_admission_remove(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate);
void mscclpp_admission_change_key(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate,
                                  uint64_t key);

/* Returns true if no candidate has a lower key than this one. */
bool mscclpp_admission_is_first(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/*
 * Takes the slot, and revokes a pledge of it. Returns false if the slot is taken or its pledge is granted, or if
 * another candidate has a lower key.
 */
bool mscclpp_admission_take_slot(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/*
 * Pledges the slot to the meeting with number `meeting` of a team. Returns false if the slot is taken or pledged, or if
 * another team waits for the slot and so comes first. `decision` is in memory that the ranks of the team share. It
 * starts as 0. Later it is 2 * the number of the last meeting whose pledges were decided on, + 1 if they were granted.
 * The numbers of a team's meetings only increase. The caller ends the pledge by one of the two functions below.
 *
 * Precondition of this function and the two below: a team has one meeting at a time. So in one process one thread at a
 * time calls them for one `decision`, and ends a pledge before it makes the next one. In the meantime only
 * mscclpp_admission_take_slot of another thread may end the pledge.
 */
bool mscclpp_admission_pledge(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting);

/*
 * Decides on the pledges of a meeting. Every rank of the team calls it after each rank that needs a slot has pledged
 * it. Returns the same on all ranks. True means that the pledges are granted, and each rank that has pledged holds its
 * slot. False means that a pledge was revoked, and no rank holds a slot.
 *
 * The function first decides on the pledges, and takes the lock only after that. In between, another thread may try to
 * revoke the pledge. If the pledges were granted, this attempt changes nothing. If they were revoked, the other thread
 * ends the pledge, and this function then finds no pledge. By the precondition above, this team cannot have made a
 * later pledge.
 */
bool mscclpp_admission_redeem(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting);

/* Gives up this process's pledge, if `decision` decides on it. Does nothing if the pledge has been revoked. */
void mscclpp_admission_give_up(mscclpp_admission_t *admission, const uint64_t *decision);

/*
 * Reserve and release blocks of the GPU. Queued kernels start without asking for the slot, so their teams reserve
 * blocks in advance. mscclpp_admission_reserve_blocks reserves `blocks` more blocks. It returns false, with nothing
 * reserved, if all reservations of the process together would exceed `limit`.
 */
bool mscclpp_admission_reserve_blocks(mscclpp_admission_t *admission, uint32_t blocks, uint32_t limit);
void mscclpp_admission_release_blocks(mscclpp_admission_t *admission, uint32_t blocks);

/* Gives back the slot that mscclpp_admission_take_slot or mscclpp_admission_redeem has taken. */
void mscclpp_admission_give_slot(mscclpp_admission_t *admission);

#endif
