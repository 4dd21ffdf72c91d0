/* Which HCAs, ports and GIDs the transport verbs takes, how it sets them up, and what memory it registers how. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "test/unit/verbs_pair.h"

static void test_choice(void)
{
    side_t side;

    /* The fastest active one; equal ones are shared; by name; several. */
    reset();
    mock->devices = 4;
    mock->rate[2] = mock->rate[3] = 64;
    CHECK_EQ(create(&side, 0), MSCCLPP_OK);
    CHECK_TEXT(side.transport->rails[0].name, "mock2");
    destroy(&side);
    CHECK_EQ(create(&side, 1), MSCCLPP_OK);
    CHECK_TEXT(side.transport->rails[0].name, "mock3");
    destroy(&side);
    /* A width without lanes in the table is one lane: at 50 Gbit/s it is faster than four at 10. */
    mock->rate[0] = mock->rate[1] = 4;
    mock->width[2] = mock->width[3] = 3;
    CHECK_EQ(create(&side, 1), MSCCLPP_OK);
    CHECK_TEXT(side.transport->rails[0].name, "mock3");
    destroy(&side);
    mock->active[2] = mock->active[3] = false;
    CHECK_EQ(create(&side, 3), MSCCLPP_OK);
    CHECK_TEXT(side.transport->rails[0].name, "mock1");
    destroy(&side);
    config.verbs_devices = "mlx5_0,mock0";
    config.verbs_rails = 3;
    CHECK_EQ(create(&side, 1), MSCCLPP_OK);
    CHECK_EQ(side.transport->rail_count, 1);
    CHECK_TEXT(side.transport->rails[0].name, "mock0");
    destroy(&side);
    config.verbs_devices = "mock";
    CHECK_EQ(create(&side, 1), MSCCLPP_ERR_NOT_SUPPORTED);
    config.verbs_devices = "";
    CHECK_EQ(create(&side, 1), MSCCLPP_OK);
    CHECK_EQ(side.transport->rail_count, 2);
    destroy(&side);
    config.verbs_port = 2;
    CHECK_EQ(create(&side, 1), MSCCLPP_ERR_NOT_SUPPORTED);
    reset();
    mock->devices = 0;
    CHECK_EQ(create(&side, 1), MSCCLPP_ERR_NOT_SUPPORTED);
}

/* Ranks share HCAs of one kind of link only. */
static void test_kinds_of_link(void)
{
    static const char *const names[] = {"mock0", "mock2"};
    side_t side;

    reset();
    mock->devices = 4;
    mock->link_layer = IBV_LINK_LAYER_INFINIBAND;
    mock->link_layers[1] = IBV_LINK_LAYER_ETHERNET;
    mock->rate[3] = 16;
    for (int rank = 0; rank < 4; ++rank) {
        CHECK_EQ(create(&side, rank), MSCCLPP_OK);
        CHECK_TEXT(side.transport->rails[0].name, names[rank % 2]);
        destroy(&side);
    }
}

static void test_gids(void)
{
    side_t side;

    /* The best one wherever it stands; version 2 before 1, IPv4 before other routable ones before one link's. */
    reset();
    for (int i = 0; i < 4; ++i) {
        mock->gids[i] = mock->gids[0];
        mock->gid_types[i] = IBV_GID_TYPE_ROCE_V1;
    }
    mock->gid_types[1] = IBV_GID_TYPE_ROCE_V2;
    memset(&mock->gids[2], 0, sizeof(mock->gids[2]));
    memset(&mock->gids[2].raw[10], 0xff, 2);
    mock->gids[2].raw[12] = 10;
    memset(&mock->gids[3], 0, sizeof(mock->gids[3]));
    CHECK_EQ(create(&side, 0), MSCCLPP_OK);
    CHECK_EQ(side.transport->rails[0].gid_index, 1);
    destroy(&side);
    mock->gid_types[2] = IBV_GID_TYPE_ROCE_V2;
    CHECK_EQ(create(&side, 0), MSCCLPP_OK);
    CHECK_EQ(side.transport->rails[0].gid_index, 2);
    destroy(&side);
    config.verbs_gid_index = 0;
    CHECK_EQ(create(&side, 0), MSCCLPP_OK);
    CHECK_EQ(side.transport->rails[0].gid_index, 0);
    destroy(&side);
    for (int index = 3; index < 5; ++index) {
        config.verbs_gid_index = index;
        unit_expect_log();
        CHECK_EQ(create(&side, 0), MSCCLPP_ERR_INVALID);
        CHECK_EQ(unit_logged(), 1);
        CHECK(strstr(unit_last_line, "verbs_gid_index") != NULL);
    }
    reset();
    memset(mock->gids, 0, sizeof(mock->gids));
    CHECK_EQ(create(&side, 0), MSCCLPP_ERR_NOT_SUPPORTED);
    /* InfiniBand needs none. */
    mock->link_layer = IBV_LINK_LAYER_INFINIBAND;
    CHECK_EQ(create(&side, 0), MSCCLPP_OK);
    CHECK_EQ(side.transport->rails[0].gid_index, -1);
    destroy(&side);
}

