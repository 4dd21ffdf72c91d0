/*
 * Private to the transport ucx, shared by its files:
 *
 * - transport.c: the instance; state.c: its progress, in the form that all files use.
 * - conn.c: connections; endpoint.c: UCX's endpoints, and watching the processes behind them.
 * - region.c and remote.c: memory of this process and of peers; ids.c: the numbers by which peers name the objects.
 * - ops.c: operations, and puts that UCX makes directly into the peer's memory.
 * - bounce.c and receive.c: the sending and the receiving half of messages that the peer's CPU executes.
 */
#ifndef MCA_COMMON_TRANSPORT_UCX_INTERNAL_H
#define MCA_COMMON_TRANSPORT_UCX_INTERNAL_H

#include "mca/common/gpu/copier.h"
#include "mca/common/base/libucp.h"
#include "mca/common/transport/transport.h"

#define UCX_OPS_MAX 256      /* maximum number of operations of a connection in progress */
#define UCX_MESSAGES_MAX 128 /* maximum number of unacknowledged messages of a connection */
#define UCX_CHUNKS 8         /* minimum number of chunks in the bounce memory, and so of messages in progress */
#define UCX_RING_ALIGN 64    /* alignment of chunks in the bounce memory, in bytes */
#define UCX_MESSAGE_ID 0     /* identifies the active messages; each instance has its own worker */

/* Kinds of messages. */
typedef enum {
    UCX_PUT, /* this and the next two kinds are executed in the order of `sequence` */
    UCX_SIGNAL,
    UCX_ADD,
    UCX_ACK,    /* all messages below `sequence` have been executed */
    UCX_BYE,    /* the sender has destroyed its half of the connection; also has the meaning of UCX_ACK */
    UCX_FAILURE /* the sender could not execute a message that it received */
} ucx_kind_t;

/*
 * The header of a message; the bytes of a put follow it. The header is sent as plain bytes, since all ranks of one team
 * run on machines of one kind.
 */
typedef struct {
    uint64_t conn;        /* number of the receiver's half of the connection */
    uint64_t sequence;    /* the message's number, counted from 0 on each connection */
    uint64_t region;      /* number of a region of the receiver */
    uint64_t to;          /* offset in the region; in a signal, the number of the token */
    uint64_t value;       /* the value to add; in a put, the number of bytes */
    uint64_t ring_offset; /* offset of the bytes in the receiver's bounce memory */
    uint64_t signal;      /* in a put: 1 + the token to signal after it; 0: no signal */
    uint64_t may_tear; /* in a put: 1 if its words need not appear whole, because they are read only after its signal */
    uint32_t kind;     /* ucx_kind_t */
    uint32_t magic;    /* UCX_MAGIC */
} ucx_header_t;

#define UCX_MAGIC 0x6d757863u

/* The first bytes of a connection's address. The worker's address follows. */
typedef struct {
    uint32_t magic;           /* UCX_MAGIC */
    uint32_t worker_length;   /* length in bytes of the worker's address */
    uint64_t conn;            /* number of the sender's half */
    uint64_t pids;            /* id of the namespace of process ids that contains `pid`; 0 if unknown */
    int64_t pid;              /* process id of the sender */
    uint64_t token_count;     /* number of the sender's tokens */
    uint64_t ring_size;       /* bytes of bounce memory that the sender wants for each direction */
    uint32_t forced_closes;   /* number of endpoints that the sender's instance has closed by force */
    uint32_t has_conn_in_use; /* not 0: another connection from this instance to the reader is in use */
    uint32_t registers_host;  /* not 0: the sender registers host memory with UCX */
    uint32_t device_regions;  /* number of the sender's regions in device memory */
} ucx_address_t;

/* The first bytes of a region's key. UCX's remote key follows. */
typedef struct {
    uint64_t magic;       /* UCX_MAGIC */
    uint64_t region;      /* number of the region */
    uint64_t address;     /* address of the region, in its owner's process */
    uint64_t length;      /* bytes of the region */
    uint64_t rkey_length; /* length of the remote key; 0: only the owner's CPU can access this memory */
} ucx_key_t;

/* A table that maps the numbers in messages to objects. A number is never reused. */
typedef struct {
    uint64_t id; /* 0: the entry is free */
    void *object;
} ucx_entry_t;

typedef struct {
    ucx_entry_t *entries;
    size_t size;         /* number of entries, including free ones */
    uint64_t generation; /* number of ids that the table has given out */
} ucx_table_t;

