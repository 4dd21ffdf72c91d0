/*
 * Windows on memory of this very process, which the runtime lends at its own address as CUDA does: what the owner has
 * freed is refused, not written to, also when its address serves another buffer by then.
 */
#include "mca/common/transport/cuda_ipc/window.h"

#include "test/host/copying_gpu.h"
#include "test/unit/unit.h"

#define BYTES 4096

static const mscclpp_window_kind_t kind = {1, "test", "a key"};
static mscclpp_gpu_ops_t gpu;
static mscclpp_config_t config;
static uint64_t other_id; /* not 0: the runtime gives every address this identity */

static mscclpp_status_t lend(int device, const mscclpp_gpu_handle_t *handle, void **base_p)
{
    (void)device;
    *base_p = (void *)(uintptr_t)handle->address;
    return MSCCLPP_OK;
}

static void take_back(int device, const mscclpp_gpu_handle_t *handle, void *base)
{
    (void)device;
    (void)handle;
    (void)base;
}

static void query(const void *address, mscclpp_mem_info_t *info_p)
{
    mscclpp_gpu_twin_ops.query(address, info_p);
    info_p->buffer_id = other_id != 0 ? other_id : info_p->buffer_id;
}

static mscclpp_transport_params_t params_of(const mscclpp_gpu_ops_t *ops, void *tokens)
{
    return (mscclpp_transport_params_t){
        .config = &config, .gpu = ops, .size = 1, .label = "test", .tokens = tokens, .token_count = 1};
}

static void *allocate(void)
{
    void *address;

    REQUIRE(gpu.device_alloc(0, BYTES, &address) == MSCCLPP_OK);
    return address;
}

static void check_window(bool lent)
{
    void *memory = allocate();
    const mscclpp_transport_params_t params = params_of(&gpu, NULL);
    mscclpp_window_card_t card;
    mscclpp_window_t window;

    REQUIRE(mscclpp_window_describe(&params, &kind, (char *)memory + 64, 64, &card) == MSCCLPP_OK);
    card.handle.token += lent ? 0 : 1; /* some other process */
    REQUIRE(mscclpp_window_open(&params, &kind, 0, &card, sizeof(card), &window) == MSCCLPP_OK);
    CHECK_EQ(window.lent_id != 0, lent);
    CHECK(mscclpp_window_has_memory(&gpu, &window));
    other_id = 12345678;
    CHECK_EQ(mscclpp_window_has_memory(&gpu, &window), !lent);
    other_id = 0;
    gpu.device_free(0, memory);
    CHECK_EQ(mscclpp_window_has_memory(&gpu, &window), !lent);
    mscclpp_window_close(&window);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
}

/* The connection breaks, with one line that says why, and nothing is written. `tokens`: those are freed first. */
static void check_transport(bool tokens)
{
    const mscclpp_transport_ops_t *ops = mscclpp_transport_find("cuda_ipc");
    uint64_t *words = allocate();
    char *region = allocate(), *source = allocate();
    const mscclpp_transport_params_t params = params_of(&gpu, words);
    unsigned char bytes[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    mscclpp_region_t *regions[2];
    mscclpp_transport_t *transport;
    mscclpp_remote_t *remote;
    mscclpp_conn_t *conn;
    uint64_t ticket;
    uint32_t flags;
    size_t length;

    REQUIRE(ops->create(&params, &flags, &transport) == MSCCLPP_OK);
    CHECK((flags & MSCCLPP_LENT_REGIONS) != 0);
    REQUIRE(ops->region_create(transport, region, BYTES, &regions[0]) == MSCCLPP_OK);
    REQUIRE(ops->region_create(transport, source, BYTES, &regions[1]) == MSCCLPP_OK);
    REQUIRE(ops->conn_create(transport, 0, &conn) == MSCCLPP_OK);
    REQUIRE(ops->conn_address(conn, bytes, &length) == MSCCLPP_OK);
    REQUIRE(ops->conn_connect(conn, bytes, length) == MSCCLPP_OK);
    REQUIRE(ops->region_key(regions[0], bytes, &length) == MSCCLPP_OK);
    REQUIRE(ops->remote_create(conn, bytes, length, &remote) == MSCCLPP_OK);
    CHECK_EQ(ops->put(conn, remote, 0, regions[1], 0, BYTES), MSCCLPP_OK);
    CHECK_EQ(ops->signal(conn, 0), MSCCLPP_OK);
    CHECK_EQ(ops->flush(conn, &ticket), MSCCLPP_OK);
    while (ops->test(conn, ticket) == MSCCLPP_IN_PROGRESS) {
    }
    CHECK_EQ(ops->test(conn, ticket), MSCCLPP_OK);

    gpu.device_free(0, tokens ? (void *)words : region);
    unit_expect_log();
    CHECK_EQ(tokens ? ops->signal(conn, 0) : ops->put(conn, remote, 0, regions[1], 0, BYTES), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, tokens ? "has freed the tokens" : "has freed the region") != NULL);
    CHECK_EQ(ops->conn_status(conn), MSCCLPP_ERR_INVALID);
    CHECK_EQ(ops->put(conn, remote, 0, regions[1], 0, BYTES), MSCCLPP_ERR_INVALID);

    ops->remote_destroy(remote);
    ops->conn_destroy(conn);
    ops->region_destroy(regions[0]);
    ops->region_destroy(regions[1]);
    ops->destroy(transport);
    gpu.device_free(0, source);
    gpu.device_free(0, tokens ? region : (void *)words);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
}

int main(void)
{
    unit_begin();
    mscclpp_config_init(&config);
    gpu = *copying_gpu();
    gpu.query = query;
    gpu.import_memory = lend;
    gpu.close_memory = take_back;
    check_window(true);
    check_window(false);
    check_transport(false);
    check_transport(true);
    return unit_end();
}
