/*
 * The transport between GPUs of one node. It maps peers' memory, and copy engines move the bytes. Each connection has
 * its own stream, so that copies and flushes of one connection never wait for those of another. Everything that a
 * connection does is a copy in its stream. A copy begins only when the copy before it has ended and its data is
 * visible. So a token is written after the data that it announces, for any reader that loads the token with acquire at
 * system scope. (A kernel could add to the token, but waiting kernels may occupy all multiprocessors.)
 *
 * Puts are collected into batches, which one call starts and which run in parallel. A batch starts when a signal or a
 * flush follows, when BATCH_MAX puts have been collected, or when progress is made; until then no order is required.
 *
 * A copy writes and cannot add. So the sender counts a token's signals and copies their number into the token, which is
 * 0 at first. Only one connection signals a token at any time, and a later one of the instance continues the count.
 *
 * A mapping of another process's memory stays valid after that process frees it. In the owner's process, the address is
 * then invalid. So such regions are MSCCLPP_LENT_REGIONS, and their addresses are checked before use.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/cuda_ipc/window.h"

static const mscclpp_window_kind_t address_kind = {UINT64_C(0x6d73636363696361), "cuda_ipc", "an address"};
static const mscclpp_window_kind_t key_kind = {UINT64_C(0x6d7363636369636b), "cuda_ipc", "a key"};

/* The maximum number of signals of a connection in progress; fewer markers are in progress. A power of two. */
#define SLOTS 1024u

/* After this many signals a marker follows, so that their slots become free without a flush. */
#define SIGNALS_PER_MARKER (SLOTS / 4)

/* The maximum number of puts that are collected before they are started. */
#define BATCH_MAX 32

/* The number of signals to each token of a peer. Kept until the instance ends, for later connections. */
typedef struct ipc_counts {
    struct ipc_counts *next;
    int peer;
    uint64_t token_count;
    uint64_t signals_sent[]; /* by token */
} ipc_counts_t;

struct mscclpp_transport {
    mscclpp_transport_params_t params;
    mscclpp_window_card_t card; /* describes this rank's tokens */
    uint64_t *marker_numbers;   /* device memory: SLOTS words, each with its index as its value; markers copy them */
    mscclpp_conn_t *conns;
    ipc_counts_t *counts;
};

/* Pinned memory that the copies in a connection's stream read and write. */
typedef struct {
    uint64_t last_marker;   /* number of the last marker that the stream has passed, modulo SLOTS */
    uint64_t pad[15];       /* keeps the values on other cache lines */
    uint64_t values[SLOTS]; /* the values that signals in progress copy to tokens */
} ipc_board_t;

/* One half of a connection. Signals are numbered from 0, markers from 1; `begun_...` and `passed_...` count them. */
struct mscclpp_conn {
    mscclpp_conn_t *next;
    mscclpp_transport_t *transport;
    int peer;
    mscclpp_window_t tokens; /* the peer's tokens */
    ipc_counts_t *counts;    /* NULL until connected */
    mscclpp_gpu_stream_t *stream;
    ipc_board_t *board;        /* the board at the address that the CPU uses */
    ipc_board_t *device_board; /* the board at the address that copies use */
    uint64_t begun_signals;
    uint64_t passed_signals;
    uint64_t begun_markers;
    uint64_t passed_markers;
    uint64_t signals_before[SLOTS]; /* for each marker in progress: the number of signals that began before it */
    bool has_unmarked_work;         /* puts or signals were begun, or collected in the batch, after the last marker */
    mscclpp_gpu_copy_t batch[BATCH_MAX];
    unsigned batched_count; /* number of puts collected in the batch, which are not started yet */
    mscclpp_status_t status;
    bool failure_reported; /* progress has returned the connection's failure */
};

struct mscclpp_region {
    mscclpp_transport_t *transport;
    char *address;
    uint64_t length; /* bytes */
};

struct mscclpp_remote {
    mscclpp_conn_t *conn;
    mscclpp_window_t window;
};

/* Logs that there is no memory for `purpose`. Always returns MSCCLPP_ERR_NO_MEMORY. */
static mscclpp_status_t log_no_memory(const mscclpp_transport_params_t *params, const char *purpose)
{
    mscclpp_error("%s: out of memory for %s of transport cuda_ipc", params->label, purpose);
    return MSCCLPP_ERR_NO_MEMORY;
}

