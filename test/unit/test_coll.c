/* What is chosen for the collectives other than all-reduce (mca/common/algo/coll.c). */
#include "device/types/coll_nodes.h"
#include "mca/common/algo/schedule/cost.h"
#include "mca/common/algo/shape/tiles.h"
#include "test/unit/coll_input.h"

static void check_grid(const mscclpp_select_input_t *input, int coll, const mscclpp_coll_choice_t *choice, bool varied)
{
    const bool by_packets = choice->algo == MSCCLPP_COLL_BY_PACKETS;

    if (choice->algo == MSCCLPP_COLL_BY_ENGINES) {
        CHECK_EQ(choice->nblocks, 0);
        return;
    }
    CHECK(choice->nblocks >= 1 && choice->nblocks <= (input->on_twin ? MSCCLPP_DEV_MAX_BLOCKS : input->block_limit));
    CHECK(choice->nthreads >= 1 && choice->nthreads <= MSCCLPP_DEV_MAX_THREADS);
    CHECK_EQ(choice->epochs, by_packets);
    if (by_packets) {
        CHECK_EQ(choice->kernel, moves(coll)
                                     ? (varied ? MSCCLPP_KERNEL_COLL_MOVE_BLOCKS : MSCCLPP_KERNEL_COLL_MOVE_PACKETS)
                                 : varied ? MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS
                                          : MSCCLPP_KERNEL_COLL_COMBINE_PACKETS);
    }
    if (choice->algo == MSCCLPP_COLL_BY_SCRATCH) {
        CHECK(MSCCLPP_DEV_COLL_TILE(input->layout->bulk_size, choice->nblocks, input->nranks) >= MSCCLPP_DEV_UNIT);
    }
}

/* Whatever the size of the scratch, of the grid and of the blocks: what is chosen can run. */
static void test_grids(void)
{
    static const uint64_t sizes[] = {1, 15, 16, 4096, 100000, 5 * MIB, 3000 * MIB};
    static const uint32_t limits[] = {1, 2, 33, 128};

    for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
        for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
            for (int algo = MSCCLPP_ALGO_AUTO; algo < MSCCLPP_COLL_BY_LAST; ++algo) {
                for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 4 * 2 * 2; ++i) {
                    mscclpp_select_input_t input = gpus(ranks);
                    const uint64_t bytes = sizes[i / 16];
                    const bool varied = i % 2 == 1, mapped = i / 2 % 2 == 1;
                    mscclpp_coll_choice_t choice;

                    /* The scratch that a communicator begins with, by turns with that for large messages. */
                    if (ranks % 2 == 0) {
                        mscclpp_layout_divide(&layout, 16 * KIB, 8 * KIB, 4 * KIB);
                    }
                    input.block_limit = limits[i / 4 % 4];
                    protocol.coll_algorithm[coll] = algo;
                    REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, bytes, varied, mapped, &choice) ==
                            MSCCLPP_OK);
                    check_grid(&input, coll, &choice, varied);
                    CHECK(mapped ||
                          (choice.algo != MSCCLPP_COLL_BY_ZEROCOPY && choice.algo != MSCCLPP_COLL_BY_ENGINES));
                }
            }
        }
    }
}

/* Between nodes: packets for small blocks of one size, else tiles, and neither before anybody waits. */
static void test_nodes(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        mscclpp_select_input_t input = gpus(4);
        mscclpp_coll_choice_t choice;

        input.nodes = 2;
        input.all_ranks = 8;
        input.shards = input.max_node_ranks = 4;
        input.slot_size = 512 * KIB;
        input.packet_units = 4096;
        REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 64, false, true, &choice) == MSCCLPP_OK);
        CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_PACKETS);
        REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 64, true, true, &choice) == MSCCLPP_OK);
        CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES);
        CHECK(choice.tile > 0 && choice.tile % MSCCLPP_DEV_UNIT == 0);
        REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 64 * MIB, false, true, &choice) == MSCCLPP_OK);
        CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES);
        CHECK(choice.nblocks >= 1 && choice.nblocks <= MSCCLPP_DEV_NODES_BLOCKS);
        CHECK(choice.tile > 0 && choice.tile <= input.slot_size);
        protocol.coll_algorithm[coll] = MSCCLPP_COLL_BY_ENGINES; /* which no such communicator has */
        CHECK_EQ(choose(&input, coll, 64 * MIB, true), MSCCLPP_COLL_BY_NODES);
        protocol.coll_algorithm[coll] = MSCCLPP_ALGO_AUTO;
        input.packet_units = 0; /* the transport carries none */
        CHECK_EQ(choose(&input, coll, 64, true), MSCCLPP_COLL_BY_NODES);
        input.is_early = true;
        CHECK_EQ(choose(&input, coll, 64, true), REFUSED);
        input.is_early = false;
        input.slot_size = 0;
        CHECK_EQ(choose(&input, coll, 64, true), REFUSED);
    }
}

