/* What the files of the proxy share. Everything here is used with the proxy's lock held unless it says otherwise. */
#ifndef MCA_COMMON_PORT_INTERNAL_H
#define MCA_COMMON_PORT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "mca/common/port/fifo.h"
#include "mca/common/port/proxy.h"

/* A trigger that was taken from the FIFO; of its type only what is still to be done. */
typedef struct {
    mscclpp_dev_request_t request;
    uint64_t position;
} mscclpp_proxy_job_t;

typedef struct {
    uint64_t ticket;
    uint64_t position; /* of the trigger that asked for it; `flushed` becomes one more */
} mscclpp_proxy_flush_t;

typedef struct {
    mscclpp_port_params_t params;
    mscclpp_proxy_handler_fn_t handler;
    void *context;
    uint32_t number;

    /*
     * Triggers that there was no room for, a ring of `capacity`, in their order. Other channels' triggers behind them
     * in the FIFO are carried out meanwhile.
     */
    mscclpp_proxy_job_t *jobs;
    uint32_t first;
    uint32_t count;
    uint32_t capacity;

    /*
     * Flushes under way. A third one takes the place of the second one: it ends no earlier than that, and before the
     * next that begins, so every waiter is answered though there is no list of them.
     */
    mscclpp_proxy_flush_t flushes[2];
    int flush_count;

    bool dirty; /* something has begun after the last flush */
    bool busy;  /* in the proxy's list of those with something to do */
    uint64_t done;
    uint64_t *flushed; /* the host's address of the word that kernels read; `done` once anything was flushed */
} mscclpp_proxy_channel_t;

typedef struct {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    uint32_t references; /* channels */
} mscclpp_proxy_transport_t;

/* Pinned memory for the `flushed` words of so many channels with consecutive numbers, a line each. */
#define MSCCLPP_PROXY_PAGE 64u

typedef struct {
    uint64_t *host;
    uint64_t *device; /* where kernels see it */
} mscclpp_proxy_page_t;

struct mscclpp_proxy {
    const mscclpp_gpu_ops_t *gpu;
    int device;
    const char *label;
    mscclpp_dev_mailbox_t *mailbox;
    bool threaded; /* atomic */

    pthread_mutex_t lock;
    pthread_cond_t work; /* for the thread: there may be something to do, or it is to end */
    pthread_t thread;
    bool closing;
    uint32_t wanted;    /* atomic: threads that wait for the lock; the proxy's thread lets them pass */
    uint32_t in_flight; /* atomic */
    uint32_t unsettled; /* atomic: something may be left to do though nothing is in flight */
    uint64_t until;     /* atomic: the last kernel that is in flight as well, times UNTIL_BLOCKS, and its blocks */
    int failure;        /* atomic: mscclpp_status_t, of the first failure */

    mscclpp_fifo_t *fifo;

    /* Tables of `table_size` entries, but for the pages. Entries of `channels` without a channel are NULL. */
    mscclpp_proxy_channel_t **channels;
    mscclpp_proxy_channel_t **busy;
    uint64_t *gone_before;  /* triggers of a number at positions below this are of a channel that was destroyed */
    uint32_t *free_numbers; /* a stack */
    uint32_t table_size;
    uint32_t busy_count;
    uint32_t free_count;
    mscclpp_proxy_page_t pages[MSCCLPP_DEV_PORT_CHANNELS / MSCCLPP_PROXY_PAGE];

    mscclpp_proxy_transport_t *transports;
    uint32_t transport_count;
    uint32_t transport_capacity;
};

static inline void mscclpp_proxy_lock(mscclpp_proxy_t *proxy)
{
    __atomic_fetch_add(&proxy->wanted, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_lock(&proxy->lock);
    __atomic_fetch_sub(&proxy->wanted, 1, __ATOMIC_ACQ_REL);
}

static inline void mscclpp_proxy_unlock(mscclpp_proxy_t *proxy)
{
    pthread_mutex_unlock(&proxy->lock);
}

/* The channel of a number, or NULL. */
mscclpp_proxy_channel_t *mscclpp_proxy_find(const mscclpp_proxy_t *proxy, uint32_t number);

void mscclpp_proxy_free_channels(mscclpp_proxy_t *proxy);

/*
 * How far a round goes with what no kernel has flushed: not at all; until it has been handed to the network, which
 * takes a flush where a transport cannot tell; or until it has reached the peers.
 */
typedef enum { MSCCLPP_PROXY_LEAVE, MSCCLPP_PROXY_HAND_OVER, MSCCLPP_PROXY_DELIVER } mscclpp_proxy_settle_t;

/*
 * One round: progress of the transports, what waits, what has been pushed since. With `settle` also flushes of what no
 * kernel has flushed. The first error, already logged.
 */
mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle);

/* True if nothing is left to do. */
bool mscclpp_proxy_is_settled(const mscclpp_proxy_t *proxy);

/* True if nothing is left to do but to learn of deliveries. */
bool mscclpp_proxy_has_left(const mscclpp_proxy_t *proxy);

/* The list of channels with something to do: enters the channel, unless it is in it, and takes it out. */
void mscclpp_proxy_remember(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);
void mscclpp_proxy_forget(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel);

#endif