/* Makes transport->marker_numbers, and waits until it is filled. Nothing writes to it afterwards. */
static mscclpp_status_t make_marker_numbers(mscclpp_transport_t *transport)
{
    const mscclpp_transport_params_t *params = &transport->params;
    mscclpp_gpu_stream_t *stream;
    uint64_t values[SLOTS], i;
    mscclpp_status_t status;
    void *address;

    for (i = 0; i < SLOTS; ++i) {
        values[i] = i;
    }
    status = params->gpu->device_alloc(params->device, sizeof(values), &address);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = params->gpu->stream_create(params->device, &stream);
    if (status == MSCCLPP_OK) {
        status = params->gpu->copy(stream, address, values, sizeof(values));
        if (status == MSCCLPP_OK) {
            status = params->gpu->stream_sync(stream);
        }
        params->gpu->stream_destroy(stream);
    }
    if (status != MSCCLPP_OK) {
        params->gpu->device_free(params->device, address);
        return status;
    }
    transport->marker_numbers = address;
    return MSCCLPP_OK;
}

/* Makes an instance. Returns MSCCLPP_ERR_NOT_SUPPORTED on the twin, and for tokens outside exportable device memory. */
static mscclpp_status_t ipc_create(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                                   mscclpp_transport_t **transport_p)
{
    mscclpp_transport_t *transport;
    mscclpp_status_t status;
    mscclpp_window_card_t card;

    if (params->gpu->twin) {
        mscclpp_info("%s: no transport cuda_ipc: the host twin has no copy engines", params->label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    status =
        mscclpp_window_describe(params, &address_kind, params->tokens, params->token_count * sizeof(uint64_t), &card);
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_info("%s: no transport cuda_ipc: the tokens do not lie in device memory that can be exported",
                     params->label);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        return log_no_memory(params, "the instance");
    }
    transport->params = *params;
    transport->card = card;
    status = make_marker_numbers(transport);
    if (status != MSCCLPP_OK) {
        free(transport);
        return status;
    }
    *flags_p = MSCCLPP_REACH_NODE | MSCCLPP_DEVICE_TOKENS | MSCCLPP_DEVICE_REGIONS | MSCCLPP_LENT_REGIONS;
    *transport_p = transport;
    return MSCCLPP_OK;
}

/* Frees the counts of signals, which outlive connections, and the marker numbers. */
static void ipc_destroy(mscclpp_transport_t *transport)
{
    ipc_counts_t *counts;

    if (transport == NULL) {
        return;
    }
    while ((counts = transport->counts) != NULL) {
        transport->counts = counts->next;
        free(counts);
    }
    transport->params.gpu->device_free(transport->params.device, transport->marker_numbers);
    free(transport);
}

/* Breaks the connection, and logs that. If it is broken already, does nothing. Returns the first failure. */
static mscclpp_status_t fail(mscclpp_conn_t *conn, mscclpp_status_t status)
{
    if (conn->status == MSCCLPP_OK) {
        mscclpp_error("%s: the connection to rank %d over cuda_ipc broke: %s", conn->transport->params.label,
                      conn->peer, mscclpp_status_string(status));
        conn->status = status;
    }
    return conn->status;
}

/* Reads from the board what has ended. A number modulo SLOTS is enough, because fewer markers are in progress. */
static void update_passed(mscclpp_conn_t *conn)
{
    const uint64_t last_marker = __atomic_load_n(&conn->board->last_marker, __ATOMIC_ACQUIRE);

    conn->passed_markers += (last_marker - conn->passed_markers) % SLOTS;
    if (conn->passed_markers > 0) {
        conn->passed_signals = conn->signals_before[conn->passed_markers % SLOTS];
    }
}

/* Breaks the connection if its peer, in this process, has freed the memory. Returns the connection's status. */
static mscclpp_status_t check_not_freed(mscclpp_conn_t *conn, const mscclpp_window_t *window, const char *memory_name)
{
    if (!mscclpp_window_has_memory(conn->transport->params.gpu, window)) {
        mscclpp_error("%s: rank %d, which is in this process, has freed the %s that this rank still writes to",
                      conn->transport->params.label, conn->peer, memory_name);
        conn->status = MSCCLPP_ERR_INVALID;
    }
    return conn->status;
}

/* Starts the puts that have been collected. A failure breaks the connection. */
static mscclpp_status_t begin_batch(mscclpp_conn_t *conn)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (conn->batched_count > 0) {
        status = conn->transport->params.gpu->copy_batch(conn->stream, conn->batch, conn->batched_count);
        conn->batched_count = 0;
    }
    return status == MSCCLPP_OK ? MSCCLPP_OK : fail(conn, status);
}

