/*
 * Transports: ways to move bytes from this rank's memory into a peer's memory without a kernel on either side. The
 * proxy uses them to execute the requests of kernels. Code above this file does not depend on a particular transport,
 * and transports do not depend on one another.
 *
 * One instance serves one team and is used by one thread at a time. No function waits for a peer, except that the
 * functions that destroy objects may wait a second or two. The operations on one connection take effect in the order of
 * the calls, as far as signals can tell: a kernel that sees a signal also sees every put that was made before it on
 * that connection.
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

/* The maximum number of bytes of a connection's address and of a region's key. */
#define MSCCLPP_TRANSPORT_ADDRESS_MAX 1024
#define MSCCLPP_TRANSPORT_KEY_MAX 512

typedef struct mscclpp_transport mscclpp_transport_t; /* an instance */
typedef struct mscclpp_conn mscclpp_conn_t;           /* this rank's half of a connection to a peer */
typedef struct mscclpp_region mscclpp_region_t;       /* memory of this rank that puts read, and into which peers put */
typedef struct mscclpp_remote mscclpp_remote_t;       /* a peer's region, as a connection accesses it */

/* The capabilities of an instance: the flags that `create` returns. */
enum {
    MSCCLPP_REACH_NODE = 1,      /* can connect to peers on this node */
    MSCCLPP_REACH_NETWORK = 2,   /* can connect to peers on other nodes */
    MSCCLPP_CAN_ADD = 4,         /* has the operation `add`, to peers whose instances have this flag, too */
    MSCCLPP_DEVICE_TOKENS = 8,   /* tokens may be in device memory; without this flag they must be in host memory */
    MSCCLPP_DEVICE_REGIONS = 16, /* regions may be in device memory of the instance's runtime, bounced or not */
    /*
     * Within one process the transport writes directly into a peer's regions and tokens. The peer frees them only after
     * the remotes and connections to them are gone. Without this flag, and between processes, data sent to a peer that
     * has freed its memory or has died is lost or breaks the connection.
     */
    MSCCLPP_LENT_REGIONS = 32,
    /*
     * Aligned words of 8 bytes appear whole in the peer's memory if both ends of a put are aligned to 8 bytes, and no
     * byte is written twice. So packets need no signal: they have their flag in the same word as their data. The words
     * arrive in any order. The flag does not hold for device memory that the transport bounces.
     */
    MSCCLPP_WHOLE_WORDS = 64
};

/* The place of tokens and regions. */
typedef enum {
    MSCCLPP_PLACE_HOST,   /* pinned memory of the host, or any memory that the instance's flags allow */
    MSCCLPP_PLACE_SHARED, /* a segment of shared memory (shmseg.h), or similar memory, that kernels can access */
    MSCCLPP_PLACE_DEVICE  /* device memory of the runtime */
} mscclpp_transport_place_t;

/* The parameters of an instance. */
typedef struct {
    const mscclpp_config_t *config;
    const mscclpp_gpu_ops_t *gpu;
    int device;        /* number of the GPU that the rank uses */
    int rank;          /* this rank, in the team */
    int size;          /* number of ranks of the team */
    bool one_host;     /* all ranks run on one host, as the ranks of imitated nodes do */
    const char *label; /* name of the team, for messages; outlives the instance */

    /*
     * The `token_count` words to which the peers' signals are added; kernels of this rank wait on them. Kernels can
     * access them at this address. The CPU can, too, unless the transport has MSCCLPP_DEVICE_TOKENS. They are 0 at
     * first and outlive the instance.
     */
    uint64_t *tokens;
    size_t token_count;

    /*
     * If a connection finds that its peer is gone, it describes the loss here and logs no error. The structure outlives
     * the instance. NULL: the connection logs an error instead.
     */
    mscclpp_loss_t *loss;
} mscclpp_transport_params_t;

