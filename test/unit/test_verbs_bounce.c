/* Device memory that no HCA can register: the transport verbs bounces it through pinned host memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include "test/unit/verbs_pair.h"

#define MEMORY ((size_t)8 << 20)
#define LATE_MAX 16

static unsigned char *memory; /* stands for a device's; touched by the HCA it would be a fault */
static size_t used;
static int copies, copies_left; /* made, and until one fails; 0: none does */
static int made;                /* pinned memory and streams */
static int made_left;           /* until one cannot be made; 0: all can */

/* With `lag` copies are made once their end has been asked for so many times, or is waited for. Of one stream. */
static int lag, asked;
static mscclpp_gpu_copy_t late[LATE_MAX];
static int late_count;

static void fake_query(const void *address, mscclpp_mem_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->kind = (const unsigned char *)address >= memory && (const unsigned char *)address < memory + MEMORY
                     ? MSCCLPP_MEM_DEVICE
                     : MSCCLPP_MEM_HOST;
}

static mscclpp_status_t fake_alloc(int device, size_t size, void **address_p)
{
    CHECK(device == 0 && used + size <= MEMORY);
    *address_p = memory + used;
    used += size;
    return MSCCLPP_OK;
}

static void fake_free(int device, void *address)
{
    CHECK(device == 0 && address != NULL);
}

static mscclpp_status_t fake_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    ++copies;
    if (copies_left > 0 && --copies_left == 0) {
        return MSCCLPP_ERR_SYSTEM;
    }
    if (lag > 0) {
        REQUIRE(late_count < LATE_MAX);
        late[late_count++] = (mscclpp_gpu_copy_t){.to = to, .from = from, .size = size};
        asked = 0;
        return MSCCLPP_OK;
    }
    return mscclpp_gpu_twin_ops.copy(stream, to, from, size);
}

static void make_late_copies(void)
{
    for (int i = 0; i < late_count; ++i) {
        memcpy(late[i].to, late[i].from, late[i].size);
    }
    late_count = 0;
}

static mscclpp_status_t fake_stream_query(mscclpp_gpu_stream_t *stream)
{
    if (late_count > 0 && ++asked < lag) {
        return MSCCLPP_IN_PROGRESS;
    }
    make_late_copies();
    return mscclpp_gpu_twin_ops.stream_query(stream);
}

static mscclpp_status_t fake_stream_sync(mscclpp_gpu_stream_t *stream)
{
    make_late_copies();
    return mscclpp_gpu_twin_ops.stream_sync(stream);
}

static mscclpp_status_t fake_host_alloc(size_t size, void **address_p, void **device_p)
{
    ++made;
    return made == made_left ? MSCCLPP_ERR_NO_MEMORY : mscclpp_gpu_twin_ops.host_alloc(size, address_p, device_p);
}

static mscclpp_status_t fake_stream_create(int device, mscclpp_gpu_stream_t **stream_p)
{
    ++made;
    return made == made_left ? MSCCLPP_ERR_SYSTEM : mscclpp_gpu_twin_ops.stream_create(device, stream_p);
}

static void use_fakes(void)
{
    reset();
    used = 0;
    copies = copies_left = made = made_left = lag = late_count = 0;
    fake_gpu.name = "cuda";
    fake_gpu.twin = false;
    fake_gpu.query = fake_query;
    fake_gpu.device_alloc = fake_alloc;
    fake_gpu.device_free = fake_free;
    fake_gpu.host_alloc = fake_host_alloc;
    fake_gpu.stream_create = fake_stream_create;
    fake_gpu.stream_query = fake_stream_query;
    fake_gpu.stream_sync = fake_stream_sync;
    fake_gpu.copy = fake_copy;
    mock->foreign = (uintptr_t)memory;
    mock->foreign_end = mock->foreign + MEMORY;
}

