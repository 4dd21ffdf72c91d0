/*
 * Decides when a team may start a kernel that waits for other ranks, in a process that starts such kernels
 * independently: in several threads, or early (before anybody waits for them). A process has one slot for such kernels;
 * a kernel starts only when its team holds the slot.
 *
 * Why only one slot: two such kernels at a time could deadlock. Some driver calls, such as freeing memory, wait for all
 * kernels of the process, and no kernel starts until they return. Say process P runs kernel A and process Q runs kernel
 * B, and each waits for the other process to start the same kernel. If a thread of each process now frees memory,
 * neither kernel starts. With one slot this cannot happen: a process that has not started the awaited kernel runs no
 * other kernel that a driver call would wait for.
 *
 * Why early kernels need a slot: early kernels of several communicators could wait for one another in a circle if each
 * rank started them in its own order. A GPU runs only few of them at once, and runs streams that share a hardware queue
 * one after another. The slot rules this out, since all processes admit teams in the same order. But to find that
 * order, the ranks must meet once more.
 *
 * The extra slot saves that meeting. A process without such threads has one extra slot, for one more early kernel,
 * which a rank may take before the other ranks arrive. If some rank does not get its extra slot, none uses it. So a
 * kernel in the extra slot runs beside at most one other early kernel of its process, the one in the common slot.
 */
#ifndef MCA_COMMON_GROUP_ADMISSION_H
#define MCA_COMMON_GROUP_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A team that waits for the slot. It is in the list from mscclpp_admission_add to mscclpp_admission_remove. */
typedef struct mscclpp_admission_candidate {
    struct mscclpp_admission_candidate *next;
    uint64_t key;
} mscclpp_admission_candidate_t;

/* The slots of one process, and the teams that wait for one. Only admission.c uses the fields. */
typedef struct {
    pthread_mutex_t lock;
    bool slot_taken;
    bool extra_slot_taken;
    uint32_t reserved_blocks; /* blocks of queued kernels, which may start at any time */
    mscclpp_admission_candidate_t *candidates;
} mscclpp_admission_t;

/*
 * mscclpp_admission_init initializes zeroed memory; nothing has to be undone. mscclpp_admission_process returns the one
 * object of this process, which is never freed.
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

/* True if no candidate has a lower key. */
bool mscclpp_admission_is_first(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/* Takes the common slot. False if it is taken, or if another candidate has a lower key. */
bool mscclpp_admission_take_slot(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate);

/*
 * Takes or gives back the extra slot for an early kernel. False if it is taken, or if blocks are reserved for queued
 * kernels, which may use that part of the GPU.
 */
bool mscclpp_admission_take_extra_slot(mscclpp_admission_t *admission);
void mscclpp_admission_give_extra_slot(mscclpp_admission_t *admission);

/*
 * Queued kernels start without asking, so their teams reserve blocks of the GPU in advance. Reserves `blocks` more;
 * false if all reservations of the process together would exceed `limit`.
 */
bool mscclpp_admission_reserve_blocks(mscclpp_admission_t *admission, uint32_t blocks, uint32_t limit);
void mscclpp_admission_release_blocks(mscclpp_admission_t *admission, uint32_t blocks);

/* Gives back the common slot. */
void mscclpp_admission_give_slot(mscclpp_admission_t *admission);

#endif
