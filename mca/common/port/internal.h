/*
 * Declarations that the files of the proxy share. The caller holds the proxy's lock for all of them, unless they say
 * otherwise.
 */
#ifndef MCA_COMMON_PORT_INTERNAL_H
#define MCA_COMMON_PORT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "mca/common/port/fifo.h"
#include "mca/common/port/proxy.h"

/* A trigger that was taken from the FIFO. Its type keeps only the actions that are still to be done. */
typedef struct {
    mscclpp_dev_request_t request;
    uint64_t position; /* the trigger's position in the FIFO */
} mscclpp_proxy_job_t;

/* A flush in progress. When the flush ends, the `flushed` word of the channel becomes position + 1. */
typedef struct {
    uint64_t ticket;   /* the transport's number of the flush */
    uint64_t position; /* position of the trigger that asked for the flush */
} mscclpp_proxy_flush_t;

/* The host's side of one port channel. */
typedef struct {
    mscclpp_port_params_t params;
    mscclpp_proxy_handler_fn_t handler; /* executes the triggers instead of the transport; NULL: the transport does */
    void *context;                      /* argument of the handler */
    uint32_t number;                    /* the channel's number in triggers */

    /*
     * Triggers that wait because the transport could not take them, in order. The array is a ring with `job_capacity`
     * entries. Triggers of other channels are executed in the meantime.
     */
    mscclpp_proxy_job_t *jobs;
    uint32_t first_job; /* index of the oldest trigger */
    uint32_t job_count;
    uint32_t job_capacity;

    /*
     * The flushes in progress, the older one first. A further flush replaces the second one. A block that waits for the
     * second flush can also wait for the further one, which includes it. So two entries are enough for any number of
     * waiting blocks.
     */
    mscclpp_proxy_flush_t flushes[2];
    int flush_count;

    bool has_unflushed;        /* a transfer was started after the last flush */
    bool is_busy;              /* the channel has unfinished work and is in the proxy's list `busy` */
    uint64_t flushed_position; /* all transfers of triggers before this position in the FIFO have left their sources */
    uint64_t *flushed;         /* the word in which kernels read `flushed_position`, at the host's address */
} mscclpp_proxy_channel_t;

/* A transport on which the proxy makes progress. */
typedef struct {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    uint32_t references; /* number of channels that use the transport */
} mscclpp_proxy_transport_t;

/*
 * A page: pinned memory for the `flushed` words of MSCCLPP_PROXY_PAGE channels with consecutive numbers. Each word has
 * its own cache line.
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
    bool is_threaded; /* a thread of the proxy makes the progress; atomic */

    pthread_mutex_t lock;
    pthread_cond_t work_comes; /* wakes the proxy's thread when there may be something to do, or when it must end */
    pthread_t thread;
    bool must_end;         /* the thread must end */
    uint32_t lock_waiters; /* atomic: number of threads that wait for the lock; the proxy's thread lets them go first */
    uint32_t in_flight;    /* atomic: number of operations that have begun and not ended */
    uint32_t unsettled;    /* atomic: nonzero if work may be left although no operation is in flight */
    /*
     * Atomic: the last launch that no caller waits for. The launch counts as in flight until it has ended. It replaces
     * the number of an earlier launch: kernels of a team run one after another, so all earlier launches have ended when
     * this one has. See LAUNCH_BLOCKS.
     */
    uint64_t unawaited_launch;
    bool is_watching;       /* atomic: the thread also looks for triggers while no operation is known to be in flight */
    uint64_t seen_position; /* position in the FIFO when the watching thread looked last */
    double active_at;       /* the time when the thread last found work or was told about it; by mscclpp_now */
    int failure;            /* atomic: the mscclpp_status_t of the first failure */

    mscclpp_fifo_t *fifo;

    /*
     * Tables with `table_size` entries; `pages` has one for MSCCLPP_PROXY_PAGE of these. `channels` has NULL for a
     * number without a channel.
     */
    mscclpp_proxy_channel_t **channels;
    mscclpp_proxy_channel_t **busy; /* channels with unfinished work, in any order */
    uint64_t *discard_before;       /* by channel number: triggers at lower positions belong to a destroyed channel */
    uint32_t *free_numbers;         /* stack of channel numbers without a channel */
    mscclpp_proxy_page_t *pages;
    uint32_t table_size;
    uint32_t busy_count;
    uint32_t free_count;

    mscclpp_proxy_transport_t *transports;
    uint32_t transport_count;
    uint32_t transport_capacity;
};

/*
 * Takes the proxy's lock. Until it has the lock, the caller counts as a waiter, so that the proxy's thread lets the
 * caller go first.
 */
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

/* Returns the channel with this number; NULL: there is none. */
mscclpp_proxy_channel_t *mscclpp_proxy_find(const mscclpp_proxy_t *proxy, uint32_t number);

/* Frees all channels and the tables. Called without the lock, when nobody else uses the proxy any more. */
void mscclpp_proxy_free_channels(mscclpp_proxy_t *proxy);

/*
 * How a round treats transfers that no kernel has flushed. LEAVE: does nothing. HAND_OVER: hands them to the network,
 * by a flush if the transport cannot tell when it has handed them over. DELIVER: continues until they have reached the
 * peers.
 */
typedef enum { MSCCLPP_PROXY_LEAVE, MSCCLPP_PROXY_HAND_OVER, MSCCLPP_PROXY_DELIVER } mscclpp_proxy_settle_t;

/*
 * Runs one round: makes progress on the transports, then executes the triggers that wait, then newly pushed ones.
 * Treats unflushed transfers as `settle` says. Returns MSCCLPP_OK, even if work is left, or the first error. The loss
 * of a peer may not be logged as an error: the transport may only describe it (`loss` in transport.h).
 */
mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle);

/*
 * Returns true if no work is left: the FIFO has no trigger, and no channel has a waiting trigger, a flush in progress
 * or an unflushed transfer.
 */
bool mscclpp_proxy_is_settled(const mscclpp_proxy_t *proxy);

/*
 * Returns true if all transfers have been handed to the network, though their delivery may not have been confirmed yet.
 */
bool mscclpp_proxy_has_left(const mscclpp_proxy_t *proxy);

/* Put a channel into the list of those with unfinished work, and take it out. A repeated call does nothing. */
void mscclpp_proxy_mark_busy(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);
void mscclpp_proxy_mark_idle(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);

#endif
