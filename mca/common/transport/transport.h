/*
 * Transports: ways to move bytes from this rank's memory into a peer's without a kernel on either side. The proxy uses
 * them to carry out the requests of kernels. Code above this file does not depend on a particular transport, and no
 * transport knows another.
 *
 * One instance serves one team and is used by one thread at a time. No function waits for a peer, except that the
 * destroying functions may give a peer a second or two. The operations on one connection take effect in the order of
 * the calls, as far as signals can tell: whoever sees a signal also sees every put that was made before it on that
 * connection.
 */
#ifndef MCA_COMMON_TRANSPORT_TRANSPORT_H
#define MCA_COMMON_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/call.h"
#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

/* Most bytes of a connection's address and of a region's key. */
#define MSCCLPP_TRANSPORT_ADDRESS_MAX 1024
#define MSCCLPP_TRANSPORT_KEY_MAX 512

typedef struct mscclpp_transport mscclpp_transport_t; /* an instance */
typedef struct mscclpp_conn mscclpp_conn_t;           /* this rank's half of a connection to a peer */
typedef struct mscclpp_region mscclpp_region_t;       /* memory of this rank that puts use */
typedef struct mscclpp_remote mscclpp_remote_t;       /* a peer's region, as a connection reaches it */

/* What an instance can do: the flags that `create` returns. */
enum {
    MSCCLPP_REACH_NODE = 1,      /* peers on this node */
    MSCCLPP_REACH_NETWORK = 2,   /* peers on other nodes */
    MSCCLPP_CAN_ADD = 4,         /* the operation `add`, to peers whose instances have this flag, too */
    MSCCLPP_DEVICE_TOKENS = 8,   /* tokens may lie in device memory; without it they must lie in host memory */
    MSCCLPP_DEVICE_REGIONS = 16, /* regions may lie in device memory of the instance's runtime, bounced or not */
    /*
     * Within one process the transport writes directly into a peer's regions and tokens. The peer frees them only after
     * the remotes and connections to them are gone. Without this flag, and between processes, data sent to a peer that
     * has freed its memory or has died is lost or breaks the connection.
     */
    MSCCLPP_LENT_REGIONS = 32,
    /*
     * Aligned words of 8 bytes appear whole in the peer's memory if both ends of a put are aligned to 8 bytes, and
     * nothing is written twice. So packets, which carry their flag in the same word as their data, need no signal. The
     * words arrive in any order. The flag does not hold for device memory that the transport bounces.
     */
    MSCCLPP_WHOLE_WORDS = 64
};

/* Where tokens and regions lie. */
typedef enum {
    MSCCLPP_PLACE_HOST,   /* pinned memory of the host, or wherever the instance's flags allow */
    MSCCLPP_PLACE_SHARED, /* a segment of shared memory (shmseg.h) that kernels can touch, or the like */
    MSCCLPP_PLACE_DEVICE  /* device memory of the runtime */
} mscclpp_transport_place_t;

/* What an instance is created with. */
typedef struct {
    const mscclpp_config_t *config;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    int rank;
    int size;
    bool one_host;     /* all ranks run on one host, as the ranks of imitated nodes do */
    const char *label; /* name of the team, for messages; outlives the instance */

    /*
     * The `token_count` words that the peers' signals are added to; kernels of this rank wait on them. Kernels can
     * touch them at this address, and so can the CPU, unless the transport has MSCCLPP_DEVICE_TOKENS. They are 0 at
     * first and outlive the instance.
     */
    uint64_t *tokens;
    size_t token_count;

    /* Connections note here that their peer is gone, and log no error; it outlives the instance. NULL: they log it. */
    mscclpp_loss_t *loss;
} mscclpp_transport_params_t;