/* GIDs between which no packet travels are refused in words. */
static void test_unreachable(void)
{
    side_t sides[2];

    reset();
    memset(&mock->gids[1].raw[10], 0xff, 2);
    mock->gids[1].raw[12] = 10;
    mock->gid_types[1] = IBV_GID_TYPE_ROCE_V2;
    CHECK_EQ(create(&sides[0], 0), MSCCLPP_OK);
    config.verbs_gid_index = 0;
    CHECK_EQ(create(&sides[1], 1), MSCCLPP_OK);
    CHECK_EQ(ops->conn_create(sides[0].transport, 1, &sides[0].conn), MSCCLPP_OK);
    CHECK_EQ(ops->conn_create(sides[1].transport, 0, &sides[1].conn), MSCCLPP_OK);
    CHECK_EQ(join(&sides[0], &sides[1]), MSCCLPP_ERR_NOT_SUPPORTED);
    close_pair(sides);
}

static void test_parameters(void)
{
    side_t sides[2];

    reset();
    config.verbs_service_level = 3;
    config.verbs_traffic_class = 106;
    config.verbs_timeout = 14;
    config.verbs_retry_count = 5;
    config.verbs_rnr_retry = 6;
    config.verbs_mtu = "1024";
    config.verbs_relaxed_ordering = true;
    open_pair(sides);
    CHECK_EQ(mock->rtr.ah_attr.sl, 3);
    CHECK_EQ(mock->rtr.ah_attr.grh.traffic_class, 106);
    CHECK_EQ(mock->rtr.ah_attr.is_global, 1);
    CHECK_EQ(mock->rtr.path_mtu, IBV_MTU_1024);
    CHECK_EQ(mock->rtr.max_dest_rd_atomic, 8);
    CHECK_EQ(mock->rts.max_rd_atomic, 4);
    CHECK_EQ(mock->rts.timeout, 14);
    CHECK_EQ(mock->rts.retry_cnt, 5);
    CHECK_EQ(mock->rts.rnr_retry, 6);
    CHECK((mock->last_access & IBV_ACCESS_RELAXED_ORDERING) != 0);
    /* Never on tokens. */
    CHECK_EQ(sides[0].transport->rails[0].token_mr->handle & IBV_ACCESS_RELAXED_ORDERING, 0);
    close_pair(sides);

    /* One InfiniBand subnet: LIDs, and no global routing; and a device that takes nothing inline. */
    reset();
    mock->link_layer = IBV_LINK_LAYER_INFINIBAND;
    mock->max_inline = 0;
    open_pair(sides);
    CHECK_EQ(mock->rtr.ah_attr.is_global, 0);
    CHECK_EQ(mock->rtr.ah_attr.dlid, 1);
    CHECK_EQ(put(&sides[0], 0, 16), MSCCLPP_OK);
    settle(sides);
    CHECK_EQ(mock->inlined, 0);
    CHECK(memcmp(sides[0].bytes, sides[1].bytes, 16) == 0);
    close_pair(sides);
}

