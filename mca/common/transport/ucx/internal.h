/*
 * The inside of the transport ucx, shared by its files: transport_ucx (instance, regions), _conn (connections),
 * _endpoint (UCX's, and how their peers are watched), _ops (operations, and the puts that UCX does to the peer's memory
 * by itself), _bounce and _receive (what goes through the peer's CPU: its two halves).
 */
#ifndef MCA_COMMON_TRANSPORT_UCX_INTERNAL_H
#define MCA_COMMON_TRANSPORT_UCX_INTERNAL_H

#include "mca/common/gpu/copier.h"
#include "mca/common/base/libucp.h"
#include "mca/common/transport/transport.h"

#define UCX_OPS_MAX 256      /* operations of a connection under way */
#define UCX_MESSAGES_MAX 128 /* messages of a connection that the peer has not yet acknowledged */
#define UCX_CHUNKS 8         /* into which the bounce memory is divided at least: the messages under way */
#define UCX_RING_ALIGN 64    /* bytes; where chunks begin in the bounce memory */
#define UCX_MESSAGE_ID 0     /* of the active messages; the worker is the instance's own */

/* What travels before the bytes of a put. Ranks of one team run on machines of one kind. */
typedef enum {
    UCX_PUT, /* in order of `sequence`, as are the next two */
    UCX_SIGNAL,
    UCX_ADD,
    UCX_ACK,    /* all messages below `sequence` have been carried out */
    UCX_BYE,    /* the sender has destroyed its half of the connection; says what UCX_ACK says, too */
    UCX_TROUBLE /* the sender could not carry out what it was sent */
} ucx_kind_t;

typedef struct {
    uint64_t conn; /* the receiver's half */
    uint64_t sequence;
    uint64_t region; /* of the receiver */
    uint64_t to;     /* offset in the region; for a signal the number of the token */
    uint64_t value;  /* what to add; for a put the number of bytes */
    uint64_t at;     /* where in the receiver's bounce memory the bytes belong */
    uint64_t signal; /* of a put: 1 + the token to signal after it, 0 for none */
    uint64_t loose;  /* of a put: 1 if its words need not appear whole, as nobody looks before its signal */
    uint32_t kind;
    uint32_t magic;
} ucx_header_t;

#define UCX_MAGIC 0x6d757863u

/* The first bytes of a connection's address; the worker's follows. */
typedef struct {
    uint32_t magic;
    uint32_t worker_length;
    uint64_t conn;
    uint64_t pids; /* what the number of its process is a number in; 0 if unknown */
    int64_t pid;
    uint64_t token_count;
    uint64_t ring_size;
    uint32_t forced;  /* endpoints of its instance that have been closed by force so far */
    uint32_t busy;    /* not 0: another of its connections to the reader is in use */
    uint32_t direct;  /* not 0: it gives host memory to UCX */
    uint32_t devices; /* regions in device memory that it has */
} ucx_address_t;

/* The first bytes of a region's key; its remote key follows. */
typedef struct {
    uint64_t magic;
    uint64_t region;
    uint64_t address;
    uint64_t length;
    uint64_t rkey_length; /* 0: only the owner's CPU reaches this memory */
} ucx_key_t;

/* What the numbers in messages stand for. A number is not used again. */
typedef struct {
    uint64_t id; /* 0: free */
    void *object;
} ucx_entry_t;

typedef struct {
    ucx_entry_t *entries;
    size_t size;
    uint64_t generation;
} ucx_table_t;

struct mscclpp_region {
    mscclpp_transport_t *transport;
    uint64_t id;
    char *address;
    size_t length;
    ucp_mem_h memory; /* NULL: UCX does not touch it */
    bool on_device;   /* reached through the gpu operations only, as UCX and the CPU cannot */
};

struct mscclpp_remote {
    mscclpp_conn_t *conn;
    uint64_t region;
    uint64_t address;
    uint64_t length;
    ucp_rkey_h rkey; /* NULL: only the owner's CPU reaches it */
    unsigned users;  /* operations that name it */
    bool destroyed;  /* by its user; kept until none does */
};

