/*
 * The proxy carries out what the kernels of one team ask of their port channels. It takes their triggers from a FIFO
 * and turns them into puts, signals and flushes of transports' connections.
 *
 * Some thread has to make progress on it while an operation is in flight, that is, between mscclpp_proxy_begin and
 * mscclpp_proxy_end. With the parameter proxy=progress, whoever waits for the operation calls mscclpp_proxy_progress.
 * With proxy=thread, a thread of the proxy does it, and sleeps at all other times.
 *
 * The first failure ends the proxy, whether a transport, a handler or a kernel's request caused it. The team's mailbox
 * then tells the kernels to give up, and every later call returns that failure.
 *
 * All functions may be called from any thread unless they say otherwise. The proxy's lock serialises all use of its
 * transports.
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
    const char *label;              /* name of the team, for messages; outlives the proxy */
    mscclpp_dev_mailbox_t *mailbox; /* the host's address; outlives the proxy */
} mscclpp_proxy_params_t;

/*
 * A function that carries out a channel's triggers in place of a transport. MSCCLPP_IN_PROGRESS: the proxy calls it
 * again with the same request; later triggers of this channel wait, those of other channels do not. Any error fails the
 * proxy. The proxy's lock is held during the call, so the handler may use the transports but must not call the proxy.
 */
typedef mscclpp_status_t (*mscclpp_proxy_handler_fn_t)(void *context, const mscclpp_dev_request_t *request);

/* One side of a port channel. Everything named here outlives the channel. */
typedef struct {
    const mscclpp_transport_ops_t *ops; /* NULL: the channel has no transport, and the handler serves all of its
                                           triggers */
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;     /* connected; several channels may share one */
    mscclpp_region_t *region; /* source of puts */
    uint64_t region_size;     /* bytes */
    mscclpp_remote_t *remote; /* target of puts */
    uint64_t remote_size;     /* bytes */
    uint32_t token;           /* the peer's token that signals are added to */
    int peer;
    uint64_t *inbound;  /* this rank's token for the peer's signals; NULL if nobody waits on this channel */
    uint64_t *expected; /* device memory that counts the signals waited for; belongs to the token and lives as long */
} mscclpp_port_params_t;

/*
 * Makes a proxy without channels, with its thread if the parameter proxy is "thread". MSCCLPP_ERR_NO_MEMORY,
 * MSCCLPP_ERR_SYSTEM if the thread cannot be started, or a failure of the GPU's runtime.
 */
mscclpp_status_t mscclpp_proxy_create(const mscclpp_proxy_params_t *params, mscclpp_proxy_t **proxy_p);

/* Frees the proxy, with the channels that are left, after all kernels that may push have ended. NULL is allowed. */
void mscclpp_proxy_destroy(mscclpp_proxy_t *proxy);

/*
 * Makes kernels give up, and drops everything that was pushed. The proxy never touches a transport after this call has
 * returned. May be called at any moment, also while kernels wait.
 */
void mscclpp_proxy_stop(mscclpp_proxy_t *proxy);

/*
 * Makes a channel and fills in the structure that kernels use. MSCCLPP_ERR_INVALID for regions above
 * MSCCLPP_DEV_PORT_REGION_MAX bytes, MSCCLPP_ERR_NO_MEMORY if there are MSCCLPP_DEV_PORT_CHANNELS channels already.
 */
mscclpp_status_t mscclpp_proxy_channel_create(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params,
                                              mscclpp_dev_port_channel_t *channel_p);

/*
 * From now on all channels of a connection put from `region` into `remote`, both of `size` bytes. Nothing that kernels
 * have pushed may be left to carry out (mscclpp_proxy_drain).
 */
void mscclpp_proxy_replace_memory(mscclpp_proxy_t *proxy, const mscclpp_conn_t *conn, mscclpp_region_t *region,
                                  mscclpp_remote_t *remote, uint64_t size);

/* Destroys a channel that no kernel uses any more. Drops its remaining work. */
void mscclpp_proxy_channel_destroy(mscclpp_proxy_t *proxy, uint32_t number);

/*
 * From now on `handler` carries out the channel's triggers, those that wait included; with NULL the transport does.
 * MSCCLPP_ERR_INVALID, logged, if there is no such channel.
 */
mscclpp_status_t mscclpp_proxy_set_handler(mscclpp_proxy_t *proxy, uint32_t number, mscclpp_proxy_handler_fn_t handler,
                                           void *context);

/* Count an operation as in flight, and as over. Every begin needs its end. */
void mscclpp_proxy_begin(mscclpp_proxy_t *proxy);
void mscclpp_proxy_end(mscclpp_proxy_t *proxy);

/*
 * Starts a thread of the proxy unless there is one. From now on it makes the progress; it stays until the proxy's end.
 * Fails like mscclpp_proxy_create.
 */
mscclpp_status_t mscclpp_proxy_start(mscclpp_proxy_t *proxy);

/*
 * Counts one more operation in flight whose end nobody will wait for. The operation has ended once `blocks` blocks have
 * reported the end of kernel `launch` in the mailbox. Call it before that kernel is launched, from one thread at a
 * time. A thread of the proxy makes the progress; it is started if there is none, and stays until the proxy's end.
 * Fails like mscclpp_proxy_create.
 */
mscclpp_status_t mscclpp_proxy_begin_launch(mscclpp_proxy_t *proxy, uint64_t launch, uint32_t blocks);

/*
 * From now on kernels may push at any time, without a begin, until the proxy's end: graphs repeat them. A thread of the
 * proxy looks for their triggers. For 200 microseconds after the last trigger it spins. Then it naps between looks: for
 * a sixteenth of the time since that trigger, at most 1 ms. Whatever begins an operation wakes it.
 */
mscclpp_status_t mscclpp_proxy_watch(mscclpp_proxy_t *proxy);

/*
 * Makes progress on everything. MSCCLPP_OK: there is nothing to do until the next begin; MSCCLPP_IN_PROGRESS: call it
 * again; else the failure. Costs one comparison if there is nothing to do or if the proxy has a thread.
 */
mscclpp_status_t mscclpp_proxy_progress(mscclpp_proxy_t *proxy);

/*
 * Makes progress and tells whether this side has done its part for everything that was pushed. Data may still be on its
 * way to the peers, and its sources may still be needed. Answers as mscclpp_proxy_drain does.
 */
mscclpp_status_t mscclpp_proxy_hand_over(mscclpp_proxy_t *proxy);

/*
 * Makes progress and tells whether everything that was pushed has been carried out and has left its sources:
 * MSCCLPP_OK, MSCCLPP_IN_PROGRESS or the failure. Works in both modes, whether or not an operation is in flight.
 */
mscclpp_status_t mscclpp_proxy_drain(mscclpp_proxy_t *proxy);

#endif
