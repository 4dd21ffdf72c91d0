/*
 * The transport between ranks of one host, over shared memory. Tokens and regions are in shared segments. Their owner
 * has made and pinned them for its GPU; on the host twin they are its device memory. The sender's CPU copies directly
 * into the peer's memory. Kernels can access those parts of the peer's memory that the sender has pinned for its own
 * GPU.
 *
 * A put has ended when it returns. A signal is a later addition with release order by the same thread. So a reader that
 * loads the token with acquire order sees the bytes. An addition to a region (`add`) is made in the same way. Therefore
 * no operation is ever in progress, and a flush has nothing to wait for.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/base/shmseg.h"
#include "mca/common/transport/transport.h"
#include "mca/common/base/words.h"

/* Describes memory to peers. An address describes the owner's tokens, a key describes one of its regions. */
typedef struct {
    uint64_t magic;                      /* SHM_ADDRESS or SHM_KEY */
    int64_t rank;                        /* rank of the owner */
    uint64_t offset;                     /* offset in the segment, bytes */
    uint64_t length;                     /* bytes */
    mscclpp_shmseg_descriptor_t segment; /* zeroed if the length is 0 */
} shm_card_t;

#define SHM_ADDRESS UINT64_C(0x6d7363636c736d61)
#define SHM_KEY UINT64_C(0x6d7363636c736d6b)

_Static_assert(sizeof(shm_card_t) <= MSCCLPP_TRANSPORT_ADDRESS_MAX, "an address holds a card");
_Static_assert(sizeof(shm_card_t) <= MSCCLPP_TRANSPORT_KEY_MAX, "a key holds a card");

/* A peer's memory, mapped. */
typedef struct {
    mscclpp_shmseg_t *segment; /* NULL: the window is empty */
    char *base;                /* where the memory begins in this process */
    uint64_t length;           /* bytes */
} shm_window_t;

struct mscclpp_transport {
    mscclpp_transport_params_t params;
    shm_card_t card; /* describes this rank's tokens */
};

struct mscclpp_conn {
    mscclpp_transport_t *transport;
    int peer;
    bool is_connected;
    shm_window_t tokens; /* the peer's tokens, once connected */
};

struct mscclpp_region {
    mscclpp_transport_t *transport;
    char *address;
    uint64_t length; /* bytes */
};

struct mscclpp_remote {
    mscclpp_conn_t *conn;
    shm_window_t window;
    void *pinned; /* first page of the part pinned for kernels of this rank; NULL: nothing is pinned */
};

/*
 * Writes the card by which peers find `length` bytes of this rank's memory. Memory of 0 bytes has no segment. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, unlogged, if the memory is not within one segment of this process.
 */
static mscclpp_status_t describe_memory(const mscclpp_transport_params_t *params, uint64_t magic, const void *address,
                                        uint64_t length, shm_card_t *card)
{
    memset(card, 0, sizeof(*card));
    card->magic = magic;
    card->rank = params->rank;
    card->length = length;
    return length == 0 || mscclpp_shmseg_locate(address, length, &card->segment, &card->offset)
               ? MSCCLPP_OK
               : MSCCLPP_ERR_NOT_SUPPORTED;
}

/*
 * Maps the memory that the peer's card describes. Checks the card first, because it comes from another process. Returns
 * MSCCLPP_ERR_INVALID if the bytes are not a card of this kind from that peer; otherwise fails as mscclpp_shmseg_attach
 * does. A card of length 0 yields an empty window. The caller detaches the window's segment.
 */
static mscclpp_status_t open_window(const mscclpp_conn_t *conn, uint64_t magic, const void *bytes, size_t length,
                                    shm_window_t *window)
{
    const char *label = conn->transport->params.label;
    mscclpp_status_t status = MSCCLPP_OK;
    shm_card_t card;

    if (length != sizeof(card)) {
        mscclpp_error("%s: %s of %zu bytes from rank %d; transport shm sends %zu", label,
                      magic == SHM_KEY ? "a key" : "an address", length, conn->peer, sizeof(card));
        return MSCCLPP_ERR_INVALID;
    }
    memcpy(&card, bytes, sizeof(card));
    if (card.magic != magic || card.rank != conn->peer ||
        !mscclpp_fits(card.offset, card.length, card.segment.length)) {
        mscclpp_error("%s: what came from rank %d is not %s of transport shm", label, conn->peer,
                      magic == SHM_KEY ? "a key" : "an address");
        return MSCCLPP_ERR_INVALID;
    }
    memset(window, 0, sizeof(*window));
    if (card.length > 0) {
        status = mscclpp_shmseg_attach(&card.segment, &window->segment);
    }
    if (status == MSCCLPP_OK && card.length > 0) {
        window->base = (char *)mscclpp_shmseg_base(window->segment) + card.offset;
        window->length = card.length;
    }
    return status;
}