/* The functions of a transport, and the properties that all of its instances have. */
typedef struct {
    const char *name; /* "shm", "cuda_ipc", "verbs", "ucx" */

    /* The kind of memory in which tokens must be, and regions into which peers put. */
    mscclpp_transport_place_t place;

    /* The transport can connect to peers on other nodes, if it can be used at all. */
    bool between_nodes;

    /* "auto" may select the transport between imitated nodes, whose ranks all run on one host. */
    bool within_host;

    /*
     * Operations are executed immediately. So no rank depends on the progress of another rank that has no operation to
     * execute.
     */
    bool at_once;

    /*
     * The transport moves bytes by calls of the GPU's driver, on the twin, too. If another thread frees device memory,
     * these calls may have to wait until kernels end, and the kernels may wait for those bytes.
     */
    bool calls_driver;

    /*
     * Creates an instance. *flags_p gets its capabilities. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the
     * info level, if the transport cannot be used.
     */
    mscclpp_status_t (*create)(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                               mscclpp_transport_t **transport_p);

    /* Destroys the instance. All connections and regions of the instance must be destroyed first. NULL is allowed. */
    void (*destroy)(mscclpp_transport_t *transport);

    /*
     * Makes progress on all connections. Returns the first error of a connection, and each error only once; conn_status
     * returns it from then on.
     */
    mscclpp_status_t (*progress)(mscclpp_transport_t *transport);

    /*
     * conn_create creates this rank's half of a connection to `peer`; the peer creates the other half. Each side sends
     * its address (at most MSCCLPP_TRANSPORT_ADDRESS_MAX bytes) to the other, and then each side connects. conn_connect
     * returns MSCCLPP_ERR_INVALID for bytes that are not the peer's address, and for a second call.
     */
    mscclpp_status_t (*conn_create)(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
    mscclpp_status_t (*conn_address)(const mscclpp_conn_t *conn, void *address, size_t *length_p);
    mscclpp_status_t (*conn_connect)(mscclpp_conn_t *conn, const void *address, size_t length);

    /*
     * Ends this half of a connection. Gives up the operations in progress; they may still be executed until their
     * regions are destroyed. NULL is allowed.
     */
    void (*conn_destroy)(mscclpp_conn_t *conn);

    /* Returns the state of the connection: MSCCLPP_OK, or the reason why it no longer works. */
    mscclpp_status_t (*conn_status)(const mscclpp_conn_t *conn);

    /*
     * Registers memory that puts read from and into which peers may put. Some transports refuse 0 bytes with
     * MSCCLPP_ERR_INVALID. The key (at most MSCCLPP_TRANSPORT_KEY_MAX bytes) is sent to the peers. region_key returns
     * MSCCLPP_ERR_NOT_SUPPORTED for memory that peers cannot access; the region can then only be a source of puts.
     *
     * The memory must be kept until region_destroy has returned. After that this rank no longer reads or writes it,
     * whatever operations were in progress, even on destroyed connections. If a transport cannot guarantee this
     * otherwise, it breaks those connections, and if necessary all connections of the instance.
     *
     * Device memory should be registered before the addresses of the connections that will use it are taken: the
     * buffers of a bounced region are then allocated together with these addresses. Otherwise they are allocated at
     * first use, when a kernel may be waiting.
     *
     * region_create settles device memory (gpu.h), so puts follow the synchronous calls of the GPU runtime. With
     * drivers older than CUDA 12.1, the caller must settle memory that has no context of its own, such as pool memory,
     * again before it lets puts begin.
     */
    mscclpp_status_t (*region_create)(mscclpp_transport_t *transport, void *address, size_t length,
                                      mscclpp_region_t **region_p);
    mscclpp_status_t (*region_key)(const mscclpp_region_t *region, void *key, size_t *length_p);
    void (*region_destroy)(mscclpp_region_t *region); /* NULL is allowed */

    /* Makes a peer's region known to this connection. The remote must be destroyed before the connection. */
    mscclpp_status_t (*remote_create)(mscclpp_conn_t *conn, const void *key, size_t length,
                                      mscclpp_remote_t **remote_p);
    void (*remote_destroy)(mscclpp_remote_t *remote); /* NULL is allowed */

    /*
     * Maps `length` bytes from offset `offset` of the peer's region, so that kernels of this rank's device can access
     * them directly until remote_destroy. Aligned words of 8 bytes that kernels store appear whole. Called at most once
     * for each remote. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if only the operations
     * below can access the region. NULL: always so.
     */
    mscclpp_status_t (*remote_map)(mscclpp_remote_t *remote, uint64_t offset, uint64_t length, void **device_p);

    /*
     * The operations. Each starts a transfer that ends later. A transfer that fails breaks the connection.
     * MSCCLPP_IN_PROGRESS means that too many transfers are in progress and the operation was not started: the caller
     * makes progress and calls again.
     */

    /*
     * Copies `length` bytes (0 is allowed) from offset `from` of this rank's region to offset `to` of the peer's
     * region. The source must not change until a later flush has ended. Returns MSCCLPP_ERR_INVALID, with nothing put,
     * for bytes outside a region.
     */
    mscclpp_status_t (*put)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                            uint64_t from, uint64_t length);

    /*
     * Adds 1 to the peer's token number `token`. Only one connection may signal a token at any time, because some
     * transports keep the count on the sending side and write it to the token. Another connection of the same instance
     * may take over later. Returns MSCCLPP_ERR_INVALID, with nothing done, if the peer has no such token.
     */
    mscclpp_status_t (*signal)(mscclpp_conn_t *conn, uint32_t token);

    /*
     * Does a put and then a signal in one message. MSCCLPP_ERR_NOT_SUPPORTED means that nothing was done, and the
     * caller must call the two operations instead. NULL: always so.
     */
    mscclpp_status_t (*put_signal)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                   mscclpp_region_t *region, uint64_t from, uint64_t length, uint32_t token);

    /*
     * Adds `value` to the aligned 64-bit word at offset `to` of a peer's region. The addition is atomic among the
     * additions of this transport, and is ordered like a signal. Returns MSCCLPP_ERR_NOT_SUPPORTED, which is not
     * logged, already at the first addition, if this instance or the peer's lacks MSCCLPP_CAN_ADD.
     */
    mscclpp_status_t (*add)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value);

    /*
     * `flush` writes a ticket to *ticket_p. The ticket completes once all transfers that have begun on the connection
     * have left their sources and reached the peer's memory. Flushes of other connections do not wait for this. `test`
     * returns MSCCLPP_OK if the ticket has completed, MSCCLPP_IN_PROGRESS if not, or the connection's error. It may be
     * called again after MSCCLPP_OK.
     */
    mscclpp_status_t (*flush)(mscclpp_conn_t *conn, uint64_t *ticket_p);
    mscclpp_status_t (*test)(mscclpp_conn_t *conn, uint64_t ticket);

    /*
     * Returns true if all transfers that have begun on the connection have been handed to the network. They then reach
     * the peer while the peer makes progress, even if this side makes none for a while. If the result is false, the
     * call may have started work that is needed to find out; the caller makes progress and calls again. NULL: only a
     * flush can tell.
     */
    bool (*has_left)(mscclpp_conn_t *conn);
} mscclpp_transport_ops_t;

/* Returns true if `length` bytes from offset `offset` on are within `limit` bytes. */
static inline bool mscclpp_fits(uint64_t offset, uint64_t length, uint64_t limit)
{
    return offset <= limit && length <= limit - offset;
}

/*
 * Checks the lengths in a card of rank `peer`, which comes from another process: bytes of a key, which may have
 * MSCCLPP_TRANSPORT_KEY_MAX, and of an address, for which the card has room for `address_room`. Returns false, with an
 * error logged, if one is too long.
 */
bool mscclpp_transport_card_fits(const char *label, int peer, uint64_t key_length, uint64_t address_length,
                                 uint64_t address_room);

/* All transports of this build, in the order of preference. */
extern const mscclpp_transport_ops_t *const mscclpp_transports[];
extern const int mscclpp_transport_count;

/*
 * Returns true if the parameter `transport` allows this transport to connect a team's nodes. `one_host` says that the
 * nodes are imitated, and all ranks run on one host.
 */
bool mscclpp_transport_may_take(const mscclpp_transport_ops_t *ops, const mscclpp_config_t *config, bool one_host);

/* Returns the transport with this name, or NULL if this build has none. */
const mscclpp_transport_ops_t *mscclpp_transport_find(const char *name);

#endif