/* InfiniBand ports that want a global routing header: of either side. The GID is said, and needed, then. */
static void test_required_grh(void)
{
    side_t sides[2];

    for (int culprit = 0; culprit < 2; ++culprit) {
        reset();
        mock->devices = 2;
        mock->link_layer = IBV_LINK_LAYER_INFINIBAND;
        mock->port_flags[culprit] = IBV_QPF_GRH_REQUIRED;
        for (int i = 0; i < 2; ++i) {
            REQUIRE(create(&sides[i], i) == MSCCLPP_OK);
            REQUIRE(ops->conn_create(sides[i].transport, 1 - i, &sides[i].conn) == MSCCLPP_OK);
        }
        for (int i = 0; i < 2; ++i) {
            memset(&mock->rtr, 0, sizeof(mock->rtr));
            CHECK_EQ(join(&sides[i], &sides[1 - i]), MSCCLPP_OK);
            CHECK_EQ(mock->rtr.ah_attr.is_global, 1);
            CHECK_EQ(mock->rtr.ah_attr.dlid, 2 - i);
            CHECK(memcmp(&mock->rtr.ah_attr.grh.dgid, &mock->gids[0], sizeof(mock->gids[0])) == 0);
        }
        close_pair(sides);
        memset(mock->gids, 0, sizeof(mock->gids));
        for (int i = 0; i < 2; ++i) {
            REQUIRE(create(&sides[i], i) == MSCCLPP_OK);
            REQUIRE(ops->conn_create(sides[i].transport, 1 - i, &sides[i].conn) == MSCCLPP_OK);
        }
        CHECK_EQ(join(&sides[0], &sides[1]), MSCCLPP_ERR_NOT_SUPPORTED);
        close_pair(sides);
    }
}

/* The first partition of full members; limited members and entries not in use come before it. */
static void test_partition(void)
{
    static const uint16_t pkeys[][4] = {
        {0xffff, 0x8001, 0, 0}, {0x7fff, 0x8001, 0x8002, 0}, {0, 0x8000, 0x1234, 0x9234}, {0x7fff, 0, 0, 0x0001}};
    static const int chosen[] = {0, 1, 3, 0};
    side_t sides[2];

    for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); ++i) {
        reset();
        memcpy(mock->pkeys, pkeys[i], sizeof(mock->pkeys));
        mock->pkey_index = -1;
        open_pair(sides);
        CHECK_EQ(mock->pkey_index, chosen[i]);
        close_pair(sides);
    }
}

/* Devices that hold fewer work requests than they say. */
static void test_depth(void)
{
    static const uint32_t limits[] = {200, 16, 33};
    static const uint32_t depths[] = {128, 16, 32};
    side_t sides[2];

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); ++i) {
        reset();
        mock->max_depth = limits[i];
        open_pair(sides);
        CHECK_EQ(sides[0].conn->qps[0]->depth, depths[i]);
        CHECK_EQ(sides[0].conn->qps[0]->max_inline_bytes, 128);
        for (uint32_t k = 0; k < 1000; ++k) {
            UNTIL_OK(sides, put(&sides[0], k * 200u, 200));
            UNTIL_OK(sides, ops->signal(sides[0].conn, 0));
        }
        settle(sides);
        CHECK_EQ(sides[1].tokens[0], 1000);
        CHECK(memcmp(sides[0].bytes, sides[1].bytes, 200000) == 0);
        close_pair(sides);
    }
    reset();
    mock->max_depth = 15;
    CHECK_EQ(create(&sides[0], 0), MSCCLPP_OK);
    unit_expect_log();
    CHECK(ops->conn_create(sides[0].transport, 1, &sides[0].conn) != MSCCLPP_OK);
    CHECK_EQ(unit_logged(), 1);
    destroy(&sides[0]);
}

static void read_all(void *transport)
{
    const volatile unsigned char *bytes = transport;
    unsigned sum = 0;

    for (size_t i = 0; i < sizeof(struct mscclpp_transport); ++i) {
        sum += bytes[i];
    }
    CHECK(sum > 0);
}

