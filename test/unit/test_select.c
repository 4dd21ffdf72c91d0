/* The selector: a pure function of the message, the ranks, the settings and the rules. */
#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/allreduce/thresholds.h"
#include "mca/common/algo/schedule/cost.h"
#include "mca/common/algo/select.h"
#include "device/types/nodes.h"
#include "test/unit/select_input.h"
#include "test/unit/unit.h"

static const char *selected(mscclpp_select_input_t *input, uint64_t bytes)
{
    mscclpp_choice_t choice;

    input->bytes = bytes;
    return mscclpp_select_allreduce(input, &choice) == MSCCLPP_OK ? choice.algo->name : "nothing";
}

/* What the cost model says is fastest, in the kernels' tiles, between nodes that are not on one host. */
static const char *fastest(mscclpp_select_input_t *input, uint64_t bytes)
{
    static const struct {
        const char *name;
        mscclpp_dev_nodes_pattern_t pattern;
        uint32_t nodes; /* from so many on */
    } ways[] = {{"nodes", MSCCLPP_DEV_NODES_DIRECT, 2},
                {"nodes_split", MSCCLPP_DEV_NODES_SPLIT, 2},
                {"nodes_ring", MSCCLPP_DEV_NODES_RING, 4},
                {"nodes_halving", MSCCLPP_DEV_NODES_HALVING, 2},
                {"nodes_trees", MSCCLPP_DEV_NODES_TREES, 3}};
    size_t i, best = 0;

    input->bytes = bytes;
    for (i = 1; i < sizeof(ways) / sizeof(ways[0]); ++i) {
        if (input->nodes >= ways[i].nodes &&
            mscclpp_between_estimate(input, ways[i].pattern) < mscclpp_between_estimate(input, ways[best].pattern)) {
            best = i;
        }
    }
    return ways[best].name;
}

/*
 * What is chosen is the fastest by the cost model, for any number of nodes. Where nodes have two ranks, that is halving
 * for large messages of 4, 8, 16 and 32 nodes, and a ring of five.
 */
static void test_links(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    static const mscclpp_dtype_t narrow[] = {MSCCLPP_DTYPE_FLOAT16, MSCCLPP_DTYPE_BFLOAT16};
    uint32_t nodes;
    uint64_t bytes;
    int i, rings = 0;

    for (nodes = 2; nodes <= MSCCLPP_DEV_MAX_RANKS / 2; ++nodes) {
        set_nodes(input, nodes);
        for (bytes = 17 * KIB; bytes < (uint64_t)1 << 34; bytes *= 3) {
            CHECK_TEXT(selected(input, bytes), fastest(input, bytes));
        }
        if (nodes == 2 || (nodes & (nodes - 1)) == 0) {
            CHECK_TEXT(selected(input, (uint64_t)1 << 30), nodes == 2 ? "nodes" : "nodes_halving");
        }
    }
    set_nodes(input, 5);
    for (input->dtype = 0; input->dtype < MSCCLPP_DTYPE_LAST; ++input->dtype) {
        rings += strcmp(selected(input, (uint64_t)1 << 33), "nodes_ring") == 0;
    }
    CHECK_EQ(rings, MSCCLPP_DTYPE_LAST - 2);
    input->dtype = MSCCLPP_DTYPE_FLOAT32;
    input->is_one_host = true;
    CHECK_TEXT(selected(input, (uint64_t)1 << 33), "nodes_split");
    input->is_one_host = false;
    /* Whoever gives a size means any number of nodes; a size for splitting is none for rings. */
    protocol->nodes_ring_min = 200 * KIB;
    protocol->nodes_split_min = 300 * KIB;
    for (nodes = 2; nodes <= 4; ++nodes) {
        set_nodes(input, nodes);
        input->dtype = MSCCLPP_DTYPE_FLOAT32;
        CHECK_TEXT(selected(input, 200 * KIB - 1), "nodes");
        CHECK_TEXT(selected(input, 200 * KIB), "nodes_ring");
        CHECK_TEXT(selected(input, 300 * KIB), "nodes_ring");
        for (i = 0; i < 2; ++i) {
            input->dtype = narrow[i];
            CHECK_TEXT(selected(input, 200 * KIB - 1), "nodes");
            CHECK_TEXT(selected(input, 200 * KIB), "nodes_split");
            protocol->algorithm = mscclpp_algo_find("nodes_ring");
            CHECK_TEXT(selected(input, 1), "nodes_split");
            protocol->algorithm = MSCCLPP_ALGO_AUTO;
        }
    }
    input->dtype = MSCCLPP_DTYPE_INT8;
    protocol->nodes_ring_min = protocol->nodes_split_min = 0;
}

