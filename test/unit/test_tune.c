/* What mscclpp_tune makes of its measurements. */
#include "tools/tune/tune_choose.h"
#include "tools/tune/tune_fit.h"
#include "test/unit/unit.h"

enum { A = 0, B = 1, C = 2 }; /* algorithms */

/* Times of three algorithms at sizes that double from 1 KiB on. */
static void fill(tune_table_t *table, const double (*times)[3], int sizes, int measured)
{
    REQUIRE(tune_table_init(table, MSCCLPP_COLL_LAST, 1, 1024, (size_t)1024 << (sizes - 1), 2, 4));
    CHECK_EQ(table->size_count, sizes);
    for (int size = 0; size < measured; ++size) {
        for (int algo = 0; algo < 3; ++algo) {
            table->seconds[size][algo] = times[size][algo];
        }
    }
}

static void test_sizes(void)
{
    tune_table_t table;

    CHECK(tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 8, 64, 2, 4));
    CHECK_EQ(table.size_count, 4);
    CHECK_EQ(table.bytes[3], 64);
    CHECK_EQ(tune_first_missing(&table), 0);
    CHECK(!tune_is_measured(&table, 0));
    /* Whole elements, each size once. */
    CHECK(tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1, 20, 1.3, 8));
    CHECK_EQ(table.size_count, 2);
    CHECK_EQ(table.bytes[0], 8);
    CHECK_EQ(table.bytes[1], 16);
    CHECK(!tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1, 3, 2, 4));
    CHECK(!tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1, 1 << 20, 1.01, 1));
    CHECK(tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1, (size_t)1 << 36, 2, 1));
}

static void check_rules(const tune_table_t *table, const mscclpp_rule_t *rules, uint64_t count)
{
    mscclpp_rule_set_t set;

    tune_make_rules(table, &set);
    CHECK_EQ(set.count, count);
    for (uint64_t i = 0; i < count && i < set.count; ++i) {
        CHECK_EQ(set.rules[i].bytes, rules[i].bytes);
        CHECK_EQ(set.rules[i].algorithm, rules[i].algorithm);
    }
}

static void test_rules(void)
{
    static const double times[][3] = {{1, 2, 9}, {2, 3, 8}, {4, 3.95, 7}, {8, 4, 6}, {16, 5, 4.9}, {32, 9, 5}};
    static const mscclpp_rule_t wanted[] = {{4096, A, 0, 0}, {16384, B, 0, 0}, {32768, C, 0, 0}};
    static const mscclpp_rule_t begun[] = {{4096, A, 0, 0}, {8192, B, 0, 0}};
    static const double one[][3] = {{0, 7, 0}};
    static const mscclpp_rule_t lonely[] = {{1024, B, 0, 0}};
    tune_table_t table;

    fill(&table, times, 6, 6);
    CHECK_EQ(tune_first_missing(&table), 6);
    CHECK_EQ(tune_fastest(&table, 0), A);
    CHECK_EQ(tune_fastest(&table, 2), B);
    CHECK_EQ(tune_fastest(&table, 5), C);
    /* At 4 KiB and 16 KiB another one is faster, but by less than the noise. */
    check_rules(&table, wanted, 3);
    /* A run that was interrupted, and one that has not begun. */
    fill(&table, times, 6, 4);
    check_rules(&table, begun, 2);
    fill(&table, times, 6, 0);
    check_rules(&table, NULL, 0);
    fill(&table, one, 1, 1);
    check_rules(&table, lonely, 1);
    /* A hole counts as the end of what is measured. */
    fill(&table, times, 6, 6);
    memset(table.seconds[4], 0, sizeof(table.seconds[4]));
    check_rules(&table, begun, 2);
    /* One that is given up cannot be kept. */
    fill(&table, times, 6, 6);
    table.seconds[1][A] = 0;
    tune_make_rules(&table, &(mscclpp_rule_set_t){0});
    CHECK_EQ(tune_fastest(&table, 1), B);
}

