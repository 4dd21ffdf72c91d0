/*
 * Two ranks of one process that are connected by the transport verbs over mock_verbs, for unit tests. A program
 * includes this file once, behind unit.h.
 */
#ifndef TEST_UNIT_VERBS_PAIR_H
#define TEST_UNIT_VERBS_PAIR_H

#include <dlfcn.h>
#include <stdint.h>

#include "mca/common/transport/verbs/internal.h"
#include "test/unit/mock_verbs.h"
#include "test/unit/unit.h"

#define TOKENS 8
#define BYTES (1u << 20)

extern const mscclpp_transport_ops_t mscclpp_transport_verbs;

static const mscclpp_transport_ops_t *const ops = &mscclpp_transport_verbs;
static mock_verbs_t *mock;
static const char *mock_file;
static mscclpp_config_t config;
static mscclpp_gpu_ops_t fake_gpu; /* the twin, unless a test changes it */

/* One side of a connection of rank 0 and rank 1. */
typedef struct {
    uint64_t tokens[TOKENS];
    mscclpp_transport_t *transport;
    mscclpp_conn_t *conn;
    mscclpp_region_t *region;
    mscclpp_remote_t *remote;
    unsigned char *bytes;
    uint32_t flags;
} side_t;

static inline void reset(void)
{
    CHECK_EQ(mock->objects, 0);
    memset(mock, 0, sizeof(*mock));
    mock->devices = 1;
    mock->atomic_cap = IBV_ATOMIC_HCA;
    mock->link_layer = IBV_LINK_LAYER_ETHERNET;
    mock->max_message = 1u << 30;
    mock->max_inline = 128;
    mock->event = -1;
    for (int i = 0; i < MOCK_DEVICES_MAX; ++i) {
        mock->active[i] = true;
        mock->rate[i] = 32;
    }
    mock->gids[0].raw[0] = 0xfe;
    mock->gids[0].raw[1] = 0x80;
    mock->gids[0].raw[15] = 1;
    mock->gid_types[0] = IBV_GID_TYPE_ROCE_V2;
    mock->pkeys[0] = 0xffff;
    mscclpp_config_init(&config);
    config.verbs_library = mock_file;
    fake_gpu = mscclpp_gpu_twin_ops;
}

static inline mscclpp_status_t create(side_t *side, int rank)
{
    const mscclpp_transport_params_t params = {.config = &config,
                                               .gpu = &fake_gpu,
                                               .rank = rank,
                                               .size = 2,
                                               .label = "test",
                                               .tokens = side->tokens,
                                               .token_count = TOKENS};

    memset(side, 0, sizeof(*side));
    return ops->create(&params, &side->flags, &side->transport);
}

/* Closes this side's half of the connection. */
static inline void leave(side_t *side)
{
    ops->remote_destroy(side->remote);
    ops->conn_destroy(side->conn);
    side->remote = NULL;
    side->conn = NULL;
}

static inline void destroy(side_t *side)
{
    if (side->remote != NULL) {
        ops->remote_destroy(side->remote);
    }
    ops->conn_destroy(side->conn);
    if (side->region != NULL) {
        ops->region_destroy(side->region);
    }
    ops->destroy(side->transport);
    free(side->bytes);
    memset(side, 0, sizeof(*side));
}

static inline mscclpp_status_t join(side_t *side, const side_t *other)
{
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    size_t length = 0;

    CHECK_EQ(ops->conn_address(other->conn, address, &length), MSCCLPP_OK);
    return ops->conn_connect(side->conn, address, length);
}

static inline void share(side_t *side, const side_t *other)
{
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
    size_t length = 0;

    CHECK_EQ(ops->region_key(other->region, key, &length), MSCCLPP_OK);
    CHECK_EQ(ops->remote_create(side->conn, key, length, &side->remote), MSCCLPP_OK);
}