struct mscclpp_region {
    mscclpp_transport_t *transport;
    uint64_t id; /* the number by which messages name the region */
    char *address;
    size_t length;    /* bytes */
    ucp_mem_h memory; /* NULL: UCX does not access the memory */
    bool on_device;   /* only the gpu operations access the memory, because UCX and the CPU cannot */
};

struct mscclpp_remote {
    mscclpp_conn_t *conn;
    uint64_t region;   /* number of the peer's region */
    uint64_t address;  /* address of the region, in the peer's process */
    uint64_t length;   /* bytes of the region */
    ucp_rkey_h rkey;   /* NULL: only the owner's CPU can access the memory */
    unsigned op_count; /* number of operations that use the remote */
    bool destroyed;    /* destroyed by its user; kept until no operation uses it */
};

/* An operation of transport.h that was accepted and has not ended. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_kind_t kind; /* UCX_PUT, UCX_SIGNAL or UCX_ADD */
    bool by_message; /* the peer's CPU executes it; otherwise it is a direct put by UCX */
    bool is_sending; /* a direct put whose source UCX still holds */
    mscclpp_remote_t *remote;
    mscclpp_region_t *region;
    uint64_t to;           /* offset in the peer's region; in a signal: number of the token */
    uint64_t from;         /* offset in this rank's region */
    uint64_t length;       /* bytes of a put */
    uint64_t value;        /* value of an add or a signal */
    uint64_t signal;       /* in a put: 1 + the token to signal after it; 0: no signal */
    uint64_t packed_bytes; /* number of bytes of a put that have been packed into messages */
    uint64_t message_end;  /* one past its last message; it ends when all messages before are acknowledged */
} ucx_op_t;

/* A message that the peer has not acknowledged yet. UCX reads its header while `is_sending` is set. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    const char *data;         /* the bytes of a put; NULL: there are none */
    mscclpp_region_t *region; /* the region of the data; NULL: the data is in the bounce memory, or there is none */
    uint64_t ring_end;        /* end of the bounce memory that is used up to this message */
    bool is_sending;
} ucx_message_t;

/* A message that has arrived and has not been executed. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    mscclpp_region_t *region; /* the region into which UCX writes the data; NULL: none, or the bounce memory */
    bool has_header;          /* the message's header has arrived */
    bool has_data;            /* all data of the message, if any, has arrived */
    bool is_placed;           /* the data went directly to its target, not to the bounce memory */
    bool is_copying;          /* a signal that waits until the bytes of its put are copied from the bounce memory */
} ucx_arrival_t;

/* The progress of an add to device memory. A value stays after its copy has ended, until the next step. */
enum {
    UCX_ADD_NONE,  /* no copy has begun */
    UCX_ADD_READS, /* the word is copied to the landing memory */
    UCX_ADD_WRITES /* the sum is copied to the word */
};

/* A note: a message without a number. It is sent again only after the last note of its kind has left. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    bool is_sending;
} ucx_note_t;

/*
 * An endpoint to a worker, for one connection at a time. It is kept for the next connection to that worker, because UCX
 * keeps a socket for each endpoint that both sides have closed. Several connections to one worker have one endpoint
 * each, because a flush covers a whole endpoint.
 *
 * A side that closes its end by force also breaks the other end. So an endpoint is reused only if the peer's address
 * says that the peer had ended all earlier connections before, and none of them by force.
 */
typedef struct ucx_endpoint {
    struct ucx_endpoint *next;
    mscclpp_conn_t *conn;           /* NULL: the endpoint is free */
    ucp_ep_h ep;                    /* NULL: closed, or being closed */
    bool is_unwatched;              /* UCX does not report the loss of the peer */
    bool is_lost;                   /* the peer is gone: UCX has reported it, or its process has ended */
    uint32_t peer_forced_closes;    /* `forced_closes` of the peer's address when the endpoint was last taken */
    bool is_closing;                /* the endpoint is being closed, or is closed */
    ucs_status_ptr_t close_request; /* request that closes the endpoint; NULL: none, or it has ended */
    size_t length;                  /* length of the address in bytes */
    unsigned char address[];        /* address of the worker */
} ucx_endpoint_t;

struct mscclpp_conn {
    mscclpp_transport_t *transport;
    mscclpp_conn_t *next;
    uint64_t id;    /* the number by which the peer's messages name this half */
    int peer;       /* rank of the peer */
    bool destroyed; /* destroyed by its user; kept until UCX has released it */
    bool connected;