/* Ranks on several nodes try the algorithms between nodes, and those alone. */
static void test_nodes(void)
{
    tune_table_t table;

    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_LAST, 2, 1024, 8192, 2, 8));
    CHECK(tune_algo_can_serve(&table, tune_algo_find(&table, "nodes_ring")));
    CHECK(!tune_algo_can_serve(&table, tune_algo_find(&table, "oneshot")));
    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_BCAST, 2, 1024, 8192, 2, 8));
    CHECK(tune_algo_can_serve(&table, tune_algo_find(&table, "nodes_trees")));
    CHECK(!tune_algo_can_serve(&table, tune_algo_find(&table, "nodes_ring")));
    CHECK(!tune_algo_can_serve(&table, tune_algo_find(&table, "packets")));
    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1024, 8192, 2, 8));
    CHECK(!tune_algo_can_serve(&table, tune_algo_find(&table, "nodes_ring")));
}

/* Rules of a collective with blocks: sizes of blocks, no two of them equal, and not more than there is room for. */
static void test_blocks(void)
{
    static const mscclpp_rule_t wanted[] = {{100, MSCCLPP_COLL_BY_ZEROCOPY, 0, 0},
                                            {400, MSCCLPP_COLL_BY_SCRATCH, 0, 0}};
    tune_table_t table;
    mscclpp_rule_set_t set;

    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_ALLGATHER, 1, 1024, 8192, 2, 8));
    CHECK_EQ(table.algo_count, MSCCLPP_COLL_BY_LAST);
    CHECK(tune_algo_can_serve(&table, MSCCLPP_COLL_BY_ENGINES));
    CHECK_TEXT(tune_algo_name(&table, MSCCLPP_COLL_BY_ENGINES), "engines");
    CHECK_EQ(tune_algo_find(&table, "oneshot"), -1);
    table.block_bytes[0] = table.block_bytes[1] = 100;
    table.block_bytes[2] = 200;
    table.block_bytes[3] = 400;
    for (int size = 0; size < 4; ++size) {
        table.seconds[size][MSCCLPP_COLL_BY_PACKETS] = 0 == size ? 1 : 3;
        table.seconds[size][MSCCLPP_COLL_BY_ZEROCOPY] = size < 2 ? 2 : 3;
        table.seconds[size][MSCCLPP_COLL_BY_SCRATCH] = size < 2 ? 4 : 1;
    }
    check_rules(&table, wanted, 2);
    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_EXSCAN, 1, 1024, (size_t)1024 << 9, 2, 8));
    CHECK(!tune_algo_can_serve(&table, MSCCLPP_COLL_BY_ENGINES));
    /* Each size has one algorithm only, so none can be kept. */
    for (int size = 0; size < table.size_count; ++size) {
        table.seconds[size][size % 2 == 0 ? MSCCLPP_COLL_BY_PACKETS : MSCCLPP_COLL_BY_SCRATCH] = 1;
    }
    tune_make_rules(&table, &set);
    CHECK_EQ(set.count, TUNE_MAX_COLL_RULES);
    CHECK_EQ(set.rules[set.count - 1].bytes, table.block_bytes[TUNE_MAX_COLL_RULES - 1]);
}

/* Times that change sides at each size still fit a set, which has ascending sizes. */
static void test_noise(void)
{
    mscclpp_rule_set_t set;
    tune_table_t table;

    REQUIRE(tune_table_init(&table, MSCCLPP_COLL_LAST, 1, 1024, 1024 * 1024, 1.12, 4));
    CHECK(table.size_count > 2 * MSCCLPP_RULES_MAX);
    for (int size = 0; size < table.size_count; ++size) {
        table.seconds[size][A] = size % 2 == 0 ? 1 : 1.2;
        table.seconds[size][B] = size % 2 == 0 ? 1.2 : 1;
    }
    tune_make_rules(&table, &set);
    CHECK(set.count >= 1 && set.count <= MSCCLPP_RULES_MAX);
    CHECK_EQ(set.rules[set.count - 1].bytes, table.bytes[table.size_count - 1]);
}