static inline void fill(side_t *side)
{
    for (uint32_t i = 0; i < BYTES; ++i) {
        side->bytes[i] = (unsigned char)(i * 7 + i / 251);
    }
}

/* Two connected sides, each with a region; side 0's is filled. */
static inline void open_pair(side_t sides[2])
{
    for (int i = 0; i < 2; ++i) {
        REQUIRE(create(&sides[i], i) == MSCCLPP_OK);
        sides[i].bytes = calloc(1, BYTES);
        REQUIRE(sides[i].bytes != NULL);
        REQUIRE(ops->conn_create(sides[i].transport, 1 - i, &sides[i].conn) == MSCCLPP_OK);
        REQUIRE(ops->region_create(sides[i].transport, sides[i].bytes, BYTES, &sides[i].region) == MSCCLPP_OK);
    }
    for (int i = 0; i < 2; ++i) {
        REQUIRE(join(&sides[i], &sides[1 - i]) == MSCCLPP_OK);
    }
    for (int i = 0; i < 2; ++i) {
        share(&sides[i], &sides[1 - i]);
    }
    fill(&sides[0]);
}

static inline void close_pair(side_t sides[2])
{
    destroy(&sides[0]);
    destroy(&sides[1]);
    CHECK_EQ(mock->objects, 0);
    CHECK_EQ(mock->receives, 0);
}

/* Rank 0 with a connection to each of the ranks 1 and 2: `ours`, of one instance. */
static inline void open_three(side_t ours[2], side_t theirs[2])
{
    REQUIRE(create(&ours[0], 0) == MSCCLPP_OK);
    memset(&ours[1], 0, sizeof(ours[1]));
    ours[1].transport = ours[0].transport;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(create(&theirs[i], i + 1) == MSCCLPP_OK);
        REQUIRE(ops->conn_create(ours[i].transport, i + 1, &ours[i].conn) == MSCCLPP_OK);
        REQUIRE(ops->conn_create(theirs[i].transport, 0, &theirs[i].conn) == MSCCLPP_OK);
        REQUIRE(join(&ours[i], &theirs[i]) == MSCCLPP_OK);
        REQUIRE(join(&theirs[i], &ours[i]) == MSCCLPP_OK);
    }
}

static inline void close_three(side_t ours[2], side_t theirs[2])
{
    destroy(&theirs[0]);
    destroy(&theirs[1]);
    ours[1].transport = NULL;
    destroy(&ours[1]);
    destroy(&ours[0]);
    CHECK_EQ(mock->objects, 0);
    CHECK_EQ(mock->receives, 0);
}

static inline mscclpp_status_t put(side_t *side, uint64_t at, uint64_t length)
{
    return ops->put(side->conn, side->remote, at, side->region, at, length);
}

static inline void progress(side_t sides[2])
{
    CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_OK);
    CHECK_EQ(ops->progress(sides[1].transport), MSCCLPP_OK);
}

/* Repeats a call for which there was no room, up to a number of tries. */
#define UNTIL_OK(sides_, call_)                                                                                        \
    do {                                                                                                               \
        int tries_ = 0;                                                                                                \
        mscclpp_status_t status_;                                                                                      \
        while ((status_ = (call_)) == MSCCLPP_IN_PROGRESS && ++tries_ < 10000) {                                       \
            progress(sides_);                                                                                          \
        }                                                                                                              \
        CHECK_EQ(status_, MSCCLPP_OK);                                                                                 \
    } while (0)

static inline void settle(side_t sides[2])
{
    uint64_t ticket = 0;

    UNTIL_OK(sides, ops->flush(sides[0].conn, &ticket));
    UNTIL_OK(sides, ops->test(sides[0].conn, ticket));
}

/* Each program calls this first. `file` is the shared object of the mock. */
static inline void open_mock(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    unit_begin();
    mock_file = file;
    REQUIRE(library != NULL);
    mock = dlsym(library, "mock_verbs");
    REQUIRE(mock != NULL);
}

#endif