    mscclpp_status_t status;  /* MSCCLPP_OK, or the reason why the connection no longer works */
    bool failure_reported;    /* progress has returned `status` */
    bool peer_left;           /* the peer has said good-bye, and sends nothing more */
    bool has_logged_leave;    /* the log says that the peer has left */
    bool must_tell_peer;      /* the peer has yet to be told that the connection broke */
    double lost_at;           /* when UCX lost the peer; 0: it has not lost it */
    ucs_status_t loss_status; /* the status with which UCX reported the loss */

    ucx_endpoint_t *endpoint;   /* NULL: not connected, or destroyed */
    ucp_ep_h ep;                /* UCX's handle of the endpoint; NULL if there is none */
    int pidfd;                  /* a file descriptor that reports the end of the peer's process, or -1 */
    unsigned outstanding_count; /* number of UCX requests that refer to this connection when they end */
    unsigned sending_count;     /* number of the puts and messages to the peer among them, without notes */
    unsigned placing_count;     /* number of the receptions into regions among them */
    ucx_address_t peer_address; /* address of the peer's half; valid once connected */

    /*
     * Numbers of operations: those before op_begin have ended, [op_begin, op_next) have begun, and [op_next, op_end)
     * have not. Operation i is stored at index i % UCX_OPS_MAX.
     */
    ucx_op_t ops[UCX_OPS_MAX];
    uint64_t op_begin, op_next, op_end;

    /* Numbers of operations. Each is one past the last operation that it includes. */
    uint64_t direct_end;   /* direct puts that were handed to UCX */
    uint64_t flushed_end;  /* operations included in UCX's last flush: their direct puts are in the peer's memory */
    uint64_t flushing_end; /* operations included in the flush in progress; 0: no flush is in progress */
    uint64_t wanted_end;   /* operations for which a caller's flush waits */

    /* Messages to the peer: [acked, sent) were sent, [sent, ready) can be sent, [ready, packed) wait for their data. */
    ucx_message_t messages[UCX_MESSAGES_MAX];
    uint64_t acked, sent, ready, packed;
    uint64_t write_end; /* one past the last message with a put or an add */
    char *ring;         /* pinned bounce memory; NULL: none yet; the peer's has the same size for this connection */
    size_t ring_size, chunk_size; /* in bytes; a message has at most one chunk of data */
    /*
     * Positions in the ring, counted in bytes since the beginning: the end of the released bytes, of the bytes in ready
     * messages, and of all used bytes.
     */
    uint64_t ring_begin, ring_ready, ring_end;

    /*
     * Messages of the peer: the messages before `executed` have been executed, and [executed, issued) are being copied.
     */
    ucx_arrival_t arrivals[UCX_MESSAGES_MAX];
    uint64_t executed, issued;
    uint64_t acknowledged; /* the peer was told that the messages before this one have been executed */
    uint64_t issued_bytes; /* number of bytes of the issued messages */
    char *landing; /* pinned memory of landing_size bytes, and one word for adds to device memory; NULL until needed */
    size_t landing_size;
    int add_stage;       /* UCX_ADD_...: progress of the add in message `executed` */
    ucx_note_t notes[3]; /* UCX_ACK, UCX_BYE, UCX_FAILURE */
};

struct mscclpp_transport {
    mscclpp_transport_params_t params;
    mscclpp_ucx_functions_t ucx;
    int pid;                 /* process id of the creator; a forked child must not use UCX */
    bool registers_host;     /* regions of host memory are registered with UCX, for direct puts */
    bool copies;             /* the gpu operations copy device memory for this instance */
    uint32_t device_regions; /* number of regions in device memory */
    bool has_unwatched;      /* on some endpoint UCX does not report the loss of the peer */
    bool stranded;           /* UCX might still access freed memory, so the worker never makes progress again */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address; /* address of the worker */
    size_t address_length;
    double watched_at;      /* when the peers' processes were last checked */
    uint32_t forced_closes; /* number of endpoints closed by force */
    ucx_endpoint_t *endpoints;
    mscclpp_conn_t *conns;
    mscclpp_conn_t *adding_conn; /* the connection whose add to device memory is in progress; there is only one at a
                                    time, because such an add is not atomic */
    ucx_table_t conn_ids, region_ids;
    mscclpp_copier_t out, in; /* copy from and to device memory, for all connections */
};

/*
 * ids.c: give an object a number, find an object by its number, and remove a number, which is never used again.
 * mscclpp_transport_ucx_enter returns 0 if there is no memory. mscclpp_transport_ucx_find returns NULL for an unknown
 * number.
 */
uint64_t mscclpp_transport_ucx_enter(ucx_table_t *table, void *object);
void *mscclpp_transport_ucx_find(const ucx_table_t *table, uint64_t id);
void mscclpp_transport_ucx_remove(ucx_table_t *table, uint64_t id);

