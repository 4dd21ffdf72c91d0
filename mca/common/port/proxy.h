/*
 * The proxy: takes the triggers that the kernels of one team push and carries them out over connections of transports.
 *
 * Somebody has to keep it moving while an operation is in flight, that is between mscclpp_proxy_begin and
 * mscclpp_proxy_end: with the parameter proxy=progress whoever waits for the operation, by mscclpp_proxy_progress; with
 * proxy=thread a thread of the proxy, which sleeps at all other times.
 *
 * The first failure, of a transport, of a handler or of what a kernel asked for, is the end: the team's mailbox tells
 * its kernels to give up, and every later call returns that failure.
 *
 * All functions may be called from any thread unless they say otherwise. A lock of the proxy serialises what touches
 * its transports.
 */
#ifndef MCA_COMMON_PORT_PROXY_H
#define MCA_COMMON_PORT_PROXY_H

#include <stdint.h>

#include "device/types/launch.h"
#include "device/types/port_channel.h"
#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"
#include "mca/common/transport/transport.h"

typedef struct mscclpp_proxy mscclpp_proxy_t;

typedef struct {
    const mscclpp_config_t *config; /* read by mscclpp_proxy_create only */
    const mscclpp_gpu_ops_t *gpu;
    int device;
    const char *label;              /* of the team, for messages; outlives the proxy */
    mscclpp_dev_mailbox_t *mailbox; /* the host's address; outlives the proxy */
} mscclpp_proxy_params_t;

/*
 * Carries out a trigger in a way of the user's own. MSCCLPP_IN_PROGRESS: to be asked again with the same request; later
 * triggers of the channel wait, others do not. Any error fails the proxy. Called with the proxy's lock held, so it may
 * use the transports and must not call the proxy.
 */
typedef mscclpp_status_t (*mscclpp_proxy_handler_fn_t)(void *context, const mscclpp_dev_request_t *request);

/* One side of a port channel. Everything named here outlives the channel. */
typedef struct {
    const mscclpp_transport_ops_t *ops; /* NULL: none, the channel lives by its handler */
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;     /* connected; several channels may share one */
    mscclpp_region_t *region; /* that puts are made from */
    uint64_t region_size;     /* bytes */
    mscclpp_remote_t *remote; /* that they go to */
    uint64_t remote_size;     /* bytes */
    uint32_t token;           /* of the peer, which signals are added to */
    int peer;
    uint64_t *inbound;  /* own token that the peer's signals are added to; NULL if nobody waits on this channel */
    uint64_t *expected; /* device memory that counts the signals waited for; belongs to the token and goes with it */
} mscclpp_port_params_t;

mscclpp_status_t mscclpp_proxy_create(const mscclpp_proxy_params_t *params, mscclpp_proxy_t **proxy_p);

/* After all kernels that may push have ended; channels that are left are destroyed. NULL is allowed. */
void mscclpp_proxy_destroy(mscclpp_proxy_t *proxy);

/*
 * Makes kernels give up and the proxy never touch a transport again, from when it returns on. Whatever was pushed is
 * dropped. May come at any moment, also while kernels wait.
 */
void mscclpp_proxy_stop(mscclpp_proxy_t *proxy);

/*
 * Makes a channel, and what kernels are given of it. MSCCLPP_ERR_INVALID for regions above MSCCLPP_DEV_PORT_REGION_MAX
 * bytes, MSCCLPP_ERR_NO_MEMORY where there are MSCCLPP_DEV_PORT_CHANNELS channels already.
 */
mscclpp_status_t mscclpp_proxy_channel_create(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params,
                                              mscclpp_dev_port_channel_t *channel_p);

/* Once no kernel uses it any more; what it had still to do is dropped. */
void mscclpp_proxy_channel_destroy(mscclpp_proxy_t *proxy, uint32_t number);

/* Gives the triggers of a channel to `handler`; NULL gives them to the transport again. */
mscclpp_status_t mscclpp_proxy_set_handler(mscclpp_proxy_t *proxy, uint32_t number, mscclpp_proxy_handler_fn_t handler,
                                           void *context);

/* One operation more or less in flight. */
void mscclpp_proxy_begin(mscclpp_proxy_t *proxy);
void mscclpp_proxy_end(mscclpp_proxy_t *proxy);

/*
 * One operation more in flight whose end nobody will wait for: it has ended once so many blocks have told the mailbox
 * of the end of kernel `launch`. Called before that kernel is launched. A thread of the proxy looks after it, which is
 * started if there is none, and stays to the proxy's end. By one thread at a time. Fails like mscclpp_proxy_create.
 */
mscclpp_status_t mscclpp_proxy_begin_launch(mscclpp_proxy_t *proxy, uint64_t launch, uint32_t blocks);

/*
 * Moves everything on. MSCCLPP_OK: there is nothing to do until the next begin; MSCCLPP_IN_PROGRESS: call it again;
 * else the failure. Costs one comparison in the first case, and no more with a thread of the proxy.
 */
mscclpp_status_t mscclpp_proxy_progress(mscclpp_proxy_t *proxy);

/*
 * Makes progress and tells whether all that was pushed has been carried out as far as this side is needed for it: what
 * is on its way may still have to reach the peers, and what it is read from may still be needed. Answers as
 * mscclpp_proxy_drain does.
 */
mscclpp_status_t mscclpp_proxy_hand_over(mscclpp_proxy_t *proxy);

/*
 * Makes progress and tells whether all that was pushed has been carried out and has left its sources: MSCCLPP_OK,
 * MSCCLPP_IN_PROGRESS or the failure. In both modes, whether or not an operation is in flight.
 */
mscclpp_status_t mscclpp_proxy_drain(mscclpp_proxy_t *proxy);

#endif
