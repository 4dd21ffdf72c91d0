/*
 * Room for kernels that wait for other ranks, on the GPUs of a process whose threads start them independently. Without
 * a limit kernels of some teams could fill one GPU and those of others another, each waiting for its namesake.
 */
#ifndef MCA_COMMON_ROOM_H
#define MCA_COMMON_ROOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Kernels of a process that a GPU has room for at once; some are kept for those all of whose ranks are there. */
#define MSCCLPP_ROOMS 8
#define MSCCLPP_ROOMS_LATE 2

typedef enum {
    MSCCLPP_ROOM_NONE,
    MSCCLPP_ROOM_EARLY, /* taken while other ranks may be on their way, and so held for any time */
    MSCCLPP_ROOM_LATE   /* taken once all are there: held for as long as the kernel takes */
} mscclpp_room_t;

/* One who wants late room; in the list from mscclpp_room_queue to mscclpp_room_leave. */
typedef struct mscclpp_room_guest {
    struct mscclpp_room_guest *next;
    uint64_t key;
} mscclpp_room_guest_t;

/* The rooms of one process; its fields are room.c's own. */
typedef struct {
    int early; /* taken; atomic */
    pthread_mutex_t lock;
    int late; /* taken */
    mscclpp_room_guest_t *guests;
} mscclpp_rooms_t;

/* In place, in memory of zeros; nothing to be undone. mscclpp_rooms_process: this process's, for ever. */
void mscclpp_rooms_init(mscclpp_rooms_t *rooms);
mscclpp_rooms_t *mscclpp_rooms_process(void);

/* All functions below are thread-safe, and none waits. MSCCLPP_ROOM_NONE: there is none. */
mscclpp_room_t mscclpp_room_take_early(mscclpp_rooms_t *rooms);

/*
 * Late room goes to the guests with the lowest keys. The ranks of a team give theirs the same key, so that processes
 * with the same guests let the same ones in.
 */
void mscclpp_room_queue(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest, uint64_t key);
void mscclpp_room_leave(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest);
void mscclpp_room_change_key(mscclpp_rooms_t *rooms, mscclpp_room_guest_t *guest, uint64_t key);
mscclpp_room_t mscclpp_room_take_late(mscclpp_rooms_t *rooms, const mscclpp_room_guest_t *guest);

/* Gives back what was taken; MSCCLPP_ROOM_NONE is allowed. */
void mscclpp_room_give(mscclpp_rooms_t *rooms, mscclpp_room_t room);

#endif