static void test_hopeless(void)
{
    static const double times[][3] = {{1, 4, 5}, {1, 4, 9.5}, {1.1, 4, 19}, {1.2, 7.9, 38}, {2.4, 15.8, 76}};
    tune_table_t table;

    fill(&table, times, 5, 2);
    CHECK(!tune_is_hopeless(&table, 0, B));
    CHECK(!tune_is_hopeless(&table, 1, C));
    /* Slow, and grows with the size; slow, but does not grow; the best one. */
    CHECK(tune_is_hopeless(&table, 2, C));
    CHECK(!tune_is_hopeless(&table, 2, B));
    CHECK(!tune_is_hopeless(&table, 2, A));
    fill(&table, times, 5, 5);
    CHECK(tune_is_hopeless(&table, 4, B));
    /* The best one may grow as it likes. */
    fill(&table, times, 5, 5);
    table.seconds[4][A] = 24;
    table.seconds[4][B] = table.seconds[4][C] = 0;
    table.seconds[3][B] = 0;
    CHECK(tune_is_hopeless(&table, 4, B));
    CHECK(!tune_is_hopeless(&table, 4, A));
    /* None has a time at the size before, so there is nothing to compare with. */
    table.seconds[3][A] = table.seconds[3][C] = 0;
    CHECK(!tune_is_hopeless(&table, 4, A));
    CHECK(!tune_is_hopeless(&table, 4, B));
}

static void test_time_left(void)
{
    static const double quick[][3] = {{1e-6, 1e-6, 1e-6}, {2e-6, 2e-6, 2e-6}, {3e-6, 3e-6, 3e-6}};
    static const double slow[][3] = {{1, 0, 0}, {2, 0, 0}, {4, 0, 0}};
    static const double noisy[][3] = {{2, 0, 0}, {1, 0, 0}, {2, 0, 0}};
    tune_table_t table;

    fill(&table, quick, 7, 3);
    CHECK(tune_seconds_left(&table, 2, 3.0) < 0);
    CHECK(tune_seconds_left(&table, 3, 3.0) > 11.9 && tune_seconds_left(&table, 3, 3.0) < 12.1);
    CHECK(tune_seconds_left(&table, 7, 3.0) == 0);
    fill(&table, slow, 5, 3); /* 8 and 16 in place of 4 */
    CHECK(tune_seconds_left(&table, 3, 3.0) > 17.9 && tune_seconds_left(&table, 3, 3.0) < 18.1);
    fill(&table, noisy, 5, 3);
    CHECK(tune_seconds_left(&table, 3, 3.0) > 5.9 && tune_seconds_left(&table, 3, 3.0) < 6.1);
}

/* What the model itself says is found again, from figures that are far off. */
static void test_fit(void)
{
    static const uint32_t nodes[] = {2, 4, 64};
    tune_point_t points[5];
    size_t i, k;

    for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); ++i) {
        mscclpp_cost_figures_t figures = *mscclpp_cost_find_builtin("ucx"), truth = figures;

        truth.latency *= 7;
        truth.overhead *= 7;
        truth.gap *= 7;
        truth.bandwidth /= 30;
        for (k = 0; k < 5; ++k) {
            points[k].bytes = (uint64_t)16384 << (2 * k);
            points[k].seconds = tune_fit_model(&truth, nodes[i], 8, points[k].bytes);
        }
        CHECK(tune_fit(&figures, nodes[i], 8, points, 5) < 1.001);
        CHECK(figures.latency > 0.98 * truth.latency && figures.latency < 1.02 * truth.latency);
        CHECK(figures.bandwidth > 0.98 * truth.bandwidth && figures.bandwidth < 1.02 * truth.bandwidth);
        /* One point that is twice too slow. */
        points[2].seconds *= 2;
        CHECK(tune_fit(&figures, nodes[i], 8, points, 5) > 1.1);
        /* Times that only bandwidth explains, the small sizes even quicker: the latency ends at a nanosecond or so. */
        for (k = 0; k < 5; ++k) {
            points[k].seconds = (double)points[k].bytes * (1.0 + 0.1 * (double)k) * 1e-9;
        }
        figures = *mscclpp_cost_find_builtin("ucx");
        tune_fit(&figures, nodes[i], 8, points, 5);
        CHECK(figures.latency >= 1e-9 && figures.latency < 1e-7);
    }
}

int main(void)
{
    unit_begin();
    test_sizes();
    test_rules();
    test_nodes();
    test_blocks();
    test_noise();
    test_hopeless();
    test_time_left();
    test_fit();
    return unit_end();
}
