/*
 * Two instances of the transport ucx, for tests of its inside. Only the gpu operations can access their device memory,
 * and copies take some time. UCX reaches their host memory by itself. A program includes this file once.
 */
#ifndef TEST_UNIT_UCX_SIDES_H
#define TEST_UNIT_UCX_SIDES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/transport/transport.h"
#include "test/unit/unit.h"

#define TOKENS 4
#define DEADLINE 20.0
#define SMALLEST 65536 /* bytes of bounce memory */

/* A runtime whose stream executes its copies when it is queried for the `lag`th time after the last copy. */
#define COPIES_MAX 1024

typedef struct {
    void *to;
    const void *from;
    size_t size;
} copy_t;

struct mscclpp_gpu_stream {
    copy_t copies[COPIES_MAX];
    int count, lag;
};

static int slow_lag;        /* of the streams */
static int slow_fail_after; /* copies until one fails; -1: none does */
static int slow_copied;     /* copies carried out */
static int slow_made;       /* pinned memory and streams */
static int slow_made_left;  /* pinned memory and streams until one cannot be made; 0: all can */
static char *slow_host;     /* host memory; all other memory is the device's */
static size_t slow_host_size;

static inline bool slow_is_device(const void *address, uint64_t *allocation_p)
{
    (void)allocation_p;
    return (const char *)address < slow_host || (const char *)address >= slow_host + slow_host_size;
}

static inline mscclpp_status_t slow_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    (void)device;
    if (++slow_made == slow_made_left) {
        return MSCCLPP_ERR_SYSTEM;
    }
    *stream_p = calloc(1, sizeof(**stream_p));
    return *stream_p != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
}

static inline void slow_stream_destroy(mscclpp_gpu_stream_t *stream)
{
    free(stream);
}

static inline mscclpp_status_t slow_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    if (stream->count == COPIES_MAX) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    stream->copies[stream->count++] = (copy_t){to, from, size};
    stream->lag = slow_lag;
    return MSCCLPP_OK;
}

static inline mscclpp_status_t slow_stream_query(mscclpp_gpu_stream_t *stream)
{
    if (stream->count > 0 && stream->lag-- > 0) {
        return MSCCLPP_IN_PROGRESS;
    }
    for (int i = 0; i < stream->count; ++i) {
        if (slow_fail_after == 0) {
            stream->count = 0;
            return MSCCLPP_ERR_DEVICE;
        }
        slow_fail_after -= slow_fail_after > 0;
        memcpy(stream->copies[i].to, stream->copies[i].from, stream->copies[i].size);
        ++slow_copied;
    }
    stream->count = 0;
    return MSCCLPP_OK;
}

static inline mscclpp_status_t slow_stream_sync(mscclpp_gpu_stream_t *stream)
{
    mscclpp_status_t status;

    while ((status = slow_stream_query(stream)) == MSCCLPP_IN_PROGRESS) {
    }
    return status;
}

/* For both runtimes. */
static inline mscclpp_status_t counted_host_alloc(size_t size, void **address_p, void **device_p)
{
    if (++slow_made == slow_made_left) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    return mscclpp_gpu_twin_ops.host_alloc(size, address_p, device_p);
}

static inline mscclpp_gpu_ops_t slow_ops(void)
{
    mscclpp_gpu_ops_t ops = mscclpp_gpu_twin_ops;

    ops.name = "slow";
    ops.twin = false;
    ops.is_device = slow_is_device;
    ops.stream_create = slow_stream_create;
    ops.stream_destroy = slow_stream_destroy;
    ops.stream_query = slow_stream_query;
    ops.stream_sync = slow_stream_sync;
    ops.copy = slow_copy;
    return ops;
}

/* Rank `rank` of two, with memory in two regions. */
typedef struct {
    int rank;
    bool one_host; /* what the transport is told */
    mscclpp_config_t config;
    mscclpp_gpu_ops_t gpu;
    uint64_t tokens[TOKENS];
    uint32_t flags;
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;
    char *memory[2]; /* 0: of the device, 1: of the host */
    size_t length;
    mscclpp_region_t *regions[2];
    mscclpp_remote_t *remotes[2];
} side_t;

typedef struct {
    size_t address_length, key_lengths[2];
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    unsigned char keys[2][MSCCLPP_TRANSPORT_KEY_MAX];
} card_t;

static inline void set(side_t *side, const char *name, const char *value)
{
    REQUIRE(mscclpp_config_set(&side->config, mscclpp_param_find(name), value) == MSCCLPP_OK);
}

static inline void side_init(side_t *side, int rank, const char *bounce, bool slow)
{
    memset(side, 0, sizeof(*side));
    side->rank = rank;
    mscclpp_config_init(&side->config);
    set(side, "ucx_bounce", bounce);
    side->gpu = slow ? slow_ops() : mscclpp_gpu_twin_ops;
    side->gpu.host_alloc = counted_host_alloc;
    side->ops = mscclpp_transport_find("ucx");
}

