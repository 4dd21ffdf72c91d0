/*
 * Admission of kernels that wait for other ranks, in a process that starts such kernels independently: in several
 * threads, or early, before anybody waits for them. There is common room for one such kernel at a time.
 *
 * Two at a time could deadlock. Some driver calls, such as freeing memory, wait for all kernels of the process, and no
 * kernel starts meanwhile. Say process P runs kernel A, process Q runs kernel B, and each waits for the other process
 * to start the same one. If a thread of each process makes such a call, neither kernel starts. With one kernel at a
 * time this cannot happen: a process where that kernel has not started yet runs no other kernel that such a call would
 * wait for.
 *
 * Early kernels of several communicators could also wait for one another in a circle where each rank starts them in its
 * own order: a GPU has room for few of them, and runs streams that share a hardware queue one after another. The common
 * room rules that out, since all processes admit teams in one order. Finding it takes another meeting of the ranks. To
 * save that, a process without such threads has extra room for one early kernel more, which a rank may take before the
 * others come. If some rank has not got the extra room, none uses it. So every kernel that holds it runs beside at most
 * one other early kernel of its process, which holds the common room.
 */
#ifndef MCA_COMMON_GROUP_ADMISSION_H
#define MCA_COMMON_GROUP_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A team that wants room. It is in the list from mscclpp_admission_queue to mscclpp_admission_leave. */
typedef struct mscclpp_admission_guest {
    struct mscclpp_admission_guest *next;
    uint64_t key;
} mscclpp_admission_guest_t;

/* The room of one process. Only admission.c uses the fields. */
typedef struct {
    pthread_mutex_t lock;
    bool taken;
    bool extra_taken;
    uint32_t reserved; /* blocks of queued kernels, which may start at any time */
    mscclpp_admission_guest_t *guests;
} mscclpp_admission_t;

/*
 * mscclpp_admission_init initializes zeroed memory; nothing has to be undone. mscclpp_admission_process returns the
 * room of this process, which is never freed.
 */
void mscclpp_admission_init(mscclpp_admission_t *room);
mscclpp_admission_t *mscclpp_admission_process(void);

/*
 * All functions below are thread-safe and do not wait. Room goes to the guest with the lowest key. All ranks of a team
 * use the same key, so that processes with the same guests admit the same one.
 */
void mscclpp_admission_queue(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key);
void mscclpp_admission_leave(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest);
void mscclpp_admission_change_key(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key);

/* True if no guest has a lower key. */
bool mscclpp_admission_is_first(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest);

/* Takes the room. False if it is taken already, or another guest has a lower key. */
bool mscclpp_admission_take(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest);

/*
 * The extra room for an early kernel. False if it is taken, or if blocks are reserved for queued kernels, which may use
 * that part of the GPU.
 */
bool mscclpp_admission_take_extra(mscclpp_admission_t *room);
void mscclpp_admission_give_extra(mscclpp_admission_t *room);

/*
 * Queued kernels start without asking, so they get their room in advance: `blocks` blocks of at most `limit` for all
 * that reserve. False if there is no room.
 */
bool mscclpp_admission_reserve(mscclpp_admission_t *room, uint32_t blocks, uint32_t limit);
void mscclpp_admission_release(mscclpp_admission_t *room, uint32_t blocks);

/* Gives back the room that mscclpp_admission_take has taken. */
void mscclpp_admission_give(mscclpp_admission_t *room);

#endif