static mscclpp_select_input_t many_nodes(uint32_t nodes)
{
    mscclpp_select_input_t input = gpus(1);

    input.nodes = input.all_ranks = nodes;
    input.shards = input.max_node_ranks = 1;
    input.slot_size = 64 * KIB;
    input.packet_units = 4096;
    return input;
}

/* Tiles of large blocks go in a ring where the cost model says so, which then explains that. */
static void test_ring(void)
{
    mscclpp_select_input_t input = many_nodes(8);
    mscclpp_coll_choice_t choice;
    char text[512];

    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, MIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, false, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_RING);
    CHECK_EQ(choice.exchange, MSCCLPP_DEV_NODES_RING);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_COLL_NODES);
    CHECK(mscclpp_coll_explain(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, &choice, text, sizeof(text)));
    CHECK(strstr(text, "over 8 nodes: nodes_ring; by the cost model nodes ") != NULL);
    CHECK(strstr(text, " us, nodes_ring ") != NULL);
    memset(text, 'x', sizeof(text));
    CHECK(mscclpp_coll_explain(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, &choice, text, 8));
    CHECK(text[7] == '\0' && memcmp(text + 8, text + 9, sizeof(text) - 9) == 0 && text[8] == 'x');
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHERV, 64 * MIB, true), MSCCLPP_COLL_BY_NODES_RING);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLTOALL, 64 * MIB, true), MSCCLPP_COLL_BY_NODES);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER, MIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_REDUCE_SCATTER, 64 * MIB, true, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_RING);
    CHECK_EQ(choice.exchange, MSCCLPP_DEV_NODES_RING);
    CHECK(mscclpp_coll_explain(&input, MSCCLPP_COLL_REDUCE_SCATTER, 64 * MIB, &choice, text, sizeof(text)));
    CHECK(strstr(text, " us, nodes_ring ") != NULL);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER_BLOCK, 64 * MIB, true), MSCCLPP_COLL_BY_NODES_RING);
    for (input.dtype = 0; input.dtype < MSCCLPP_DTYPE_LAST; ++input.dtype) {
        const bool is_narrow = input.dtype == MSCCLPP_DTYPE_FLOAT16 || input.dtype == MSCCLPP_DTYPE_BFLOAT16;

        /* 16-bit floats would be rounded at each node, whoever asks for the ring. */
        for (int asks = 0; asks < 2; ++asks) {
            protocol.coll_algorithm[MSCCLPP_COLL_REDUCE_SCATTER] =
                asks ? MSCCLPP_COLL_BY_NODES_RING : MSCCLPP_ALGO_AUTO;
            CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER, 64 * MIB, true),
                     is_narrow ? MSCCLPP_COLL_BY_NODES : MSCCLPP_COLL_BY_NODES_RING);
        }
    }
    protocol.coll_algorithm[MSCCLPP_COLL_REDUCE_SCATTER] = MSCCLPP_ALGO_AUTO;
    input.dtype = MSCCLPP_DTYPE_FLOAT32;
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_BCAST, MIB, false, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_TREES);
    CHECK_EQ(choice.exchange, MSCCLPP_DEV_NODES_TREES);
    CHECK(mscclpp_coll_explain(&input, MSCCLPP_COLL_BCAST, MIB, &choice, text, sizeof(text)));
    CHECK(strstr(text, " us, nodes_trees ") != NULL);
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLTOALL, 64 * MIB, false, true, &choice) == MSCCLPP_OK);
    CHECK(!mscclpp_coll_explain(&input, MSCCLPP_COLL_ALLTOALL, 64 * MIB, &choice, text, sizeof(text)));
    /* Small blocks still travel as packets, which no flag of the choice sends around. */
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 8, false, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.exchange, MSCCLPP_DEV_NODES_DIRECT);
    input.nodes = input.all_ranks = 2; /* where a ring is the same as tiles to all */
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, true), MSCCLPP_COLL_BY_NODES);
    input = many_nodes(8);
    input.is_one_host = true;
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    input.is_one_host = false;
    protocol.coll_algorithm[MSCCLPP_COLL_ALLGATHER] = MSCCLPP_COLL_BY_NODES;
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 64 * MIB, true), MSCCLPP_COLL_BY_NODES);
    protocol.coll_algorithm[MSCCLPP_COLL_ALLGATHER] = MSCCLPP_ALGO_AUTO;
    /* With measured figures of a slow network, latencies weigh less. */
    input.transport = "verbs";
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 6 * MIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    protocol.figures[mscclpp_cost_find_transport("verbs")] =
        (mscclpp_rule_figures_t){.is_given = 1, .latency = 3e-6, .overhead = 0.5e-6, .gap = 0.1e-6, .bandwidth = 1e9};
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 6 * MIB, true), MSCCLPP_COLL_BY_NODES_RING);
    protocol.figures[mscclpp_cost_find_transport("verbs")].is_given = 0;
}

