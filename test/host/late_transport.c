#include "test/host/late_transport.h"

#include <stdlib.h>

/* How many operations a connection has room for. */
#define ROOM 20

typedef struct {
    enum { PUT, SIGNAL, ADD } kind;
    mscclpp_remote_t *remote;
    mscclpp_region_t *region;
    uint64_t to, from, length; /* for an addition `length` is the value; for a signal `to` is the token */
} late_op_t;

struct mscclpp_transport {
    mscclpp_transport_t *inner;
    mscclpp_conn_t *conns;
    uint64_t random;
};

struct mscclpp_conn {
    mscclpp_conn_t *next;
    mscclpp_transport_t *transport;
    mscclpp_conn_t *inner;
    late_op_t ops[ROOM];
    uint64_t begun, done; /* operations */
    bool held;
    int broken; /* mscclpp_status_t */
    bool told;
};

static const mscclpp_transport_ops_t *inner_ops(void)
{
    return mscclpp_transport_find("shm");
}

static uint64_t random_below(mscclpp_transport_t *transport, uint64_t limit)
{
    transport->random = transport->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (transport->random >> 33) % limit;
}

void late_hold(mscclpp_conn_t *conn, bool hold)
{
    __atomic_store_n(&conn->held, hold, __ATOMIC_RELEASE);
}

uint64_t late_begun(const mscclpp_conn_t *conn)
{
    return __atomic_load_n(&conn->begun, __ATOMIC_RELAXED);
}

void late_break(mscclpp_conn_t *conn, mscclpp_status_t status)
{
    __atomic_store_n(&conn->broken, (int)status, __ATOMIC_RELEASE);
}

/* Makes the transport and the inner one. */
static mscclpp_status_t late_create(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                                    mscclpp_transport_t **transport_p)
{
    mscclpp_transport_t *transport = calloc(1, sizeof(*transport));
    mscclpp_status_t status;

    if (transport == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = inner_ops()->create(params, flags_p, &transport->inner);
    if (status != MSCCLPP_OK) {
        free(transport);
        return status;
    }
    transport->random = (uint64_t)params->rank + 1;
    *transport_p = transport;
    return MSCCLPP_OK;
}

static void late_destroy(mscclpp_transport_t *transport)
{
    if (transport != NULL) {
        inner_ops()->destroy(transport->inner);
        free(transport);
    }
}

static mscclpp_status_t conn_status(const mscclpp_conn_t *conn)
{
    return (mscclpp_status_t)__atomic_load_n(&conn->broken, __ATOMIC_ACQUIRE);
}

/* Passes the oldest operation that was held back to the inner transport. */
static mscclpp_status_t do_one(mscclpp_conn_t *conn)
{
    const late_op_t *op = &conn->ops[conn->done++ % ROOM];

    switch (op->kind) {
    case PUT:
        return inner_ops()->put(conn->inner, op->remote, op->to, op->region, op->from, op->length);
    case SIGNAL:
        return inner_ops()->signal(conn->inner, (uint32_t)op->to);
    default:
        return inner_ops()->add(conn->inner, op->remote, op->to, op->length);
    }
}

/* Carries out a random number of the operations that were held back. */
static mscclpp_status_t late_progress(mscclpp_transport_t *transport)
{
    mscclpp_conn_t *conn;

    for (conn = transport->conns; conn != NULL; conn = conn->next) {
        uint64_t few = random_below(transport, 8);

        for (; few > 0 && conn->done < conn->begun && conn_status(conn) == MSCCLPP_OK &&
               !__atomic_load_n(&conn->held, __ATOMIC_ACQUIRE);
             --few) {
            mscclpp_status_t status = do_one(conn);

            if (status < 0) {
                late_break(conn, status);
            }
        }
        if (conn_status(conn) != MSCCLPP_OK && !conn->told) {
            conn->told = true;
            return conn_status(conn);
        }
    }
    return MSCCLPP_OK;
}

/* Makes a connection and the inner one. */
static mscclpp_status_t late_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    mscclpp_conn_t *conn = calloc(1, sizeof(*conn));
    mscclpp_status_t status;

    if (conn == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    status = inner_ops()->conn_create(transport->inner, peer, &conn->inner);
    if (status != MSCCLPP_OK) {
        free(conn);
        return status;
    }
    conn->transport = transport;
    conn->next = transport->conns;
    transport->conns = conn;
    *conn_p = conn;
    return MSCCLPP_OK;
}

static mscclpp_status_t late_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    return inner_ops()->conn_address(conn->inner, address, length_p);
}