/* The figures are the transport's: where a step costs more, splitting starts later. */
static void test_model(mscclpp_select_input_t *input)
{
    static const char *const transports[] = {"cuda_ipc", "verbs", "ucx", "shm", NULL, "unknown"};
    const mscclpp_protocol_t *protocol = input->protocol;
    mscclpp_protocol_t measured = *protocol;
    mscclpp_choice_t choice;
    char text[512];
    size_t i;

    set_nodes(input, 4);
    for (i = 0; i < sizeof(transports) / sizeof(transports[0]); ++i) {
        uint64_t bytes = 17 * KIB;

        input->transport = transports[i];
        while (bytes < 1024 * KIB * KIB && strcmp(selected(input, bytes), "nodes") == 0) {
            bytes += KIB;
        }
        printf("%s: split from %llu KiB on\n", transports[i] != NULL ? transports[i] : "no transport",
               (unsigned long long)(bytes / KIB));
        CHECK_TEXT(selected(input, bytes), "nodes_split");
        CHECK(bytes >= 32 * KIB && bytes <= 4096 * KIB);
    }
    input->transport = "ucx";
    input->bytes = 1024 * KIB;
    REQUIRE(mscclpp_select_allreduce(input, &choice) == MSCCLPP_OK);
    mscclpp_select_explain(input, &choice, text, sizeof(text));
    CHECK(strstr(text, "all-reduce of 1048576 bytes over 4 nodes: nodes_split; by the cost model nodes ") == text);
    CHECK(strstr(text, "(ucx: latency 3.00 us") != NULL);
    /* Measured figures take the place of the built-in ones. */
    input->protocol = &measured;
    measured.figures[mscclpp_cost_find_transport("ucx")] =
        (mscclpp_rule_figures_t){.is_given = 1, .latency = 1e-3, .overhead = 0, .gap = 0, .bandwidth = 25e9};
    CHECK_TEXT(selected(input, 1024 * KIB), "nodes");
    mscclpp_select_explain(input, &choice, text, sizeof(text));
    CHECK(strstr(text, "(ucx: latency 1000.00 us") != NULL);
    input->protocol = protocol;
    input->transport = NULL;
}

/* What nodes choose by size: packets, all of it, or a part for each where that saves enough. */
static void test_spanning(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    protocol->algorithm = MSCCLPP_ALGO_AUTO;
    input->on_twin = false;
    input->shards = input->max_node_ranks = 2;
    input->packet_units = 4096;
    set_nodes(input, 2);
    CHECK_TEXT(selected(input, 16 * KIB), "nodes_packets");
    CHECK_TEXT(selected(input, 16 * KIB + 1), "nodes");
    CHECK_TEXT(selected(input, (uint64_t)1 << 33), "nodes");
    set_nodes(input, 4);
    CHECK_TEXT(selected(input, 16 * KIB), "nodes_packets");
    CHECK_TEXT(selected(input, 100 * KIB), "nodes");
    CHECK_TEXT(selected(input, 200 * KIB), "nodes_split");
    CHECK_TEXT(selected(input, (uint64_t)1 << 24), "nodes_halving");
    test_links(input, protocol);
    test_model(input);
    set_nodes(input, 16);
    CHECK_TEXT(selected(input, 1 * KIB), "nodes_packets");
    set_nodes(input, 64);
    CHECK_TEXT(selected(input, 1 * KIB), "nodes_doubling");
    set_nodes(input, 16);
    input->transport = "shm";
    CHECK_TEXT(selected(input, 1 * KIB), "nodes_doubling");
    input->dtype = MSCCLPP_DTYPE_FLOAT16;
    CHECK_TEXT(selected(input, 1 * KIB), "nodes_packets");
    input->dtype = MSCCLPP_DTYPE_INT8;
    set_nodes(input, 15);
    CHECK_TEXT(selected(input, 1 * KIB), "nodes_packets");
    input->transport = NULL;
    set_nodes(input, 4);
    protocol->nodes_packets_max = 1000;
    protocol->nodes_split_min = 5000;
    CHECK_TEXT(selected(input, 1000), "nodes_packets");
    CHECK_TEXT(selected(input, 1001), "nodes");
    CHECK_TEXT(selected(input, 4999), "nodes");
    CHECK_TEXT(selected(input, 5000), "nodes_split");
    input->packet_units = 0;
    CHECK_TEXT(selected(input, 1), "nodes");
    protocol->nodes_packets_max = protocol->nodes_split_min = 0;
    input->nodes = 1;
}