/* Tiles of middle size go by halving between many nodes, where the cost model says so, which then explains that. */
static void test_halving(void)
{
    mscclpp_select_input_t input = many_nodes(256);
    mscclpp_coll_choice_t choice;
    char text[512];

    protocol.nodes_packets_max = 1;
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER, 4 * KIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER_BLOCK, 4 * KIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHERV, 4 * KIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    REQUIRE(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 4 * KIB, false, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_HALVING);
    CHECK_EQ(choice.exchange, MSCCLPP_DEV_NODES_HALVING);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_COLL_NODES);
    CHECK(mscclpp_coll_explain(&input, MSCCLPP_COLL_ALLGATHER, 4 * KIB, &choice, text, sizeof(text)));
    CHECK(strstr(text, "over 256 nodes: nodes_halving; by the cost model nodes ") != NULL);
    CHECK(strstr(text, " us, nodes_halving ") != NULL);
    CHECK(choose(&input, MSCCLPP_COLL_ALLTOALL, 4 * KIB, true) != MSCCLPP_COLL_BY_NODES_HALVING);
    CHECK_EQ(choose(&input, MSCCLPP_COLL_ALLGATHER, 64 * KIB, true), MSCCLPP_COLL_BY_NODES_HALVING);
    input.dtype = MSCCLPP_DTYPE_BFLOAT16; /* would be rounded in each round */
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER, 4 * KIB, true), MSCCLPP_COLL_BY_NODES);
    protocol.coll_algorithm[MSCCLPP_COLL_REDUCE_SCATTER] = MSCCLPP_COLL_BY_NODES_HALVING;
    CHECK_EQ(choose(&input, MSCCLPP_COLL_REDUCE_SCATTER, 4 * KIB, true), MSCCLPP_COLL_BY_NODES);
    protocol.coll_algorithm[MSCCLPP_COLL_REDUCE_SCATTER] = MSCCLPP_ALGO_AUTO;
    protocol.nodes_packets_max = 0;
}