/* state.c: makes progress on the worker; no other code may do so. Returns 0 if there was nothing to do. */
unsigned mscclpp_transport_ucx_progress_worker(mscclpp_transport_t *transport);

/* Returns true if a call of UCX succeeded. Logs a failure at the info level. */
bool mscclpp_transport_ucx_succeeded(const mscclpp_transport_t *transport, const char *call, ucs_status_t status);

/* remote.c: see transport.h. */
mscclpp_status_t mscclpp_transport_ucx_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                                     mscclpp_remote_t **remote_p);
void mscclpp_transport_ucx_remote_destroy(mscclpp_remote_t *remote);

/* region.c: see transport.h. */
mscclpp_status_t mscclpp_transport_ucx_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                                     mscclpp_region_t **region_p);
mscclpp_status_t mscclpp_transport_ucx_region_key(const mscclpp_region_t *region, void *key, size_t *length_p);
void mscclpp_transport_ucx_region_destroy(mscclpp_region_t *region);

/* Notes that an operation no longer refers to the remote. Frees a destroyed remote after its last operation. */
void mscclpp_transport_ucx_drop_remote(mscclpp_remote_t *remote);

/*
 * Returns true if UCX must connect to the peers, which are all on this host, by shared memory. Their processes are
 * watched if possible.
 */
bool mscclpp_transport_ucx_stays_near(const mscclpp_transport_params_t *params);

/* conn.c: see transport.h. */
mscclpp_status_t mscclpp_transport_ucx_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
mscclpp_status_t mscclpp_transport_ucx_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p);
mscclpp_status_t mscclpp_transport_ucx_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length);
void mscclpp_transport_ucx_conn_destroy(mscclpp_conn_t *conn);
mscclpp_status_t mscclpp_transport_ucx_conn_status(const mscclpp_conn_t *conn);

/*
 * Stores that the peer is lost, after UCX has reported a failure. Clean-up breaks the connection later, unless a
 * good-bye of the peer, which may still arrive, explains the loss.
 */
void mscclpp_transport_ucx_lose(mscclpp_conn_t *conn, ucs_status_t loss_status);

/*
 * Breaks the connection permanently and logs one line with the reason. If the peer is lost (MSCCLPP_ERR_PEER), stores
 * the reason instead of logging it (mscclpp_note_loss). Clean-up tells the peer, unless the peer caused the failure. If
 * the connection has been destroyed, nobody is told. Does nothing if the connection is broken already.
 */
void mscclpp_transport_ucx_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *reason);

/*
 * Makes sure that UCX no longer reads or writes the region. Waits for UCX, breaks the connections whose operations use
 * the region, and as a last resort strands the instance. Returns false if UCX would access the region if it continued.
 * Then no resource of the region may be released except its memory.
 */
bool mscclpp_transport_ucx_vacate(const mscclpp_region_t *region);

/*
 * Breaks connections whose peer is lost or has left too early, and frees destroyed connections that UCX has released.
 */
void mscclpp_transport_ucx_clean_up_conns(mscclpp_transport_t *transport);

/* Frees the remaining connections, after the worker has been destroyed. */
void mscclpp_transport_ucx_drop_conns(mscclpp_transport_t *transport);

/*
 * endpoint.c: gives the connection an endpoint to the worker with this address, of `length` bytes. Logs an error and
 * returns MSCCLPP_ERR_NO_MEMORY or, if UCX fails, MSCCLPP_ERR_PEER; the connection then has no endpoint.
 */
mscclpp_status_t mscclpp_transport_ucx_endpoint_get(mscclpp_conn_t *conn, const void *address, size_t length);

/*
 * Ends the connection's use of its endpoint. With `by_force`, UCX gives up the operations in progress, and the endpoint
 * is closed. Closing takes a while. It needs no help from the peer, unless UCX does not report lost peers: then UCX
 * gives up no operations.
 */
void mscclpp_transport_ucx_endpoint_release(mscclpp_conn_t *conn, bool by_force);

/* Frees endpoints that have closed, and closes endpoints that no connection can use any more. */
void mscclpp_transport_ucx_clean_up_endpoints(mscclpp_transport_t *transport);

/*
 * Close all endpoints when the instance ends. mscclpp_transport_ucx_endpoint_close_all waits a moment until good-byes
 * have left, and starts to close. mscclpp_transport_ucx_endpoint_drop frees the rest after the worker has been
 * destroyed.
 */
void mscclpp_transport_ucx_endpoint_close_all(mscclpp_transport_t *transport);
void mscclpp_transport_ucx_endpoint_drop(mscclpp_transport_t *transport);

