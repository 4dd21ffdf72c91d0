/* What UCX still reads or writes for connections when regions, the memory under them, and remotes go. */
#include <pthread.h>
#include <sys/mman.h>

#include "mca/common/transport/ucx/internal.h"
#include "test/unit/ucx_sides.h"

#define LENGTH ((size_t)4 << 20)

/* As pair_open, with memory of the host only, which can go for each side and region on its own. */
static void open_mapped(side_t *sides, const char *bounce, bool one_host)
{
    card_t cards[2];

    slow_host_size = 4 * LENGTH;
    slow_host = mmap(NULL, slow_host_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(slow_host != MAP_FAILED);
    for (int i = 0; i < 2; ++i) {
        char *memory = slow_host + 2 * (size_t)i * LENGTH;

        side_init(&sides[i], i, bounce, true);
        sides[i].one_host = one_host;
        set(&sides[i], "bounce_size", "32m"); /* so that one message carries a region */
        REQUIRE(side_open(&sides[i], memory, memory + LENGTH, LENGTH));
        side_card(&sides[i], &cards[i]);
    }
    for (int i = 0; i < 2; ++i) {
        side_connect(&sides[i], &cards[1 - i]);
    }
    /* Ways that UCX has to negotiate first are there. */
    put(sides, 0, 0, 0, 0, LENGTH);
    signal_token(sides, 3);
    wait_token(sides, 3, 1);
    settle(sides);
}

static void close_mapped(side_t *sides)
{
    side_close(&sides[0]);
    side_close(&sides[1]);
    CHECK_EQ(munmap(slow_host, slow_host_size), 0);
}

/* The region and its memory. */
static void drop_region(side_t *side, int region)
{
    side->ops->region_destroy(side->regions[region]);
    side->regions[region] = NULL;
    CHECK_EQ(mprotect(side->memory[region], LENGTH, PROT_NONE), 0);
}

/* False, and all closed, where UCX has no need of time to fetch. */
static bool begin_fetch(side_t *sides)
{
    double deadline = mscclpp_now() + DEADLINE;

    REQUIRE(sides[0].ops->put_signal(sides[0].conn, sides[0].remotes[1], 0, sides[0].regions[1], 0, LENGTH, 1) ==
            MSCCLPP_OK);
    while (sides[1].conn->placing_count == 0) {
        if (__atomic_load_n(&sides[1].tokens[1], __ATOMIC_ACQUIRE) != 0) {
            printf("skipped: a region that goes while bytes are fetched into it: UCX fetches at once here\n");
            settle(sides);
            close_mapped(sides);
            return false;
        }
        turn(sides);
        REQUIRE(mscclpp_now() < deadline);
    }
    return true;
}

/* A region goes that bytes are just being fetched into, and its peer does nothing: the connection breaks. */
static void test_target_goes(void)
{
    mscclpp_status_t statuses[2] = {MSCCLPP_OK, MSCCLPP_OK};
    double deadline = mscclpp_now() + DEADLINE;
    side_t sides[2];

    open_mapped(sides, "always", false);
    if (!begin_fetch(sides)) {
        return;
    }
    unit_expect_log();
    drop_region(&sides[1], 1);
    while ((statuses[0] == MSCCLPP_OK || statuses[1] == MSCCLPP_OK) && mscclpp_now() < deadline) {
        for (int i = 0; i < 2; ++i) {
            mscclpp_status_t status = sides[i].ops->progress(sides[i].transport);
            statuses[i] = statuses[i] == MSCCLPP_OK ? status : statuses[i];
        }
    }
    CHECK_EQ(unit_logged(), 2);
    CHECK_EQ(statuses[0], MSCCLPP_ERR_PEER);
    CHECK_EQ(statuses[1], MSCCLPP_ERR_INVALID);
    CHECK_EQ(sides[1].ops->conn_status(sides[1].conn), MSCCLPP_ERR_INVALID);
    CHECK_EQ(sides[1].tokens[1], 0);
    CHECK(!sides[1].transport->stranded);
    close_mapped(sides);
}

/* As above where UCX cannot be made to stop. In a process of its own, as what it holds is never freed. */
static void lose_target(void *argument)
{
    side_t sides[2];

    (void)argument;
    open_mapped(sides, "always", true);
    if (!begin_fetch(sides)) {
        return;
    }
    unit_expect_log();
    drop_region(&sides[1], 1);
    CHECK(sides[1].transport->stranded);
    CHECK_EQ(sides[1].ops->conn_status(sides[1].conn), MSCCLPP_ERR_INVALID);
    for (int i = 0; i < 1000; ++i) {
        (void)sides[0].ops->progress(sides[0].transport);
        (void)sides[1].ops->progress(sides[1].transport);
    }
    CHECK_EQ(unit_logged(), 2);
    CHECK_EQ(sides[0].ops->conn_status(sides[0].conn), MSCCLPP_ERR_PEER);
    CHECK_EQ(sides[1].tokens[1], 0);
    side_close(&sides[1]);
}

static void *keep_moving(void *argument)
{
    side_t *side = argument;
    const double until = mscclpp_now() + 0.5;

    while (mscclpp_now() < until) {
        CHECK_EQ(side->ops->progress(side->transport), MSCCLPP_OK);
    }
    return NULL;
}

/* The same with a peer that goes on: what was under way ends, and nothing breaks. */
static void test_target_is_left(bool one_host)
{
    pthread_t thread;
    side_t sides[2];

    open_mapped(sides, "always", one_host);
    if (!begin_fetch(sides)) {
        return;
    }
    REQUIRE(pthread_create(&thread, NULL, keep_moving, &sides[0]) == 0);
    drop_region(&sides[1], 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    settle(sides);
    CHECK_EQ(sides[1].tokens[1], 1);
    put(sides, 0, 0, 0, 0, 100);
    signal_token(sides, 2);
    wait_token(sides, 2, 1);
    close_mapped(sides);
}

/* Gives puts up that the peer, which does nothing, has not taken. */
static void give_up(side_t *sides)
{
    for (int i = 0; i < 8; ++i) {
        REQUIRE(sides[0].ops->put(sides[0].conn, sides[0].remotes[0], 0, sides[0].regions[1], 0, LENGTH) == MSCCLPP_OK);
    }
    REQUIRE(sides[0].conn->sending_count > 0);
    side_disconnect(&sides[0]);
}

static void join_again(side_t *sides, mscclpp_conn_t **peer_conn_p)
{
    card_t cards[2];

    REQUIRE(sides[0].ops->conn_create(sides[0].transport, 1, &sides[0].conn) == MSCCLPP_OK);
    REQUIRE(sides[1].ops->conn_create(sides[1].transport, 0, peer_conn_p) == MSCCLPP_OK);
    memset(cards, 0, sizeof(cards));
    REQUIRE(sides[0].ops->conn_address(sides[0].conn, cards[0].address, &cards[0].address_length) == MSCCLPP_OK);
    REQUIRE(sides[1].ops->conn_address(*peer_conn_p, cards[1].address, &cards[1].address_length) == MSCCLPP_OK);
    REQUIRE(sides[0].ops->conn_connect(sides[0].conn, cards[1].address, cards[1].address_length) == MSCCLPP_OK);
    REQUIRE(sides[1].ops->conn_connect(*peer_conn_p, cards[0].address, cards[0].address_length) == MSCCLPP_OK);
}

static void await_signal(side_t *sides, uint32_t token, uint64_t value)
{
    double deadline = mscclpp_now() + DEADLINE;

    REQUIRE(sides[0].ops->signal(sides[0].conn, token) == MSCCLPP_OK);
    while (__atomic_load_n(&sides[1].tokens[token], __ATOMIC_ACQUIRE) < value) {
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
        (void)sides[1].ops->progress(sides[1].transport);
        REQUIRE(mscclpp_now() < deadline);
    }
}

typedef struct {
    const char *bounce;
    bool one_host;
    bool connected; /* another connection is in use */
} loss_t;

/*
 * A region goes that puts are made from which nobody has taken, as do the remotes and the connection. Where UCX gives
 * nothing up it must not go on either: neither for another connection nor as the instance ends.
 */
static void lose_source(void *argument)
{
    const loss_t *loss = argument;
    mscclpp_conn_t *peer_conn = NULL, *last;
    mscclpp_conn_t *other;
    side_t sides[2];
    bool stranded;

    open_mapped(sides, loss->bounce, loss->one_host);
    if (!loss->one_host && sides[0].transport->has_unwatched) {
        printf("skipped: a region that goes with puts from it under way: no network device\n");
        close_mapped(sides);
        return;
    }
    if (loss->connected) {
        other = sides[0].conn;
        join_again(sides, &peer_conn);
        await_signal(sides, 0, 1);
        last = sides[0].conn;
        sides[0].conn = other;
        give_up(sides);
        sides[0].conn = last;
    } else {
        give_up(sides);
    }
    unit_expect_log();
    drop_region(&sides[0], 1);
    stranded = sides[0].transport->stranded;
    CHECK_EQ(stranded, loss->one_host);
    if (loss->connected && stranded) {
        CHECK_EQ(unit_logged(), 1);
        CHECK(strstr(unit_last_line, "rank 1") != NULL);
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_ERR_SYSTEM);
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
        CHECK_EQ(sides[0].ops->signal(sides[0].conn, 0), MSCCLPP_ERR_SYSTEM);
        unit_expect_log();
        CHECK_EQ(sides[0].ops->conn_create(sides[0].transport, 1, &other), MSCCLPP_ERR_SYSTEM);
        CHECK_EQ(unit_logged(), 1);
    } else {
        CHECK_EQ(unit_logged(), 0);
    }
    /* The peer now takes what it can get. */
    for (int i = 0; i < 1000; ++i) {
        (void)sides[0].ops->progress(sides[0].transport);
        (void)sides[1].ops->progress(sides[1].transport);
    }
    if (loss->connected && !stranded) {
        await_signal(sides, 0, 2);
    }
    if (loss->connected) {
        sides[0].ops->conn_destroy(sides[0].conn);
        sides[0].conn = NULL;
    }
    side_close(&sides[0]);
}

static void test_source_goes(const char *bounce, bool one_host, bool connected)
{
    loss_t loss = {.bounce = bounce, .one_host = one_host, .connected = connected};

    unit_join(unit_fork(lose_source, &loss));
}

/* While the region stays, puts that were given up end when the peer goes on; the instance works all the time. */
static void test_source_stays(void)
{
    mscclpp_conn_t *peer_conn = NULL, *other;
    side_t sides[2];

    open_mapped(sides, "always", true);
    other = sides[0].conn;
    join_again(sides, &peer_conn);
    await_signal(sides, 0, 1);
    {
        mscclpp_conn_t *last = sides[0].conn;

        sides[0].conn = other;
        give_up(sides);
        sides[0].conn = last;
    }
    await_signal(sides, 0, 2);
    for (double until = mscclpp_now() + 0.5; mscclpp_now() < until;) {
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
        (void)sides[1].ops->progress(sides[1].transport);
    }
    drop_region(&sides[0], 1);
    CHECK(!sides[0].transport->stranded);
    await_signal(sides, 0, 3);
    sides[0].ops->conn_destroy(sides[0].conn);
    sides[0].conn = NULL;
    sides[1].ops->conn_destroy(peer_conn);
    close_mapped(sides);
}

static mscclpp_ucx_functions_t real;
static mscclpp_transport_t *watched;
static int rkeys_destroyed;

static void spy_rkey_destroy(ucp_rkey_h rkey)
{
    for (const mscclpp_conn_t *conn = watched->conns; conn != NULL; conn = conn->next) {
        CHECK_EQ(conn->sending_count, 0);
    }
    ++rkeys_destroyed;
    real.ucp_rkey_destroy(rkey);
}

/* The key of a peer's region stays as long as puts by it are under way, and no longer. */
static void test_remote_goes(void)
{
    double deadline = mscclpp_now() + DEADLINE;
    side_t sides[2];

    open_mapped(sides, "device", true);
    real = sides[0].transport->ucx;
    watched = sides[0].transport;
    watched->ucx.ucp_rkey_destroy = spy_rkey_destroy;
    rkeys_destroyed = 0;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(sides[0].ops->put(sides[0].conn, sides[0].remotes[i], 0, sides[0].regions[1], 0, LENGTH) == MSCCLPP_OK);
        REQUIRE(sides[0].conn->sending_count > 0);
        sides[0].ops->remote_destroy(sides[0].remotes[i]);
        CHECK_EQ(rkeys_destroyed, i);
        if (i == 0) {
            settle(sides);
            CHECK_EQ(rkeys_destroyed, 1);
        }
    }
    sides[0].ops->conn_destroy(sides[0].conn);
    sides[0].conn = NULL;
    CHECK_EQ(rkeys_destroyed, 1);
    while (rkeys_destroyed < 2) {
        CHECK_EQ(sides[0].ops->progress(sides[0].transport), MSCCLPP_OK);
        (void)sides[1].ops->progress(sides[1].transport);
        REQUIRE(mscclpp_now() < deadline);
    }
    close_mapped(sides);
}

int main(void)
{
    unit_begin();
    if (!ucx_works()) {
        return unit_skip("UCX cannot be used");
    }
    unit_join(unit_fork(lose_target, NULL));
    for (int connected = 0; connected < 2; ++connected) {
        test_source_goes("always", false, connected != 0);
        test_source_goes("always", true, connected != 0);
        test_source_goes("device", true, connected != 0);
    }
    test_remote_goes();
    test_target_is_left(false);
    test_target_is_left(true);
    test_target_goes();
    test_source_stays();
    return unit_end();
}
