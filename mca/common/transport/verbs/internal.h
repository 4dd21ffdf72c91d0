/*
 * Private to this folder: RDMA over reliable connections of libibverbs.
 *
 * Rails are the opened ports of a rank, in an order of preference; rail 0 is the nearest to its GPU. A connection has
 * one queue pair for each rail that both sides have, from rail i of one side to rail i of the other. Only the stripes
 * of large puts use other rails than rail 0.
 *
 * Why a signal never overtakes its data:
 * 1. The peer executes the requests of a queue pair in the order in which they were posted. So a FETCH_ADD on the
 *    token, or the completion of a WRITE_WITH_IMM, comes after the earlier writes on that queue pair.
 * 2. A stripe on another rail ends with a read of its last byte. The read pushes the writes before it, so its
 *    completion says that they are in memory. Only then may a signal be posted on rail 0.
 * 3. The token memory is registered without relaxed ordering. So the update of a token is a strongly ordered write, and
 *    overtakes no data between HCA and memory, whatever the data's own region allows.
 * 4. A kernel reads a token in host memory over the PCIe link that the data took, so it gets the answer after the data.
 *    A GPU that reaches host memory over another link needs its tokens in device memory (mode atomic).
 *
 * A flush completes when the peer's HCA has acknowledged everything: the sources are free and nothing was lost. It does
 * not say that the data can be read; a kernel that reads the data waits for a signal.
 *
 * Data regions may be registered with relaxed ordering (parameter verbs_relaxed_ordering), because the specification
 * keeps completions and atomics behind the data even so. It is off by default: two puts into the same bytes with no
 * signal in between could then arrive in either order.
 *
 * Device memory is registered as a dma-buf, or else through the kernel module that gives it to HCAs. If neither works,
 * or if a parameter says so, it is copied through pinned host memory (bounced, verbs/bounce.h). An instance tries once,
 * when it is made, which way works.
 *
 * How signals reach tokens:
 * - atomic: FETCH_ADD by the peer's HCA. It is atomic only among operations of one HCA, so rail 0 of a rank serves all
 *   its tokens, and the CPU never writes them. For the same reason adds to a word are atomic only among the connections
 *   of one instance; two instances of a process may use different HCAs.
 * - no_atomic: a WRITE_WITH_IMM of 0 bytes that carries the token's number. The receiver's progress adds to the token.
 *
 * Two sides use atomic if both want it. One rank never mixes the two modes, because an HCA and the CPU would then both
 * write the same token.
 *
 * Both modes have control messages: a WRITE_WITH_IMM of 0 bytes whose number is not a token's. A good-bye keeps the end
 * of a connection from looking like a failure:
 * 1. A side that has received all it waited for may destroy its queue pair while the other side still waits for
 *    acknowledgements. After all its retries the other side would report that the peer does not answer.
 * 2. So a side says good-bye before it destroys a connection, and waits until the peer's HCA, not the peer, has taken
 *    it.
 * 3. A side that receives a good-bye treats everything it has sent as arrived or unwanted.
 *
 * The receiver's progress refills the receive queues. If a sender outruns it, the HCA rejects the message and the
 * sender retries forever (verbs_rnr_retry 7). Unlike credits this needs no message back and cannot deadlock two ranks
 * that both wait for room. A peer that is gone is still noticed, because no answer at all counts as a timeout.
 */
#ifndef MCA_COMMON_TRANSPORT_VERBS_INTERNAL_H
#define MCA_COMMON_TRANSPORT_VERBS_INTERNAL_H

#include <arpa/inet.h>

#include "mca/common/gpu/copier.h"
#include "mca/common/base/log.h"
#include "mca/common/transport/transport.h"
#include "mca/common/transport/verbs/bounce.h"
#include "mca/common/transport/verbs/load.h"

