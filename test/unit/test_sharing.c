/* Which ranks share a GPU: as comparing each two of them tells, and fast for very many. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/setup/sharing.h"
#include "test/unit/unit.h"

#define RANKS 40
#define MANY (1 << 18)
#define MANY_SECONDS 5.0 /* of the processor; comparing each two of so many takes half a minute */

/* A rank's card, of which what it knows of its GPU is a part. */
typedef struct {
    uint64_t before;
    mscclpp_gpu_use_t use;
    uint32_t after;
} card_t;

static mscclpp_gpu_sharing_t compare_each_two(const card_t *cards, const int *node_of, int size)
{
    mscclpp_gpu_sharing_t sharing = {.max_ranks = 1, .max_processes = 1};

    for (int i = 0; i < size; ++i) {
        const mscclpp_gpu_use_t *one = &cards[i].use;
        uint32_t ranks = 0;

        for (int j = 0; j < size; ++j) {
            const mscclpp_gpu_use_t *other = &cards[j].use;

            if (memcmp(one->uuid, other->uuid, sizeof(one->uuid)) == 0) {
                ++ranks;
                sharing.take_turns |= i != j && (one->server == 0 || one->server != other->server);
                sharing.across_nodes |= node_of[i] != node_of[j];
            }
        }
        sharing.take_turns |= one->strangers > 0 || (one->users > 1 && one->server == 0);
        sharing.max_ranks = ranks > sharing.max_ranks ? ranks : sharing.max_ranks;
        sharing.max_processes = one->users > sharing.max_processes ? one->users : sharing.max_processes;
    }
    return sharing;
}

/* Returns a number from 0 to `limit` - 1. */
static int draw(int limit)
{
    static uint64_t seed = 1;

    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)limit);
}

/* Ranks with what matters seldom, so that each of it decides in some turns. */
static void test_random(void)
{
    int node_of[RANKS], order[RANKS], seen[2][2] = {{0}};
    card_t cards[RANKS];

    for (int turn = 0; turn < 20000; ++turn) {
        const int size = 1 + draw(RANKS), gpus = 1 + draw(2 * RANKS), seldom = 1 + draw(4 * RANKS);
        mscclpp_gpu_sharing_t found, expected;

        memset(cards, 0xa5, sizeof(cards));
        for (int i = 0; i < size; ++i) {
            const int gpu = draw(gpus);

            cards[i].use = (mscclpp_gpu_use_t){.server = draw(seldom) == 0 ? (uint64_t)(draw(2)) : 7,
                                               .users = (uint32_t)(1 + draw(3)),
                                               .strangers = draw(8 * seldom) == 0};
            memset(cards[i].use.uuid, gpu, sizeof(cards[i].use.uuid));
            node_of[i] = draw(seldom) == 0 ? 1 : 0;
        }
        found = mscclpp_sharing_find(&cards[0].use, sizeof(cards[0]), node_of, size, order);
        expected = compare_each_two(cards, node_of, size);
        CHECK_EQ(found.max_ranks, expected.max_ranks);
        CHECK_EQ(found.max_processes, expected.max_processes);
        CHECK_EQ(found.take_turns, expected.take_turns);
        CHECK_EQ(found.across_nodes, expected.across_nodes);
        ++seen[found.take_turns][found.across_nodes];
    }
    for (int i = 0; i < 4; ++i) {
        CHECK(seen[i / 2][i % 2] > 100);
    }
}

static void test_many(void)
{
    mscclpp_gpu_use_t *uses = calloc(MANY, sizeof(*uses));
    int *node_of = calloc(MANY, sizeof(*node_of)), *order = calloc(MANY, sizeof(*order));
    mscclpp_gpu_sharing_t found;
    clock_t started;

    REQUIRE(uses != NULL && node_of != NULL && order != NULL);
    for (uint32_t i = 0; i < MANY; ++i) {
        const uint32_t gpu = i * 2654435761u; /* all are different */

        memcpy(uses[i].uuid, &gpu, sizeof(gpu));
    }
    started = clock();
    found = mscclpp_sharing_find(uses, sizeof(*uses), node_of, MANY, order);
    CHECK((double)(clock() - started) / CLOCKS_PER_SEC < MANY_SECONDS);
    CHECK_EQ(found.max_ranks, 1);
    CHECK(!found.take_turns);
    free(order);
    free(node_of);
    free(uses);
}

int main(void)
{
    unit_begin();
    test_random();
    test_many();
    return unit_end();
}
