/* Declarations that the files of this folder share. */
#ifndef MCA_COMMON_USER_INTERNAL_H
#define MCA_COMMON_USER_INTERNAL_H

#include "device/types/launch.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/oob/oob.h"
#include "mca/common/user/user.h"

/* Pinned host memory through which kernels and the host communicate. */
typedef struct {
    mscclpp_dev_mailbox_t mailbox;                  /* only `abort` is used, by kernels and by proxies */
    uint64_t report[MSCCLPP_DEV_USER_REPORT_WORDS]; /* the kernels' reports */
} mscclpp_user_words_t;

struct mscclpp_user {
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_oob_t oob;
    mscclpp_config_t config;
    mscclpp_mapping_limit_t mapping_limit;
    uint64_t timeout_ns;  /* timeout of waits in kernels; 0: none */
    int *node_of;         /* by rank: number of the rank's node; NULL: all ranks are on one node */
    bool one_host;        /* all ranks are on one host: if there are several nodes, they are imitated */
    uint32_t epoch_limit; /* number of small all-reduces after which the device clears packets; equal on all ranks */
    mscclpp_user_words_t *words;        /* the words at the host's address */
    mscclpp_user_words_t *device_words; /* the same words at the device's address */
    /* Lists of the objects that have been neither freed nor ended. */
    mscclpp_user_memory_t *memories;
    mscclpp_user_channels_t *channels;
    mscclpp_user_room_t *rooms;
    bool has_ended; /* mscclpp_user_end was called */
    int unfreed;    /* number of objects that the application has not freed; see mscclpp_user_leave */
};

/* Returns true if `rank` is on this rank's node, so that kernels can access its memory. */
static inline bool mscclpp_user_is_on_node(const mscclpp_user_t *user, int rank)
{
    return user->node_of == NULL || user->node_of[rank] == user->node_of[user->oob.rank];
}

/* Memory of each rank, mapped by the ranks of its node. */
typedef struct {
    char *own_memory;  /* this rank's memory */
    uint64_t bytes;    /* size of this rank's memory */
    bool is_allocated; /* mscclpp_user_share_create has allocated this memory; false: the application has */
    char **bases;      /* by rank: its address on this rank; NULL for 0 bytes, and for ranks of other nodes */
    uint64_t *sizes;   /* by rank: size of the rank's memory in bytes */
    mscclpp_mapping_t **mappings; /* by rank; NULL for this rank, for memory of 0 bytes, and for ranks of other nodes */
    void *table;                  /* device memory for kernels: a copy of `bases`, followed by a copy of `sizes` */
} mscclpp_user_share_t;

struct mscclpp_user_memory {
    mscclpp_user_t *user;
    mscclpp_user_memory_t *next;
    mscclpp_user_share_t share;
    int channel_sets; /* number of sets of channels that use this memory */
};

typedef struct mscclpp_user_ports mscclpp_user_ports_t; /* ports.h */

struct mscclpp_user_channels {
    mscclpp_user_t *user;
    mscclpp_user_channels_t *next;
    mscclpp_user_memory_t *memory;
    bool is_port;
    int peer_count;
    int per_peer;                 /* number of channels to each peer */
    int *peers;                   /* ranks of the peers */
    int open_count;               /* number of calls of open without a matching close so far */
    uint64_t *expected;           /* device memory: number of awaited signals, by channel */
    mscclpp_user_share_t inbound; /* for memory channels: counters of signals, by the peer's rank and channel */
    mscclpp_user_ports_t *ports;  /* for port channels */
};

/* Returns the number of the counter, or token, that belongs to channel `channel_index` with the peer `rank`. */
static inline uint32_t mscclpp_user_token(const mscclpp_user_channels_t *channels, int rank, int channel_index)
{
    return (uint32_t)(rank * channels->per_peer + channel_index);
}

/*
 * ports.c: create, end, free and describe the transport, connections and proxy of port channels.
 * mscclpp_user_ports_create and mscclpp_user_ports_free are collective. `own_status` may be a failure of this rank that
 * the others do not know about yet. After an error of mscclpp_user_ports_create nothing is left to free.
 * mscclpp_user_ports_end is local, and never frees memory that peers may still use. mscclpp_user_ports_view fills in
 * the structure that kernels need for a channel.
 */
mscclpp_status_t mscclpp_user_ports_create(mscclpp_user_channels_t *channels, mscclpp_status_t own_status);
mscclpp_status_t mscclpp_user_ports_free(mscclpp_user_channels_t *channels);
void mscclpp_user_ports_end(mscclpp_user_channels_t *channels);
void mscclpp_user_ports_view(const mscclpp_user_channels_t *channels, int index, mscclpp_dev_port_channel_t *view);

/*
 * share.c: shares `bytes` bytes at `own_memory` with the ranks of this node, which map them. If `own_memory` is NULL,
 * allocates the memory. Collective. `own_status` may be a failure of this rank that the others do not know about yet.
 * `memory_name` is for messages. Errors are logged, and are equal on all ranks; after an error nothing is left to free.
 */
mscclpp_status_t mscclpp_user_share_create(mscclpp_user_t *user, void *own_memory, uint64_t bytes,
                                           mscclpp_status_t own_status, const char *memory_name,
                                           mscclpp_user_share_t *share);

/*
 * Collective. Frees this rank's memory once all ranks have closed their mappings. If the vote on that fails, returns
 * its error, which is logged, and never frees the memory.
 */
mscclpp_status_t mscclpp_user_share_free(mscclpp_user_t *user, mscclpp_user_share_t *share);

/* Local: closes the mappings. This rank's memory is never freed, because peers may still use it. */
void mscclpp_user_share_drop(mscclpp_user_t *user, mscclpp_user_share_t *share);

/*
 * user.c: takes a vote. Collective. Returns MSCCLPP_OK if no rank failed. Otherwise returns the error of one rank on
 * all ranks: of the first that failed for a reason of its own or, if there is none, of the first that failed. All other
 * ranks log which rank that is; the rank itself has logged its error before. `action` begins the message, such as
 * "memory is freed". If the vote itself fails, returns its error, which is logged.
 */
mscclpp_status_t mscclpp_user_agree(const mscclpp_user_t *user, mscclpp_status_t own_status, const char *action);

/*
 * Copies `size` bytes of host memory to device memory, and waits for the end of the copy. Returns the error of the GPU
 * runtime.
 */
mscclpp_status_t mscclpp_user_upload(const mscclpp_user_t *user, void *to, const void *from, size_t size);

/* Fills in the structure by which a kernel gives up a wait and reports errors. */
void mscclpp_user_watch(const mscclpp_user_t *user, mscclpp_dev_user_watch_t *watch);

/*
 * Counts one object less; the application calls this by freeing an object. Objects may outlive mscclpp_user_end. After
 * that call, this function frees `user` together with the last object.
 */
void mscclpp_user_leave(mscclpp_user_t *user);

/*
 * memory.c, channels.c, room.c: end an object for mscclpp_user_end. Local. They remove the object from its list and
 * keep memory that peers may still use. The application still has to free the object.
 */
void mscclpp_user_memory_end(mscclpp_user_memory_t *memory);
void mscclpp_user_channels_end(mscclpp_user_channels_t *channels);
void mscclpp_user_room_end(mscclpp_user_room_t *room);

#endif