#define MSCCLPP_VERBS_MAX_RAILS 8
#define MSCCLPP_VERBS_LIST_MAX 16           /* maximum number of work requests posted with one doorbell */
#define MSCCLPP_VERBS_RECEIVES 256          /* number of receive requests of a queue pair in mode no_atomic */
#define MSCCLPP_VERBS_CONTROL_RECEIVES 32   /* the same in mode atomic, for control messages only */
#define MSCCLPP_VERBS_RECEIVE_CHAIN 32      /* number of receive requests that are posted at a time */
#define MSCCLPP_VERBS_RECEIVE_ID UINT64_MAX /* id of all receive requests; work requests are numbered from 1 */

/* Values of a WRITE_WITH_IMM: a token's number, below MSCCLPP_VERBS_TOKEN_LIMIT, or a control message. */
#define MSCCLPP_VERBS_TOKEN_LIMIT 0x80000000u
#define MSCCLPP_VERBS_GOOD_BYE 0x80000000u     /* the sender is about to destroy its half of the connection */
#define MSCCLPP_VERBS_FILLED 0x81000000u       /* the next slot of the landing memory is filled */
#define MSCCLPP_VERBS_FAILURE 0x82000000u      /* the sender could not execute a message that it received */
#define MSCCLPP_VERBS_ACKNOWLEDGED 0x83000000u /* the low bits are the number of slots that have been executed */
#define MSCCLPP_VERBS_COUNT_MASK 0xffffffu

/* An opened port. */
typedef struct {
    struct ibv_context *context;
    struct ibv_pd *pd;
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    uint8_t link_layer; /* IBV_LINK_LAYER_... */
    uint8_t mtu;        /* enum ibv_mtu */
    uint16_t lid;
    uint16_t pkey_index; /* index of the partition of the queue pairs */
    bool grh_required;   /* packets need a global routing header within the subnet, too */
    int gid_index;       /* -1: no global routing */
    union ibv_gid gid;
    bool has_atomics;           /* the HCA can execute atomics */
    int max_send;               /* maximum number of work requests of a queue */
    int max_cqe;                /* maximum number of entries of a completion queue */
    int max_read_out;           /* maximum number of reads and atomics in progress that a queue pair sends */
    int max_read_in;            /* maximum number of reads and atomics in progress that a queue pair answers */
    uint64_t max_message_bytes; /* maximum number of bytes of one work request */
    struct ibv_mr *token_mr;    /* registration of the tokens, for the peers' signals */
    struct ibv_mr *scratch_mr;  /* registration of `scratch` */
} mscclpp_verbs_rail_t;

struct mscclpp_transport {
    mscclpp_transport_params_t params;
    mscclpp_verbs_functions_t ibv;
    bool atomic;        /* this side wants signals in mode atomic and can execute them */
    bool cpu_reads_all; /* the runtime is the twin, whose device memory the CPU can read */
    bool bounces;       /* regions of device memory are bounced, not registered */
    int rail_count;
    mscclpp_verbs_rail_t rails[MSCCLPP_VERBS_MAX_RAILS];
    uint64_t *scratch; /* 2 words in a separate page: unused results of atomics, and of reads */
    mscclpp_conn_t *conns;
    mscclpp_region_t *bounced_regions; /* list of all bounced regions */
    mscclpp_copier_t out, in;          /* copy from and to bounced memory, for all connections */
    int bouncing_conns;                /* number of connections with bounced memory on either side */
    mscclpp_conn_t *adding_conn;       /* the connection whose add to bounced memory is in progress */
    int connected[2];                  /* number of connected connections in each mode: [0] no_atomic, [1] atomic */
    unsigned rounds;                   /* number of progress calls */
    double probed_at;                  /* time when the peers were last probed, by mscclpp_now */
    double patience_seconds; /* seconds that all good-byes together may still wait, beyond the minimum of each */
    mscclpp_status_t unreported_failure; /* failure of a connection that progress has not returned yet */
};

/*
 * The part of a put that has not been posted yet, because the queue was full. It is empty if `length` is 0 and
 * `read_back` is false.
 */