/* A name chooses where it is possible; on one node it chooses nothing. */
static void test_named(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern((mscclpp_coll_t)coll);

        for (int algo = MSCCLPP_COLL_BY_NODES; algo < MSCCLPP_COLL_BY_END; ++algo) {
            const char *name = mscclpp_coll_algo_name((mscclpp_coll_algo_t)algo);
            mscclpp_select_input_t input = many_nodes(5);
            int large;

            protocol.coll_algorithm[coll] = mscclpp_coll_algo_find_any(name);
            CHECK_EQ(protocol.coll_algorithm[coll], algo);
            CHECK(mscclpp_coll_algo_find(name) == MSCCLPP_ALGO_AUTO); /* it is not within a node */
            if (algo >= MSCCLPP_COLL_BY_NODES_RING) {
                const bool possible = MSCCLPP_DEV_COLL_RINGS(pattern)
                                          ? algo != MSCCLPP_COLL_BY_NODES_TREES
                                          : MSCCLPP_DEV_COLL_TREES(pattern) && algo == MSCCLPP_COLL_BY_NODES_TREES;

                /* Where it is not possible, the name changes nothing. */
                CHECK_EQ(choose(&input, coll, 8, true) == algo, possible);
                CHECK(!possible || choose(&input, coll, MIB, true) == algo);
                continue;
            }
            CHECK_EQ(choose(&input, coll, 8, true), algo);
            /* Packets do not serve large blocks, for which the name changes nothing. */
            large = choose(&input, coll, MIB, true);
            protocol.coll_algorithm[coll] = algo == MSCCLPP_COLL_BY_NODES ? algo : MSCCLPP_ALGO_AUTO;
            CHECK_EQ(large, choose(&input, coll, MIB, true));
            CHECK(algo != MSCCLPP_COLL_BY_NODES || large == MSCCLPP_COLL_BY_NODES);
            protocol.coll_algorithm[coll] = algo;
            protocol.nodes_fanout = 1;
            CHECK_EQ(choose(&input, coll, 8, true),
                     algo == MSCCLPP_COLL_BY_NODES ? MSCCLPP_COLL_BY_NODES : MSCCLPP_COLL_BY_NODES_ROUNDS);
            input = gpus(4);
            protocol.coll_algorithm[coll] = algo;
            CHECK_EQ(choose(&input, coll, 1, true), MSCCLPP_COLL_BY_PACKETS);
        }
    }
    CHECK_EQ(mscclpp_coll_algo_find_any("scratch"), MSCCLPP_COLL_BY_SCRATCH);
    CHECK_EQ(mscclpp_coll_algo_find_any("stage"), MSCCLPP_ALGO_STAGE);
}

/* Small blocks go in rounds where there are many nodes; with a radix of at most one more than the fan-out. */
static void test_rounds(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        mscclpp_select_input_t input = many_nodes(3);
        mscclpp_coll_choice_t choice;
        char text[512];

        CHECK_EQ(choose(&input, coll, 8, true), MSCCLPP_COLL_BY_NODES_PACKETS);
        protocol.nodes_fanout = 1;
        REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 8, false, true, &choice) == MSCCLPP_OK);
        CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_ROUNDS);
        CHECK_EQ(choice.radix, 2);
        mscclpp_coll_explain(&input, (mscclpp_coll_t)coll, 8, &choice, text, sizeof(text));
        CHECK(strstr(text, "of blocks of 8 bytes over 3 nodes: nodes_rounds; by the cost model nodes_packets ") !=
              NULL);
        input = many_nodes(200);
        for (protocol.nodes_fanout = 1; protocol.nodes_fanout < 300; ++protocol.nodes_fanout) {
            REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 8, false, true, &choice) == MSCCLPP_OK);
            CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_ROUNDS);
            CHECK(choice.radix - 1 <= protocol.nodes_fanout && choice.radix <= 8);
        }
        /* Partial results of 16-bit floats are not rounded on each node of the way. */
        input.dtype = MSCCLPP_DTYPE_FLOAT16;
        protocol.nodes_fanout = 64;
        CHECK_EQ(choose(&input, coll, 8, true), MSCCLPP_DEV_COLL_MERGES(mscclpp_coll_pattern((mscclpp_coll_t)coll))
                                                    ? MSCCLPP_COLL_BY_NODES
                                                    : MSCCLPP_COLL_BY_NODES_ROUNDS);
    }
}