static mscclpp_status_t late_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    return inner_ops()->conn_connect(conn->inner, address, length);
}

/* Frees a connection and the inner one. */
static void late_conn_destroy(mscclpp_conn_t *conn)
{
    mscclpp_conn_t **link;

    if (conn == NULL) {
        return;
    }
    link = &conn->transport->conns;
    while (*link != conn) {
        link = &(*link)->next;
    }
    *link = conn->next;
    inner_ops()->conn_destroy(conn->inner);
    free(conn);
}

static mscclpp_status_t late_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                           mscclpp_region_t **region_p)
{
    return inner_ops()->region_create(transport->inner, address, length, region_p);
}

static mscclpp_status_t late_region_key(const mscclpp_region_t *region, void *key, size_t *length_p)
{
    return inner_ops()->region_key(region, key, length_p);
}

static void late_region_destroy(mscclpp_region_t *region)
{
    inner_ops()->region_destroy(region);
}

static mscclpp_status_t late_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                           mscclpp_remote_t **remote_p)
{
    return inner_ops()->remote_create(conn->inner, key, length, remote_p);
}

static void late_remote_destroy(mscclpp_remote_t *remote)
{
    inner_ops()->remote_destroy(remote);
}

/* Sometimes refuses an operation even if there is room. */
static mscclpp_status_t begin(mscclpp_conn_t *conn, const late_op_t *op)
{
    mscclpp_status_t status = conn_status(conn);

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (conn->begun - conn->done == ROOM || random_below(conn->transport, 4) == 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    conn->ops[conn->begun % ROOM] = *op;
    __atomic_store_n(&conn->begun, conn->begun + 1, __ATOMIC_RELAXED);
    return MSCCLPP_OK;
}

static mscclpp_status_t late_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                                 uint64_t from, uint64_t length)
{
    const late_op_t op = {PUT, remote, region, to, from, length};

    return begin(conn, &op);
}

static mscclpp_status_t late_signal(mscclpp_conn_t *conn, uint32_t token)
{
    const late_op_t op = {SIGNAL, NULL, NULL, token, 0, 0};

    return begin(conn, &op);
}

static mscclpp_status_t late_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    const late_op_t op = {ADD, remote, NULL, to, 0, value};

    return to % sizeof(uint64_t) != 0 ? MSCCLPP_ERR_INVALID : begin(conn, &op);
}

/* Flushes, or says at random that it cannot be done yet. */
static mscclpp_status_t late_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    mscclpp_status_t status = conn_status(conn);

    if (status == MSCCLPP_OK && random_below(conn->transport, 4) == 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    *ticket_p = conn->begun;
    return status;
}

static mscclpp_status_t late_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    mscclpp_status_t status = conn_status(conn);

    return status != MSCCLPP_OK ? status : conn->done >= ticket ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
}

const mscclpp_transport_ops_t late_transport = {
    .name = "late",
    .create = late_create,
    .destroy = late_destroy,
    .progress = late_progress,
    .conn_create = late_conn_create,
    .conn_address = late_conn_address,
    .conn_connect = late_conn_connect,
    .conn_destroy = late_conn_destroy,
    .conn_status = conn_status,
    .region_create = late_region_create,
    .region_key = late_region_key,
    .region_destroy = late_region_destroy,
    .remote_create = late_remote_create,
    .remote_destroy = late_remote_destroy,
    .put = late_put,
    .signal = late_signal,
    .add = late_add,
    .flush = late_flush,
    .test = late_test,
};
