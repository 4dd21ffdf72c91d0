/*
 * Rounds between nodes (device/lib/nodes_rounds.h): all nodes carry them out on numbers that lie in places, as kernels
 * do on packets. No two messages to a node may take the same place, and each node must end with what it has to have.
 */
#include <stdlib.h>
#include <string.h>

#include "device/lib/nodes_rounds.h"
#include "device/types/coll_nodes.h"
#include "mca/common/algo/coll.h"
#include "test/unit/unit.h"

#define MOST 70u

/* Every node's places, and whether a message has arrived in each of them. */
typedef struct {
    mscclpp_dev_rounds_t r;
    uint64_t *value;
    bool *taken;
    uint64_t places;
    bool faulty;
} world_t;

static uint64_t weight(uint32_t from, uint32_t to)
{
    return (from + 1) * 0x9e3779b97f4a7c15u ^ (to + 1) * 0xff51afd7ed558ccdu;
}

static bool merges(uint32_t pattern)
{
    return pattern == MSCCLPP_DEV_REDUCE || pattern == MSCCLPP_DEV_REDUCE_SCATTER;
}

static bool scans(const world_t *world)
{
    return MSCCLPP_DEV_COLL_SCANS(world->r.pattern);
}

/* In a scan a value says which nodes it is the total of: those from `first` to `last`. 0 is the total of none. */
static uint64_t total_of(uint32_t first, uint32_t last)
{
    return (uint64_t)(first + 1) << 32 | (last + 1);
}

/* Combines two totals. The nodes of the second one must follow those of the first one, since the order counts. */
static uint64_t combine_totals(world_t *world, uint64_t first, uint64_t second)
{
    if (first == 0 || second == 0) {
        return first == 0 ? second : first;
    }
    world->faulty = world->faulty || (uint32_t)first + 1 != (uint32_t)(second >> 32);
    return first >> 32 << 32 | (uint32_t)second;
}

static mscclpp_dev_rounds_t on(const world_t *world, uint32_t node)
{
    mscclpp_dev_rounds_t r = world->r;

    r.node = node;
    return r;
}

static uint64_t *at(world_t *world, uint32_t node, uint64_t place)
{
    static uint64_t nowhere;

    world->faulty = world->faulty || place >= world->places;
    return place < world->places ? &world->value[node * world->places + place] : &nowhere;
}

/* What a node has for others before the first round. The node that gets what is combined counts nothing of its own. */
static void lay(world_t *world, uint32_t node)
{
    const uint32_t n = world->r.nnodes, pattern = world->r.pattern;
    uint32_t d;

    switch (pattern) {
    case MSCCLPP_DEV_BCAST:
        *at(world, node, 0) = node == world->r.root ? weight(node, 0) : 0;
        break;
    case MSCCLPP_DEV_REDUCE:
        *at(world, node, 0) = node != world->r.root ? weight(node, 0) : 0;
        break;
    case MSCCLPP_DEV_SCATTER:
    case MSCCLPP_DEV_ALLTOALL:
    case MSCCLPP_DEV_REDUCE_SCATTER:
        for (d = 1; d < n && (pattern != MSCCLPP_DEV_SCATTER || node == world->r.root); ++d) {
            *at(world, node, d) = weight(node, (node + d) % n);
        }
        break;
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        *at(world, node, 0) = total_of(node, node);
        break;
    default:
        *at(world, node, 0) = weight(node, node);
    }
}

/* Message `j` of a node in a round arrives. */
static void deliver(world_t *world, uint32_t node, uint32_t round, uint32_t j)
{
    const mscclpp_dev_rounds_t r = on(world, node);
    const mscclpp_dev_rounds_message_t m = mscclpp_dev_rounds_message(&r, node, round, j);
    const uint32_t peer = mscclpp_dev_rounds_behind(&r, m.distance);
    const uint64_t arrival = mscclpp_dev_rounds_arrival_place(&r, m, round, j);
    const uint64_t departure = mscclpp_dev_rounds_departure_place(&r, m, round, j);
    uint32_t i;

    for (i = 0; i < m.count; ++i) {
        const uint64_t value = *at(world, node, departure + i);

        world->faulty =
            world->faulty || arrival + i >= world->places || world->taken[peer * world->places + arrival + i];
        if (world->faulty) {
            return;
        }
        world->taken[peer * world->places + arrival + i] = true;
        *at(world, peer, arrival + i) = value;
        if (merges(r.pattern)) {
            *at(world, peer, i) += value;
        }
    }
}