/* Between nodes a rule decides, if no parameter does; where it cannot serve a call, what the cost model says. */
static void test_rules_between(void)
{
    mscclpp_select_input_t input = many_nodes(8);
    mscclpp_coll_choice_t choice;
    mscclpp_choice_t reduced;

    input.dtype = MSCCLPP_DTYPE_FLOAT32;
    protocol.algorithm = MSCCLPP_ALGO_AUTO;
    protocol.coll_rules.count = 3;
    protocol.coll_rules.rules[0] = (mscclpp_coll_rule_t){8, MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_BY_NODES_ROUNDS, 0, 8};
    protocol.coll_rules.rules[1] =
        (mscclpp_coll_rule_t){1000, MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_BY_NODES_HALVING, 0, 8};
    protocol.coll_rules.rules[2] =
        (mscclpp_coll_rule_t){2000, MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_BY_NODES_RING, 0, 8};
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 8, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_ROUNDS);
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 1000, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_HALVING);
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 1001, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES_RING);
    protocol.coll_algorithm[MSCCLPP_COLL_ALLGATHER] = MSCCLPP_COLL_BY_NODES;
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_ALLGATHER, 1001, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_NODES);

    protocol.rules.count = 1;
    protocol.rules.rules[0] = (mscclpp_rule_t){1 << 20, mscclpp_algo_find("nodes_ring"), 0, 8};
    input.bytes = 1 << 20;
    REQUIRE(mscclpp_select_allreduce(&input, &reduced) == MSCCLPP_OK);
    CHECK_TEXT(reduced.algo->name, "nodes_ring");
    input.dtype = MSCCLPP_DTYPE_FLOAT16; /* a ring would round it at each node */
    REQUIRE(mscclpp_select_allreduce(&input, &reduced) == MSCCLPP_OK);
    CHECK_TEXT(reduced.algo->name, "nodes_split");
    input.dtype = MSCCLPP_DTYPE_FLOAT32;
    input.bytes = 8;
    protocol.rules.rules[0].algorithm = mscclpp_algo_find("nodes_split");
    REQUIRE(mscclpp_select_allreduce(&input, &reduced) == MSCCLPP_OK);
    CHECK_TEXT(reduced.algo->name, "nodes_split");
    protocol.nodes_packets_max = 64; /* a size that a parameter sets stands against rules */
    REQUIRE(mscclpp_select_allreduce(&input, &reduced) == MSCCLPP_OK);
    CHECK_TEXT(reduced.algo->name, "nodes_packets");
    protocol.nodes_packets_max = 0;
    input.nodes = 4; /* the rule is for another number of nodes */
    REQUIRE(mscclpp_select_allreduce(&input, &reduced) == MSCCLPP_OK);
    CHECK_TEXT(reduced.algo->name, "nodes_packets");
}

static mscclpp_select_input_t gpus_of_nodes(uint32_t nodes, uint32_t ranks)
{
    mscclpp_select_input_t input = gpus(ranks);

    mscclpp_layout_init_between(&layout, 16 * MIB);
    input.nodes = nodes;
    input.all_ranks = nodes * ranks;
    input.shards = input.max_node_ranks = ranks;
    input.slot_size = mscclpp_tiles_find_slot_size(nodes, 14 * MIB);
    return input;
}

/*
 * mscclpp_sim takes the tiles that kernels get with the sizes by default. Over trees they fit the set of the exchange
 * area and the rows of the scratch.
 */
static void check_tiles(mscclpp_coll_t coll, mscclpp_coll_algo_t algo, mscclpp_dev_nodes_pattern_t exchange,
                        uint32_t nodes, uint32_t ranks, uint64_t bytes)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(coll);
    const mscclpp_tiles_place_t place = {nodes, ranks, .scratch_size = 16 * MIB, .exchange_size = 16 * MIB};
    const mscclpp_tiles_way_t way = {.pattern = (int)pattern, .exchange = exchange};
    const uint64_t places = pattern == MSCCLPP_DEV_BCAST ? 1 : 3, rows = pattern == MSCCLPP_DEV_BCAST ? 2 : ranks + 2;
    const uint64_t blocks = pattern == MSCCLPP_DEV_ALLTOALL ? ranks : 1;
    const mscclpp_select_input_t input = gpus_of_nodes(nodes, ranks);
    mscclpp_coll_choice_t choice;
    mscclpp_tiles_t simulated;

    protocol.coll_algorithm[coll] = algo;
    if (!mscclpp_tiles_find_between(&place, &way, bytes, &simulated)) {
        CHECK(algo != MSCCLPP_COLL_BY_NODES ||
              mscclpp_coll_select(&input, coll, bytes, false, true, &choice) != MSCCLPP_OK);
        return;
    }
    REQUIRE(mscclpp_coll_select(&input, coll, bytes, false, true, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.exchange,
             exchange == MSCCLPP_DEV_NODES_DIRECT ? mscclpp_tiles_choose_direct(&input, pattern, bytes) : exchange);
    CHECK_EQ(choice.tile * blocks, simulated.bytes);
    CHECK_EQ(simulated.fanout, choice.exchange == MSCCLPP_DEV_NODES_WINDOWS ? 16 : 0);
    CHECK_EQ((simulated.fanout > 0 ? 1 : 2) * choice.nblocks, simulated.in_flight);
    if (exchange == MSCCLPP_DEV_NODES_TREES) {
        CHECK(places * (choice.tile + MSCCLPP_DEV_UNIT) <= (nodes + 1) * input.slot_size);
        CHECK(choice.nblocks * 3 * rows * (choice.tile + MSCCLPP_DEV_UNIT) <= layout.bulk_size);
        CHECK(choice.tile >= 8 * KIB && choice.tile <= 256 * KIB);
    }
}

