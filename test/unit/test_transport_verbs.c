/* Operations of the transport verbs: signals in both modes, room, failures, and several rails. */
#include "test/unit/verbs_pair.h"

static void test_signals(const char *mode, bool atomic)
{
    side_t sides[2];

    reset();
    config.verbs_mode = mode;
    open_pair(sides);
    CHECK_EQ((sides[0].flags & MSCCLPP_CAN_ADD) != 0, atomic);
    for (int i = 0; i < 1000; ++i) {
        UNTIL_OK(sides, put(&sides[0], (uint64_t)i, 50));
        UNTIL_OK(sides, ops->signal(sides[0].conn, 3));
        if (i % 50 == 49) {
            progress(sides);
        }
    }
    settle(sides);
    progress(sides);
    CHECK_EQ(sides[1].tokens[3], 1000);
    CHECK_EQ(sides[1].tokens[2] + sides[1].tokens[4], 0);
    CHECK(memcmp(sides[0].bytes, sides[1].bytes, 1049) == 0);
    /* Chains, inline, and few completions. */
    CHECK(mock->requests >= 2000 && mock->requests < 2010);
    CHECK(mock->doorbells < 2000 / 8);
    CHECK(mock->signalled <= 2000 / 64 + 4);
    CHECK(mock->inlined >= 1000);
    if (!atomic) {
        CHECK(mock->receives > 512 - 64 && mock->receives <= 512);
        CHECK_EQ(ops->add(sides[0].conn, sides[0].remote, 0, 1), MSCCLPP_ERR_NOT_SUPPORTED);
    } else {
        CHECK_EQ(mock->receives, 64); /* for control messages */
        CHECK_EQ(ops->add(sides[0].conn, sides[0].remote, 2048, 5), MSCCLPP_OK);
        settle(sides);
        sides[0].bytes[2048] = (unsigned char)(sides[1].bytes[2048]);
        CHECK_EQ(sides[1].bytes[2048], 5);
    }
    close_pair(sides);
}