/* A node of a scan combines what a round has brought, the farthest first, with its total and with its prefix. */
static void combine_round(world_t *world, uint32_t node, uint32_t round)
{
    const mscclpp_dev_rounds_t r = on(world, node);
    const uint32_t count = mscclpp_dev_rounds_count_prefixes(&r, round);
    uint64_t earlier = 0;
    uint32_t j;

    for (j = count; j > 0; --j) {
        const mscclpp_dev_rounds_message_t m = mscclpp_dev_rounds_message(&r, node, round, j);
        const uint64_t arrival = mscclpp_dev_rounds_arrival_place(&r, m, round, j);

        world->faulty = world->faulty || !world->taken[node * world->places + arrival];
        earlier = combine_totals(world, earlier, *at(world, node, arrival));
    }
    if (count > 0) {
        uint64_t *prefix = at(world, node, mscclpp_dev_rounds_prefix_place(&r));

        if (round + 1 < r.rounds) {
            *at(world, node, round + 1) = combine_totals(world, earlier, *at(world, node, round));
        }
        *prefix = combine_totals(world, earlier, *prefix);
    }
}

static void carry_out(world_t *world)
{
    const uint32_t n = world->r.nnodes, radix = world->r.radix;
    uint32_t node, round, j, i;

    for (round = 0; round < world->r.rounds; ++round) {
        for (node = 0; node < n && world->r.pattern == MSCCLPP_DEV_ALLTOALL; ++node) {
            const mscclpp_dev_rounds_t r = on(world, node);

            for (j = 1; j < radix; ++j) {
                const mscclpp_dev_rounds_message_t m = mscclpp_dev_rounds_message(&r, node, round, j);
                const uint64_t departure = mscclpp_dev_rounds_departure_place(&r, m, round, j);

                for (i = 0; i < m.count; ++i) {
                    const uint32_t position = mscclpp_dev_rounds_alltoall_position(&r, round, j, i);

                    world->faulty = world->faulty || position >= n;
                    *at(world, node, departure + i) =
                        *at(world, node, mscclpp_dev_rounds_block_place(&r, position % n, round));
                }
            }
        }
        /* The messages of a round cross: no node has combined what comes when it sends. */
        for (j = 1; j < radix; ++j) {
            for (node = 0; node < n; ++node) {
                deliver(world, node, round, j);
            }
        }
        for (node = 0; node < n && scans(world); ++node) {
            combine_round(world, node, round);
        }
    }
}

/* Whether a node has all that it must have, and that once. */
static bool is_right(world_t *world, uint32_t node)
{
    const mscclpp_dev_rounds_t r = on(world, node);
    const uint32_t n = r.nnodes, root = r.root;
    uint64_t sum = 0;
    uint32_t d;

    switch (r.pattern) {
    case MSCCLPP_DEV_BCAST:
        return *at(world, node, 0) == weight(root, 0);
    case MSCCLPP_DEV_SCATTER:
        return node == root || *at(world, node, 0) == weight(root, node);
    case MSCCLPP_DEV_REDUCE:
    case MSCCLPP_DEV_REDUCE_SCATTER:
        for (d = 1; d < n; ++d) {
            sum += weight((node + d) % n, r.pattern == MSCCLPP_DEV_REDUCE ? 0 : node);
        }
        return (r.pattern == MSCCLPP_DEV_REDUCE && node != root) || *at(world, node, 0) == sum;
    case MSCCLPP_DEV_SCAN:
    case MSCCLPP_DEV_EXSCAN:
        return *at(world, node, mscclpp_dev_rounds_prefix_place(&r)) == (node > 0 ? total_of(0, node - 1) : 0);
    default:
        for (d = 1; d < n; ++d) {
            const uint32_t k = (node + n - d) % n;
            const uint64_t value = *at(world, node, mscclpp_dev_rounds_block_place(&r, d, r.rounds));

            if (value != weight(k, r.pattern == MSCCLPP_DEV_ALLTOALL ? node : k)) {
                return false;
            }
        }
        return true;
    }
}

/* Whether each node hears from all others, directly or through others. */
static bool all_hear(const world_t *world)
{
    const uint32_t n = world->r.nnodes;
    bool *heard = calloc(n, sizeof(bool));
    uint32_t round, j, d;
    bool all = true;

    REQUIRE(heard != NULL);
    heard[0] = true;
    for (round = 0; round < world->r.rounds; ++round) {
        const uint32_t digit_value = mscclpp_dev_rounds_digit_value(&world->r, round);

        for (d = n; d-- > 0;) {
            for (j = 1; j < world->r.radix && (uint64_t)j * digit_value <= d; ++j) {
                heard[d] = heard[d] || heard[d - j * digit_value];
            }
        }
    }
    for (d = 0; d < n; ++d) {
        all = all && heard[d];
    }
    free(heard);
    return all;
}