/* The same in an all-reduce, whose kernel computes the size of its tiles itself. */
static void check_tiles_of_allreduce(mscclpp_dev_nodes_pattern_t exchange, const mscclpp_algo_t *algo, uint32_t nodes,
                                     uint32_t ranks, uint64_t bytes)
{
    const mscclpp_tiles_place_t place = {nodes, ranks, .scratch_size = 16 * MIB, .exchange_size = 16 * MIB};
    const mscclpp_tiles_way_t way = {.pattern = -1, .exchange = exchange};
    mscclpp_select_input_t input = gpus_of_nodes(nodes, ranks);
    uint64_t shard = (bytes + ranks - 1) / ranks, most, turns, even;
    mscclpp_choice_t choice;
    mscclpp_tiles_t simulated;

    input.bytes = bytes;
    input.dtype = MSCCLPP_DTYPE_FLOAT32;
    REQUIRE(mscclpp_select_shape(&input, algo, &choice) == MSCCLPP_OK);
    REQUIRE(mscclpp_tiles_find_between(&place, &way, bytes, &simulated));
    most = MSCCLPP_DEV_UNIT * MSCCLPP_DEV_NODES_TILE(layout.bulk_size, choice.nblocks, ranks,
                                                     MSCCLPP_DEV_NODES_ROOM(exchange, nodes, input.slot_size, 0, 1));
    turns = (shard + most * choice.nblocks - 1) / (most * choice.nblocks);
    even = shard / (turns * choice.nblocks);
    CHECK(turns == 1 ? simulated.bytes == most : simulated.bytes >= even && simulated.bytes <= even + MSCCLPP_DEV_UNIT);
    CHECK(simulated.bytes % MSCCLPP_DEV_UNIT == 0 && simulated.in_flight % choice.nblocks == 0);
    CHECK(simulated.in_flight >= 2 * choice.nblocks && simulated.in_flight <= 7 * choice.nblocks);
}

/*
 * In windows, what a block of the grid sends and receives at a time fits its share of the exchange area, and what the
 * ranks of a window send one another its share of the scratch. So there is room for tiles of any number of nodes.
 */
static void check_windows(uint32_t nodes, uint32_t ranks, uint64_t bytes)
{
    const mscclpp_dev_pattern_t patterns[] = {MSCCLPP_DEV_ALLTOALL, MSCCLPP_DEV_SCATTER};
    const mscclpp_select_input_t input = gpus_of_nodes(nodes, ranks);
    size_t i;

    for (i = 0; i < 2; ++i) {
        const uint64_t blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(patterns[i], ranks, ranks);
        const uint64_t rows = 8 * ranks * (patterns[i] == MSCCLPP_DEV_SCATTER ? 2 : 1);
        mscclpp_choice_t grid;
        uint64_t tile, message;

        if (nodes <= 8) {
            CHECK_EQ(mscclpp_tiles_choose_direct(&input, patterns[i], bytes), MSCCLPP_DEV_NODES_DIRECT);
            continue;
        }
        CHECK(nodes < 1000 || mscclpp_tiles_choose_direct(&input, patterns[i], bytes) == MSCCLPP_DEV_NODES_WINDOWS);
        REQUIRE(mscclpp_tiles_choose_coll_grid(&input, patterns[i], MSCCLPP_DEV_NODES_WINDOWS, bytes, &grid, &tile));
        message = MSCCLPP_DEV_COLL_NODES_HEAD(blocks) + blocks * tile;
        CHECK(grid.nblocks * 3 * 16 * message <= 16 * 5 * ((uint64_t)nodes + 1) * input.slot_size);
        CHECK(grid.nblocks * 3 * rows * (tile + MSCCLPP_DEV_UNIT) <= layout.bulk_size);
    }
}

