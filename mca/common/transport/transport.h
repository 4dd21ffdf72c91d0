/*
 * Transports: ways to move bytes from this rank's memory into a peer's without a kernel of either. The proxy uses them
 * to carry out what kernels asked for; nothing above this file names one. Sideways they know nothing of one another.
 *
 * An instance serves one team and is used by one thread at a time. No function waits for a peer, except that those
 * which destroy something may give it a second or two. All that is sent over one connection happens in the order of the
 * calls, as far as signals tell: whoever sees a signal sees all puts that were made before it on that connection.
 */
#ifndef MCA_COMMON_TRANSPORT_TRANSPORT_H
#define MCA_COMMON_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

/* Most bytes of a connection's address and of a region's key. */
#define MSCCLPP_TRANSPORT_ADDRESS_MAX 1024
#define MSCCLPP_TRANSPORT_KEY_MAX 512

typedef struct mscclpp_transport mscclpp_transport_t;
typedef struct mscclpp_conn mscclpp_conn_t;
typedef struct mscclpp_region mscclpp_region_t;
typedef struct mscclpp_remote mscclpp_remote_t;

enum {
    MSCCLPP_REACH_NODE = 1,      /* peers on this node */
    MSCCLPP_REACH_NETWORK = 2,   /* peers on other nodes */
    MSCCLPP_CAN_ADD = 4,         /* the operation `add`, to peers whose instances can as well */
    MSCCLPP_DEVICE_TOKENS = 8,   /* tokens may lie in device memory; else they must in host memory */
    MSCCLPP_DEVICE_REGIONS = 16, /* regions may lie in device memory of its runtime, bounced or not */
    /*
     * Within one process a peer's regions and tokens are written where they lie: it frees them after the remotes and
     * connections to them are gone. Without this flag, and between processes, what is sent to a peer that has freed its
     * memory, or is dead, is lost or breaks the connection.
     */
    MSCCLPP_LENT_REGIONS = 32,
    /*
     * Aligned words of 8 bytes appear whole in the peer's memory wherever both ends of a put are aligned to 8 bytes,
     * and nothing is written twice: so packets, whose flag lies in the word of their data, need no signal. They come in
     * any order. Not in device memory that the transport bounces.
     */
    MSCCLPP_WHOLE_WORDS = 64
};

typedef enum {
    MSCCLPP_PLACE_HOST,   /* pinned memory of the host, or wherever the instance's flags allow */
    MSCCLPP_PLACE_SHARED, /* a segment of shared memory (shmseg.h) that kernels can touch, or the like */
    MSCCLPP_PLACE_DEVICE  /* device memory of the runtime */
} mscclpp_transport_place_t;

typedef struct {
    const mscclpp_config_t *config;
    const mscclpp_gpu_ops_t *gpu;
    int device;
    int rank;
    int size;
    bool one_host;     /* all ranks run on one, as those of imitated nodes do */
    const char *label; /* of the team, for messages; outlives the instance */

    /*
     * Words that the peers' signals are added to, `token_count` of them: what kernels of this rank wait on. In memory
     * that kernels and, unless the transport has MSCCLPP_DEVICE_TOKENS, the CPU can touch at this address. 0 at first.
     * Outlive the instance.
     */
    uint64_t *tokens;
    size_t token_count;
} mscclpp_transport_params_t;

