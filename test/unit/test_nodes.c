/* Which ranks share a node, from what each of them says, and what each says of its host. */
#include <sched.h>
#include <string.h>

#include "mca/common/base/machine.h"
#include "mca/common/oob/topology.h"
#include "test/unit/unit.h"

#define RANKS 200 /* more than a node may have */

static mscclpp_nodes_t nodes;

static bool map(const int *leaders, int size, int rank, int ranks_per_node)
{
    memcpy(nodes.leaders, leaders, sizeof(*leaders) * (size_t)size);
    return mscclpp_nodes_map(&nodes, size, rank, ranks_per_node);
}

/* What must hold of every map. */
static bool is_sound(int size, int rank)
{
    int i, sizes[RANKS] = {0};
    bool in_order = true;

    for (i = 0; i < size; ++i) {
        in_order = in_order && (i == 0 || nodes.node_of[i] >= nodes.node_of[i - 1]);
        if (nodes.node_of[i] < 0 || nodes.node_of[i] >= nodes.count) {
            return false;
        }
        ++sizes[nodes.node_of[i]];
    }
    for (i = 0; i < nodes.count; ++i) {
        if (sizes[i] < nodes.shards || sizes[i] > nodes.largest_node ||
            (nodes.rank < sizes[i]) != (nodes.owners[i] >= 0) ||
            (nodes.owners[i] >= 0 && nodes.node_of[nodes.owners[i]] != i)) {
            return false;
        }
    }
    for (i = 0; i < nodes.size && i < MSCCLPP_DEV_MAX_RANKS; ++i) {
        if (nodes.node_of[nodes.members[i]] != nodes.node || (i > 0 && nodes.members[i] <= nodes.members[i - 1])) {
            return false;
        }
    }
    for (i = 0; i < nodes.count && sizes[i] != nodes.largest_node; ++i) {
    }
    return i < nodes.count && nodes.in_order == in_order && nodes.size == sizes[nodes.node] &&
           (nodes.rank >= MSCCLPP_DEV_MAX_RANKS || nodes.members[nodes.rank] == rank) &&
           nodes.owners[nodes.node] == rank && nodes.node_of[rank] == nodes.node;
}

static void test_one_host(void)
{
    static const int leaders[RANKS];
    int size, rank, ranks_per_node;
    bool good = true;

    for (size = 1; size <= RANKS; size += size < MSCCLPP_DEV_MAX_RANKS ? 1 : 34) {
        for (ranks_per_node = 0; ranks_per_node <= size; ++ranks_per_node) {
            const int each = ranks_per_node == 0 ? size : ranks_per_node;

            for (rank = 0; rank < size; ++rank) {
                good = good && map(leaders, size, rank, ranks_per_node) && is_sound(size, rank) && nodes.one_host &&
                       nodes.count == (size + each - 1) / each && nodes.node == rank / each &&
                       nodes.shards == (size % each == 0 ? each : size % each);
            }
        }
    }
    CHECK(good);
}

/* Ranks that are dealt out to hosts one by one, as `--map-by node` does. */
static void test_dealt_out(void)
{
    static const int leaders[] = {0, 1, 2, 0, 1, 2, 0, 1}, one_host[8];

    CHECK(map(leaders, 8, 4, 0) && is_sound(8, 4));
    CHECK(!nodes.one_host);
    CHECK_EQ(nodes.count, 3);
    CHECK_EQ(nodes.shards, 2);
    CHECK_EQ(nodes.node, 1);
    CHECK_EQ(nodes.rank, 1);
    CHECK_EQ(nodes.owners[0], 3);
    CHECK_EQ(nodes.owners[2], 5);
    CHECK(map(leaders, 8, 6, 0) && is_sound(8, 6));
    CHECK_EQ(nodes.rank, 2);
    CHECK_EQ(nodes.owners[1], 7);
    CHECK_EQ(nodes.owners[2], -1);
    /* Imitated nodes divide real ones and never join them. */
    CHECK(map(leaders, 8, 6, 4) && is_sound(8, 6));
    CHECK_EQ(nodes.count, 6);
    CHECK_EQ(nodes.shards, 1);
    /* Imitated ones can be dealt out, too. */
    CHECK(map(one_host, 8, 6, -3) && is_sound(8, 6));
    CHECK(nodes.one_host);
    CHECK_EQ(nodes.count, 3);
    CHECK_EQ(nodes.shards, 2);
    CHECK_EQ(nodes.node, 0);
    CHECK_EQ(nodes.rank, 2);
    CHECK_EQ(nodes.members[1], 3);
}