/* With a few nodes more than a window has, windows and their meetings pay only if they spare many turns. */
static void test_choice_of_windows(void)
{
    const mscclpp_select_input_t few = gpus_of_nodes(9, 2), more = gpus_of_nodes(32, 1), many = gpus_of_nodes(64, 8);

    CHECK_EQ(mscclpp_tiles_choose_direct(&many, MSCCLPP_DEV_ALLGATHER, 100 * MIB), MSCCLPP_DEV_NODES_DIRECT);
    CHECK_EQ(mscclpp_tiles_choose_direct(&few, MSCCLPP_DEV_ALLTOALL, 100 * MIB), MSCCLPP_DEV_NODES_DIRECT);
    CHECK_EQ(mscclpp_tiles_choose_direct(&more, MSCCLPP_DEV_SCATTER, 4 * KIB), MSCCLPP_DEV_NODES_DIRECT);
    CHECK_EQ(mscclpp_tiles_choose_direct(&more, MSCCLPP_DEV_SCATTER, 16 * MIB), MSCCLPP_DEV_NODES_WINDOWS);
    CHECK_EQ(mscclpp_tiles_choose_direct(&many, MSCCLPP_DEV_ALLTOALL, 100), MSCCLPP_DEV_NODES_DIRECT);
    CHECK_EQ(mscclpp_tiles_choose_direct(&many, MSCCLPP_DEV_ALLTOALL, 64 * KIB), MSCCLPP_DEV_NODES_WINDOWS);
}

static void test_tiles(void)
{
    static const uint32_t nodes[] = {2, 3, 8, 64, 257, 1000, 4096}, ranks[] = {1, 3, 8, 64};

    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]) * 4; ++i) {
        const uint32_t n = nodes[i / 4], r = ranks[i % 4];

        for (uint64_t bytes = 100 * KIB; bytes < 1000 * MIB; bytes *= 7) {
            check_windows(n, r, bytes);
            check_tiles(MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_BY_NODES, MSCCLPP_DEV_NODES_DIRECT, n, r, bytes);
            check_tiles(MSCCLPP_COLL_ALLTOALL, MSCCLPP_COLL_BY_NODES, MSCCLPP_DEV_NODES_DIRECT, n, r, bytes);
            check_tiles_of_allreduce(MSCCLPP_DEV_NODES_DIRECT, &mscclpp_algo_allreduce_nodes, n, r, bytes);
            check_tiles_of_allreduce(MSCCLPP_DEV_NODES_SPLIT, &mscclpp_algo_allreduce_nodes_split, n, r, bytes);
            check_tiles_of_allreduce(MSCCLPP_DEV_NODES_RING, &mscclpp_algo_allreduce_nodes_ring, n, r, bytes);
            check_tiles_of_allreduce(MSCCLPP_DEV_NODES_TREES, &mscclpp_algo_allreduce_nodes_trees, n, r, bytes);
            if (r <= 8) {
                check_tiles(MSCCLPP_COLL_BCAST, MSCCLPP_COLL_BY_NODES_TREES, MSCCLPP_DEV_NODES_TREES, n, r, bytes);
                check_tiles(MSCCLPP_COLL_REDUCE, MSCCLPP_COLL_BY_NODES_TREES, MSCCLPP_DEV_NODES_TREES, n, r, bytes);
            }
        }
    }
}

int main(void)
{
    unit_begin();
    test_grids();
    test_nodes();
    test_ring();
    test_halving();
    test_rules_between();
    test_named();
    test_rounds();
    test_tiles();
    test_choice_of_windows();
    return unit_end();
}