typedef struct {
    uint64_t from; /* address of the source */
    uint64_t to;   /* address of the target */
    uint64_t length;
    uint32_t lkey;
    uint32_t rkey;
    bool cpu_readable; /* the source may be sent inline */
    bool read_back;    /* a read of the last byte must follow */
} mscclpp_verbs_unposted_t;

/* A range of addresses of the peer. It is empty if both fields are equal. */
typedef struct {
    uint64_t begin;
    uint64_t end;
} mscclpp_verbs_range_t;

/*
 * A queue pair. Work requests are counted from 1, and have their numbers as ids. `completed` is often less than
 * `posted`, because only some requests ask for a completion. A completion of one request implies the completion of all
 * earlier ones.
 */
typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_verbs_rail_t *rail;
    struct ibv_cq *cq; /* used by this queue pair only, so that no completions remain after its destruction */
    struct ibv_qp *qp;
    uint32_t psn;              /* the first packet sequence number that is sent */
    uint32_t max_inline_bytes; /* maximum number of bytes that a work request can contain itself */
    uint32_t depth;            /* number of entries of the send queue */
    uint64_t posted;           /* number of the last request that was posted or listed */
    uint64_t last_asking;      /* the last request that asked for a completion */
    uint64_t completed;
    uint64_t last_read; /* the read after the last stripe; when it completes, the stripe is in memory */
    mscclpp_verbs_unposted_t unposted;
    int receives_wanted;  /* number of receive requests to keep posted */
    int receives_missing; /* number of receive requests that are used up and not posted again yet */
    int listed;
    struct ibv_send_wr list[MSCCLPP_VERBS_LIST_MAX]; /* requests without a doorbell yet; the first `listed` ones form
                                                        a chain */
    struct ibv_sge sges[MSCCLPP_VERBS_LIST_MAX];
} mscclpp_verbs_qp_t;

struct mscclpp_conn {
    mscclpp_transport_t *transport;
    mscclpp_conn_t *next;
    mscclpp_conn_t **link;   /* the pointer to this connection in the instance's list */
    int peer;                /* rank of the peer */
    mscclpp_status_t status; /* MSCCLPP_OK, or the reason why the connection no longer works */
    bool connected;
    bool atomic;    /* signals are in mode atomic; valid once connected */
    bool peer_left; /* the peer has said good-bye: operations succeed without effect, and nothing is waited for */
    bool leaving;   /* this side is saying good-bye: a failure no longer matters */
    int qp_count;
    mscclpp_verbs_qp_t *qps[MSCCLPP_VERBS_MAX_RAILS];
    uint64_t token_address;         /* address of the peer's token 0 */
    uint32_t token_count;           /* number of the peer's tokens */
    uint32_t token_rkey;            /* key of the peer's tokens on rail 0 */
    mscclpp_verbs_bounce_t *bounce; /* NULL: neither side has bounced memory */

    /*
     * With several rails: the peer's bytes into which puts may still be in flight. `plain` is for rail 0, and is empty
     * once request `plain_last` is completed. `striped` is for the other rails, and mscclpp_verbs_settle_stripes
     * empties it.
     */
    mscclpp_verbs_range_t plain;
    uint64_t plain_last;
    mscclpp_verbs_range_t striped;
};

struct mscclpp_region {
    mscclpp_transport_t *transport;
    uint64_t address;
    uint64_t length;                             /* in bytes */
    bool cpu_readable;                           /* the CPU can read the memory, so short puts may be sent inline */
    bool bounced;                                /* the memory is bounced and not registered */
    mscclpp_region_t *next;                      /* the next bounced region */
    struct ibv_mr *mrs[MSCCLPP_VERBS_MAX_RAILS]; /* the registration on each rail; NULL if the region is bounced */
};

struct mscclpp_remote {
    mscclpp_conn_t *conn;
    uint64_t address;                        /* address of the region, in the peer's process */
    uint64_t length;                         /* bytes of the region */
    bool bounced;                            /* the peer bounces the region */
    uint32_t rkeys[MSCCLPP_VERBS_MAX_RAILS]; /* the region's key on each rail of the peer */
};