typedef struct {
    mscclpp_conn_t *conn;
    ucx_kind_t kind; /* UCX_PUT, UCX_SIGNAL or UCX_ADD */
    bool by_message;
    bool sending; /* a direct put that UCX has not let go of */
    mscclpp_remote_t *remote;
    mscclpp_region_t *region;
    uint64_t to;     /* offset, or token */
    uint64_t from;   /* offset */
    uint64_t length; /* bytes of a put */
    uint64_t value;  /* of an add or a signal */
    uint64_t signal; /* of a put: 1 + the token to signal after it, 0 for none */
    uint64_t packed; /* bytes of a put that have become messages */
    uint64_t last;   /* by message: done when all messages below this number are acknowledged */
} ucx_op_t;

/* A message that the peer has not yet acknowledged. Its header is read by UCX while `sending`. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    const char *data;
    mscclpp_region_t *region; /* where these bytes lie; NULL: in the bounce memory, or there are none */
    uint64_t ring_end;        /* how far the bounce memory is used up to this message */
    bool sending;
} ucx_message_t;

/* A message that has come and has not been carried out. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    mscclpp_region_t *region; /* where UCX writes its bytes to; NULL: it does not, or writes to the bounce memory */
    bool coming;              /* seen */
    bool here;                /* with all its bytes */
    bool placed;              /* these went to their target, not to the bounce memory */
    bool copying;             /* a put with a signal, which waits for the copy from the bounce memory to end */
} ucx_arrival_t;

/* A message without number: it is sent again only when the last one of its kind has left. */
typedef struct {
    mscclpp_conn_t *conn;
    ucx_header_t header;
    bool sending;
} ucx_note_t;

/*
 * A way to a worker, for one connection at a time. It is kept for the next connection to that worker, as UCX keeps a
 * socket of each endpoint that both sides have closed. Several connections to one worker have one each, for a flush is
 * one of an endpoint. A side that closes its end by force takes the other end down with it, so one is used again only
 * where the peer's address says that the peer had ended all earlier connections by then, none of them by force.
 */
typedef struct ucx_endpoint {
    struct ucx_endpoint *next;
    mscclpp_conn_t *conn; /* NULL: free for use */
    ucp_ep_h ep;          /* NULL: closed, or being closed */
    bool unwatched;       /* UCX does not tell that the peer is lost */
    bool lost;
    uint32_t forced;          /* what the peer's address said when it was last taken */
    bool closes;              /* is being closed, which may end at once */
    ucs_status_ptr_t closing; /* the request */
    size_t length;
    unsigned char address[]; /* of the worker */
} ucx_endpoint_t;

struct mscclpp_conn {
    mscclpp_transport_t *transport;
    mscclpp_conn_t *next;
    uint64_t id;
    int peer;
    bool destroyed; /* by its user; kept until UCX has let go of it */
    bool connected;

    mscclpp_status_t status; /* why it no longer works */
    bool reported;           /* by progress */
    bool left;               /* the peer has said good-bye */
    bool tell;               /* the peer still has to be told that it broke */
    double lost_at;          /* when UCX lost the peer; 0: it has not */
    ucs_status_t lost_why;

    ucx_endpoint_t *endpoint; /* NULL: not connected, or destroyed */
    ucp_ep_h ep;
    int watch;            /* a file descriptor that tells of the end of the peer's process, or -1 */
    unsigned outstanding; /* requests that UCX has and whose end names this connection */
    unsigned sending;     /* of these, puts and messages to the peer, but for notes */
    unsigned placing;     /* of these, receptions into regions */
    ucx_address_t to;     /* the peer's */

    /* Numbers of operations: [op_begin, op_next) were begun, [op_next, op_end) were not; operation i lies at i %
     * UCX_OPS_MAX. */
    ucx_op_t ops[UCX_OPS_MAX];
    uint64_t op_begin, op_next, op_end;