/* Modes of which one side wants the other one, and a rank that would have both. */
static void test_agreement(void)
{
    side_t sides[2];
    side_t third;

    reset();
    REQUIRE(create(&sides[0], 0) == MSCCLPP_OK);
    config.verbs_mode = "no_atomic";
    REQUIRE(create(&sides[1], 1) == MSCCLPP_OK);
    config.verbs_mode = "auto";
    REQUIRE(create(&third, 2) == MSCCLPP_OK);
    REQUIRE(ops->conn_create(sides[0].transport, 1, &sides[0].conn) == MSCCLPP_OK);
    REQUIRE(ops->conn_create(sides[1].transport, 0, &sides[1].conn) == MSCCLPP_OK);
    REQUIRE(ops->conn_create(third.transport, 0, &third.conn) == MSCCLPP_OK);
    CHECK_EQ(join(&sides[0], &sides[1]), MSCCLPP_OK);
    CHECK_EQ(join(&sides[1], &sides[0]), MSCCLPP_OK);
    for (int i = 0; i < 2; ++i) {
        CHECK_EQ(ops->signal(sides[i].conn, 1), MSCCLPP_OK);
    }
    progress(sides);
    progress(sides);
    CHECK_EQ(sides[0].tokens[1], 1);
    CHECK_EQ(sides[1].tokens[1], 1);
    /* An add takes both sides. */
    CHECK((sides[0].flags & MSCCLPP_CAN_ADD) != 0 && (sides[1].flags & MSCCLPP_CAN_ADD) == 0);
    sides[1].bytes = calloc(1, BYTES);
    REQUIRE(ops->region_create(sides[1].transport, sides[1].bytes, BYTES, &sides[1].region) == MSCCLPP_OK);
    share(&sides[0], &sides[1]);
    CHECK_EQ(ops->add(sides[0].conn, sides[0].remote, 0, 1), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(ops->conn_status(sides[0].conn), MSCCLPP_OK);
    ops->conn_destroy(sides[1].conn);
    sides[1].conn = NULL;
    REQUIRE(ops->conn_create(sides[0].transport, 2, &sides[1].conn) == MSCCLPP_OK);
    CHECK_EQ(join(&sides[1], &third), MSCCLPP_ERR_NOT_SUPPORTED);
    destroy(&third);
    destroy(&sides[1]);
    destroy(&sides[0]);

    mock->atomic_cap = IBV_ATOMIC_NONE;
    config.verbs_mode = "atomic";
    CHECK_EQ(create(&third, 0), MSCCLPP_ERR_NOT_SUPPORTED);
    config.verbs_mode = "auto";
    CHECK_EQ(create(&third, 0), MSCCLPP_OK);
    CHECK_EQ(third.flags & MSCCLPP_CAN_ADD, 0);
    destroy(&third);
    config.verbs_library = "/nowhere/libibverbs.so";
    CHECK_EQ(create(&third, 0), MSCCLPP_ERR_NOT_SUPPORTED);
}

/* No room is said, and ends; a put that is longer than the queue goes on by itself. */
static void test_admission(void)
{
    side_t sides[2];
    uint64_t ticket = 0;
    int taken = 0;

    reset();
    mock->max_message = 4096;
    config.verbs_queue_depth = 16;
    open_pair(sides);
    mock->held = true;
    while (taken < 100 && put(&sides[0], 0, 8) == MSCCLPP_OK) {
        ++taken;
    }
    CHECK_EQ(taken, 16);
    progress(sides);
    CHECK_EQ(put(&sides[0], 0, 8), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(ops->signal(sides[0].conn, 0), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(ops->add(sides[0].conn, sides[0].remote, 0, 1), MSCCLPP_IN_PROGRESS);
    mock->held = false;
    settle(sides);
    mock->held = true;
    CHECK_EQ(put(&sides[0], 5, 1000001), MSCCLPP_OK);
    CHECK_EQ(ops->signal(sides[0].conn, 0), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(ops->flush(sides[0].conn, &ticket), MSCCLPP_IN_PROGRESS);
    mock->held = false;
    UNTIL_OK(sides, ops->signal(sides[0].conn, 0));
    settle(sides);
    CHECK_EQ(sides[1].tokens[0], 1);
    CHECK_EQ(mock->largest, 4096);
    CHECK(memcmp(sides[0].bytes + 5, sides[1].bytes + 5, 1000001) == 0);
    CHECK_EQ(ops->test(sides[0].conn, 0), MSCCLPP_OK);
    close_pair(sides);
}

/* One line that names the peer, the device and the cause; then the connection is broken for good. */
static void check_broken(side_t sides[2], mscclpp_status_t expected, const char *cause)
{
    mscclpp_status_t status = MSCCLPP_OK;
    uint64_t ticket = 0;

    unit_expect_log();
    for (int i = 0; i < 3000 && status == MSCCLPP_OK; ++i) {
        status = ops->progress(sides[0].transport);
    }
    CHECK_EQ(unit_logged(), 1);
    CHECK_EQ(status, expected);
    CHECK(strstr(unit_last_line, "rank 1") != NULL && strstr(unit_last_line, "mock0") != NULL);
    CHECK(strstr(unit_last_line, cause) != NULL);
    CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_OK);
    CHECK_EQ(ops->conn_status(sides[0].conn), expected);
    CHECK_EQ(put(&sides[0], 0, 1), expected);
    CHECK_EQ(ops->signal(sides[0].conn, 0), expected);
    CHECK_EQ(ops->flush(sides[0].conn, &ticket), expected);
    CHECK_EQ(ops->test(sides[0].conn, 1u << 20), expected);
}

static void test_errors(void)
{
    side_t sides[2];

    reset();
    open_pair(sides);
    mock->fail_after = 5;
    mock->fail_status = IBV_WC_RETRY_EXC_ERR;
    for (int i = 0; i < 10; ++i) {
        CHECK_EQ(put(&sides[0], 0, 100), MSCCLPP_OK);
    }
    check_broken(sides, MSCCLPP_ERR_PEER, "transport retry counter exceeded (status 12, vendor code 0x77)");
    close_pair(sides);

    reset();
    open_pair(sides);
    mock->refuse_after = 1;
    CHECK_EQ(put(&sides[0], 0, 100), MSCCLPP_OK);
    check_broken(sides, MSCCLPP_ERR_SYSTEM, "refused: Cannot allocate memory");
    close_pair(sides);

    /* A side that only receives learns it from an event. */
    reset();
    config.verbs_devices = "mock0";
    open_pair(sides);
    leave(&sides[1]);
    leave(&sides[0]);
    for (int i = 1; i >= 0; --i) {
        REQUIRE(ops->conn_create(sides[i].transport, 1 - i, &sides[i].conn) == MSCCLPP_OK);
    }
    CHECK_EQ(join(&sides[0], &sides[1]), MSCCLPP_OK);
    CHECK_EQ(join(&sides[1], &sides[0]), MSCCLPP_OK);
    share(&sides[0], &sides[1]);
    mock->event = IBV_EVENT_QP_FATAL;
    check_broken(sides, MSCCLPP_ERR_PEER, "local work queue catastrophic error");
    close_pair(sides);

    /* A side that only waits asks the peer's HCA whether the peer is still there. */
    for (int sent = 0; sent < 2; ++sent) {
        reset();
        open_pair(sides);
        for (int i = 0; i < sent; ++i) {
            CHECK_EQ(put(&sides[0], 0, 8), MSCCLPP_OK);
            CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_OK);
        }
        mock->fail_after = 1;
        mock->fail_status = IBV_WC_RETRY_EXC_ERR;
        check_broken(sides, MSCCLPP_ERR_PEER, "transport retry counter exceeded");
        CHECK_EQ(mock->requests, sent + 1);
        close_pair(sides);
    }

    /* A signal for a token that is not there, from a peer that went wrong. */
    reset();
    config.verbs_mode = "no_atomic";
    open_pair(sides);
    sides[1].conn->token_count = 100;
    CHECK_EQ(ops->signal(sides[1].conn, TOKENS), MSCCLPP_OK);
    CHECK_EQ(ops->progress(sides[1].transport), MSCCLPP_OK);
    unit_expect_log();
    CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_ERR_PEER);
    CHECK_EQ(unit_logged(), 1);
    close_pair(sides);
}

/* A side that is done goes while the other one still sends: that is no failure, and nothing is waited for any more. */
static void test_good_bye(const char *mode, int rails)
{
    side_t sides[2];
    uint64_t ticket = 0;

    reset();
    mock->devices = rails;
    config.verbs_rails = rails;
    config.verbs_stripe_min = 4096;
    config.verbs_mode = mode;
    open_pair(sides);
    CHECK_EQ(put(&sides[0], 0, 100000), MSCCLPP_OK);
    UNTIL_OK(sides, ops->signal(sides[0].conn, 1));
    settle(sides);
    leave(&sides[1]);
    for (int i = 0; i < 100; ++i) {
        UNTIL_OK(sides, put(&sides[0], 0, i % 2 == 0 ? 100000 : 100));
        UNTIL_OK(sides, ops->signal(sides[0].conn, 1));
        UNTIL_OK(sides, ops->flush(sides[0].conn, &ticket));
        UNTIL_OK(sides, ops->test(sides[0].conn, ticket));
    }
    CHECK_EQ(ops->conn_status(sides[0].conn), MSCCLPP_OK);
    CHECK_EQ(sides[1].tokens[1], 1);
    close_pair(sides);

    /* A peer that went without a word, or cannot be reached, is not told, and this is nobody's concern. */
    for (int refused = 0; refused < 2; ++refused) {
        reset();
        config.verbs_mode = mode;
        open_pair(sides);
        mock->fail_after = 1;
        mock->fail_status = IBV_WC_RETRY_EXC_ERR;
        mock->refuse_after = refused;
        leave(&sides[0]);
        CHECK_EQ(ops->progress(sides[0].transport), MSCCLPP_OK);
        close_pair(sides);
    }

    /* One that neither answers nor is known to be dead costs a second. */
    reset();
    config.verbs_mode = mode;
    open_pair(sides);
    mock->held = true;
    close_pair(sides);

    /* A queue that is full of what no doorbell has been rung for. */
    reset();
    config.verbs_mode = mode;
    config.verbs_queue_depth = 16;
    open_pair(sides);
    for (int i = 0; i < 16; ++i) {
        CHECK_EQ(put(&sides[0], 0, 8), MSCCLPP_OK);
    }
    CHECK_EQ(mock->requests, 0);
    leave(&sides[0]);
    CHECK(mock->requests == 17 && sides[0].transport->patience_seconds > 0);
    UNTIL_OK(sides, ops->signal(sides[1].conn, 0));
    progress(sides);
    CHECK(sides[1].conn->peer_left);
    close_pair(sides);
}

/* One that does not answer leaves the others of the instance something: they are told, and not waited for much longer.
 */
static void test_silence(const char *mode)
{
    side_t ours[2], theirs[2];

    for (int silent = 1; silent <= 2; ++silent) {
        reset();
        config.verbs_mode = mode;
        open_three(ours, theirs);
        ours[0].transport->patience_seconds = 0.02;
        mock->held = true;
        ops->conn_destroy(ours[0].conn);
        ours[0].conn = NULL;
        CHECK(ours[0].transport->patience_seconds <= 0);
        mock->held = silent > 1;
        ops->conn_destroy(ours[1].conn);
        ours[1].conn = NULL;
        mock->held = false;
        for (int i = 0; i < 2; ++i) {
            CHECK_EQ(ops->signal(theirs[i].conn, 0), MSCCLPP_OK);
            CHECK_EQ(ops->progress(theirs[i].transport), MSCCLPP_OK);
            CHECK(theirs[i].conn->peer_left);
            CHECK_EQ(ops->conn_status(theirs[i].conn), MSCCLPP_OK);
        }
        close_three(ours, theirs);
    }
}

static void test_rails(void)
{
    side_t sides[2];

    reset();
    mock->devices = 3;
    config.verbs_rails = 3;
    config.verbs_stripe_min = 4096;
    open_pair(sides);
    /* What every device writes; the last stripe is the shorter one. */
    CHECK_EQ(put(&sides[0], 3, 900001), MSCCLPP_OK);
    settle(sides);
    CHECK(memcmp(sides[0].bytes + 3, sides[1].bytes + 3, 900001) == 0);
    CHECK(sides[1].bytes[900004] == 0 && sides[1].bytes[2] == 0);
    CHECK(mock->written[0] > 290000 && mock->written[1] > 290000 && mock->written[2] > 290000);
    CHECK_EQ(mock->reads, 2);
    /* Two stripes of three. */
    CHECK_EQ(put(&sides[0], 0, 5000), MSCCLPP_OK);
    settle(sides);
    CHECK_EQ(mock->reads, 3);

    /* A signal and a flush wait for the stripes, and so does a put into the same bytes; one beside it does not. */
    mock->held = true;
    CHECK_EQ(put(&sides[0], 0, 90000), MSCCLPP_OK);
    progress(sides);
    CHECK_EQ(ops->signal(sides[0].conn, 0), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(ops->add(sides[0].conn, sides[0].remote, 0, 1), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(put(&sides[0], 89000, 10), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(put(&sides[0], 50000, 90000), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(put(&sides[0], 90000, 10), MSCCLPP_OK);
    CHECK_EQ(put(&sides[0], 200000, 90000), MSCCLPP_OK);
    CHECK_EQ(sides[1].tokens[0], 0);
    mock->held = false;
    UNTIL_OK(sides, ops->signal(sides[0].conn, 0));
    settle(sides);
    CHECK_EQ(sides[1].tokens[0], 1);

    /* A stripe does not overtake a small put into its bytes. */
    mock->held = true;
    CHECK_EQ(put(&sides[0], 80000, 10), MSCCLPP_OK);
    CHECK_EQ(put(&sides[0], 0, 90000), MSCCLPP_IN_PROGRESS);
    CHECK_EQ(put(&sides[0], 100000, 90000), MSCCLPP_OK);
    mock->held = false;
    UNTIL_OK(sides, put(&sides[0], 0, 90000));
    settle(sides);
    close_pair(sides);

    /* A peer with fewer rails. */
    reset();
    mock->devices = 3;
    config.verbs_rails = 3;
    REQUIRE(create(&sides[0], 0) == MSCCLPP_OK);
    config.verbs_rails = 2;
    REQUIRE(create(&sides[1], 1) == MSCCLPP_OK);
    CHECK_EQ(ops->conn_create(sides[0].transport, 1, &sides[0].conn), MSCCLPP_OK);
    CHECK_EQ(ops->conn_create(sides[1].transport, 0, &sides[1].conn), MSCCLPP_OK);
    CHECK_EQ(join(&sides[0], &sides[1]), MSCCLPP_OK);
    CHECK_EQ(join(&sides[1], &sides[0]), MSCCLPP_OK);
    CHECK_EQ(sides[0].conn->qp_count, 2);
    CHECK_EQ(sides[1].conn->qp_count, 2);
    close_pair(sides);
}

int main(void)
{
    open_mock(MOCK_VERBS_LIBRARY);
    test_signals("auto", true);
    test_signals("no_atomic", false);
    test_agreement();
    test_admission();
    test_errors();
    test_good_bye("atomic", 1);
    test_good_bye("no_atomic", 1);
    test_good_bye("atomic", 2);
    test_silence("atomic");
    test_silence("no_atomic");
    test_rails();
    return unit_end();
}
