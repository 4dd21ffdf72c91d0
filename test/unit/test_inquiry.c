/*
 * Whose turn it is to name a rank whose connections are lost. No notice comes here, so each rank waits for its turn.
 * And that no rank is named as late without a reason.
 */
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/group/group.h"
#include "test/unit/unit.h"

#define NODES 4
#define PER_NODE 16

static int named; /* lines that name a lost rank */

static void count_errors(void *context, mscclpp_log_level_t level, const char *text)
{
    (void)context;
    named += level == MSCCLPP_LOG_ERROR && strstr(text, "a connection is lost") != NULL;
}

static mscclpp_status_t post(void *context, int peer, const void *message, size_t length)
{
    (void)context, (void)peer, (void)message, (void)length;
    return MSCCLPP_OK;
}

static mscclpp_status_t poll(void *context, int *peer_p, void *message, size_t *length_p)
{
    (void)context, (void)peer_p, (void)message, (void)length_p;
    return MSCCLPP_IN_PROGRESS;
}

/* Returns after how many seconds a rank of a node names rank `lost`. Ranks of a node follow one another. */
static double seconds_until_named(int node, int rank, int lost)
{
    int leaders[NODES - 1];
    mscclpp_group_t group = {.rank = rank, .size = PER_NODE, .leaders = leaders, .leader_count = NODES - 1};
    double started;

    group.oob = (mscclpp_oob_t){.rank = node * PER_NODE + rank,
                                .size = NODES * PER_NODE,
                                .label = "test",
                                .post_message = post,
                                .poll_message = poll};
    for (int i = 0; i < PER_NODE; ++i) {
        group.members[i] = node * PER_NODE + i;
    }
    for (int i = 0; i < NODES - 1; ++i) {
        leaders[i] = (i < node ? i : i + 1) * PER_NODE;
    }
    mscclpp_group_notices_init(&group);
    CHECK_EQ(mscclpp_ctrl_create(false, &group.oob, &group.ctrl), MSCCLPP_OK);
    started = mscclpp_now();
    CHECK(mscclpp_group_name_lost(&group, lost, "a connection is lost"));
    started = mscclpp_now() - started;
    mscclpp_ctrl_destroy(group.ctrl);
    mscclpp_group_notices_fini(&group);
    return started;
}

/* Without control messages nobody can be asked, so only a rank that this one is known to wait for is named. */
static void test_nobody_to_ask(void)
{
    mscclpp_group_t group = {.size = 1, .call = 1, .asks_all = true};
    int late = 0;

    group.oob = (mscclpp_oob_t){.size = 2, .label = "test"};
    mscclpp_group_notices_init(&group);
    mscclpp_group_note_late(&group, -1);
    CHECK_EQ(mscclpp_group_inquire(&group, true, mscclpp_now(), &late), MSCCLPP_INQUIRY_FOUND);
    CHECK_EQ(late, -1);
    group.call = 2;
    mscclpp_group_note_late(&group, 1);
    CHECK_EQ(mscclpp_group_inquire(&group, true, mscclpp_now(), &late), MSCCLPP_INQUIRY_FOUND);
    CHECK_EQ(late, 1);
    mscclpp_group_notices_fini(&group);
}

int main(void)
{
    unit_begin();
    mscclpp_log_set(count_errors, NULL, MSCCLPP_LOG_ERROR);
    /* The next node's turn is at once, however many ranks there are between. A busy machine may need a while. */
    CHECK(seconds_until_named(1, 0, 0) < 2);
    CHECK(seconds_until_named(2, 0, 31) < 2);
    CHECK(seconds_until_named(0, 0, 48) < 2);
    /* The nodes behind it, and further ranks of a node, leave it to those before them. */
    CHECK(seconds_until_named(2, 0, 15) > 0.15);
    CHECK(seconds_until_named(3, 0, 0) > 0.35);
    CHECK(seconds_until_named(1, 8, 0) > 0.05);
    CHECK_EQ(named, 6);
    test_nobody_to_ask();
    return unit_end();
}