/* False if UCX cannot be used. */
static inline bool side_open(side_t *side, char *device, char *host, size_t length)
{
    const mscclpp_transport_params_t params = {.config = &side->config,
                                               .gpu = &side->gpu,
                                               .rank = side->rank,
                                               .size = 2,
                                               .one_host = side->one_host,
                                               .label = side->rank == 0 ? "side 0" : "side 1",
                                               .tokens = side->tokens,
                                               .token_count = TOKENS};

    if (side->ops == NULL || side->ops->create(&params, &side->flags, &side->transport) != MSCCLPP_OK) {
        return false;
    }
    side->memory[0] = device;
    side->memory[1] = host;
    side->length = length;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(side->ops->region_create(side->transport, side->memory[i], length, &side->regions[i]) == MSCCLPP_OK);
    }
    REQUIRE(side->ops->conn_create(side->transport, 1 - side->rank, &side->conn) == MSCCLPP_OK);
    return true;
}

static inline void side_card(side_t *side, card_t *card)
{
    memset(card, 0, sizeof(*card));
    REQUIRE(side->ops->conn_address(side->conn, card->address, &card->address_length) == MSCCLPP_OK);
    for (int i = 0; i < 2; ++i) {
        REQUIRE(side->ops->region_key(side->regions[i], card->keys[i], &card->key_lengths[i]) == MSCCLPP_OK);
    }
}

static inline void side_connect(side_t *side, const card_t *card)
{
    REQUIRE(side->ops->conn_connect(side->conn, card->address, card->address_length) == MSCCLPP_OK);
    for (int i = 0; i < 2; ++i) {
        REQUIRE(side->ops->remote_create(side->conn, card->keys[i], card->key_lengths[i], &side->remotes[i]) ==
                MSCCLPP_OK);
    }
}

static inline void side_disconnect(side_t *side)
{
    for (int i = 0; i < 2; ++i) {
        side->ops->remote_destroy(side->remotes[i]);
    }
    side->ops->conn_destroy(side->conn);
    side->conn = NULL;
}

static inline void side_close(side_t *side)
{
    if (side->conn != NULL) {
        side_disconnect(side);
    }
    for (int i = 0; i < 2; ++i) {
        side->ops->region_destroy(side->regions[i]);
    }
    side->ops->destroy(side->transport);
}

static inline bool ucx_works(void)
{
    static char memory[2];
    side_t side;

    side_init(&side, 0, "auto", false);
    if (!side_open(&side, memory, memory + 1, 1)) {
        return false;
    }
    side_close(&side);
    return true;
}

/* Two sides in this thread, with `length` bytes of each kind of memory each. */
static char *pair_memory;

static inline void pair_open(side_t *sides, size_t length)
{
    card_t cards[2];

    pair_memory = calloc(4, length);
    REQUIRE(pair_memory != NULL);
    slow_host = pair_memory + 2 * length;
    slow_host_size = 2 * length;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(side_open(&sides[i], pair_memory + (size_t)i * length, slow_host + (size_t)i * length, length));
        side_card(&sides[i], &cards[i]);
    }
    for (int i = 0; i < 2; ++i) {
        side_connect(&sides[i], &cards[1 - i]);
    }
}

static inline void pair_close(side_t *sides)
{
    side_close(&sides[0]);
    side_close(&sides[1]);
    free(pair_memory);
}

static inline void turn(side_t *sides)
{
    CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
    CHECK_EQ(sides[1].ops->progress(sides[1].transport), MSCCLPP_OK);
}

static inline void fill(char *memory, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; ++i) {
        memory[i] = (char)(i * 7 + i / 251 + seed * 31);
    }
}

static inline void put(side_t *sides, int to, uint64_t to_at, int from, uint64_t from_at, uint64_t length)
{
    double deadline = mscclpp_now() + DEADLINE;
    mscclpp_status_t status;

    while ((status = sides[0].ops->put(sides[0].conn, sides[0].remotes[to], to_at, sides[0].regions[from], from_at,
                                       length)) == MSCCLPP_IN_PROGRESS) {
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
    REQUIRE(status == MSCCLPP_OK);
}

static inline void signal_token(side_t *sides, uint32_t token)
{
    double deadline = mscclpp_now() + DEADLINE;
    mscclpp_status_t status;

    while ((status = sides[0].ops->signal(sides[0].conn, token)) == MSCCLPP_IN_PROGRESS) {
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
    REQUIRE(status == MSCCLPP_OK);
}

static inline void wait_token(side_t *sides, uint32_t token, uint64_t value)
{
    double deadline = mscclpp_now() + DEADLINE;

    while (__atomic_load_n(&sides[1].tokens[token], __ATOMIC_ACQUIRE) < value) {
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
}

static inline void settle(side_t *sides)
{
    double deadline = mscclpp_now() + DEADLINE;
    uint64_t ticket;

    REQUIRE(sides[0].ops->flush(sides[0].conn, &ticket) == MSCCLPP_OK);
    while (sides[0].ops->test(sides[0].conn, ticket) == MSCCLPP_IN_PROGRESS) {
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
    CHECK_EQ(sides[0].ops->test(sides[0].conn, ticket), MSCCLPP_OK);
}

#endif
