/* What the files of this folder share. */
#ifndef MCA_COMMON_USER_INTERNAL_H
#define MCA_COMMON_USER_INTERNAL_H

#include "device/types/launch.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/oob/oob.h"
#include "mca/common/user/user.h"

/* Pinned host memory by which kernels and the host speak. */
typedef struct {
    mscclpp_dev_mailbox_t mailbox;                  /* only `abort` is used, by kernels and by proxies */
    uint64_t report[MSCCLPP_DEV_USER_REPORT_WORDS]; /* what kernels have reported */
} mscclpp_user_words_t;

struct mscclpp_user {
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_oob_t oob;
    mscclpp_config_t config;
    mscclpp_mapping_limit_t mapping_limit;
    uint64_t timeout_ns;         /* of waits in kernels; 0: none */
    int *node_of;                /* by rank: its node; NULL: all ranks are on one node */
    bool one_host;               /* nodes, if there are several, are imitated */
    uint32_t epoch_limit;        /* small all-reduces after which the device clears packets; equal on all ranks */
    mscclpp_user_words_t *words; /* the host's address of them */
    mscclpp_user_words_t *device_words; /* the device's address of the same words */
    /* Lists of the objects that are neither freed nor ended. */
    mscclpp_user_memory_t *memories;
    mscclpp_user_channels_t *channels;
    mscclpp_user_room_t *rooms;
    bool has_ended; /* mscclpp_user_end was called */
    int unfreed;    /* number of objects that the application has not freed; see mscclpp_user_leave */
};

/* True if a rank is on this rank's node, so that kernels reach its memory. */
static inline bool mscclpp_user_is_near(const mscclpp_user_t *user, int rank)
{
    return user->node_of == NULL || user->node_of[rank] == user->node_of[user->oob.rank];
}

/* Memory of each rank, mapped by the ranks of its node. */
typedef struct {
    char *own;                    /* this rank's memory */
    uint64_t bytes;               /* its size */
    bool is_allocated;            /* mscclpp_user_share_create has allocated it; false: it is the application's */
    char **bases;                 /* by rank: where its memory is mapped here; NULL for ranks of other nodes */
    uint64_t *sizes;              /* by rank, in bytes */
    mscclpp_mapping_t **mappings; /* by rank; NULL for this rank, for memory of 0 bytes, and for ranks of other nodes */
    void *table;                  /* device memory for kernels: a copy of `bases`, then one of `sizes` */
} mscclpp_user_share_t;

struct mscclpp_user_memory {
    mscclpp_user_t *user;
    mscclpp_user_memory_t *next;
    mscclpp_user_share_t share;
    int channel_sets; /* number of sets of channels that use it */
};

typedef struct mscclpp_user_ports mscclpp_user_ports_t; /* ports.h */

struct mscclpp_user_channels {
    mscclpp_user_t *user;
    mscclpp_user_channels_t *next;
    mscclpp_user_memory_t *memory;
    bool is_port;
    int peer_count;
    int per_peer;                 /* channels to each of them */
    int *peers;                   /* their ranks */
    int open_count;               /* how many calls of open have not been ended by close */
    uint64_t *expected;           /* device memory: signals waited for, by channel */
    mscclpp_user_share_t inbound; /* of memory channels: counters, by the peer's rank and channel */
    mscclpp_user_ports_t *ports;  /* of port channels */
};

/* Returns the number of channel `channel_index` with the peer `rank` among a rank's counters, or tokens. */
static inline uint32_t mscclpp_user_token(const mscclpp_user_channels_t *channels, int rank, int channel_index)
{
    return (uint32_t)(rank * channels->per_peer + channel_index);
}

/*
 * ports.c: transport, connections and proxy of port channels. `create` and `free` are collective. `own_status` may be a
 * failure of this rank that the others do not know of yet. After an error of `create` nothing is left to free. `end` is
 * local, and never frees what peers may still use. `view` fills in what kernels need of a channel.
 */
mscclpp_status_t mscclpp_user_ports_create(mscclpp_user_channels_t *channels, mscclpp_status_t own_status);
mscclpp_status_t mscclpp_user_ports_free(mscclpp_user_channels_t *channels);
void mscclpp_user_ports_end(mscclpp_user_channels_t *channels);
void mscclpp_user_ports_view(const mscclpp_user_channels_t *channels, int index, mscclpp_dev_port_channel_t *view);

/*
 * share.c: shares `bytes` bytes at `own` with the ranks of this node, which map it; if `own` is NULL, allocates them.
 * Collective. `own_status` may be a failure of this rank that the others do not know of yet. `what` names the memory in
 * messages. After an error, which is equal on all ranks, nothing is left to free.
 */
mscclpp_status_t mscclpp_user_share_create(mscclpp_user_t *user, void *own, uint64_t bytes, mscclpp_status_t own_status,
                                           const char *what, mscclpp_user_share_t *share);

/*
 * Collective. Frees this rank's memory once all ranks have closed their mappings. Keeps it if they do not agree on
 * that.
 */
mscclpp_status_t mscclpp_user_share_free(mscclpp_user_t *user, mscclpp_user_share_t *share);

/* Local: closes the mappings. This rank's memory is never freed, as peers may still use it. */
void mscclpp_user_share_drop(mscclpp_user_t *user, mscclpp_user_share_t *share);

/*
 * user.c: votes. Collective. Returns MSCCLPP_OK if no rank failed, else the first failure, on all ranks. Ranks other
 * than the one that failed log it; `what` names in that message what was tried.
 */
mscclpp_status_t mscclpp_user_agree(const mscclpp_user_t *user, mscclpp_status_t own_status, const char *what);

/* Copies `size` bytes to device memory, and waits for the copy. */
mscclpp_status_t mscclpp_user_upload(const mscclpp_user_t *user, void *to, const void *from, size_t size);

/* Fills in what a kernel needs to give up a wait and to report errors. */
void mscclpp_user_watch(const mscclpp_user_t *user, mscclpp_dev_user_watch_t *watch);

/*
 * Counts an object that the application has freed. Objects outlive mscclpp_user_end; after it, the last one to be freed
 * frees `user`.
 */
void mscclpp_user_leave(mscclpp_user_t *user);

/*
 * memory.c, channels.c, room.c: what mscclpp_user_end does to each object. Local. Takes it off its list and keeps what
 * peers may still use. The application still has to free it.
 */
void mscclpp_user_memory_end(mscclpp_user_memory_t *memory);
void mscclpp_user_channels_end(mscclpp_user_channels_t *channels);
void mscclpp_user_room_end(mscclpp_user_room_t *room);

#endif