    /* Numbers of operations, each one past the last that is meant. */
    uint64_t direct;   /* puts that UCX was given */
    uint64_t flushed;  /* what UCX's last flush covers: of the direct puts, what has reached the peer's memory */
    uint64_t flushing; /* up to where the flush under way counts; 0: none is under way */
    uint64_t wanted;   /* up to where somebody waits */

    /* Messages to the peer: [acked, sent) were sent, [sent, ready) can be, [ready, packed) wait for their bytes. */
    ucx_message_t messages[UCX_MESSAGES_MAX];
    uint64_t acked, sent, ready, packed;
    uint64_t laid;           /* one past the last one with a put or an addition */
    char *ring;              /* pinned, NULL if there is none yet; the peer has as much for this connection */
    size_t ring_size, chunk; /* bytes */
    /* Bytes ever given back, used by messages that are ready, and used at all. */
    uint64_t ring_begin, ring_ready, ring_end;

    /* Messages of the peer: [executed, issued) are being copied. */
    ucx_arrival_t arrivals[UCX_MESSAGES_MAX];
    uint64_t executed, issued, acknowledged;
    uint64_t issued_bytes; /* of these messages */
    char *landing;         /* pinned, of landing_size bytes and a word more for adds to device memory; NULL before */
    size_t landing_size;
    int add_stage; /* of the add to device memory that is at `executed` */
    ucx_note_t notes[3];
};

struct mscclpp_transport {
    mscclpp_transport_params_t params;
    mscclpp_ucx_functions_t ucx;
    int pid;          /* of the creator; a forked child must leave UCX alone */
    bool direct;      /* regions of host memory are given to UCX */
    bool copies;      /* device memory is copied by the gpu operations */
    uint32_t devices; /* regions that are */
    bool unwatched;   /* of some endpoints UCX cannot tell that the peer is lost */
    bool stranded;    /* the worker could touch memory that is gone: it is never driven again */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address; /* of the worker */
    size_t address_length;
    double watched_at; /* when processes were last looked at */
    uint32_t forced;   /* endpoints closed by force so far */
    ucx_endpoint_t *endpoints;
    mscclpp_conn_t *conns;
    mscclpp_conn_t *adding; /* whose add to device memory is under way: one at a time, as it is not atomic */
    ucx_table_t conn_ids, region_ids;
    mscclpp_copier_t out, in; /* of all connections */
};

/* ids.c: 0 if there is no memory. */
uint64_t mscclpp_transport_ucx_enter(ucx_table_t *table, void *object);
void *mscclpp_transport_ucx_find(const ucx_table_t *table, uint64_t id);
void mscclpp_transport_ucx_remove(ucx_table_t *table, uint64_t id);

/* state.c: lets the worker move on: the only way to do so. 0: it did nothing. */
unsigned mscclpp_transport_ucx_drive(mscclpp_transport_t *transport);

/* True if the call went well; else it is logged. */
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

/* An operation does not name the remote any more. */
void mscclpp_transport_ucx_drop_remote(mscclpp_remote_t *remote);

/* True if peers are reached over shared memory, and their processes watched, where that is possible. */
bool mscclpp_transport_ucx_stays_near(const mscclpp_transport_params_t *params);

/* _conn: see transport.h. */
mscclpp_status_t mscclpp_transport_ucx_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p);
mscclpp_status_t mscclpp_transport_ucx_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p);
mscclpp_status_t mscclpp_transport_ucx_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length);
void mscclpp_transport_ucx_conn_destroy(mscclpp_conn_t *conn);
mscclpp_status_t mscclpp_transport_ucx_conn_status(const mscclpp_conn_t *conn);

/* UCX has told of a failure: breaks the connection unless the peer has said good-bye, which may still be on its way. */
void mscclpp_transport_ucx_lose(mscclpp_conn_t *conn, ucs_status_t why);

/* Breaks the connection, with one line about what went wrong; later troubles are not logged. */
void mscclpp_transport_ucx_fail(mscclpp_conn_t *conn, mscclpp_status_t status, const char *what);