/* Sizes that the user gives win over the built-in table, to the byte. */
static void test_given_sizes(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    int i;

    protocol->oneshot_max = 1000;
    protocol->twophase_max = 20000;
    for (i = 0; i < 2; ++i) {
        input->on_twin = i != 0;
        CHECK_TEXT(selected(input, 1), "oneshot");
        CHECK_TEXT(selected(input, 1000), "oneshot");
        CHECK_TEXT(selected(input, 1001), "twophase");
        CHECK_TEXT(selected(input, 20000), "twophase");
        CHECK_TEXT(selected(input, 20001), "zerocopy");
        protocol->zerocopy = 0;
        CHECK_TEXT(selected(input, 20001), "scratch");
        protocol->zerocopy = 1;
    }
}

/* Puts follow the packets, where they may, and take no more than what is given. */
static void test_puts(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol, mscclpp_layout_t *layout)
{
    protocol->put_max = 30000;
    CHECK_TEXT(selected(input, 20000), "twophase");
    CHECK_TEXT(selected(input, 20001), "oneshot_put");
    CHECK_TEXT(selected(input, 30000), "oneshot_put");
    CHECK_TEXT(selected(input, 30001), "zerocopy");
    protocol->put_max = 10000;
    CHECK_TEXT(selected(input, 20001), "zerocopy");
    layout->put_size = 0;
    protocol->put_max = 30000;
    CHECK_TEXT(selected(input, 20001), "scratch");
    mscclpp_layout_init(layout, 16 * 1024 * KIB);
    protocol->put_max = 0;
    /* Two-phase is left out where one-shot goes farther. */
    protocol->twophase_max = 500;
    CHECK_TEXT(selected(input, 1000), "oneshot");
    CHECK_TEXT(selected(input, 1001), "zerocopy");
}