static void test_contradictions(void)
{
    static const int not_led[] = {0, 0, 1}, ahead[] = {0, 2, 2}, negative[] = {0, -1}, beyond[] = {0, 7};

    CHECK(!map(not_led, 3, 0, 0));
    CHECK(!map(ahead, 3, 0, 0));
    CHECK(!map(negative, 2, 0, 0));
    CHECK(!map(beyond, 2, 0, 0));
}

/* Leaders as they become once jobs have been joined. */
static bool joined(const int *leaders, const uint64_t *jobs, const uint64_t *hosts, int size, const int *expected)
{
    memcpy(nodes.leaders, leaders, sizeof(int) * (size_t)size);
    mscclpp_nodes_join_jobs(&nodes, jobs, hosts, size);
    return memcmp(nodes.leaders, expected, sizeof(int) * (size_t)size) == 0;
}

static void test_jobs(void)
{
    static const uint64_t one[4], hosts[] = {7, 7, 7, 7}, unknown[4], apart[] = {7, 8, 7, 8};
    static const uint64_t jobs[] = {1, 1, 2, 2}, by_turns[] = {1, 2, 1, 2}, three[] = {1, 2, 3, 3};
    static const int own[] = {0, 1, 2, 3}, two[] = {0, 0, 2, 2}, turns[] = {0, 1, 0, 1}, all[] = {0, 0, 0, 0};
    static const int last[] = {0, 1, 2, 2}, wrong[] = {0, 1, 1, 2}, two_hosts[] = {0, 1, 0, 1};

    /* Of one job the launcher's word stands. */
    CHECK(joined(own, one, hosts, 4, own));
    CHECK(joined(two, jobs, hosts, 4, all));
    CHECK(joined(turns, by_turns, hosts, 4, all));
    CHECK(joined(last, three, hosts, 4, all));
    CHECK(joined(two, jobs, unknown, 4, two));
    CHECK(joined(own, jobs, apart, 4, two_hosts));
    memcpy(nodes.leaders, wrong, sizeof(wrong));
    mscclpp_nodes_join_jobs(&nodes, by_turns, hosts, 4);
    CHECK(!mscclpp_nodes_map(&nodes, 4, 0, 0));
}

static void test_host(void)
{
    if (mscclpp_machine_boot() == 0) {
        CHECK(mscclpp_machine_pids() == 0 && mscclpp_machine_id() == 0);
        printf("hosts: not tested, as this system has no number of its own\n");
        return;
    }
    CHECK(mscclpp_machine_boot() == mscclpp_machine_boot());
    CHECK(mscclpp_machine_pids() != 0 && mscclpp_machine_pids() == mscclpp_machine_pids());
    CHECK(mscclpp_machine_id() != 0 && mscclpp_machine_id() == mscclpp_machine_id());
    CHECK(mscclpp_machine_id() != mscclpp_machine_pids() && mscclpp_machine_pids() != mscclpp_machine_boot());
    /* Where a process may leave its namespaces. */
    if (unshare(CLONE_NEWIPC) == 0) {
        const uint64_t pids = mscclpp_machine_pids(), id = mscclpp_machine_id();

        CHECK(unshare(CLONE_NEWIPC) == 0);
        CHECK(mscclpp_machine_pids() == pids && mscclpp_machine_id() != id);
    }
}

int main(void)
{
    unit_begin();
    REQUIRE(mscclpp_nodes_init(&nodes, RANKS) == MSCCLPP_OK);
    test_one_host();
    test_dealt_out();
    test_contradictions();
    test_jobs();
    test_host();
    mscclpp_nodes_fini(&nodes);
    return unit_end();
}