/* Queues a copy in the connection's stream, after the collected puts. A failure breaks the connection. */
static mscclpp_status_t enqueue(mscclpp_conn_t *conn, void *to, const void *from, uint64_t length)
{
    mscclpp_status_t status = begin_batch(conn);

    if (status == MSCCLPP_OK) {
        status = conn->transport->params.gpu->copy(conn->stream, to, from, length);
    }
    return status == MSCCLPP_OK ? MSCCLPP_OK : fail(conn, status);
}

/* Appends a copy that shows when all work before it has ended. Returns MSCCLPP_IN_PROGRESS if no marker is free. */
static mscclpp_status_t append_marker(mscclpp_conn_t *conn)
{
    const uint64_t marker = conn->begun_markers + 1;
    mscclpp_status_t status;

    if (marker - conn->passed_markers == SLOTS) {
        update_passed(conn);
        if (marker - conn->passed_markers == SLOTS) {
            return MSCCLPP_IN_PROGRESS;
        }
    }
    conn->signals_before[marker % SLOTS] = conn->begun_signals;
    status = enqueue(conn, &conn->device_board->last_marker, &conn->transport->marker_numbers[marker % SLOTS],
                     sizeof(uint64_t));
    if (status == MSCCLPP_OK) {
        conn->begun_markers = marker;
        conn->has_unmarked_work = false;
    }
    return status;
}

/* Starts collected puts. Asks about streams with unfinished markers, because a failed copy passes no marker. */
static mscclpp_status_t ipc_progress(mscclpp_transport_t *transport)
{
    mscclpp_conn_t *conn;

    for (conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->status == MSCCLPP_OK) {
            (void)begin_batch(conn);
        }
        if (conn->status == MSCCLPP_OK && conn->passed_markers != conn->begun_markers) {
            update_passed(conn);
            if (conn->passed_markers != conn->begun_markers) {
                const mscclpp_status_t status = transport->params.gpu->stream_query(conn->stream);
                if (status < 0) {
                    (void)fail(conn, status);
                }
            }
        }
        if (conn->status != MSCCLPP_OK && !conn->failure_reported) {
            conn->failure_reported = true;
            return conn->status;
        }
    }
    return MSCCLPP_OK;
}

/* Makes a connection with a board and a stream of its own. ipc_conn_connect maps the peer's tokens. */
static mscclpp_status_t ipc_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    const mscclpp_transport_params_t *params = &transport->params;
    mscclpp_conn_t *conn = calloc(1, sizeof(*conn));
    void *host, *device;
    mscclpp_status_t status;

    if (conn == NULL) {
        return log_no_memory(params, "a connection");
    }
    status = params->gpu->host_alloc(sizeof(ipc_board_t), &host, &device);
    if (status != MSCCLPP_OK) {
        goto err_free;
    }
    status = params->gpu->stream_create(params->device, &conn->stream);
    if (status != MSCCLPP_OK) {
        goto err_host_free;
    }
    conn->transport = transport;
    conn->peer = peer;
    conn->board = host;
    conn->device_board = device;
    conn->status = MSCCLPP_OK;
    conn->next = transport->conns;
    transport->conns = conn;
    *conn_p = conn;
    return MSCCLPP_OK;

err_host_free:
    params->gpu->host_free(host);
err_free:
    free(conn);
    return status;
}

static mscclpp_status_t ipc_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    memcpy(address, &conn->transport->card, sizeof(conn->transport->card));
    *length_p = sizeof(conn->transport->card);
    return MSCCLPP_OK;
}

/* Finds or makes the counts of a peer's tokens, which later connections continue. ipc_destroy frees them. */
static mscclpp_status_t find_counts(mscclpp_transport_t *transport, int peer, uint64_t token_count,
                                    ipc_counts_t **counts_p)
{
    ipc_counts_t *counts = transport->counts;

    while (counts != NULL && (counts->peer != peer || counts->token_count != token_count)) {
        counts = counts->next;
    }
    if (counts == NULL) {
        counts = calloc(1, sizeof(*counts) + token_count * sizeof(counts->signals_sent[0]));
        if (counts == NULL) {
            return log_no_memory(&transport->params, "the counts of signals");
        }
        counts->peer = peer;
        counts->token_count = token_count;
        counts->next = transport->counts;
        transport->counts = counts;
    }
    *counts_p = counts;
    return MSCCLPP_OK;
}

