/* The schedules between nodes: every kind, every pattern that it is for, many numbers of nodes; and planted faults. */
#include "test/unit/unit.h"
#include "test/unit/schedule_check.h"

#define MOST 40u

static const int patterns[] = {MSCCLPP_SCHEDULE_ALLREDUCE, MSCCLPP_DEV_ALLGATHER,      MSCCLPP_DEV_ALLTOALL,
                               MSCCLPP_DEV_BCAST,          MSCCLPP_DEV_GATHER,         MSCCLPP_DEV_SCATTER,
                               MSCCLPP_DEV_REDUCE,         MSCCLPP_DEV_REDUCE_SCATTER, MSCCLPP_DEV_SCAN,
                               MSCCLPP_DEV_EXSCAN};

static bool has_root(int pattern)
{
    return pattern == MSCCLPP_DEV_BCAST || pattern == MSCCLPP_DEV_GATHER || pattern == MSCCLPP_DEV_SCATTER ||
           pattern == MSCCLPP_DEV_REDUCE;
}

static void expect_sound(const mscclpp_schedule_t *schedule)
{
    const char *fault = schedule_fault(schedule, mscclpp_schedule_find_step, schedule->nodes);

    CHECK(fault == NULL);
    if (fault != NULL) {
        fprintf(stderr, "    %s, pattern %d, %u nodes, root %u, fan-out %u, radix %u: %s\n",
                mscclpp_schedule_kind_name(schedule->kind), schedule->pattern, schedule->nodes, schedule->root,
                schedule->fanout, schedule->radix, fault);
    }
}

static void try_kind(mscclpp_schedule_kind_t kind, int pattern, uint32_t nodes)
{
    static const uint32_t radices[] = {2, 3, 4, 7}, fanouts[] = {0, 1, 2, 5};
    const uint32_t roots = has_root(pattern) && nodes > 1 ? 2 : 1;
    mscclpp_schedule_t schedule;
    uint32_t root, i, node;

    for (root = 0; root < roots; ++root) {
        for (i = 0; i < 4; ++i) {
            if (!mscclpp_schedule_init(&schedule, kind, pattern, nodes, root * (nodes - 1), fanouts[i], radices[i])) {
                return;
            }
            expect_sound(&schedule);
            schedule.tree = 1;
            expect_sound(&schedule);
        }
    }
    for (node = 0; node < nodes; ++node) {
        mscclpp_step_t step;
        uint64_t steps = 0;

        while (mscclpp_schedule_find_step(&schedule, node, steps, &step)) {
            ++steps;
        }
        CHECK_EQ(mscclpp_schedule_count_steps(&schedule, node), steps);
    }
}

/* The most messages that any node sends, and the most bytes, of an all-reduce of a shard of `bytes`. */
static uint64_t max_sent(mscclpp_schedule_kind_t kind, uint32_t nodes, uint64_t bytes, uint64_t *bytes_p)
{
    mscclpp_schedule_t schedule;
    uint64_t most = 0, i;
    mscclpp_step_t step;
    uint32_t node;

    *bytes_p = 0;
    REQUIRE(mscclpp_schedule_init(&schedule, kind, MSCCLPP_SCHEDULE_ALLREDUCE, nodes, 0, 0, 0));
    for (node = 0; node < nodes; ++node) {
        uint64_t sent = 0, sum = 0;

        for (i = 0; mscclpp_schedule_find_step(&schedule, node, i, &step); ++i) {
            if (step.kind == MSCCLPP_STEP_SEND) {
                ++sent;
                sum += mscclpp_schedule_message_bytes(&schedule, &step, bytes);
            }
        }
        most = sent > most ? sent : most;
        *bytes_p = sum > *bytes_p ? sum : *bytes_p;
    }
    return most;
}

static void test_costs(void)
{
    const uint64_t shard = 64 * MSCCLPP_DEV_UNIT;
    uint64_t bytes;

    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_DIRECT, 64, shard, &bytes), 63);
    CHECK_EQ(bytes, 63 * shard);
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_SPLIT, 64, shard, &bytes), 126);
    CHECK_EQ(bytes, 2 * 63 * shard / 64);
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_RING, 64, shard, &bytes), 126);
    CHECK_EQ(bytes, 2 * 63 * shard / 64);
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_DOUBLING, 64, shard, &bytes), 6);
    CHECK_EQ(bytes, 6 * shard);
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_DOUBLING, 96, shard, &bytes), 7);
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_HALVING, 64, shard, &bytes), 12);
    CHECK_EQ(bytes, 2 * 63 * shard / 64);
    /* A shard that is smaller than its parts. */
    CHECK_EQ(max_sent(MSCCLPP_SCHEDULE_HALVING, 4, 8, &bytes), 4);
    CHECK_EQ(bytes, 16);
    (void)max_sent(MSCCLPP_SCHEDULE_DOUBLING, 16384, 8, &bytes);
    CHECK_EQ(bytes, 14 * 8);
}

