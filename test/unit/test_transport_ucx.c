/*
 * What the conformance test of transports cannot see of the transport ucx: device memory that only the gpu operations
 * can touch and whose copies take their time, next to host memory; a bounce memory that is full; copies that fail.
 */
#include "test/unit/ucx_sides.h"

/* Between device and host memory, each in turn source and target: all bytes are there at the signal, however slow. */
static void test_copies(const char *bounce, const char *receiver_bounce, const char *bounce_size, bool slow)
{
    static const size_t sizes[] = {1, 8, 1000, 8192, 65536, 65537, 400000, 3};
    const size_t length = 512 * 1024;
    side_t sides[2];
    uint64_t signals = 0;

    for (int i = 0; i < 2; ++i) {
        side_init(&sides[i], i, i == 0 ? bounce : receiver_bounce, slow);
        set(&sides[i], "bounce_size", i == 0 ? bounce_size : "128k");
    }
    slow_copied = 0;
    slow_fail_after = -1;
    pair_open(sides, length);
    for (slow_lag = 0; slow_lag < 8; slow_lag += 3) {
        for (unsigned round = 0; round < 32; ++round) {
            const size_t size = sizes[round / 4];
            const int from = (int)(round & 1), to = (int)(round >> 1 & 1);

            fill(sides[0].memory[from], length, round + 1);
            memset(sides[1].memory[to], 0, length);
            put(sides, to, 5, from, 3, size);
            signal_token(sides, 1);
            wait_token(sides, 1, ++signals);
            CHECK(memcmp(sides[1].memory[to] + 5, sides[0].memory[from] + 3, size) == 0);
            CHECK_EQ(sides[1].memory[to][4], 0);
            CHECK_EQ(sides[1].memory[to][5 + size], 0);
            settle(sides);
        }
        /* Direct puts, copied ones and additions under one signal. */
        memset(sides[1].memory[0], 0, length);
        memset(sides[1].memory[1], 0, length);
        for (unsigned i = 0; i < 64; ++i) {
            put(sides, (int)(i & 1), 512 * i, (int)(i >> 1 & 1), 512 * i, 512);
            while (sides[0].ops->add(sides[0].conn, sides[0].remotes[i & 1], length - 64, i) == MSCCLPP_IN_PROGRESS) {
                turn(sides);
            }
        }
        signal_token(sides, 1);
        wait_token(sides, 1, ++signals);
        for (unsigned i = 0; i < 64; ++i) {
            CHECK(memcmp(sides[1].memory[i & 1] + 512 * i, sides[0].memory[i >> 1 & 1] + 512 * i, 512) == 0);
        }
        CHECK_EQ(*(uint64_t *)(void *)(sides[1].memory[0] + length - 64), 62 * 32 / 2);
        CHECK_EQ(*(uint64_t *)(void *)(sides[1].memory[1] + length - 64), 64 * 32 / 2);
        settle(sides);
    }
    CHECK_EQ(slow_copied > 0, slow);
    pair_close(sides);
}

/* The receiver does nothing: the sender takes a bounded number of operations and goes on when the receiver does. */
static void test_full(void)
{
    const size_t length = 1 << 20;
    side_t sides[2];
    int taken = 0;

    for (int i = 0; i < 2; ++i) {
        side_init(&sides[i], i, "always", true);
        set(&sides[i], "bounce_size", "64k");
    }
    slow_lag = 1;
    pair_open(sides, length);
    fill(sides[0].memory[0], length, 9);
    slow_copied = 0;
    for (int i = 0; i < 100000; ++i) {
        mscclpp_status_t status = sides[0].ops->put(sides[0].conn, sides[0].remotes[0], (uint64_t)i % 1024 * 1024,
                                                    sides[0].regions[0], (uint64_t)i % 1024 * 1024, 1024);
        REQUIRE(status == MSCCLPP_OK || status == MSCCLPP_IN_PROGRESS);
        taken += status == MSCCLPP_OK;
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
    }
    CHECK(taken >= 64 && taken <= 1024);
    CHECK(slow_copied <= SMALLEST / 1024); /* no more than there is room for */
    signal_token(sides, 0);
    wait_token(sides, 0, 1);
    CHECK(memcmp(sides[1].memory[0], sides[0].memory[0],
                 (size_t)taken * 1024 < length ? (size_t)taken * 1024 : length) == 0);
    settle(sides);
    pair_close(sides);
}