typedef struct {
    const char *name; /* "shm", "cuda_ipc", "verbs", "ucx" */

    /* Where tokens, and regions that peers put into, have to lie. */
    mscclpp_transport_place_t place;

    /* Reaches peers on other nodes, where it can be used at all. */
    bool between_nodes;

    /* Taken unasked between imitated nodes, whose ranks all run on one host. */
    bool within_host;

    /*
     * Opens what the process needs. MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, where it cannot be
     * used. *flags_p: what this instance can do.
     */
    mscclpp_status_t (*create)(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                               mscclpp_transport_t **transport_p);

    /* After all its connections and regions. NULL is allowed. */
    void (*destroy)(mscclpp_transport_t *transport);

    /* Moves everything on. The first error of any connection is returned once; the connection keeps it. */
    mscclpp_status_t (*progress)(mscclpp_transport_t *transport);

    /*
     * Half a connection to `peer`; the peer makes the other half. Each hands the other its address (at most
     * MSCCLPP_TRANSPORT_ADDRESS_MAX bytes), then each connects.
     */
    mscclpp_status_t (*conn_create)(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
    mscclpp_status_t (*conn_address)(const mscclpp_conn_t *conn, void *address, size_t *length_p);
    mscclpp_status_t (*conn_connect)(mscclpp_conn_t *conn, const void *address, size_t length);

    /* What is under way is given up, but may still be carried out until the regions go. NULL is allowed. */
    void (*conn_destroy)(mscclpp_conn_t *conn);

    /* MSCCLPP_OK, or why the connection no longer works. */
    mscclpp_status_t (*conn_status)(const mscclpp_conn_t *conn);

    /*
     * Memory that puts are made from and that peers may put into. The key (at most MSCCLPP_TRANSPORT_KEY_MAX bytes)
     * goes to the peers. The memory stays until region_destroy has returned; then nothing of this rank reads or writes
     * it any more, whatever connections, even destroyed ones, had under way there. Where a transport cannot be sure of
     * that otherwise, it breaks them, and where need be all connections of the instance. Device memory comes before the
     * addresses of the connections that it is for: what bounces it is then made with these, else as it is first used,
     * when a kernel may be waiting. Device memory is settled (gpu.h), so that puts follow the synchronous calls of the
     * GPU's runtime; of memory that has no context of its own, such as that of pools, the caller settles it again
     * before it lets puts begin, if the driver is older than CUDA 12.1.
     */
    mscclpp_status_t (*region_create)(mscclpp_transport_t *transport, void *address, size_t length,
                                      mscclpp_region_t **region_p);
    mscclpp_status_t (*region_key)(const mscclpp_region_t *region, void *key, size_t *length_p);
    void (*region_destroy)(mscclpp_region_t *region);

    /* A peer's region, as this connection reaches it. Destroyed before the connection. */
    mscclpp_status_t (*remote_create)(mscclpp_conn_t *conn, const void *key, size_t length,
                                      mscclpp_remote_t **remote_p);
    void (*remote_destroy)(mscclpp_remote_t *remote);

    /*
     * Where kernels of this rank's device reach `length` bytes from offset `at` of the peer's region by themselves,
     * until remote_destroy; aligned words of 8 bytes that they store appear whole. Once for each remote at most.
     * MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level: only the operations below reach it. NULL: always
     * so.
     */
    mscclpp_status_t (*remote_map)(mscclpp_remote_t *remote, uint64_t at, uint64_t length, void **device_p);

    /*
     * The operations. MSCCLPP_IN_PROGRESS: nothing was done, there is no room at the moment; make progress and ask
     * again. They begin something that ends later; its failure breaks the connection.
     */

    /* Copies `length` bytes (0 is allowed). The source must stay as it is until a flush after it has ended. */
    mscclpp_status_t (*put)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                            uint64_t from, uint64_t length);

    /*
     * Adds 1 to the peer's token number `token`. At any time one connection signals a token, for there are transports
     * that count and write what others add; one of the same instance may carry on after it.
     */
    mscclpp_status_t (*signal)(mscclpp_conn_t *conn, uint32_t token);

    /*
     * A put and then a signal, at the price of one message. MSCCLPP_ERR_NOT_SUPPORTED: nothing was done, they have to
     * be asked for one by one. NULL: always so.
     */
    mscclpp_status_t (*put_signal)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                   mscclpp_region_t *region, uint64_t from, uint64_t length, uint32_t token);

    /*
     * Adds `value` to the aligned 64-bit word at offset `to` of a peer's region; atomic among adds of this transport.
     * Ordered as a signal is. MSCCLPP_ERR_NOT_SUPPORTED, unlogged and from the first add on, without MSCCLPP_CAN_ADD,
     * and on a connection to a peer whose instance does not have it.
     */
    mscclpp_status_t (*add)(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value);

    /*
     * Asks to be told when all that was begun on the connection has left its sources and reached the peer's memory.
     * Flushes of other connections do not wait for it. `test` answers MSCCLPP_OK, MSCCLPP_IN_PROGRESS, or the
     * connection's error; it may be asked again after MSCCLPP_OK.
     */
    mscclpp_status_t (*flush)(mscclpp_conn_t *conn, uint64_t *ticket_p);
    mscclpp_status_t (*test)(mscclpp_conn_t *conn, uint64_t ticket);

    /*
     * True if all that was begun on the connection has been handed to the network: it reaches the peer, as long as
     * that makes progress, though this side makes none for a while. May begin what it takes to know; make progress and
     * ask again. NULL: only a flush tells.
     */
    bool (*has_left)(mscclpp_conn_t *conn);
} mscclpp_transport_ops_t;

/* True if `length` bytes from offset `at` on lie within `limit` bytes. */
static inline bool mscclpp_fits(uint64_t at, uint64_t length, uint64_t limit)
{
    return at <= limit && length <= limit - at;
}

/* All that this build has, in the order of preference. */
extern const mscclpp_transport_ops_t *const mscclpp_transports[];
extern const int mscclpp_transport_count;

/* By name; NULL if this build has none of that name. */
const mscclpp_transport_ops_t *mscclpp_transport_find(const char *name);

#endif
