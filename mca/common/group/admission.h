/*
 * Room for a kernel that waits for other ranks, on the GPU of a process whose threads start such kernels independently:
 * for one at a time. A driver lets some calls, those that free memory among them, wait for all kernels of the process
 * and starts none meanwhile. Of two kernels under way at once, each could wait for its namesake in another process,
 * which such a call of any thread there keeps from starting as long as the other kernel runs. One alone cannot: where
 * it has not started yet, none runs that could be waited for.
 */
#ifndef MCA_COMMON_GROUP_ADMISSION_H
#define MCA_COMMON_GROUP_ADMISSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One who wants room; in the list from mscclpp_admission_queue to mscclpp_admission_leave. */
typedef struct mscclpp_admission_guest {
    struct mscclpp_admission_guest *next;
    uint64_t key;
} mscclpp_admission_guest_t;

/* The room of one process; its fields are admission.c's own. */
typedef struct {
    pthread_mutex_t lock;
    bool taken;
    uint32_t early; /* blocks of kernels that nobody waits for yet */
    mscclpp_admission_guest_t *guests;
} mscclpp_admission_t;

/* In place, in memory of zeros; nothing to be undone. mscclpp_admission_process: this process's, for ever. */
void mscclpp_admission_init(mscclpp_admission_t *room);
mscclpp_admission_t *mscclpp_admission_process(void);

/*
 * All functions below are thread-safe, and none waits. Room goes to the guest with the lowest key. The ranks of a team
 * give theirs the same key, so that processes with the same guests let the same one in.
 */
void mscclpp_admission_queue(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key);
void mscclpp_admission_leave(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest);
void mscclpp_admission_change_key(mscclpp_admission_t *room, mscclpp_admission_guest_t *guest, uint64_t key);

/* True if no guest has a lower key. */
bool mscclpp_admission_is_first(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest);

/* False if it is taken, or another guest comes first. */
bool mscclpp_admission_take(mscclpp_admission_t *room, const mscclpp_admission_guest_t *guest);

/*
 * Kernels that start before anybody waits for them have a room of their own in it, of `limit` blocks. False if there is
 * none for so many more. The first one always has.
 */
bool mscclpp_admission_enter(mscclpp_admission_t *room, uint32_t blocks, uint32_t limit);
void mscclpp_admission_exit(mscclpp_admission_t *room, uint32_t blocks);

/* Gives back what was taken. */
void mscclpp_admission_give(mscclpp_admission_t *room);

#endif