/* A copy fails, at either end: both ends learn of it, with a line each. */
static void test_copy_fails(void)
{
    for (int at = 0; at < 2; ++at) {
        double deadline = mscclpp_now() + DEADLINE;
        mscclpp_status_t statuses[2] = {MSCCLPP_OK, MSCCLPP_OK};
        side_t sides[2];
        uint64_t ticket;

        side_init(&sides[0], 0, "always", true);
        side_init(&sides[1], 1, "always", true);
        slow_lag = 0;
        slow_fail_after = -1;
        pair_open(sides, 4096);
        settle(sides);
        slow_fail_after = at; /* the first is the sender's */
        unit_expect_log();
        (void)sides[0].ops->put(sides[0].conn, sides[0].remotes[0], 0, sides[0].regions[0], 0, 4096);
        (void)sides[0].ops->signal(sides[0].conn, 0);
        while ((statuses[0] == MSCCLPP_OK || statuses[1] == MSCCLPP_OK) && mscclpp_now() < deadline) {
            for (int i = 0; i < 2; ++i) {
                mscclpp_status_t status = sides[i].ops->progress(sides[i].transport);
                statuses[i] = statuses[i] == MSCCLPP_OK ? status : statuses[i];
            }
        }
        CHECK_EQ(unit_logged(), 2);
        CHECK_EQ(statuses[at], MSCCLPP_ERR_DEVICE);
        CHECK_EQ(statuses[1 - at], MSCCLPP_ERR_PEER);
        CHECK_EQ(sides[at].ops->conn_status(sides[at].conn), MSCCLPP_ERR_DEVICE);
        CHECK(sides[0].ops->flush(sides[0].conn, &ticket) < 0);
        CHECK_EQ(sides[1].tokens[0], 0);
        slow_fail_after = -1;
        pair_close(sides);
    }
}

/* Closed with copies and messages under way at both ends: nothing touches the memory afterwards, as ASan can tell. */
static void test_closed_busy(void)
{
    for (int turns = 0; turns < 12; ++turns) {
        side_t sides[2];

        side_init(&sides[0], 0, "always", true);
        side_init(&sides[1], 1, "always", true);
        slow_lag = 5;
        pair_open(sides, 1 << 20);
        settle(sides);
        REQUIRE(sides[0].ops->put(sides[0].conn, sides[0].remotes[0], 0, sides[0].regions[0], 0, 1 << 20) ==
                MSCCLPP_OK);
        REQUIRE(sides[0].ops->add(sides[0].conn, sides[0].remotes[0], 0, 1) == MSCCLPP_OK);
        for (int i = 0; i < turns; ++i) {
            turn(sides);
        }
        unit_expect_log();
        if (turns % 2 == 0) {
            side_close(&sides[1]);
            side_close(&sides[0]);
        } else {
            side_close(&sides[0]);
            side_close(&sides[1]);
        }
        CHECK(unit_logged() <= 1);
        free(pair_memory);
    }
}

/* Adds to device memory that one of two peers keeps sending leave the other one's its turn. */
static void test_turns(int busy)
{
    side_t sides[2], other, second; /* the other one's connection, and that of side 1 to it */
    const side_t *const senders[2] = {&sides[0], &other};
    const side_t *sender = senders[busy], *adder = senders[1 - busy];
    mscclpp_status_t status = MSCCLPP_IN_PROGRESS;
    uint64_t tickets[2] = {0, 0}, sum = 0;
    card_t cards[2];

    slow_lag = 2;
    slow_fail_after = -1;
    side_init(&sides[0], 0, "always", true);
    side_init(&sides[1], 1, "always", true);
    side_init(&other, 0, "always", true);
    pair_open(sides, 4096);
    REQUIRE(side_open(&other, pair_memory, slow_host, 4096));
    second = sides[1];
    REQUIRE(second.ops->conn_create(second.transport, 0, &second.conn) == MSCCLPP_OK);
    side_card(&other, &cards[0]);
    side_card(&second, &cards[1]);
    side_connect(&other, &cards[1]);
    side_connect(&second, &cards[0]);
    for (int i = 0; i < 2000 && status == MSCCLPP_IN_PROGRESS; ++i) {
        while (sender->ops->add(sender->conn, sender->remotes[0], 0, 1) == MSCCLPP_OK) {
            ++sum;
        }
        if (i == 100) {
            REQUIRE(adder->ops->add(adder->conn, adder->remotes[0], 8, 7) == MSCCLPP_OK);
            REQUIRE(adder->ops->flush(adder->conn, &tickets[1]) == MSCCLPP_OK);
        }
        turn(sides);
        CHECK_EQ(other.ops->progress(other.transport), MSCCLPP_OK);
        status = i >= 100 ? adder->ops->test(adder->conn, tickets[1]) : status;
    }
    CHECK_EQ(status, MSCCLPP_OK);
    REQUIRE(sender->ops->flush(sender->conn, &tickets[0]) == MSCCLPP_OK);
    while (sender->ops->test(sender->conn, tickets[0]) == MSCCLPP_IN_PROGRESS) {
        turn(sides);
        CHECK_EQ(other.ops->progress(other.transport), MSCCLPP_OK);
    }
    CHECK(memcmp(sides[1].memory[0], &sum, sizeof(sum)) == 0);
    CHECK_EQ(sides[1].memory[0][8], 7);
    side_close(&other);
    side_disconnect(&second);
    pair_close(sides);
}