/*
 * verbs/device.c: opens the HCAs that the parameters allow, and makes the best of them the instance's rails. Skips an
 * HCA that cannot be used; any other failure closes all of them. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at
 * the info level, if no rail is left.
 */
mscclpp_status_t mscclpp_verbs_open_rails(mscclpp_transport_t *transport);

/* verbs/device.c: closes the rails of an instance. */
void mscclpp_verbs_close_rails(mscclpp_transport_t *transport);

/*
 * verbs/gid.c: sets `gid_index` and `gid` of an opened rail to the entry `wanted_index` of its table, or to the best
 * one if that is -1. InfiniBand may have none; gid_index is then -1. Returns MSCCLPP_ERR_INVALID, with an error logged,
 * if the wanted entry does not exist. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if RoCE has
 * no useful entry, because RoCE needs one.
 */
mscclpp_status_t mscclpp_verbs_choose_gid(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, int table_length,
                                          int wanted_index);

/* Returns true if packets can be sent between the two addresses: both are IPv4 addresses, or neither is. */
bool mscclpp_verbs_gids_match(const union ibv_gid *first, const union ibv_gid *second);

/*
 * verbs/path.c: returns the number of steps between two devices in the device tree, from their resolved sysfs paths;
 * fewer is nearer. An unknown path ("") is as far away as possible.
 */
int mscclpp_verbs_path_distance(const char *path_a, const char *path_b);

/* Write the resolved sysfs path of an HCA's PCI device, or of a GPU by its bus id; "" if unknown. */
void mscclpp_verbs_path_of_hca(const struct ibv_device *device, char *path, size_t size);
void mscclpp_verbs_path_of_gpu(const char *bus_id, char *path, size_t size);

/* verbs/region.c: entries of the operations. */
mscclpp_status_t mscclpp_verbs_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                             mscclpp_region_t **region_p);
mscclpp_status_t mscclpp_verbs_region_key(const mscclpp_region_t *region, void *key, size_t *length_p);
void mscclpp_verbs_region_destroy(mscclpp_region_t *region);
mscclpp_status_t mscclpp_verbs_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                             mscclpp_remote_t **remote_p);
void mscclpp_verbs_remote_destroy(mscclpp_remote_t *remote);

/*
 * Returns the kind of memory, for a registration. The twin treats all memory as device memory. Here only memory that
 * the twin has allocated as device memory counts as such. So its pinned memory is different, which is needed to test
 * the parameter verbs_registration on it.
 */
mscclpp_mem_kind_t mscclpp_verbs_memory_kind(const mscclpp_transport_t *transport, const void *address);

/*
 * Registers memory on one rail. `kind` selects the method for device memory or for host memory. On failure returns
 * NULL, with the reason at the info level.
 */
struct ibv_mr *mscclpp_verbs_register(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, void *address,
                                      size_t length, mscclpp_mem_kind_t kind, int access);

/*
 * verbs/bounce.c: allocates the buffers and creates the streams of a connection with bounced memory on either side;
 * `has_landing` says that this side has bounced memory. All of this is done now: later a kernel may be waiting, and the
 * runtime may make an allocation wait for that kernel.
 */
mscclpp_status_t mscclpp_verbs_bounce_create(mscclpp_conn_t *conn, bool has_landing);

/* Waits for the copies in progress. Call it before memory that they use is freed. */
static inline void mscclpp_verbs_bounce_wait(mscclpp_transport_t *transport)
{
    mscclpp_copier_wait(&transport->out, transport->params.gpu);
    mscclpp_copier_wait(&transport->in, transport->params.gpu);
}

/* Waits for copies and frees the bounce state, if there is any. Called after the queue pairs are destroyed. */
void mscclpp_verbs_bounce_destroy(mscclpp_conn_t *conn);

/* Put and add through slots. The region of a put, its remote or both are bounced; of an add, the remote is. */
mscclpp_status_t mscclpp_verbs_bounce_put(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                          const mscclpp_region_t *region, uint64_t from, uint64_t length);
mscclpp_status_t mscclpp_verbs_bounce_add(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                          uint64_t value);