static void try_rounds(uint32_t pattern, uint32_t n, uint32_t radix, uint32_t root)
{
    world_t world = {.r = {.nnodes = n, .radix = radix, .root = root, .pattern = pattern}};
    uint32_t node;
    bool right = true;

    world.r.rounds = mscclpp_dev_rounds_count(n, radix);
    world.places = mscclpp_dev_rounds_count_places(&world.r);
    world.value = calloc(n * world.places, sizeof(*world.value));
    world.taken = calloc(n * world.places, sizeof(*world.taken));
    REQUIRE(world.value != NULL && world.taken != NULL);
    for (node = 0; node < n; ++node) {
        lay(&world, node);
    }
    carry_out(&world);
    for (node = 0; node < n && !world.faulty; ++node) {
        right = right && (pattern != MSCCLPP_DEV_GATHER || node == root ? is_right(&world, node) : true);
    }
    CHECK(!world.faulty && right && all_hear(&world));
    if (world.faulty || !right) {
        fprintf(stderr, "    pattern %u, %u nodes, radix %u, root %u: %s\n", pattern, n, radix, root,
                world.faulty ? "a place is taken twice, or there is no such place, or totals in a wrong order"
                             : "a wrong result");
    }
    free(world.value);
    free(world.taken);
}

/* Nodes send combined operands of a scan if ranks are in their order, and if nothing is rounded on the way. */
static void test_choice(void)
{
    mscclpp_layout_t layout;
    mscclpp_protocol_t protocol;
    int coll, i;

    memset(&protocol, 0, sizeof(protocol));
    mscclpp_layout_init_between(&layout, 16 << 20);
    for (coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        const bool scans = MSCCLPP_DEV_COLL_SCANS(mscclpp_coll_pattern((mscclpp_coll_t)coll));

        for (i = 0; i < 4; ++i) {
            const mscclpp_select_input_t input = {.protocol = &protocol,
                                                  .layout = &layout,
                                                  .nranks = 1,
                                                  .nodes = 64,
                                                  .all_ranks = 64,
                                                  .shards = 1,
                                                  .max_node_ranks = 1,
                                                  .slot_size = 65536,
                                                  .packet_units = 4096,
                                                  .block_limit = 128,
                                                  .are_nodes_in_order = i % 2 != 0,
                                                  .dtype = i / 2 == 0 ? MSCCLPP_DTYPE_FLOAT32 : MSCCLPP_DTYPE_BFLOAT16};
            mscclpp_coll_choice_t choice;

            protocol.coll_algorithm[coll] = MSCCLPP_COLL_BY_NODES_ROUNDS;
            REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 8, false, true, &choice) == MSCCLPP_OK);
            CHECK_EQ(choice.prefixes, scans && i == 1);
            CHECK(!scans || choice.algo == MSCCLPP_COLL_BY_NODES_ROUNDS);
            protocol.coll_algorithm[coll] = MSCCLPP_COLL_BY_NODES;
            REQUIRE(mscclpp_coll_select(&input, (mscclpp_coll_t)coll, 8, false, true, &choice) == MSCCLPP_OK);
            CHECK(!choice.prefixes);
        }
    }
}

/*
 * Packets serve broadcasts and reduces of a few KiB on any number of nodes, even in a scratch that has not grown: their
 * rows do not grow with the number of ranks, as those of an all-gather do.
 */
static void test_few_rows(void)
{
    const mscclpp_coll_t colls[] = {MSCCLPP_COLL_BCAST, MSCCLPP_COLL_REDUCE, MSCCLPP_COLL_ALLGATHER};
    mscclpp_layout_t middle;
    mscclpp_protocol_t protocol;
    mscclpp_coll_choice_t choice;
    int i;

    memset(&protocol, 0, sizeof(protocol));
    memset(protocol.coll_algorithm, MSCCLPP_ALGO_AUTO, sizeof(protocol.coll_algorithm));
    mscclpp_layout_init_between(&middle, 384 << 10);
    for (i = 0; i < 9; ++i) {
        const uint32_t nodes = 64u << i / 3 * 2;
        const mscclpp_select_input_t input = {.protocol = &protocol,
                                              .layout = &middle,
                                              .nranks = 1,
                                              .nodes = nodes,
                                              .all_ranks = nodes,
                                              .shards = 1,
                                              .max_node_ranks = 1,
                                              .slot_size = 65536,
                                              .packet_units = 4096,
                                              .block_limit = 128};

        REQUIRE(mscclpp_coll_select(&input, colls[i % 3], 4096, false, true, &choice) == MSCCLPP_OK);
        CHECK_EQ(choice.algo == MSCCLPP_COLL_BY_NODES_ROUNDS, colls[i % 3] != MSCCLPP_COLL_ALLGATHER);
    }
}

int main(void)
{
    uint32_t pattern, n, radix;

    unit_begin();
    for (pattern = MSCCLPP_DEV_ALLGATHER; pattern <= MSCCLPP_DEV_EXSCAN; ++pattern) {
        for (n = 2; n <= MOST; n += n < 30 ? 1 : 7) {
            for (radix = 2; radix <= 9; ++radix) {
                try_rounds(pattern, n, radix, 0);
                try_rounds(pattern, n, radix, n / 2);
            }
        }
    }
    try_rounds(MSCCLPP_DEV_BCAST, 16384, 2, 5);
    try_rounds(MSCCLPP_DEV_REDUCE, 16384, 8, 16383);
    try_rounds(MSCCLPP_DEV_SCAN, 16384, 4, 0);
    test_choice();
    test_few_rows();
    return unit_end();
}