/*
 * Sees to it that UCX reads and writes the region no more: waits for it, breaks the connections that it does so for,
 * and as the last resort strands the instance. False: it would, if it went on, so nothing of the region may go but its
 * memory.
 */
bool mscclpp_transport_ucx_vacate(const mscclpp_region_t *region);

/* Looks at endpoints that were lost, and frees destroyed connections whose endpoint has closed. */
void mscclpp_transport_ucx_tend(mscclpp_transport_t *transport);

/* Frees the connections that are left, after the worker went. */
void mscclpp_transport_ucx_drop_conns(mscclpp_transport_t *transport);

/* _endpoint: gives the connection an endpoint to a worker. Fails as transport.h says. */
mscclpp_status_t mscclpp_transport_ucx_endpoint_take(mscclpp_conn_t *conn, const void *address, size_t length);

/*
 * Ends its use. `by_force`: UCX gives up what is under way in it, and it is closed. That is not at once; it ends
 * without the peer but where UCX does not tell that peers are lost, for then it does not give up anything.
 */
void mscclpp_transport_ucx_endpoint_release(mscclpp_conn_t *conn, bool by_force);

/* Frees what has closed, and closes what nobody can use any more. */
void mscclpp_transport_ucx_endpoint_tend(mscclpp_transport_t *transport);

/* Lets good-byes leave for a moment and begins to close all; `drop` frees what is left after the worker went. */
void mscclpp_transport_ucx_endpoint_close_all(mscclpp_transport_t *transport);
void mscclpp_transport_ucx_endpoint_drop(mscclpp_transport_t *transport);

/* _ops: the operations of transport.h, and what moves them on. */
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
void mscclpp_transport_ucx_advance(mscclpp_conn_t *conn);

/* Gives up the operations that are left. */
void mscclpp_transport_ucx_drop_ops(mscclpp_conn_t *conn);

/* _bounce: turns (part of) an operation into messages; true if all of it was. */
bool mscclpp_transport_ucx_pack(mscclpp_conn_t *conn, ucx_op_t *op);

/* Sends what is ready. */
void mscclpp_transport_ucx_send(mscclpp_conn_t *conn);

/* Ends the batch of copies, if it has ended, and begins the next: from devices. */
void mscclpp_transport_ucx_copy_out(mscclpp_transport_t *transport);

/* False if the last note of this kind has not left yet, or the endpoint is not there. */
bool mscclpp_transport_ucx_note(mscclpp_conn_t *conn, ucx_kind_t kind);

/* Starts a copy in the copier's batch. False, with the connection broken, if it cannot be. */
bool mscclpp_transport_ucx_copy(mscclpp_conn_t *conn, mscclpp_copier_t *copier, void *to, const void *from,
                                size_t size);

/*
 * Makes what a connection whose peer is known is going to bounce through, and the streams for that: later a kernel may
 * be waiting, and the runtime make an allocation wait for the kernel. Only what regions make necessary that come later
 * is left to the first put from or to them. Not MSCCLPP_OK: the connection is broken.
 */
mscclpp_status_t mscclpp_transport_ucx_equip(mscclpp_conn_t *conn);

/* The memory that messages land in, unless there is one already. False, with the connection broken, if it cannot be. */
bool mscclpp_transport_ucx_make_landing(mscclpp_conn_t *conn);

/* Waits for the copies that have begun, before memory goes that they may read or write. */
void mscclpp_transport_ucx_end_copies(mscclpp_transport_t *transport);

/* True if the copier has no batch (any more). A failure breaks the connections with copies in it. */
bool mscclpp_transport_ucx_copied(mscclpp_transport_t *transport, mscclpp_copier_t *copier);

/* _receive: the handler of the worker's messages, and what carries them out. */
ucs_status_t mscclpp_transport_ucx_on_message(void *arg, const void *header, size_t header_length, void *data,
                                              size_t length, const ucp_am_recv_param_t *param);
void mscclpp_transport_ucx_execute(mscclpp_transport_t *transport);

#endif