/* A call with a root takes one message to each other node, and a node without children or parent waits for nobody. */
static void test_rooted(void)
{
    static const uint32_t sizes[] = {2, 9, 64, 100}, radices[] = {2, 4, 8};
    uint64_t i, sent, received;
    mscclpp_schedule_t schedule;
    mscclpp_step_t step;
    size_t p, n, r;
    uint32_t node;

    for (p = 0; p < sizeof(patterns) / sizeof(patterns[0]); ++p) {
        for (n = 0; n < sizeof(sizes) / sizeof(sizes[0]) && has_root(patterns[p]); ++n) {
            for (r = 0; r < sizeof(radices) / sizeof(radices[0]); ++r) {
                REQUIRE(mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_TREE, patterns[p], sizes[n], sizes[n] / 2, 0,
                                              radices[r]));
                sent = received = 0;
                for (node = 0; node < sizes[n]; ++node) {
                    const bool goes_up = patterns[p] == MSCCLPP_DEV_GATHER || patterns[p] == MSCCLPP_DEV_REDUCE;
                    uint64_t to_here = 0, from_here = 0;

                    for (i = 0; mscclpp_schedule_find_step(&schedule, node, i, &step); ++i) {
                        CHECK(step.count > 0);
                        ++*(step.kind == MSCCLPP_STEP_SEND ? &from_here : &to_here);
                    }
                    CHECK_EQ(goes_up ? from_here : to_here, node != schedule.root);
                    sent += from_here;
                    received += to_here;
                }
                CHECK(sent == sizes[n] - 1 && received == sent);
            }
        }
    }
}

static void test_refused(void)
{
    mscclpp_schedule_t schedule;

    CHECK(!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_RING, MSCCLPP_DEV_ALLTOALL, 4, 0, 0, 0));
    CHECK(!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_RING, MSCCLPP_SCHEDULE_ALLREDUCE, 0, 0, 0, 0));
    CHECK(!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_RING, MSCCLPP_SCHEDULE_ALLREDUCE, 16385, 0, 0, 0));
    CHECK(!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_TREE, MSCCLPP_DEV_BCAST, 4, 4, 0, 0));
    CHECK(!mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_TREE, MSCCLPP_DEV_BCAST, 4, 0, 0, 1));
    CHECK_EQ(mscclpp_schedule_find_kind("halving"), MSCCLPP_SCHEDULE_HALVING);
    CHECK_EQ(mscclpp_schedule_find_kind("halve"), MSCCLPP_SCHEDULE_LAST);
}

/* ---- Planted faults ---- */

static bool partner_off_by_one(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    const bool any = mscclpp_schedule_find_step(schedule, node, index, step);

    if (any && (node == 0 || node == 2) && step->kind == MSCCLPP_STEP_SEND) {
        step->peer = (step->peer + 1) % schedule->nodes;
    }
    return any;
}

/* Node 3 takes itself for the root, too. */
static bool two_roots(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    mscclpp_schedule_t other = *schedule;

    other.root = node == 3 ? 3 : schedule->root;
    return mscclpp_schedule_find_step(&other, node, index, step);
}

static bool other_order(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    const bool any = mscclpp_schedule_find_step(schedule, node, index, step);

    if (any && node == 1 && step->kind == MSCCLPP_STEP_BEFORE) {
        step->kind = MSCCLPP_STEP_AFTER;
    }
    return any;
}

static bool one_step_less(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    return (node != 1 || index + 1 < mscclpp_schedule_count_steps(schedule, node)) &&
           mscclpp_schedule_find_step(schedule, node, index, step);
}

static bool wrong_slot(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    const bool any = mscclpp_schedule_find_step(schedule, node, index, step);

    if (any && node == 1 && step->kind != MSCCLPP_STEP_MERGE) {
        step->slot = (step->slot + 1) % schedule->slots;
    }
    return any;
}

static bool wrong_place(const mscclpp_schedule_t *schedule, uint32_t node, uint64_t index, mscclpp_step_t *step)
{
    const bool any = mscclpp_schedule_find_step(schedule, node, index, step);

    step->place -= any && step->place > schedule->blocks ? 1 : 0;
    return any;
}

static void test_planted(void)
{
    mscclpp_schedule_t schedule;
    int kind;
    size_t i;

    for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST; ++kind) {
        for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); ++i) {
            if (mscclpp_schedule_init(&schedule, (mscclpp_schedule_kind_t)kind, patterns[i], 8, 0, 0, 0)) {
                schedule.tree = i % 2;
                CHECK(schedule_fault(&schedule, partner_off_by_one, 1) != NULL);
                CHECK(schedule_fault(&schedule, one_step_less, 1) != NULL);
                CHECK(schedule.slots == 1 || schedule_fault(&schedule, wrong_slot, 1) != NULL);
                CHECK(!has_root(patterns[i]) || schedule_fault(&schedule, two_roots, 1) != NULL);
            }
        }
    }
    REQUIRE(mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_DOUBLING, MSCCLPP_SCHEDULE_ALLREDUCE, 8, 0, 0, 0));
    CHECK_TEXT(schedule_fault(&schedule, other_order, 1), "two nodes have combined in different orders");
    REQUIRE(mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_HALVING, MSCCLPP_SCHEDULE_ALLREDUCE, 11, 0, 0, 0));
    CHECK_TEXT(schedule_fault(&schedule, wrong_place, 1), "a message arrives where something else lies");
}

int main(void)
{
    uint32_t nodes;
    int kind;
    size_t i;

    unit_begin();
    for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST; ++kind) {
        for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); ++i) {
            for (nodes = 1; nodes <= MOST; nodes += nodes < 20 ? 1 : 5) {
                try_kind((mscclpp_schedule_kind_t)kind, patterns[i], nodes);
            }
        }
    }
    test_costs();
    test_rooted();
    test_refused();
    test_planted();
    return unit_end();
}