/*
 * Returns true if a signal may be sent now: all bounced data is in the peer's memory, or will arrive there before the
 * signal.
 */
bool mscclpp_verbs_bounce_is_clear(const mscclpp_conn_t *conn);

/* Returns true if no slot is in use, so that all data sent through slots is in the peer's memory. */
bool mscclpp_verbs_bounce_is_empty(const mscclpp_conn_t *conn);

/*
 * verbs/fail.c: abandons an unfinished add to bounced memory of a connection that has broken or ends, or whose peer has
 * left. Messages received on such a connection are no longer executed, so the add would never end, and would delay the
 * messages of other connections. Does nothing if this connection has no unfinished add.
 */
void mscclpp_verbs_abandon_add(mscclpp_conn_t *conn);

/* Handles a control message other than good-bye. An unexpected message breaks the connection. */
void mscclpp_verbs_bounce_on_message(mscclpp_conn_t *conn, uint32_t message);

/* Continues all bounced transfers, on all connections. */
void mscclpp_verbs_bounce_progress(mscclpp_transport_t *transport);

/* verbs/conn.c: entries of the operations. */
mscclpp_status_t mscclpp_verbs_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
mscclpp_status_t mscclpp_verbs_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p);
mscclpp_status_t mscclpp_verbs_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length);
void mscclpp_verbs_conn_destroy(mscclpp_conn_t *conn);
mscclpp_status_t mscclpp_verbs_conn_status(const mscclpp_conn_t *conn);

/* verbs/qp.c: the address of a queue pair, which is sent to the peer as plain bytes. */
typedef struct {
    uint8_t gid[16]; /* GID of the sender's port */
    uint32_t qp_number;
    uint32_t psn;         /* the first packet sequence number that the sender uses */
    uint32_t token_rkey;  /* key of the sender's tokens; 0 on other rails than rail 0 */
    uint16_t lid;         /* LID of the sender's port */
    uint8_t link_layer;   /* IBV_LINK_LAYER_... */
    uint8_t mtu;          /* enum ibv_mtu */
    uint8_t global;       /* not 0: the GID must be used */
    uint8_t max_read_in;  /* maximum number of reads and atomics in progress that the sender answers */
    uint8_t grh_required; /* packets need a global routing header within the subnet, too */
    uint8_t reserved;
} mscclpp_verbs_qp_address_t;

/*
 * Creates a queue pair with its completion queue. Logs a failure, after which nothing is left. It is
 * MSCCLPP_ERR_NO_MEMORY or, if the device refuses a step, MSCCLPP_ERR_SYSTEM.
 */
mscclpp_status_t mscclpp_verbs_qp_create(mscclpp_conn_t *conn, mscclpp_verbs_rail_t *rail, mscclpp_verbs_qp_t **qp_p);
void mscclpp_verbs_qp_address(const mscclpp_verbs_qp_t *qp, mscclpp_verbs_qp_address_t *address_p);

/*
 * Connects a queue pair to the peer's. conn->atomic must be set. Logs a failure, after which the queue pair can only be
 * destroyed:
 * - MSCCLPP_ERR_NOT_SUPPORTED: packets cannot travel between the two ports.
 * - The connection's status: posting the receive requests has broken the connection.
 * - MSCCLPP_ERR_NO_MEMORY or MSCCLPP_ERR_SYSTEM: the device has refused a step.
 */
mscclpp_status_t mscclpp_verbs_qp_connect(mscclpp_verbs_qp_t *qp, const mscclpp_verbs_qp_address_t *address);
void mscclpp_verbs_qp_destroy(mscclpp_verbs_qp_t *qp); /* NULL is allowed */