/* Copy engines follow, where they may, from the given size on, and beneath it nothing changes. */
static void test_engine_sizes(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    int i;

    input->may_use_engines = true;
    protocol->engine_min = 30000;
    for (i = 0; i < 2; ++i) {
        input->on_twin = i != 0;
        CHECK_TEXT(selected(input, 29999), "zerocopy");
        CHECK_TEXT(selected(input, 30000), "engines");
        CHECK_TEXT(selected(input, 1000), "oneshot");
        input->may_use_engines = false;
        CHECK_TEXT(selected(input, 30000), "zerocopy");
        input->may_use_engines = true;
        protocol->zerocopy = 0;
        CHECK_TEXT(selected(input, 30000), "scratch");
        protocol->zerocopy = 1;
        protocol->engine_scratch = 0;
        CHECK_TEXT(selected(input, 30000), "zerocopy");
        protocol->engine_scratch = 192 * 1024 * KIB;
    }
    protocol->engine_min = 0;
    input->on_twin = true;
    CHECK_TEXT(selected(input, (uint64_t)1 << 30), "zerocopy");
    input->on_twin = false;
    CHECK_TEXT(selected(input, (uint64_t)1 << 30), "zerocopy");
    /* Of two GPUs by themselves, and puts for what they cannot serve. */
    input->nranks = 2;
    CHECK_TEXT(selected(input, 48 * 1024 * KIB - 1), "oneshot_put");
    CHECK_TEXT(selected(input, 48 * 1024 * KIB), "engines");
    input->may_use_engines = false;
    CHECK_TEXT(selected(input, (uint64_t)1 << 30), "oneshot_put");
    input->may_use_engines = true;
    protocol->put_max = 100 * 1024 * KIB;
    CHECK_TEXT(selected(input, 100 * 1024 * KIB), "oneshot_put");
    CHECK_TEXT(selected(input, 100 * 1024 * KIB + 1), "engines");
    protocol->engine_min = 64 * 1024 * KIB;
    CHECK_TEXT(selected(input, 64 * 1024 * KIB), "engines");
    protocol->engine_min = 0;
    protocol->put_max = 0;
    input->nranks = 4;
}

/* The table has a row for every number of ranks, and ever larger messages never go back to an earlier algorithm. */
static void test_order(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    int i;

    protocol->oneshot_max = protocol->twophase_max = 0;
    input->may_use_engines = false;
    for (i = 0; i < 2; ++i) {
        bool ordered = true;

        input->on_twin = i != 0;
        for (input->nranks = 1; input->nranks <= MSCCLPP_DEV_MAX_RANKS; ++input->nranks) {
            int last = 0;
            uint64_t bytes;

            ordered = ordered && strcmp(selected(input, 8), "oneshot") == 0;
            for (bytes = 1; bytes <= (uint64_t)1 << 36; bytes *= 2) {
                int index = mscclpp_algo_find(selected(input, bytes));

                ordered = ordered && index >= last;
                last = index;
            }
            ordered = ordered &&
                      strcmp(mscclpp_algos[last]->name, input->nranks == 2 && i == 0 ? "oneshot_put" : "zerocopy") == 0;
        }
        CHECK(ordered);
    }
}

/* An algorithm that is forced runs at any size. */
static void test_forced(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    int i;

    input->nranks = 3;
    input->may_use_engines = true;
    for (i = 0; i < mscclpp_algo_count; ++i) {
        protocol->algorithm = i;
        CHECK_TEXT(selected(input, 1), mscclpp_algos[i]->spans_nodes ? "oneshot" : mscclpp_algos[i]->name);
        CHECK_TEXT(selected(input, (uint64_t)1 << 33),
                   mscclpp_algos[i]->spans_nodes ? "zerocopy" : mscclpp_algos[i]->name);
        /* Over several nodes only what spans them does, and packets only where there is a slot for them. */
        set_nodes(input, 2);
        input->shards = input->max_node_ranks = 3;
        input->packet_units = 100;
        CHECK_TEXT(selected(input, 1), mscclpp_algos[i]->spans_nodes ? mscclpp_algos[i]->name : "nodes_packets");
        CHECK_TEXT(selected(input, (uint64_t)1 << 33),
                   mscclpp_algos[i]->spans_nodes ? mscclpp_algos[i]->name : fastest(input, (uint64_t)1 << 33));
        input->packet_units = 0;
        CHECK_TEXT(selected(input, 1),
                   mscclpp_algos[i]->spans_nodes && mscclpp_algos[i]->fallback == NULL ? mscclpp_algos[i]->name
                   : mscclpp_algos[i]->fallback == &mscclpp_algo_allreduce_nodes_split ? mscclpp_algos[i]->name
                                                                                       : "nodes");
        input->nodes = 1;
    }
}