/* A child has all that its parent had, but for what the HCA writes. */
static void test_fork(void)
{
    /* Apart from everything else, for the tokens in it are registered. */
    side_t *side = mmap(NULL, sizeof(*side), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(side != MAP_FAILED);
    reset();
    mock->fork_safe = true;
    REQUIRE(create(side, 0) == MSCCLPP_OK);
    CHECK_EQ((uintptr_t)side->transport->scratch % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    unit_join(unit_fork(read_all, side->transport));
    destroy(side);
    munmap(side, sizeof(*side));
}

/* A runtime whose device memory the CPU cannot touch. */
static void fake_query(const void *address, mscclpp_mem_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->kind = (uintptr_t)address >= mock->foreign && (uintptr_t)address < mock->foreign_end ? MSCCLPP_MEM_DEVICE
                                                                                               : MSCCLPP_MEM_HOST;
}

static mscclpp_status_t fake_export(const void *address, size_t length, int *fd_p, uint64_t *offset_p)
{
    (void)length;
    *fd_p = open("/dev/null", O_RDWR | O_CLOEXEC);
    *offset_p = (uintptr_t)address & 4095;
    return MSCCLPP_OK;
}

static unsigned char memory[65536 + 4096];

static mscclpp_status_t fake_alloc(int device, size_t size, void **address_p)
{
    CHECK(size <= sizeof(memory) && device == 0);
    *address_p = memory;
    return MSCCLPP_OK;
}

static void fake_free(int device, void *address)
{
    CHECK(address == memory && device == 0);
}

static int free_descriptor(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

static void test_device_memory(void)
{
    static const char *const ways[] = {"dmabuf", "peermem", "dmabuf"};
    mscclpp_region_t *region = NULL;
    side_t sides[2];
    int before;

    reset();
    fake_gpu.name = "cuda";
    fake_gpu.twin = false;
    fake_gpu.query = fake_query;
    fake_gpu.export_dmabuf = fake_export;
    fake_gpu.device_alloc = fake_alloc;
    fake_gpu.device_free = fake_free;
    mock->foreign = (uintptr_t)memory;
    mock->foreign_end = mock->foreign + sizeof(memory);
    /* What is promised is what was tried. */
    for (int i = 0; i < 3; ++i) {
        config.verbs_registration = ways[i];
        CHECK_EQ(create(&sides[0], 0), MSCCLPP_OK);
        CHECK_EQ(sides[0].flags & (MSCCLPP_DEVICE_REGIONS | MSCCLPP_DEVICE_TOKENS), 0);
        CHECK_EQ(ops->region_create(sides[0].transport, memory, 5000, &region), MSCCLPP_ERR_NOT_SUPPORTED);
        destroy(&sides[0]);
        mock->dmabuf = i == 0; /* the way that is not asked for */
        mock->peermem = i == 1;
    }
    config.verbs_registration = "auto";
    mock->dmabuf = true;
    mock->peermem = false;
    config.verbs_mode = "no_atomic";
    CHECK_EQ(create(&sides[0], 0), MSCCLPP_OK);
    CHECK_EQ(sides[0].flags & (MSCCLPP_DEVICE_REGIONS | MSCCLPP_DEVICE_TOKENS), MSCCLPP_DEVICE_REGIONS);
    destroy(&sides[0]);
    config.verbs_mode = "auto";
    open_pair(sides);
    CHECK((sides[0].flags & MSCCLPP_DEVICE_REGIONS) != 0 && (sides[0].flags & MSCCLPP_DEVICE_TOKENS) != 0);
    before = free_descriptor();
    mock->dmabuf_mrs = 0;
    REQUIRE(ops->region_create(sides[0].transport, memory + 100, 5000, &region) == MSCCLPP_OK);
    CHECK_EQ(mock->dmabuf_mrs, 1);
    CHECK_EQ(mock->dmabuf_offset, ((uintptr_t)memory + 100) & 4095);
    CHECK_EQ(free_descriptor(), before);
    /* Inline data is read by the CPU. */
    CHECK_EQ(ops->put(sides[0].conn, sides[0].remote, 0, region, 0, 8), MSCCLPP_OK);
    settle(sides);
    CHECK_EQ(mock->inlined, 0);
    CHECK_EQ(put(&sides[0], 64, 8), MSCCLPP_OK);
    settle(sides);
    CHECK_EQ(mock->inlined, 1);
    ops->region_destroy(region);

    mock->dmabuf = false;
    CHECK_EQ(ops->region_create(sides[0].transport, memory, 5000, &region), MSCCLPP_ERR_NOT_SUPPORTED);
    mock->peermem = true;
    CHECK_EQ(ops->region_create(sides[0].transport, memory, 5000, &region), MSCCLPP_OK);
    CHECK_EQ(mock->dmabuf_mrs, 1);
    ops->region_destroy(region);
    fake_gpu.export_dmabuf = NULL;
    CHECK_EQ(ops->region_create(sides[0].transport, memory, 5000, &region), MSCCLPP_OK);
    ops->region_destroy(region);
    CHECK_EQ(free_descriptor(), before);
    close_pair(sides);
}

static void test_distance(void)
{
    const char *const gpu = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";

    CHECK_EQ(mscclpp_verbs_path_distance(gpu, gpu), 0);
    CHECK_EQ(mscclpp_verbs_path_distance(gpu, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1"), 2);
    CHECK_EQ(mscclpp_verbs_path_distance(gpu, "/sys/devices/pci0000:00/0000:00:01.0"), 1);
    CHECK_EQ(mscclpp_verbs_path_distance(gpu, "/sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0"), 4);
    CHECK_EQ(mscclpp_verbs_path_distance(gpu, "/sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0"), 6);
    CHECK_EQ(mscclpp_verbs_path_distance(gpu, ""), INT_MAX);
    CHECK_EQ(mscclpp_verbs_path_distance("", gpu), INT_MAX);
}

static char bus_id[sizeof(((mscclpp_gpu_info_t *)NULL)->pci_bus_id)]; /* of a device that stands for the GPU */

static mscclpp_status_t fake_info(int device, mscclpp_gpu_info_t *info_p)
{
    const mscclpp_status_t status = mscclpp_gpu_twin_ops.device_info(device, info_p);

    memcpy(info_p->pci_bus_id, bus_id, sizeof(bus_id));
    return status;
}

/* The bus id of any device on the machine's buses, and its path; false if there is none. */
static bool find_device(char *path, size_t size)
{
    DIR *folder = opendir("/sys/bus/pci/devices");
    struct dirent *entry = NULL;

    path[0] = '\0';
    while (folder != NULL && (entry = readdir(folder)) != NULL && entry->d_name[0] == '.') {
    }
    if (entry != NULL && strlen(entry->d_name) < sizeof(bus_id)) {
        memcpy(bus_id, entry->d_name, strlen(entry->d_name) + 1);
        mscclpp_verbs_path_of_gpu(bus_id, path, size);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return path[0] != '\0';
}

/* Of two HCAs in sysfs the one beside the GPU, though the other one is faster and comes first. */
static void test_nearest(void)
{
    static const char *const names[] = {"mock0", "mock1"};
    char folder[] = "/tmp/mscclpp-hca-XXXXXX", far[64], near[64], link[80], path[PATH_MAX];
    side_t side;

    if (!find_device(path, sizeof(path))) {
        printf("nearest HCA: not tested, as this machine has no device on a PCI bus\n");
        return;
    }
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(far, sizeof(far), "%s/far", folder);
    snprintf(near, sizeof(near), "%s/near", folder);
    snprintf(link, sizeof(link), "%s/device", far);
    REQUIRE(mkdir(far, 0700) == 0 && mkdir(near, 0700) == 0 && symlink("/sys/devices/system/cpu", link) == 0);
    snprintf(link, sizeof(link), "%s/device", near);
    REQUIRE(symlink(path, link) == 0);

    for (int i = 0; i < 2; ++i) {
        reset();
        fake_gpu.name = "cuda";
        fake_gpu.twin = false;
        fake_gpu.device_info = fake_info;
        mock->devices = 2;
        mock->rate[1 - i] = 64;
        mock->paths[1 - i] = far;
        mock->paths[i] = near;
        for (int rank = 0; rank < 2; ++rank) {
            CHECK_EQ(create(&side, rank), MSCCLPP_OK);
            CHECK_EQ(side.transport->rail_count, 1);
            CHECK_TEXT(side.transport->rails[0].name, names[i]);
            destroy(&side);
        }
    }
    unlink(link);
    snprintf(link, sizeof(link), "%s/device", far);
    unlink(link);
    CHECK(rmdir(far) == 0 && rmdir(near) == 0 && rmdir(folder) == 0);
}

int main(void)
{
    open_mock(MOCK_VERBS_LIBRARY);
    test_choice();
    test_kinds_of_link();
    test_gids();
    test_unreachable();
    test_parameters();
    test_required_grh();
    test_partition();
    test_depth();
    test_fork();
    test_device_memory();
    test_distance();
    test_nearest();
    return unit_end();
}
