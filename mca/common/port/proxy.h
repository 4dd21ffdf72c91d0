/*
 * The proxy executes the requests that the kernels of one team push to their port channels. It takes their triggers
 * from a FIFO and translates them into puts, signals and flushes of transports' connections.
 *
 * Some thread has to make progress on the proxy while an operation is in flight, that is, between mscclpp_proxy_begin
 * and mscclpp_proxy_end. With the parameter proxy=progress, the thread that waits for the operation calls
 * mscclpp_proxy_progress. With proxy=thread, a thread of the proxy makes the progress, and sleeps once no work is left.
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
    mscclpp_dev_mailbox_t *mailbox; /* the mailbox at the host's address; outlives the proxy */
} mscclpp_proxy_params_t;

/*
 * A function that executes a channel's triggers instead of a transport. If it returns MSCCLPP_IN_PROGRESS, the proxy
 * calls it again with the same request; in the meantime later triggers of this channel wait, and triggers of other
 * channels do not. Any error fails the proxy. The proxy's lock is held during the call, so the handler may use the
 * transports but must not call the proxy.
 */
typedef mscclpp_status_t (*mscclpp_proxy_handler_fn_t)(void *context, const mscclpp_dev_request_t *request);

/* One side of a port channel. All objects that the fields refer to must outlive the channel. */
typedef struct {
    const mscclpp_transport_ops_t *ops; /* NULL: the channel has no transport, and the handler executes all of
                                           its triggers */
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;     /* connected; several channels may share one */
    mscclpp_region_t *region; /* region that is the source of puts */
    uint64_t region_size;     /* in bytes */
    mscclpp_remote_t *remote; /* the peer's region, which is the target of puts */
    uint64_t remote_size;     /* in bytes */
    uint32_t token;           /* number of the peer's token to which signals are added */
    int peer;
    uint64_t *inbound;  /* this rank's token for the peer's signals; NULL if no kernel waits on this channel */
    uint64_t *expected; /* device memory that counts the awaited signals; lives as long as the token */
} mscclpp_port_params_t;

/*
 * Creates a proxy without channels. Starts its thread if the parameter proxy is "thread". Returns
 * MSCCLPP_ERR_NO_MEMORY, MSCCLPP_ERR_SYSTEM if the thread cannot be started, or a failure of the GPU runtime.
 */
mscclpp_status_t mscclpp_proxy_create(const mscclpp_proxy_params_t *params, mscclpp_proxy_t **proxy_p);

/* Frees the proxy and its remaining channels. All kernels that may push must have ended. NULL is allowed. */
void mscclpp_proxy_destroy(mscclpp_proxy_t *proxy);

/*
 * Makes kernels give up, and drops all pushed triggers. The proxy does not use a transport after this call has
 * returned. May be called at any time, also while kernels wait.
 */
void mscclpp_proxy_stop(mscclpp_proxy_t *proxy);

/*
 * Creates a channel and fills in the structure that kernels use. Returns MSCCLPP_ERR_INVALID for regions above
 * MSCCLPP_DEV_PORT_REGION_MAX bytes, or a failure of the GPU runtime. Returns MSCCLPP_ERR_NO_MEMORY if there is no
 * memory, or if there are MSCCLPP_DEV_PORT_CHANNELS channels already. All errors are logged, and leave *channel_p
 * unchanged.
 */
mscclpp_status_t mscclpp_proxy_channel_create(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params,
                                              mscclpp_dev_port_channel_t *channel_p);

/*
 * Makes all channels of a connection put from `region` into `remote`, both of `size` bytes, from now on. Nothing that
 * kernels have pushed may be left to carry out (mscclpp_proxy_drain).
 */
void mscclpp_proxy_replace_memory(mscclpp_proxy_t *proxy, const mscclpp_conn_t *conn, mscclpp_region_t *region,
                                  mscclpp_remote_t *remote, uint64_t size);

/*
 * Destroys a channel that no kernel uses any more. Drops its remaining work. If there is no channel with that number,
 * only warns.
 */
void mscclpp_proxy_channel_destroy(mscclpp_proxy_t *proxy, uint32_t number);

/*
 * Makes `handler` execute the channel's triggers from now on, including those that wait. With NULL the transport
 * executes them. Returns MSCCLPP_ERR_INVALID if there is no such channel.
 */
mscclpp_status_t mscclpp_proxy_set_handler(mscclpp_proxy_t *proxy, uint32_t number, mscclpp_proxy_handler_fn_t handler,
                                           void *context);

/* Count an operation as in flight, and as ended. Every begin needs one end. */
void mscclpp_proxy_begin(mscclpp_proxy_t *proxy);
void mscclpp_proxy_end(mscclpp_proxy_t *proxy);

/*
 * Starts a thread of the proxy if there is none. The thread makes the progress from now on, until the proxy is
 * destroyed. Returns the proxy's failure, or MSCCLPP_ERR_SYSTEM if the thread cannot be started.
 */
mscclpp_status_t mscclpp_proxy_start(mscclpp_proxy_t *proxy);

/*
 * Counts one more operation in flight, whose end no caller will wait for. The operation has ended once `blocks` blocks
 * have reported the end of kernel `launch` in the mailbox. The function must be called before that kernel is launched,
 * by one thread at a time. It starts a thread of the proxy if there is none, which makes the progress until the proxy
 * is destroyed. Returns the same errors as mscclpp_proxy_start; nothing is then counted.
 */
mscclpp_status_t mscclpp_proxy_begin_launch(mscclpp_proxy_t *proxy, uint64_t launch, uint32_t blocks);

/*
 * Allows kernels to push at any time without a begin, until the proxy is destroyed: graphs repeat such kernels. A
 * thread of the proxy looks for their triggers. It spins for 200 microseconds after the last trigger. After that it
 * sleeps between two looks: for a sixteenth of the time since that trigger, and at most for 1 ms. An operation that
 * begins wakes it. Returns the same errors as mscclpp_proxy_start; nothing has then changed.
 */
mscclpp_status_t mscclpp_proxy_watch(mscclpp_proxy_t *proxy);

/*
 * Makes progress on all channels. Returns MSCCLPP_OK if no work is left until the next begin, MSCCLPP_IN_PROGRESS if it
 * must be called again, or the proxy's failure. The call is cheap if there is no work or if the proxy has a thread.
 */
mscclpp_status_t mscclpp_proxy_progress(mscclpp_proxy_t *proxy);

/*
 * Makes progress. Returns MSCCLPP_OK if all pushed transfers have been handed to the network, so that this side has
 * done its part. The data may still be on its way to the peers, and its sources may still be needed. Otherwise returns
 * MSCCLPP_IN_PROGRESS or the proxy's failure.
 */
mscclpp_status_t mscclpp_proxy_hand_over(mscclpp_proxy_t *proxy);

/*
 * Makes progress. Returns MSCCLPP_OK if all pushed triggers have been executed and their data has left its sources.
 * Otherwise returns MSCCLPP_IN_PROGRESS or the proxy's failure. Works in both modes, whether or not an operation is in
 * flight.
 */
mscclpp_status_t mscclpp_proxy_drain(mscclpp_proxy_t *proxy);

#endif