/* Maps the peer's tokens, and finds their counts. After an error nothing has changed. */
static mscclpp_status_t ipc_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    mscclpp_status_t status;
    mscclpp_window_t tokens;

    if (conn->counts != NULL) {
        mscclpp_error("%s: the connection to rank %d is connected already", conn->transport->params.label, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    status = mscclpp_window_open(&conn->transport->params, &address_kind, conn->peer, address, length, &tokens);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = find_counts(conn->transport, conn->peer, tokens.length / sizeof(uint64_t), &conn->counts);
    if (status != MSCCLPP_OK) {
        mscclpp_window_close(&tokens);
        return status;
    }
    conn->tokens = tokens;
    return MSCCLPP_OK;
}

/* Waits for the copies in progress before their memory is freed. They cannot be cancelled, but end without a peer. */
static void ipc_conn_destroy(mscclpp_conn_t *conn)
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
    (void)conn->transport->params.gpu->stream_sync(conn->stream);
    conn->transport->params.gpu->stream_destroy(conn->stream);
    conn->transport->params.gpu->host_free(conn->board);
    mscclpp_window_close(&conn->tokens);
    free(conn);
}

static mscclpp_status_t ipc_conn_status(const mscclpp_conn_t *conn)
{
    return conn->status;
}

/* Creates a region of any memory. If the memory cannot be exported, the region has no key, and peers cannot put. */
static mscclpp_status_t ipc_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                          mscclpp_region_t **region_p)
{
    mscclpp_region_t *region = calloc(1, sizeof(*region));
    mscclpp_status_t status;

    if (region == NULL) {
        return log_no_memory(&transport->params, "a region");
    }
    status = transport->params.gpu->settle(address);
    if (status != MSCCLPP_OK) {
        free(region);
        return status;
    }
    region->transport = transport;
    region->address = address;
    region->length = length;
    *region_p = region;
    return MSCCLPP_OK;
}

/* Writes the key for peers. Returns MSCCLPP_ERR_NOT_SUPPORTED for memory that cannot be exported. */
static mscclpp_status_t ipc_region_key(const mscclpp_region_t *region, void *key, size_t *length_p)
{
    mscclpp_window_card_t card;
    const mscclpp_status_t status =
        mscclpp_window_describe(&region->transport->params, &key_kind, region->address, region->length, &card);

    if (status == MSCCLPP_OK) {
        memcpy(key, &card, sizeof(card));
        *length_p = sizeof(card);
    }
    return status;
}

static void ipc_region_destroy(mscclpp_region_t *region)
{
    free(region);
}

/* Maps the peer's region. */
static mscclpp_status_t ipc_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                          mscclpp_remote_t **remote_p)
{
    mscclpp_remote_t *remote = calloc(1, sizeof(*remote));
    mscclpp_status_t status;

    if (remote == NULL) {
        return log_no_memory(&conn->transport->params, "a peer's region");
    }
    status = mscclpp_window_open(&conn->transport->params, &key_kind, conn->peer, key, length, &remote->window);
    if (status != MSCCLPP_OK) {
        free(remote);
        return status;
    }
    remote->conn = conn;
    *remote_p = remote;
    return MSCCLPP_OK;
}

/* Starts collected puts, and waits for the connection's copies, because some of them may write to the memory. */
static void ipc_remote_destroy(mscclpp_remote_t *remote)
{
    if (remote != NULL) {
        (void)begin_batch(remote->conn);
        (void)remote->conn->transport->params.gpu->stream_sync(remote->conn->stream);
        mscclpp_window_close(&remote->window);
        free(remote);
    }
}