/* The functions of a transport, and what holds for all of its instances. */
typedef struct {
    const char *name; /* "shm", "cuda_ipc", "verbs", "ucx" */

    /* The kind of memory in which tokens must lie, and regions that peers put into. */
    mscclpp_transport_place_t place;

    /* Reaches peers on other nodes, where it can be used at all. */
    bool between_nodes;

    /* "auto" may pick it between imitated nodes, whose ranks all run on one host. */
    bool within_host;

    /* Operations are carried out at once. So nobody needs progress of this rank while it has nothing to carry out. */
    bool at_once;

    /*
     * It moves bytes by calls of the GPU's driver, on the twin too. Another thread that frees device memory may hold
     * these up until kernels end, which may wait for those bytes.
     */
    bool calls_driver;

    /*
     * Makes an instance. *flags_p tells what it can do. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info
     * level, where the transport cannot be used.
     */
    mscclpp_status_t (*create)(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                               mscclpp_transport_t **transport_p);

    /* Called after all connections and regions of the instance are gone. NULL is allowed. */
    void (*destroy)(mscclpp_transport_t *transport);

    /*
     * Makes progress on all connections. Returns the first error of a connection, once; conn_status tells it from then
     * on.
     */
    mscclpp_status_t (*progress)(mscclpp_transport_t *transport);

    /*
     * Makes this rank's half of a connection to `peer`; the peer makes the other half. Each side hands the other its
     * address (at most MSCCLPP_TRANSPORT_ADDRESS_MAX bytes), then each side connects.
     */
    mscclpp_status_t (*conn_create)(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
    mscclpp_status_t (*conn_address)(const mscclpp_conn_t *conn, void *address, size_t *length_p);
    mscclpp_status_t (*conn_connect)(mscclpp_conn_t *conn, const void *address, size_t length);

    /*
     * Ends this half of a connection. Gives up the operations under way; they may still be carried out until their
     * regions are destroyed. NULL is allowed.
     */
    void (*conn_destroy)(mscclpp_conn_t *conn);

    /* Returns the state of the connection: MSCCLPP_OK, or why it no longer works. */
    mscclpp_status_t (*conn_status)(const mscclpp_conn_t *conn);

    /*
     * Registers memory that puts read from and that peers may put into. The key (at most MSCCLPP_TRANSPORT_KEY_MAX
     * bytes) goes to the peers.
     *
     * The memory must stay until region_destroy has returned. After that nothing of this rank reads or writes it,
     * whatever operations were under way, even on destroyed connections. A transport that cannot be sure otherwise
     * breaks those connections, and if need be all connections of the instance.
     *
     * Register device memory before taking the addresses of the connections that will use it: a bounced region's
     * buffers are then made together with these addresses. Otherwise they are made at first use, when a kernel may be
     * waiting.
     *
     * region_create settles device memory (gpu.h), so puts follow the synchronous calls of the GPU's runtime. With
     * drivers older than CUDA 12.1, the caller must settle memory that has no context of its own, such as pool memory,
     * again before it lets puts begin.
     */
    mscclpp_status_t (*region_create)(mscclpp_transport_t *transport, void *address, size_t length,
                                      mscclpp_region_t **region_p);
    mscclpp_status_t (*region_key)(const mscclpp_region_t *region, void *key, size_t *length_p);
    void (*region_destroy)(mscclpp_region_t *region);

    /* Makes a peer's region known to this connection. It must be destroyed before the connection. */
    mscclpp_status_t (*remote_create)(mscclpp_conn_t *conn, const void *key, size_t length,
                                      mscclpp_remote_t **remote_p);
    void (*remote_destroy)(mscclpp_remote_t *remote);

    /*
     * Maps `length` bytes from offset `offset` of the peer's region, so that kernels of this rank's device can access
     * them directly until remote_destroy. Aligned words of 8 bytes that kernels store appear whole. Called at most once
     * for each remote. MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if only the operations below reach
     * the region. NULL: always so.
     */
    mscclpp_status_t (*remote_map)(mscclpp_remote_t *remote, uint64_t offset, uint64_t length, void **device_p);

    /*
     * The operations. Each starts a transfer that ends later. A transfer that fails breaks the connection.
     * MSCCLPP_IN_PROGRESS means that too much is under way and nothing was done: make progress and call again.
     */

    /*
     * Copies `length` bytes (0 is allowed) from offset `from` of this rank's region to offset `to` of the peer's. The
     * source must stay unchanged until a later flush has ended.
     */
    mscclpp_status_t (*put)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                            uint64_t from, uint64_t length);

    /*
     * Adds 1 to the peer's token number `token`. Only one connection may signal a token at any time, because some
     * transports keep the count on the sending side and write it. Another connection of the same instance may take over
     * later.
     */
    mscclpp_status_t (*signal)(mscclpp_conn_t *conn, uint32_t token);

    /*
     * Does a put and then a signal, at the price of one message. MSCCLPP_ERR_NOT_SUPPORTED means that nothing was done,
     * and the caller must ask for the two one by one. NULL: always so.
     */
    mscclpp_status_t (*put_signal)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                   mscclpp_region_t *region, uint64_t from, uint64_t length, uint32_t token);

    /*
     * Adds `value` to the aligned 64-bit word at offset `to` of a peer's region. Atomic among the adds of this
     * transport, and ordered as a signal is. MSCCLPP_ERR_NOT_SUPPORTED, unlogged and from the first add on, if this
     * instance or the peer's lacks MSCCLPP_CAN_ADD.
     */
    mscclpp_status_t (*add)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value);

    /*
     * Gives a ticket that completes once everything begun on the connection has left its sources and reached the peer's
     * memory. Flushes of other connections do not wait for it. `test` tells whether the ticket has completed:
     * MSCCLPP_OK, MSCCLPP_IN_PROGRESS, or the connection's error. It may be called again after MSCCLPP_OK.
     */
    mscclpp_status_t (*flush)(mscclpp_conn_t *conn, uint64_t *ticket_p);
    mscclpp_status_t (*test)(mscclpp_conn_t *conn, uint64_t ticket);

    /*
     * True if everything begun on the connection has been handed to the network. It then reaches the peer while the
     * peer makes progress, even if this side makes none for a while. The call may start the work needed to find out:
     * make progress and call again. NULL: only a flush can tell.
     */
    bool (*has_left)(mscclpp_conn_t *conn);
} mscclpp_transport_ops_t;

/* True if `length` bytes from offset `offset` on lie within `limit` bytes. */
static inline bool mscclpp_fits(uint64_t offset, uint64_t length, uint64_t limit)
{
    return offset <= limit && length <= limit - offset;
}

/* All transports of this build, in the order of preference. */
extern const mscclpp_transport_ops_t *const mscclpp_transports[];
extern const int mscclpp_transport_count;

/*
 * Tells whether the parameter `transport` allows this transport to join a team's nodes. `one_host`: the nodes are
 * imitated, and all ranks run on one host.
 */
bool mscclpp_transport_may_take(const mscclpp_transport_ops_t *ops, const mscclpp_config_t *config, bool one_host);

/* Finds a transport by name; NULL if this build has none of that name. */
const mscclpp_transport_ops_t *mscclpp_transport_find(const char *name);

#endif