/* `bounced[i]`: side i's region lies in device memory. Neither way of registration works unless that is changed. */
static void open_sides(side_t sides[2], const char *mode, const bool bounced[2])
{
    use_fakes();
    config.verbs_mode = mode;
    for (int i = 0; i < 2; ++i) {
        void *bytes;
        REQUIRE(create(&sides[i], i) == MSCCLPP_OK);
        CHECK_EQ(sides[i].flags & (MSCCLPP_DEVICE_REGIONS | MSCCLPP_DEVICE_TOKENS), MSCCLPP_DEVICE_REGIONS);
        bytes = calloc(1, BYTES);
        if (bounced[i]) {
            free(bytes);
            REQUIRE(fake_alloc(0, BYTES, &bytes) == MSCCLPP_OK);
            memset(bytes, 0, BYTES);
        }
        sides[i].bytes = bytes;
        REQUIRE(ops->conn_create(sides[i].transport, 1 - i, &sides[i].conn) == MSCCLPP_OK);
        REQUIRE(ops->region_create(sides[i].transport, bytes, BYTES, &sides[i].region) == MSCCLPP_OK);
    }
    for (int i = 0; i < 2; ++i) {
        REQUIRE(join(&sides[i], &sides[1 - i]) == MSCCLPP_OK);
    }
    for (int i = 0; i < 2; ++i) {
        share(&sides[i], &sides[1 - i]);
    }
    fill(&sides[0]);
}

static void close_sides(side_t sides[2], const bool bounced[2])
{
    for (int i = 0; i < 2; ++i) {
        sides[i].bytes = bounced[i] ? NULL : sides[i].bytes;
    }
    close_pair(sides);
}

/* Bytes of all sizes, and a signal that nobody sees before them. */
static void test_puts(const char *mode, const bool bounced[2])
{
    static const uint32_t sizes[] = {1, 7, 64, 4097, 32768, 32769, 300001, BYTES};
    side_t sides[2];

    open_sides(sides, mode, bounced);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        const uint32_t size = sizes[i];
        mscclpp_status_t status = MSCCLPP_IN_PROGRESS;
        memset(sides[1].bytes, 0, BYTES);
        UNTIL_OK(sides, ops->put(sides[0].conn, sides[0].remote, BYTES - size, sides[0].region, 0, size));
        /* The sides take turns, so that each step of one is seen before the next of the other. */
        for (int turn = 0; turn < 10000 && sides[1].tokens[2] == i; ++turn) {
            status = status == MSCCLPP_IN_PROGRESS ? ops->signal(sides[0].conn, 2) : status;
            CHECK_EQ(ops->progress(sides[turn % 2].transport), MSCCLPP_OK);
        }
        CHECK_EQ(status, MSCCLPP_OK);
        CHECK_EQ(sides[1].tokens[2], i + 1);
        CHECK(memcmp(sides[0].bytes, sides[1].bytes + BYTES - size, size) == 0);
        CHECK(size == BYTES || sides[1].bytes[BYTES - size - 1] == 0);
        settle(sides);
    }
    CHECK(copies > 0);
    CHECK_EQ(ops->conn_status(sides[0].conn), MSCCLPP_OK);
    close_sides(sides, bounced);
}

