/* What the files of the proxy share. Everything here is used with the proxy's lock held unless it says otherwise. */
#ifndef MCA_COMMON_PORT_INTERNAL_H
#define MCA_COMMON_PORT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "mca/common/port/fifo.h"
#include "mca/common/port/proxy.h"

/* A trigger that was taken from the FIFO. Its type keeps only the actions that are still to be done. */
typedef struct {
    mscclpp_dev_request_t request;
    uint64_t position; /* in the FIFO */
} mscclpp_proxy_job_t;

/* A flush under way. Once it has ended, the channel's word `flushed` becomes position + 1. */
typedef struct {
    uint64_t ticket;   /* of the transport */
    uint64_t position; /* of the trigger that asked for the flush */
} mscclpp_proxy_flush_t;

/* The host's side of one port channel. */
typedef struct {
    mscclpp_port_params_t params;
    mscclpp_proxy_handler_fn_t handler; /* carries out the triggers in place of the transport; NULL: none */
    void *context;                      /* the handler's */
    uint32_t number;                    /* by which triggers name the channel */

    /*
     * Triggers that wait because the transport could not take them, in order, in a ring of `job_capacity`. Triggers of
     * other channels are carried out in the meantime.
     */
    mscclpp_proxy_job_t *jobs;
    uint32_t first_job; /* index of the oldest */
    uint32_t job_count;
    uint32_t job_capacity;

    /*
     * Flushes under way, the older first. A further flush replaces the second: whoever waits for the second may as well
     * wait for the further one, which covers it. So two entries are enough for any number of waiting blocks.
     */
    mscclpp_proxy_flush_t flushes[2];
    int flush_count;

    bool has_unflushed;        /* a transfer was started after the last flush */
    bool busy;                 /* the channel is in the proxy's list of channels with something to do */
    uint64_t flushed_position; /* what the channel asked for before this position in the FIFO has left its sources */
    uint64_t *flushed;         /* the word by which kernels read `flushed_position`, at the host's address */
} mscclpp_proxy_channel_t;

typedef struct {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    uint32_t references; /* number of channels that use the transport */
} mscclpp_proxy_transport_t;

/*
 * Pinned memory for the `flushed` words of MSCCLPP_PROXY_PAGE channels with consecutive numbers, one cache line each.
 */
#define MSCCLPP_PROXY_PAGE 64u

typedef struct {
    uint64_t *host;
    uint64_t *device; /* the same page at the address that kernels use */
} mscclpp_proxy_page_t;

struct mscclpp_proxy {
    const mscclpp_gpu_ops_t *gpu;
    int device;
    const char *label;
    mscclpp_dev_mailbox_t *mailbox;
    bool threaded; /* a thread of the proxy makes the progress; atomic */

    pthread_mutex_t lock;
    pthread_cond_t work_comes; /* wakes the proxy's thread when there may be something to do, or when it must end */
    pthread_t thread;
    bool closing;          /* the thread must end */
    uint32_t lock_waiters; /* atomic: threads that wait for the lock; the proxy's thread lets them go first */
    uint32_t in_flight;    /* operations that have begun and not ended; atomic */
    uint32_t unsettled;    /* atomic: nonzero if work may be left even though nothing is in flight */
    /* Atomic: the last launch that nobody waits for. It counts as in flight until it has ended. See LAUNCH_BLOCKS. */
    uint64_t unawaited_launch;
    bool is_watching;       /* atomic: the thread looks for triggers also while nothing is known to be in flight */
    uint64_t seen_position; /* position in the FIFO when the watching thread last looked */
    double active_at;       /* when it last found something to do, or was told of it; by mscclpp_now */
    int failure;            /* atomic: the mscclpp_status_t of the first failure */

    mscclpp_fifo_t *fifo;

    /* Tables of `table_size` entries, except for the pages. `channels` has NULL for numbers without a channel. */
    mscclpp_proxy_channel_t **channels;
    mscclpp_proxy_channel_t **busy; /* channels with something to do */
    uint64_t *discard_before; /* by channel number: triggers at positions below this belong to a destroyed channel */
    uint32_t *free_numbers;   /* stack of channel numbers without a channel */
    uint32_t table_size;
    uint32_t busy_count;
    uint32_t free_count;
    mscclpp_proxy_page_t pages[MSCCLPP_DEV_PORT_CHANNELS / MSCCLPP_PROXY_PAGE];

    mscclpp_proxy_transport_t *transports;
    uint32_t transport_count;
    uint32_t transport_capacity;
};

/* Takes the lock, and counts as a waiter until then, so that the proxy's thread lets this one go first. */
static inline void mscclpp_proxy_lock(mscclpp_proxy_t *proxy)
{
    __atomic_fetch_add(&proxy->lock_waiters, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&proxy->lock);
    __atomic_fetch_sub(&proxy->lock_waiters, 1, __ATOMIC_ACQ_REL);
}

static inline void mscclpp_proxy_unlock(mscclpp_proxy_t *proxy)
{
    pthread_mutex_unlock(&proxy->lock);
}

/* Returns the channel with this number, or NULL. */
mscclpp_proxy_channel_t *mscclpp_proxy_find(const mscclpp_proxy_t *proxy, uint32_t number);

/* Frees all channels and the tables. */
void mscclpp_proxy_free_channels(mscclpp_proxy_t *proxy);

/*
 * What a round does about transfers that no kernel has flushed. LEAVE: nothing. HAND_OVER: hands them to the network,
 * by a flush if the transport cannot tell when it has them. DELIVER: carries on until they have reached the peers.
 */
typedef enum { MSCCLPP_PROXY_LEAVE, MSCCLPP_PROXY_HAND_OVER, MSCCLPP_PROXY_DELIVER } mscclpp_proxy_settle_t;

/*
 * Runs one round: makes progress on the transports, then carries out waiting triggers, then newly pushed ones, and does
 * for unflushed transfers what `settle` says. Returns MSCCLPP_OK, even if work is left, or the first error, already
 * logged.
 */
mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle);

/* True if nothing is left to do: no trigger in the FIFO, and none, no flush and no unflushed transfer of a channel. */
bool mscclpp_proxy_is_settled(const mscclpp_proxy_t *proxy);

/* True if everything is handed to the network, though deliveries may not have been confirmed yet. */
bool mscclpp_proxy_has_left(const mscclpp_proxy_t *proxy);

/* Put a channel into the list of channels with something to do, and take it out. A repetition does nothing. */
void mscclpp_proxy_mark_busy(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);
void mscclpp_proxy_mark_idle(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);

#endif