/* Puts between all regions, additions and signals. */
static void send_all(side_t *sides, int from)
{
    side_t *side = &sides[from];
    double deadline = mscclpp_now() + DEADLINE;
    uint64_t ticket = 0;

    for (unsigned i = 0; i < 4; ++i) {
        mscclpp_remote_t *remote = side->remotes[i & 1];
        REQUIRE(side->ops->put(side->conn, remote, 0, side->regions[i >> 1], 0, side->length) == MSCCLPP_OK);
        REQUIRE(side->ops->add(side->conn, remote, 0, 1) == MSCCLPP_OK);
        REQUIRE(side->ops->signal(side->conn, 1) == MSCCLPP_OK);
    }
    REQUIRE(side->ops->flush(side->conn, &ticket) == MSCCLPP_OK);
    while (side->ops->test(side->conn, ticket) == MSCCLPP_IN_PROGRESS) {
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
    CHECK_EQ(sides[1 - from].tokens[1], 4);
}

/*
 * Kernels wait while it is used: whatever the runtime has to make is there once the sides are connected. `made`: of it
 * how much, at both sides.
 */
static void test_set_up(const char *const *bounces, const bool *slow, int made)
{
    const size_t length = 2 << 20;
    side_t sides[2];

    for (int i = 0; i < 2; ++i) {
        side_init(&sides[i], i, bounces[i], slow[i]);
        set(&sides[i], "bounce_size", "64k");
    }
    slow_lag = 1;
    slow_fail_after = -1;
    slow_made = 0;
    pair_open(sides, length);
    CHECK_EQ(slow_made, made);
    send_all(sides, 0);
    send_all(sides, 1);
    CHECK_EQ(slow_made, made);
    pair_close(sides);
}

static void test_set_ups(void)
{
    static const char *const always[2] = {"always", "always"}, *const device[2] = {"device", "device"},
                             *const one[2] = {"device", "always"};
    static const bool none[2] = {false, false}, both[2] = {true, true}, second[2] = {false, true};

    /* Of memory for what comes, memory for what is sent, and two streams. */
    test_set_up(always, both, 2 * 4);
    test_set_up(device, both, 2 * 4);
    test_set_up(one, both, 2 * 4);
    test_set_up(device, second, 1 + 4);
    test_set_up(device, none, 0);
}

/* None of it can be missing unnoticed. */
static void test_lack(void)
{
    const size_t length = 4096;
    mscclpp_status_t status = MSCCLPP_ERR_SYSTEM;

    slow_host = NULL;
    slow_host_size = 0;
    for (int nth = 1; status != MSCCLPP_OK && nth < 10; ++nth) {
        char *memory = calloc(4, length);
        card_t cards[2];
        side_t sides[2];

        REQUIRE(memory != NULL);
        for (int i = 0; i < 2; ++i) {
            side_init(&sides[i], i, "always", true);
            REQUIRE(
                side_open(&sides[i], memory + 2 * (size_t)i * length, memory + (2 * (size_t)i + 1) * length, length));
            side_card(&sides[i], &cards[i]);
        }
        slow_made = 0;
        slow_made_left = nth;
        unit_expect_log();
        status = sides[0].ops->conn_connect(sides[0].conn, cards[1].address, cards[1].address_length);
        CHECK_EQ(status == MSCCLPP_OK, nth > 4);
        CHECK_EQ(unit_logged(), nth <= 4);
        CHECK_EQ(sides[0].ops->conn_status(sides[0].conn), status);
        slow_made_left = 0;
        for (int i = 0; i < 2; ++i) {
            side_close(&sides[i]);
        }
        free(memory);
    }
    CHECK_EQ(status, MSCCLPP_OK);
}

int main(void)
{
    unit_begin();
    if (!ucx_works()) {
        return unit_skip("UCX cannot be used");
    }
    test_copies("always", "always", "64k", true);
    test_copies("always", "always", "4m", true);
    test_copies("device", "device", "64k", true);
    test_copies("device", "always", "64k", true);
    /* As on nodes with and without RDMA devices: one reaches memory directly, and the other does not. */
    test_copies("device", "always", "4m", false);
    test_copies("always", "device", "4m", false);
    test_copies("device", "device", "4m", false);
    test_set_ups();
    test_lack();
    test_full();
    test_copy_fails();
    test_closed_busy();
    test_turns(0);
    test_turns(1);
    return unit_end();
}