/* Adds a put to the batch, which is started if it is full or if the target is lent memory. */
static mscclpp_status_t ipc_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                                uint64_t from, uint64_t length)
{
    mscclpp_status_t status = conn->status;

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (!mscclpp_fits(to, length, remote->window.length) || !mscclpp_fits(from, length, region->length)) {
        mscclpp_error("%s: put of %llu bytes does not fit: from offset %llu of %llu bytes to offset %llu of %llu bytes "
                      "of rank %d",
                      conn->transport->params.label, (unsigned long long)length, (unsigned long long)from,
                      (unsigned long long)region->length, (unsigned long long)to,
                      (unsigned long long)remote->window.length, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    if (length > 0) {
        status = check_not_freed(conn, &remote->window, "region");
        if (status == MSCCLPP_OK) {
            conn->batch[conn->batched_count++] =
                (mscclpp_gpu_copy_t){.to = remote->window.base + to, .from = region->address + from, .size = length};
            conn->has_unmarked_work = true;
            /* Lent memory exists now but may be freed later, so a put into it is started at once. */
            if (conn->batched_count == BATCH_MAX || remote->window.lent_id != 0) {
                status = begin_batch(conn);
            }
        }
    }
    return status;
}

/* Copies to the token its count of signals, now 1 higher. Returns MSCCLPP_IN_PROGRESS if no slot is free. */
static mscclpp_status_t ipc_signal(mscclpp_conn_t *conn, uint32_t token)
{
    mscclpp_status_t status = conn->status;
    uint64_t slot;

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (!mscclpp_fits(token * sizeof(uint64_t), sizeof(uint64_t), conn->tokens.length)) {
        mscclpp_error("%s: signal on token %u of rank %d, which has %llu", conn->transport->params.label, token,
                      conn->peer, (unsigned long long)(conn->tokens.length / sizeof(uint64_t)));
        return MSCCLPP_ERR_INVALID;
    }
    if (conn->begun_signals - conn->passed_signals == SLOTS) {
        update_passed(conn);
        if (conn->begun_signals - conn->passed_signals == SLOTS) {
            /* The slots become free once the stream passes a marker behind their signals. */
            status = conn->has_unmarked_work ? append_marker(conn) : MSCCLPP_OK;
            return status < 0 ? status : MSCCLPP_IN_PROGRESS;
        }
    }
    status = check_not_freed(conn, &conn->tokens, "tokens");
    if (status != MSCCLPP_OK) {
        return status;
    }
    slot = conn->begun_signals % SLOTS;
    conn->board->values[slot] = conn->counts->signals_sent[token] + 1;
    status = enqueue(conn, conn->tokens.base + token * sizeof(uint64_t), &conn->device_board->values[slot],
                     sizeof(uint64_t));
    if (status != MSCCLPP_OK) {
        return status;
    }
    ++conn->counts->signals_sent[token];
    ++conn->begun_signals;
    conn->has_unmarked_work = true;
    if (conn->begun_signals % SIGNALS_PER_MARKER == 0) {
        status = append_marker(conn); /* if no marker is free now, the next signal without a free slot appends it */
    }
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/* Refuses an addition: a copy cannot add. */
static mscclpp_status_t ipc_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    (void)conn, (void)remote, (void)to, (void)value;
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/* The ticket is the number of a marker after all work so far. Returns MSCCLPP_IN_PROGRESS if no marker is free. */
static mscclpp_status_t ipc_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    mscclpp_status_t status = conn->status;

    if (status == MSCCLPP_OK && conn->has_unmarked_work) {
        status = append_marker(conn);
    }
    if (status == MSCCLPP_OK) {
        *ticket_p = conn->begun_markers;
    }
    return status;
}

static mscclpp_status_t ipc_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    if (conn->passed_markers < ticket && conn->status == MSCCLPP_OK) {
        update_passed(conn);
    }
    return conn->status != MSCCLPP_OK       ? conn->status
           : conn->passed_markers >= ticket ? MSCCLPP_OK
                                            : MSCCLPP_IN_PROGRESS;
}

const mscclpp_transport_ops_t mscclpp_transport_cuda_ipc = {
    .name = "cuda_ipc",
    .calls_driver = true,
    .place = MSCCLPP_PLACE_DEVICE,
    .create = ipc_create,
    .destroy = ipc_destroy,
    .progress = ipc_progress,
    .conn_create = ipc_conn_create,
    .conn_address = ipc_conn_address,
    .conn_connect = ipc_conn_connect,
    .conn_destroy = ipc_conn_destroy,
    .conn_status = ipc_conn_status,
    .region_create = ipc_region_create,
    .region_key = ipc_region_key,
    .region_destroy = ipc_region_destroy,
    .remote_create = ipc_remote_create,
    .remote_destroy = ipc_remote_destroy,
    .put = ipc_put,
    .signal = ipc_signal,
    .add = ipc_add,
    .flush = ipc_flush,
    .test = ipc_test,
};