/* verbs/ops.c: entries of the operations. */
mscclpp_status_t mscclpp_verbs_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                   mscclpp_region_t *region, uint64_t from, uint64_t length);
mscclpp_status_t mscclpp_verbs_signal(mscclpp_conn_t *conn, uint32_t token);
mscclpp_status_t mscclpp_verbs_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value);
mscclpp_status_t mscclpp_verbs_flush(mscclpp_conn_t *conn, uint64_t *ticket_p);
mscclpp_status_t mscclpp_verbs_test(mscclpp_conn_t *conn, uint64_t ticket);

/*
 * verbs/stripe.c: starts a put of at least 1 byte within its regions, neither of which is bounced. Returns
 * MSCCLPP_IN_PROGRESS, with nothing put, if it has to be called again; otherwise the connection's status.
 */
mscclpp_status_t mscclpp_verbs_put_data(mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                        const mscclpp_region_t *region, uint64_t from, uint64_t length);

/* Lists the rest of a put (qp->unposted), as far as the queue has room. If that fails, the connection breaks. */
void mscclpp_verbs_continue_put(mscclpp_verbs_qp_t *qp);

/* Returns true if all stripes on other rails than rail 0 are in the peer's memory. Then also clears conn->striped. */
bool mscclpp_verbs_settle_stripes(mscclpp_conn_t *conn);

/* verbs/queue.c: returns the number of work requests for which the send queue has room now. */
uint32_t mscclpp_verbs_free_slots(const mscclpp_verbs_qp_t *qp);

/*
 * Returns the next work request of the list, for the caller to fill in. It is zeroed except for its number and its
 * element (sg_list, with num_sge 0). The queue must have room. Never NULL; if the queue pair fails, that becomes the
 * connection's status.
 */
struct ibv_send_wr *mscclpp_verbs_next_request(mscclpp_verbs_qp_t *qp);

/* Fills in the only element of a work request. */
static inline void mscclpp_verbs_set_sge(struct ibv_send_wr *wr, uint64_t address, uint64_t length, uint32_t lkey)
{
    wr->sg_list->addr = address;
    wr->sg_list->length = (uint32_t)length;
    wr->sg_list->lkey = lkey;
    wr->num_sge = 1;
}

/*
 * Posts the work requests that are listed, with one doorbell. If that fails, the connection breaks. If it is broken
 * already, the requests are dropped.
 */
void mscclpp_verbs_ring_doorbell(mscclpp_verbs_qp_t *qp);

/* Converts a message to the immediate data of a work request, which is in network byte order. */
static inline uint32_t mscclpp_verbs_imm(uint32_t message)
{
    return htonl(message);
}

/* Lists a token's signal in mode no_atomic, or a control message. The queue must have room. */
void mscclpp_verbs_send_control(mscclpp_verbs_qp_t *qp, uint32_t message);

/* Lists a write of 0 bytes, which is executed after all earlier requests. The queue must have room. */
void mscclpp_verbs_post_nothing(mscclpp_verbs_qp_t *qp);

/*
 * Makes sure that the last work request asks for a completion. If that request has been posted already, lists one more
 * that asks. Returns false if the queue has no room for it, which cannot happen directly after a request was listed.
 */
bool mscclpp_verbs_ask_completion(mscclpp_verbs_qp_t *qp);

/* Posts receive requests again to replace those that are used up. If that fails, the connection breaks. */
void mscclpp_verbs_post_receives(mscclpp_verbs_qp_t *qp);

/* verbs/progress.c: entry of the operations. */
mscclpp_status_t mscclpp_verbs_progress(mscclpp_transport_t *transport);

/*
 * Handles the completions of one queue pair, including messages from the peer, and posts receive requests again. A
 * failed completion breaks the connection.
 */
void mscclpp_verbs_poll(mscclpp_verbs_qp_t *qp);

/*
 * Breaks a connection permanently and logs one line with the reason. If the peer is lost, stores the reason instead of
 * logging it (mscclpp_note_loss). Does nothing if the connection is broken already, or if the peer has left. If this
 * side is leaving the connection, the failure is neither logged nor returned by the instance's progress.
 */
void mscclpp_verbs_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