/* Kernels wait while it is used: whatever the runtime has to make is there once the sides are connected. */
static void test_set_up(bool second_bounces)
{
    static const bool bounced[2] = {true, false};
    side_t sides[2];
    void *bytes;
    int before;

    use_fakes();
    REQUIRE(create(&sides[0], 0) == MSCCLPP_OK);
    mock->peermem = !second_bounces;
    REQUIRE(create(&sides[1], 1) == MSCCLPP_OK);
    REQUIRE(fake_alloc(0, BYTES, &bytes) == MSCCLPP_OK);
    sides[0].bytes = bytes;
    sides[1].bytes = calloc(1, BYTES);
    for (int i = 0; i < 2; ++i) {
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
    before = made;
    for (int i = 0; i < 2; ++i) {
        UNTIL_OK(sides, put(&sides[i], 0, BYTES));
        UNTIL_OK(sides, ops->add(sides[i].conn, sides[i].remote, 0, 1));
        UNTIL_OK(sides, ops->signal(sides[i].conn, 1));
        for (int turn = 0; turn < 1000 && sides[1 - i].tokens[1] == 0; ++turn) {
            progress(sides);
        }
        CHECK_EQ(sides[1 - i].tokens[1], 1);
    }
    CHECK(copies > 0);
    CHECK_EQ(made, before);
    close_sides(sides, bounced);
}

/* None of it can be missing unnoticed. */
static void test_lack(void)
{
    side_t side;
    mscclpp_status_t status = MSCCLPP_ERR_SYSTEM;

    for (int nth = 1; status != MSCCLPP_OK; ++nth) {
        use_fakes();
        REQUIRE(create(&side, 0) == MSCCLPP_OK);
        made = 0;
        made_left = nth;
        unit_expect_log();
        status = ops->conn_create(side.transport, 1, &side.conn);
        CHECK_EQ(status == MSCCLPP_OK, nth > 4);
        (void)unit_logged();
        destroy(&side);
        CHECK_EQ(mock->objects, 0);
    }
}

/* As if side 0 had sent so many slots, and side 1 carried them out. */
static void pretend(side_t sides[2], uint64_t slots)
{
    mscclpp_verbs_bounce_t *sender = sides[0].conn->bounce, *receiver = sides[1].conn->bounce;

    sender->freed = sender->posted = sender->copied = sender->begun = slots;
    sender->messages = sender->acknowledged = slots;
    receiver->arrived = receiver->issued = receiver->executed = receiver->acknowledged_to_peer = slots;
}

/*
 * Many puts of pieces, without a wait between them; those of registered memory keep their place among them. `before`
 * are the slots sent already.
 */
static void test_many(uint64_t before)
{
    static const bool bounced[2] = {true, true};
    unsigned char *host = calloc(1, 65536);
    mscclpp_region_t *region = NULL;
    side_t sides[2];

    open_sides(sides, "auto", bounced);
    pretend(sides, before);
    CHECK_EQ(ops->region_create(sides[0].transport, host, 65536, &region), MSCCLPP_OK);
    memset(host, 0x5a, 65536);
    for (uint32_t i = 0; i < 200; ++i) {
        const uint64_t at = i * 5003u;
        UNTIL_OK(sides, put(&sides[0], at, 5003));
        UNTIL_OK(sides, ops->put(sides[0].conn, sides[0].remote, at + 17, region, i, 100));
        UNTIL_OK(sides, put(&sides[0], at + 50, 20));
        if (i % 3 == 0) {
            UNTIL_OK(sides, ops->signal(sides[0].conn, 0));
        }
    }
    settle(sides);
    progress(sides);
    CHECK_EQ(sides[1].tokens[0], 67);
    CHECK(sides[0].conn->bounce->acknowledged >= before + 400);
    for (uint32_t i = 0; i < 200; ++i) {
        for (uint32_t j = 0; j < 5003; ++j) {
            const bool over = j >= 17 && j < 117 && !(j >= 50 && j < 70);
            const uint32_t at = i * 5003u + j;
            REQUIRE(sides[1].bytes[at] == (over ? 0x5a : sides[0].bytes[at]));
        }
    }
    ops->region_destroy(region);
    free(host);
    close_sides(sides, bounced);
}

static void test_adds(void)
{
    static const bool bounced[2] = {false, true};
    side_t sides[2];
    uint64_t sum = 0;

    open_sides(sides, "auto", bounced);
    for (uint64_t i = 1; i <= 100; ++i) {
        UNTIL_OK(sides, ops->add(sides[0].conn, sides[0].remote, 4096, i));
        UNTIL_OK(sides, put(&sides[0], 8192 + 8 * i, 8));
    }
    settle(sides);
    memcpy(&sum, sides[1].bytes + 4096, sizeof(sum));
    CHECK_EQ(sum, 5050);
    CHECK(memcmp(sides[0].bytes + 8200, sides[1].bytes + 8200, 800) == 0);
    close_sides(sides, bounced);
}

/* A copy that fails at either end: that end says so, and the other one is told. */
static void test_failure(int nth, int culprit)
{
    static const bool bounced[2] = {true, true};
    mscclpp_status_t status[2] = {MSCCLPP_OK, MSCCLPP_OK};
    uint64_t ticket = 0;
    side_t sides[2];

    open_sides(sides, "auto", bounced);
    unit_expect_log();
    copies_left = nth;
    (void)put(&sides[0], 0, 8);
    for (int i = 0; i < 200; ++i) {
        for (int k = 0; k < 2; ++k) {
            mscclpp_status_t now = ops->progress(sides[k].transport);
            status[k] = status[k] == MSCCLPP_OK ? now : status[k];
        }
    }
    CHECK(unit_logged() >= 1);
    CHECK_EQ(status[culprit], MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(ops->conn_status(sides[culprit].conn), MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(ops->conn_status(sides[1 - culprit].conn), MSCCLPP_ERR_PEER);
    CHECK(ops->flush(sides[0].conn, &ticket) < 0);
    close_sides(sides, bounced);
}

/* Rank 0, whose region is bounced, and two that reach it. */
static void open_target(side_t ours[2], side_t theirs[2])
{
    void *bytes;

    use_fakes();
    open_three(ours, theirs);
    REQUIRE(fake_alloc(0, BYTES, &bytes) == MSCCLPP_OK);
    memset(bytes, 0, BYTES);
    REQUIRE(ops->region_create(ours[0].transport, bytes, BYTES, &ours[0].region) == MSCCLPP_OK);
    ours[0].bytes = bytes;
    share(&theirs[0], &ours[0]);
    share(&theirs[1], &ours[0]);
}

static void close_target(side_t ours[2], side_t theirs[2])
{
    ours[0].bytes = NULL;
    close_three(ours, theirs);
}

enum { PEER_LEAVES, PEER_FAILS, COPY_FAILS, SIDE_LEAVES };

static bool is_adding(const side_t *side, int stage, int how)
{
    return how == COPY_FAILS ? ops->conn_status(side->conn) != MSCCLPP_OK
                             : side->transport->adding_conn == side->conn && side->conn->bounce->add_stage == stage;
}

/* An add that ends in the middle, after `stage` of its copies were begun: those of other connections go on. */
static void test_broken_add(int stage, int how)
{
    side_t ours[2], theirs[2];
    mscclpp_status_t status;
    uint64_t sum = 0, ticket = 0;
    int turn = 0;

    open_target(ours, theirs);
    lag = 3;
    copies_left = how == COPY_FAILS ? stage : 0;
    unit_expect_log();
    CHECK_EQ(ops->add(theirs[0].conn, theirs[0].remote, 8, 5), MSCCLPP_OK);
    for (; turn < 1000 && !is_adding(&ours[0], stage, how); ++turn) {
        (void)ops->progress(theirs[0].transport);
        (void)ops->progress(ours[0].transport);
    }
    CHECK(turn < 1000);
    if (how == PEER_LEAVES) {
        leave(&theirs[0]);
    } else if (how == PEER_FAILS) {
        mscclpp_verbs_send_control(theirs[0].conn->qps[0], MSCCLPP_VERBS_FAILURE);
        mscclpp_verbs_ring_doorbell(theirs[0].conn->qps[0]);
    } else if (how == SIDE_LEAVES) {
        ops->conn_destroy(ours[0].conn);
        ours[0].conn = NULL;
    }
    CHECK_EQ(ops->add(theirs[1].conn, theirs[1].remote, 8, 7), MSCCLPP_OK);
    for (turn = 0; turn < 1000 && (status = ops->flush(theirs[1].conn, &ticket)) == MSCCLPP_IN_PROGRESS; ++turn) {
        (void)ops->progress(ours[0].transport);
        (void)ops->progress(theirs[1].transport);
    }
    CHECK_EQ(unit_logged(), how == PEER_FAILS || how == COPY_FAILS);
    CHECK_EQ(status, MSCCLPP_OK);
    /* A sum that is on its way already comes before the next add reads the word. */
    memcpy(&sum, ours[0].bytes + 8, sizeof(sum));
    CHECK_EQ(sum, how != COPY_FAILS && stage == 2 ? 12 : 7);
    CHECK_EQ(ops->conn_status(ours[1].conn), MSCCLPP_OK);
    close_target(ours, theirs);
}

/* What one of two peers keeps sending, puts or adds, leaves the other one's add its turn. */
static void test_turns(int busy, bool adds)
{
    side_t ours[2], theirs[2];
    side_t *sender = &theirs[busy], *adder = &theirs[1 - busy];
    mscclpp_status_t status = MSCCLPP_IN_PROGRESS;
    uint64_t ticket = 0;

    open_target(ours, theirs);
    sender->bytes = calloc(1, BYTES);
    REQUIRE(sender->bytes != NULL);
    REQUIRE(ops->region_create(sender->transport, sender->bytes, BYTES, &sender->region) == MSCCLPP_OK);
    for (int turn = 0; turn < 1000 && status == MSCCLPP_IN_PROGRESS; ++turn) {
        (void)(adds ? ops->add(sender->conn, sender->remote, 0, 1) : put(sender, 4096, 4096));
        if (turn == 20) {
            CHECK_EQ(ops->add(adder->conn, adder->remote, 8, 7), MSCCLPP_OK);
        }
        CHECK_EQ(ops->progress(sender->transport), MSCCLPP_OK);
        CHECK_EQ(ops->progress(ours[0].transport), MSCCLPP_OK);
        CHECK_EQ(ops->progress(adder->transport), MSCCLPP_OK);
        status = turn >= 20 ? ops->flush(adder->conn, &ticket) : status;
    }
    CHECK_EQ(status, MSCCLPP_OK);
    CHECK_EQ(ours[0].bytes[8], 7);
    close_target(ours, theirs);
}

/* Bounced memory is its owner's again when its region has gone: no copy is under way into it. */
static void test_region_goes(void)
{
    side_t ours[2], theirs[2];

    open_target(ours, theirs);
    lag = 1000;
    CHECK_EQ(ops->add(theirs[0].conn, theirs[0].remote, 8, 5), MSCCLPP_OK);
    for (int turn = 0; turn < 10; ++turn) {
        CHECK_EQ(ops->progress(theirs[0].transport), MSCCLPP_OK);
        CHECK_EQ(ops->progress(ours[0].transport), MSCCLPP_OK);
    }
    CHECK_EQ(late_count, 1);
    ops->region_destroy(ours[0].region);
    ours[0].region = NULL;
    CHECK_EQ(late_count, 0);
    close_target(ours, theirs);
}

/* A peer that names memory which is none of the regions, or not all of it. */
static void test_intruder(bool adds)
{
    static const bool bounced[2] = {true, true};
    side_t sides[2];

    open_sides(sides, "auto", bounced);
    sides[0].remote->address += BYTES / 2;
    unit_expect_log();
    (void)(adds ? ops->add(sides[0].conn, sides[0].remote, BYTES / 2, 1) : put(&sides[0], 0, BYTES));
    for (int i = 0; i < 200; ++i) {
        (void)ops->progress(sides[0].transport);
        (void)ops->progress(sides[1].transport);
    }
    CHECK(unit_logged() >= 1);
    CHECK_EQ(ops->conn_status(sides[1].conn), MSCCLPP_ERR_PEER);
    CHECK_EQ(ops->conn_status(sides[0].conn), MSCCLPP_ERR_PEER);
    close_sides(sides, bounced);
}

/* What the peer could not carry out is nobody's concern any more once this side leaves. */
static void test_trouble_at_the_end(void)
{
    static const bool bounced[2] = {true, true};
    side_t sides[2];

    open_sides(sides, "auto", bounced);
    mscclpp_verbs_send_control(sides[1].conn->qps[0], MSCCLPP_VERBS_FAILURE);
    mscclpp_verbs_ring_doorbell(sides[1].conn->qps[0]);
    leave(&sides[0]);
    CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_OK);
    close_sides(sides, bounced);
}

/* A side that leaves with copies under way, and one that goes on with a peer that has left. */
static void test_leaving(void)
{
    static const bool bounced[2] = {true, true};
    uint64_t ticket = 0;
    side_t sides[2];

    open_sides(sides, "auto", bounced);
    CHECK_EQ(put(&sides[0], 0, BYTES), MSCCLPP_OK);
    for (int i = 0; i < 3; ++i) {
        progress(sides);
    }
    leave(&sides[1]);
    UNTIL_OK(sides, ops->signal(sides[0].conn, 0));
    UNTIL_OK(sides, ops->flush(sides[0].conn, &ticket));
    UNTIL_OK(sides, ops->test(sides[0].conn, ticket));
    UNTIL_OK(sides, put(&sides[0], 0, BYTES));
    CHECK_EQ(sides[1].tokens[0], 0);
    close_sides(sides, bounced);
}

int main(void)
{
    static const bool both[2] = {true, true}, source[2] = {true, false}, target[2] = {false, true};

    open_mock(MOCK_VERBS_LIBRARY);
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    test_puts("auto", both);
    test_puts("auto", source);
    test_puts("auto", target);
    test_puts("no_atomic", both);
    test_set_up(true);
    test_set_up(false);
    test_lack();
    test_many(0);
    test_many(MSCCLPP_VERBS_COUNT_MASK + 1 - 13 * MSCCLPP_VERBS_BOUNCE_SLOTS); /* messages hold the low bits alone */
    test_adds();
    test_failure(1, 0);
    test_failure(2, 1);
    for (int stage = 1; stage <= 2; ++stage) {
        test_broken_add(stage, PEER_LEAVES);
        test_broken_add(stage, PEER_FAILS);
        test_broken_add(stage, COPY_FAILS);
        test_broken_add(stage, SIDE_LEAVES);
    }
    for (int busy = 0; busy < 2; ++busy) {
        test_turns(busy, false);
        test_turns(busy, true);
    }
    test_region_goes();
    test_intruder(false);
    test_intruder(true);
    test_trouble_at_the_end();
    test_leaving();
    munmap(memory, MEMORY);
    return unit_end();
}