/* ops.c: the operations of transport.h, and their progress. */
mscclpp_status_t mscclpp_transport_ucx_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                           mscclpp_region_t *region, uint64_t from, uint64_t length);
mscclpp_status_t mscclpp_transport_ucx_signal(mscclpp_conn_t *conn, uint32_t token);
mscclpp_status_t mscclpp_transport_ucx_put_signal(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                                  mscclpp_region_t *region, uint64_t from, uint64_t length,
                                                  uint32_t token);
bool mscclpp_transport_ucx_has_left(mscclpp_conn_t *conn);
mscclpp_status_t mscclpp_transport_ucx_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value);
mscclpp_status_t mscclpp_transport_ucx_flush(mscclpp_conn_t *conn, uint64_t *ticket_p);
mscclpp_status_t mscclpp_transport_ucx_test(mscclpp_conn_t *conn, uint64_t ticket);

/*
 * Begins operations as far as possible, sends messages, starts a flush if one is needed, and removes ended operations.
 */
void mscclpp_transport_ucx_advance(mscclpp_conn_t *conn);

/* Gives up the operations that have not ended. Called when UCX no longer refers to them. */
void mscclpp_transport_ucx_drop_ops(mscclpp_conn_t *conn);

/*
 * bounce.c: converts an operation into messages. Returns false if some of it is left, because there is no room now or
 * because the connection broke. The function must then be called again, unless the connection is broken;
 * op->packed_bytes is its progress.
 */
bool mscclpp_transport_ucx_pack(mscclpp_conn_t *conn, ucx_op_t *op);

/*
 * Hands the messages that are ready to UCX. Before that, if messages wait for copies of their data, looks whether these
 * have ended. A failure of UCX counts as a lost peer.
 */
void mscclpp_transport_ucx_send(mscclpp_conn_t *conn);

/*
 * Marks all packed messages of all connections as ready to be sent if the batch of copies from device memory has ended.
 * Copies join the running batch (gpu/copier.h), so its end covers all messages packed so far. A failed batch breaks all
 * connections. Does not wait.
 */
void mscclpp_transport_ucx_note_copied_out(mscclpp_transport_t *transport);

/*
 * Sends a note, which also tells the peer how many of its messages have been executed. `kind` is UCX_ACK, UCX_BYE or
 * UCX_FAILURE. Returns false, with nothing sent, if the last note of this kind has not left yet, or if the connection
 * is not connected or has lost the peer. Returns true even if UCX fails to send the note: the peer is then lost.
 */
bool mscclpp_transport_ucx_send_note(mscclpp_conn_t *conn, ucx_kind_t kind);

/* Adds a copy to the copier's batch. On failure breaks the connection and returns false. */
bool mscclpp_transport_ucx_copy(mscclpp_conn_t *conn, mscclpp_copier_t *copier, void *to, const void *from,
                                size_t size);

/*
 * Allocates the bounce memory of a connection whose peer is known, and creates the instance's streams for copies of
 * device memory if the connection needs them. This is done early because later a kernel may be waiting, and the runtime
 * may make an allocation wait for that kernel. Only the resources that later regions need are left to the first put
 * from or to them. If the status is not MSCCLPP_OK, the connection is broken.
 */
mscclpp_status_t mscclpp_transport_ucx_equip(mscclpp_conn_t *conn);

/* Allocates the landing memory if there is none. On failure breaks the connection and returns false. */
bool mscclpp_transport_ucx_ensure_landing(mscclpp_conn_t *conn);

/*
 * Waits for the copies of all connections that are in progress. Call it before memory that they use is freed. Their
 * failure is found by the next mscclpp_transport_ucx_test_batch.
 */
void mscclpp_transport_ucx_await_copies(mscclpp_transport_t *transport);

/*
 * Returns true if the copier's batch has ended, or if it has none. Returns false while the batch runs. If the batch has
 * failed, breaks all connections of the instance and returns false, once.
 */
bool mscclpp_transport_ucx_test_batch(mscclpp_transport_t *transport, mscclpp_copier_t *copier);

/*
 * receive.c: handle the messages that arrive. UCX calls mscclpp_transport_ucx_on_message for every message.
 * mscclpp_transport_ucx_execute executes the messages that have arrived, as far as possible, and acknowledges them.
 */
ucs_status_t mscclpp_transport_ucx_on_message(void *arg, const void *header, size_t header_length, void *data,
                                              size_t length, const ucp_am_recv_param_t *param);
void mscclpp_transport_ucx_execute(mscclpp_transport_t *transport);

#endif