/* Logs that there is no memory for `purpose`. Always returns MSCCLPP_ERR_NO_MEMORY. */
static mscclpp_status_t log_no_memory(const mscclpp_transport_t *transport, const char *purpose)
{
    mscclpp_error("%s: out of memory for %s of transport shm", transport->params.label, purpose);
    return MSCCLPP_ERR_NO_MEMORY;
}

/* From here on: the functions of mscclpp_transport_shm. transport.h says what callers may expect of each. */

/*
 * Makes an instance. On the twin, device memory is shared memory, too. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the
 * reason at the info level, if the tokens are not in shared memory of this process.
 */
static mscclpp_status_t shm_create(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                                   mscclpp_transport_t **transport_p)
{
    mscclpp_transport_t *transport;
    shm_card_t card;

    if (describe_memory(params, SHM_ADDRESS, params->tokens, params->token_count * sizeof(uint64_t), &card) !=
        MSCCLPP_OK) {
        mscclpp_info("%s: no transport shm: the tokens do not lie in shared memory", params->label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        mscclpp_error("%s: out of memory for transport shm", params->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    transport->params = *params;
    transport->card = card;
    *flags_p = MSCCLPP_REACH_NODE | MSCCLPP_CAN_ADD | MSCCLPP_WHOLE_WORDS;
    if (params->gpu->twin) {
        *flags_p |= MSCCLPP_DEVICE_TOKENS | MSCCLPP_DEVICE_REGIONS;
    }
    *transport_p = transport;
    return MSCCLPP_OK;
}

/* Frees the instance. It owns nothing else. */
static void shm_destroy(mscclpp_transport_t *transport)
{
    free(transport);
}

/* Does nothing: no operation is ever in progress. */
static mscclpp_status_t shm_progress(mscclpp_transport_t *transport)
{
    (void)transport;
    return MSCCLPP_OK;
}

/* Makes this rank's end of a connection. shm_conn_connect maps the peer's tokens. */
static mscclpp_status_t shm_conn_create(mscclpp_transport_t *transport, int peer, mscclpp_conn_t **conn_p)
{
    mscclpp_conn_t *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return log_no_memory(transport, "a connection");
    }
    conn->transport = transport;
    conn->peer = peer;
    *conn_p = conn;
    return MSCCLPP_OK;
}

/* Writes the card of this rank's tokens, which is the same for all peers. */
static mscclpp_status_t shm_conn_address(const mscclpp_conn_t *conn, void *address, size_t *length_p)
{
    memcpy(address, &conn->transport->card, sizeof(conn->transport->card));
    *length_p = sizeof(conn->transport->card);
    return MSCCLPP_OK;
}

/*
 * Maps the tokens of the peer whose address this is. A peer without tokens is allowed. After a success, returns
 * MSCCLPP_ERR_INVALID for a second call.
 */
static mscclpp_status_t shm_conn_connect(mscclpp_conn_t *conn, const void *address, size_t length)
{
    mscclpp_status_t status;

    if (conn->is_connected) {
        mscclpp_error("%s: the connection to rank %d is connected already", conn->transport->params.label, conn->peer);
        return MSCCLPP_ERR_INVALID;
    }
    status = open_window(conn, SHM_ADDRESS, address, length, &conn->tokens);
    conn->is_connected = status == MSCCLPP_OK;
    return status;
}

/* Unmaps the peer's tokens, and frees the connection. */
static void shm_conn_destroy(mscclpp_conn_t *conn)
{
    if (conn == NULL) {
        return;
    }
    mscclpp_shmseg_detach(conn->tokens.segment);
    free(conn);
}

/* Returns MSCCLPP_OK always: copies of the CPU do not fail. */
static mscclpp_status_t shm_conn_status(const mscclpp_conn_t *conn)
{
    (void)conn;
    return MSCCLPP_OK;
}

/* Makes a region of this memory. A region of memory that is not shared has no key, so peers cannot put into it. */
static mscclpp_status_t shm_region_create(mscclpp_transport_t *transport, void *address, size_t length,
                                          mscclpp_region_t **region_p)
{
    mscclpp_region_t *region = calloc(1, sizeof(*region));
    mscclpp_status_t status;

    if (region == NULL) {
        return log_no_memory(transport, "a region");
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

/*
 * Writes the key by which peers open the region. Returns MSCCLPP_ERR_NOT_SUPPORTED if the region's memory is not
 * shared.
 */
static mscclpp_status_t shm_region_key(const mscclpp_region_t *region, void *key, size_t *length_p)
{
    shm_card_t card;
    mscclpp_status_t status =
        describe_memory(&region->transport->params, SHM_KEY, region->address, region->length, &card);

    if (status == MSCCLPP_OK) {
        memcpy(key, &card, sizeof(card));
        *length_p = sizeof(card);
    }
    return status;
}

static void shm_region_destroy(mscclpp_region_t *region)
{
    free(region);
}

/* Maps the peer's region for the CPU. shm_remote_map also maps it for kernels. */
static mscclpp_status_t shm_remote_create(mscclpp_conn_t *conn, const void *key, size_t length,
                                          mscclpp_remote_t **remote_p)
{
    mscclpp_remote_t *remote = calloc(1, sizeof(*remote));
    mscclpp_status_t status;

    if (remote == NULL) {
        return log_no_memory(conn->transport, "a peer's region");
    }
    remote->conn = conn;
    status = open_window(conn, SHM_KEY, key, length, &remote->window);
    if (status != MSCCLPP_OK) {
        free(remote);
        return status;
    }
    *remote_p = remote;
    return MSCCLPP_OK;
}

/* Unmaps the peer's region. Memory must be unpinned before it is unmapped. */
static void shm_remote_destroy(mscclpp_remote_t *remote)
{
    if (remote == NULL) {
        return;
    }
    if (remote->pinned != NULL) {
        remote->conn->transport->params.gpu->host_unregister(remote->pinned);
    }
    mscclpp_shmseg_detach(remote->window.segment);
    free(remote);
}

/* Logs that an access of `action` extends past the `limit` bytes of a region. Always returns MSCCLPP_ERR_INVALID. */
static mscclpp_status_t log_out_of_range(const mscclpp_conn_t *conn, const char *action, uint64_t offset,
                                         uint64_t length, uint64_t limit)
{
    mscclpp_error("%s: %s of %llu bytes at offset %llu for rank %d; the region has %llu", conn->transport->params.label,
                  action, (unsigned long long)length, (unsigned long long)offset, conn->peer,
                  (unsigned long long)limit);
    return MSCCLPP_ERR_INVALID;
}

/*
 * Pins a part of the peer's region, so that kernels can store into it. Memory can be pinned only in whole pages.
 * *device_p is the address of the first byte for kernels. Returns MSCCLPP_ERR_INVALID for bytes outside the region.
 * Returns MSCCLPP_ERR_NOT_SUPPORTED for 0 bytes, for a second call, or if the pages cannot be pinned.
 */
static mscclpp_status_t shm_remote_map(mscclpp_remote_t *remote, uint64_t offset, uint64_t length, void **device_p)
{
    const mscclpp_transport_params_t *params = &remote->conn->transport->params;
    uint64_t page_offset;
    char *start;
    void *device;

    if (!mscclpp_fits(offset, length, remote->window.length)) {
        return log_out_of_range(remote->conn, "map", offset, length, remote->window.length);
    }
    if (remote->pinned != NULL || length == 0) {
        mscclpp_info("%s: nothing of rank %d to map, or it has been mapped", params->label, remote->conn->peer);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    start = remote->window.base + offset;
    page_offset = (uintptr_t)start % (uint64_t)sysconf(_SC_PAGESIZE);
    if (params->gpu->host_register(start - page_offset, page_offset + length, &device) != MSCCLPP_OK) {
        mscclpp_info("%s: kernels do not reach the memory of rank %d, which cannot be pinned here", params->label,
                     remote->conn->peer);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    remote->pinned = start - page_offset;
    *device_p = (char *)device + page_offset;
    return MSCCLPP_OK;
}

/* Checks that the bytes of a put are within both regions. Otherwise logs an error. */
static mscclpp_status_t check_put(const mscclpp_conn_t *conn, const mscclpp_remote_t *remote, uint64_t to,
                                  const mscclpp_region_t *region, uint64_t from, uint64_t length)
{
    if (!mscclpp_fits(to, length, remote->window.length)) {
        return log_out_of_range(conn, "put", to, length, remote->window.length);
    }
    if (!mscclpp_fits(from, length, region->length)) {
        return log_out_of_range(conn, "source of a put", from, length, region->length);
    }
    return MSCCLPP_OK;
}

/* Checks that the peer has this token. Otherwise logs an error. */
static mscclpp_status_t check_token(const mscclpp_conn_t *conn, uint32_t token)
{
    if (!mscclpp_fits(token * sizeof(uint64_t), sizeof(uint64_t), conn->tokens.length)) {
        mscclpp_error("%s: signal on token %u of rank %d, which has %llu", conn->transport->params.label, token,
                      conn->peer, (unsigned long long)(conn->tokens.length / sizeof(uint64_t)));
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Adds 1 to the peer's token, in release order, so that what this thread wrote before is visible, too. */
static void give_signal(const mscclpp_conn_t *conn, uint32_t token)
{
    __atomic_fetch_add((uint64_t *)(void *)conn->tokens.base + token, 1, __ATOMIC_RELEASE);
}

/* Puts at once. Copies word by word, so that packets appear whole: their flag and their data are in one word. */
static mscclpp_status_t shm_put(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, mscclpp_region_t *region,
                                uint64_t from, uint64_t length)
{
    mscclpp_status_t status = check_put(conn, remote, to, region, from, length);

    if (status == MSCCLPP_OK && length > 0) {
        mscclpp_copy_words(remote->window.base + to, region->address + from, length);
    }
    return status;
}

/* Signals a token of the peer at once. Returns MSCCLPP_ERR_INVALID if the peer has no such token. */
static mscclpp_status_t shm_signal(mscclpp_conn_t *conn, uint32_t token)
{
    mscclpp_status_t status = check_token(conn, token);

    if (status == MSCCLPP_OK) {
        give_signal(conn, token);
    }
    return status;
}

/*
 * Puts and then signals. Copies by memcpy, so words may appear in parts for a moment. This is not visible, because the
 * signal tells the peer when to read. Checks everything before it copies, so nothing has been written after an error.
 */
static mscclpp_status_t shm_put_signal(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to,
                                       mscclpp_region_t *region, uint64_t from, uint64_t length, uint32_t token)
{
    mscclpp_status_t status = check_put(conn, remote, to, region, from, length);

    if (status == MSCCLPP_OK) {
        status = check_token(conn, token);
    }
    if (status == MSCCLPP_OK) {
        if (length > 0) {
            memcpy(remote->window.base + to, region->address + from, length);
        }
        give_signal(conn, token);
    }
    return status;
}

/*
 * Adds to a word of the peer's region. The CPU adds at once. The word must be aligned, because the addition is atomic
 * only then.
 */
static mscclpp_status_t shm_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    if (!mscclpp_fits(to, sizeof(uint64_t), remote->window.length)) {
        return log_out_of_range(conn, "addition", to, sizeof(uint64_t), remote->window.length);
    }
    if ((uintptr_t)(remote->window.base + to) % sizeof(uint64_t) != 0) {
        mscclpp_error("%s: addition at offset %llu for rank %d; the word must be aligned to %zu bytes",
                      conn->transport->params.label, (unsigned long long)to, conn->peer, sizeof(uint64_t));
        return MSCCLPP_ERR_INVALID;
    }
    __atomic_fetch_add((uint64_t *)(void *)(remote->window.base + to), value, __ATOMIC_RELEASE);
    return MSCCLPP_OK;
}

/* Begins a flush. No operation is ever in progress, so any ticket has completed. */
static mscclpp_status_t shm_flush(mscclpp_conn_t *conn, uint64_t *ticket_p)
{
    (void)conn;
    *ticket_p = 0;
    return MSCCLPP_OK;
}

/* Returns true always: a put has ended when it returns. */
static bool shm_has_left(mscclpp_conn_t *conn)
{
    (void)conn;
    return true;
}

/* Returns MSCCLPP_OK always: every ticket has completed when it is given. */
static mscclpp_status_t shm_test(mscclpp_conn_t *conn, uint64_t ticket)
{
    (void)conn;
    (void)ticket;
    return MSCCLPP_OK;
}

const mscclpp_transport_ops_t mscclpp_transport_shm = {
    .name = "shm",
    .place = MSCCLPP_PLACE_SHARED,
    .within_host = true,
    .at_once = true,
    .create = shm_create,
    .destroy = shm_destroy,
    .progress = shm_progress,
    .conn_create = shm_conn_create,
    .conn_address = shm_conn_address,
    .conn_connect = shm_conn_connect,
    .conn_destroy = shm_conn_destroy,
    .conn_status = shm_conn_status,
    .region_create = shm_region_create,
    .region_key = shm_region_key,
    .region_destroy = shm_region_destroy,
    .remote_create = shm_remote_create,
    .remote_destroy = shm_remote_destroy,
    .remote_map = shm_remote_map,
    .put = shm_put,
    .signal = shm_signal,
    .put_signal = shm_put_signal,
    .add = shm_add,
    .flush = shm_flush,
    .test = shm_test,
    .has_left = shm_has_left,
};