/* An algorithm that cannot serve a call, which no user can know beforehand, gives way. Staging serves none. */
static void test_refused(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol)
{
    mscclpp_choice_t choice;

    protocol->algorithm = mscclpp_algo_find("engines");
    input->may_use_engines = false;
    CHECK_TEXT(selected(input, 1000), "zerocopy");
    protocol->algorithm = -2;
    memset(&choice, 0x5a, sizeof(choice));
    input->bytes = 4;
    CHECK_EQ(mscclpp_select_allreduce(input, &choice), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(choice.nblocks, 0x5a5a5a5au);
}

/* A scratch without room for a packet takes away the packet algorithms, and nothing else. */
static void test_without_packets(mscclpp_select_input_t *input, mscclpp_protocol_t *protocol, mscclpp_layout_t *layout)
{
    mscclpp_choice_t choice;

    protocol->algorithm = MSCCLPP_ALGO_AUTO;
    layout->packet_half = 0;
    CHECK_TEXT(selected(input, 4), "scratch");
    protocol->algorithm = mscclpp_algo_find("oneshot");
    CHECK_TEXT(selected(input, 4), "nothing");

    protocol->algorithm = MSCCLPP_ALGO_AUTO;
    mscclpp_layout_init(layout, 16 * 1024 * KIB);
    protocol->packet_width = 8;
    input->bytes = 4;
    CHECK_EQ(mscclpp_select_allreduce(input, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8);
    protocol->packet_width = 16;
    CHECK_EQ(mscclpp_select_allreduce(input, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_ALLREDUCE_ONESHOT);
}

static void test_thresholds(void)
{
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    mscclpp_select_input_t input;

    fill_protocol(&protocol);
    mscclpp_layout_init(&layout, 16 * 1024 * KIB);
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.nranks = 4;
    input.block_limit = 100;

    test_given_sizes(&input, &protocol);
    test_puts(&input, &protocol, &layout);
    test_engine_sizes(&input, &protocol);
    test_order(&input, &protocol);
    test_forced(&input, &protocol);
    test_spanning(&input, &protocol);
    test_refused(&input, &protocol);
    test_without_packets(&input, &protocol, &layout);
}

static void set_rule(mscclpp_protocol_t *protocol, uint64_t bytes, const char *algorithm)
{
    mscclpp_rule_t *rule = &protocol->rules.rules[protocol->rules.count++];

    rule->bytes = bytes;
    rule->algorithm = mscclpp_algo_find(algorithm);
}

/* Rules of a file: above the built-in table, and below what is asked for by a parameter. */
static void test_rules(void)
{
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    mscclpp_select_input_t input;
    int i;

    fill_protocol(&protocol);
    mscclpp_layout_init(&layout, 16 * 1024 * KIB);
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.nranks = 4;
    input.block_limit = 100;
    set_rule(&protocol, 100, "scratch");
    set_rule(&protocol, 2000, "twophase");
    set_rule(&protocol, 30000, "oneshot");
    set_rule(&protocol, 40000, "engines");
    set_rule(&protocol, 50000, "zerocopy");
    for (i = 0; i < 2; ++i) {
        input.on_twin = i != 0;
        input.may_use_engines = true;
        CHECK_TEXT(selected(&input, 1), "scratch");
        CHECK_TEXT(selected(&input, 100), "scratch");
        CHECK_TEXT(selected(&input, 101), "twophase");
        CHECK_TEXT(selected(&input, 2000), "twophase");
        CHECK_TEXT(selected(&input, 2001), "oneshot");
        CHECK_TEXT(selected(&input, 30001), "engines");
        CHECK_TEXT(selected(&input, 50000), "zerocopy");
        /* Larger ones are left to the built-in table. */
        CHECK_TEXT(selected(&input, 50001), input.on_twin ? "zerocopy" : "oneshot");
        /* What cannot serve has its stand-in. */
        input.may_use_engines = false;
        CHECK_TEXT(selected(&input, 30001), "zerocopy");
        protocol.zerocopy = 0;
        CHECK_TEXT(selected(&input, 30001), "scratch");
        CHECK_TEXT(selected(&input, 50000), "scratch");
        protocol.zerocopy = 1;
    }
    input.on_twin = false;

    /* An algorithm by name, any size by hand, and several nodes make them count for nothing. */
    protocol.algorithm = mscclpp_algo_find("zerocopy");
    CHECK_TEXT(selected(&input, 1), "zerocopy");
    protocol.algorithm = -1;
    protocol.oneshot_max = 64;
    CHECK_TEXT(selected(&input, 1), "oneshot");
    protocol.oneshot_max = 0;
    protocol.twophase_max = 64;
    CHECK_TEXT(selected(&input, 1), "oneshot");
    protocol.twophase_max = 0;
    protocol.engine_min = 64;
    CHECK_TEXT(selected(&input, 1), "oneshot");
    protocol.engine_min = 0;
    CHECK_TEXT(selected(&input, 1), "scratch");
    input.nodes = 2;
    input.shards = 4;
    input.slot_size = 4096;
    CHECK_TEXT(selected(&input, 1), "nodes");
    input.nodes = 1;

    /* A scratch without room for packets. */
    layout.packet_half = 0;
    CHECK_TEXT(selected(&input, 101), "scratch");
}

/* The built-in tables, to the byte: measured rows stay as they are, and more GPUs never take one-shot longer. */
static void test_table(void)
{
    static const struct {
        uint32_t nranks;
        uint64_t oneshot_max;
    } twin[] = {{2, 128}, {3, 512}, {4, 512}, {5, 128}, {64, 128}};
    static const struct {
        uint32_t nranks;
        uint64_t oneshot_max; /* KiB */
        const char *then;
    } one_gpu[] = {{2, 256, "oneshot_put"}, {3, 128, "twophase"}, {4, 128, "twophase"}, {5, 64, "zerocopy"},
                   {8, 64, "zerocopy"},     {9, 8, "zerocopy"},   {64, 8, "zerocopy"}};
    /* KiB, from 2 ranks on */
    static const uint64_t oneshot_max[] = {512, 256, 128, 64, 32, 32, 32, 8};
    static const uint64_t twophase_max[] = {512, 768, 1024, 512, 512, 512, 512, 256};
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    mscclpp_select_input_t input;
    size_t i;

    fill_protocol(&protocol);
    mscclpp_layout_init(&layout, 16 * 1024 * KIB);
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.block_limit = 100;
    for (input.nranks = 2; input.nranks <= 9; ++input.nranks) {
        uint64_t bytes = oneshot_max[input.nranks - 2] * KIB;
        CHECK_TEXT(selected(&input, bytes), "oneshot");
        CHECK_TEXT(selected(&input, bytes + 1), input.nranks == 2 ? "oneshot_put" : "twophase");
        bytes = twophase_max[input.nranks - 2] * KIB;
        CHECK_TEXT(selected(&input, bytes), input.nranks == 2 ? "oneshot" : "twophase");
        CHECK_TEXT(selected(&input, bytes + 1), input.nranks == 2 ? "oneshot_put" : "zerocopy");
    }
    /* On one GPU; up to 2 ranks put what is too large for packets. */
    input.is_one_gpu = true;
    for (i = 0; i < sizeof(one_gpu) / sizeof(one_gpu[0]); ++i) {
        input.nranks = one_gpu[i].nranks;
        CHECK_TEXT(selected(&input, one_gpu[i].oneshot_max * KIB), "oneshot");
        CHECK_TEXT(selected(&input, one_gpu[i].oneshot_max * KIB + 1), one_gpu[i].then);
        CHECK_TEXT(selected(&input, 4096 * KIB + 1), "zerocopy");
        CHECK_TEXT(selected(&input, 1024 * 1024 * KIB), "zerocopy");
    }
    input.is_one_gpu = false;
    input.on_twin = true;
    for (i = 0; i < sizeof(twin) / sizeof(twin[0]); ++i) {
        input.nranks = twin[i].nranks;
        input.has_ll128 = i % 2 != 0; /* all the same, unless it is asked for */
        CHECK_TEXT(selected(&input, twin[i].oneshot_max), "oneshot");
        CHECK_TEXT(selected(&input, twin[i].oneshot_max + 1), "zerocopy");
        protocol.packet_width = 128;
        input.has_ll128 = true;
        CHECK_TEXT(selected(&input, 4 * KIB), "twophase");
        protocol.packet_width = 0;
    }
}

/* LL128: where links can, in the format that was asked for, and from the size on that the table or the user says. */
static void test_ll128(void)
{
    static const uint64_t lines_min[] = {768, 1024, 512, 512, 512, 512, 256};
    static const uint64_t lines_max[] = {32768, 8192, 1024, 1024, 1024, 1024, 512};
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    mscclpp_select_input_t input;
    mscclpp_choice_t choice;

    fill_protocol(&protocol);
    mscclpp_layout_init(&layout, 16 * 1024 * KIB);
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.block_limit = 100;
    input.has_ll128 = true;
    input.nranks = 2; /* only where the user asks for it */
    CHECK_TEXT(selected(&input, 1024 * KIB), "oneshot_put");
    protocol.packet_width = 128;
    CHECK_TEXT(selected(&input, 2048 * KIB), "twophase");
    protocol.packet_width = 0;
    for (input.nranks = 3; input.nranks <= 9; ++input.nranks) {
        const uint64_t bytes = lines_max[input.nranks - 3] * KIB;

        CHECK_TEXT(selected(&input, bytes), "twophase");
        CHECK(mscclpp_uses_ll128(&input));
        CHECK_TEXT(selected(&input, bytes + 1), "zerocopy");
        input.bytes = lines_min[input.nranks - 3] * KIB;
        CHECK(mscclpp_uses_ll128(&input));
        input.bytes = lines_min[input.nranks - 3] * KIB - 1;
        CHECK(!mscclpp_uses_ll128(&input));
        input.bytes = bytes;
        protocol.packet_width = 16;
        CHECK(!mscclpp_uses_ll128(&input));
        protocol.packet_width = 8;
        CHECK(!mscclpp_uses_ll128(&input));
        protocol.packet_width = 128;
        input.bytes = 1;
        CHECK(mscclpp_uses_ll128(&input));
        protocol.packet_width = 0;
        CHECK(!mscclpp_uses_ll128(&input));
        protocol.lines_min = 1;
        CHECK(mscclpp_uses_ll128(&input));
        protocol.lines_min = 0;
    }
    /* Of a size, a grid for each format: all in one epoch, with the units that it carries. */
    input.nranks = 4;
    input.bytes = 1024 * KIB;
    CHECK(mscclpp_select_shape(&input, &mscclpp_algo_allreduce_twophase, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128);
    CHECK_EQ(choice.epochs, 1);
    input.has_ll128 = false;
    CHECK(mscclpp_select_shape(&input, &mscclpp_algo_allreduce_twophase, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE);
    protocol.packet_width = 128;
    CHECK(!mscclpp_uses_ll128(&input));
    /* Slots too small for a bundle of every peer are large enough for other packets. */
    input.has_ll128 = input.on_twin = true;
    input.nranks = MSCCLPP_DEV_MAX_RANKS;
    layout.packet_half = 2 * 62 * MSCCLPP_DEV_BUNDLE_BYTES;
    CHECK(mscclpp_select_shape(&input, &mscclpp_algo_allreduce_twophase, &choice) == MSCCLPP_OK);
    CHECK_EQ(choice.kernel, MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE);
}

static void test_registry(void)
{
    int i;

    CHECK_EQ(mscclpp_algo_find("auto"), -1);
    CHECK_EQ(mscclpp_algo_find(""), -1);
    for (i = 0; i < mscclpp_algo_count; ++i) {
        CHECK_EQ(mscclpp_algo_find(mscclpp_algos[i]->name), i);
        CHECK(mscclpp_algos[i]->description != NULL);
        CHECK(!mscclpp_algos[i]->maps_buffers || mscclpp_algos[i]->fallback != NULL);
    }
}

int main(void)
{
    unit_begin();
    test_registry();
    test_thresholds();
    test_rules();
    test_table();
    test_ll128();
    return unit_end();
}
