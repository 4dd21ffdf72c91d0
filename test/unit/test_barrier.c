/* The barrier between blocks of one number, and the end of a kernel: order, visibility, counts, and giving up. */
#include "device/lib/barrier.h"

#include <pthread.h>

#include "test/unit/unit.h"

enum { RANKS = 3, BLOCKS = 2, THREADS = 3, ROUNDS = 200 };

typedef struct {
    char *scratch[RANKS];
    mscclpp_dev_state_t state[RANKS];
    mscclpp_dev_mailbox_t mailbox[RANKS];
    mscclpp_dev_twin_barrier_t meeting[RANKS][BLOCKS];
    uint32_t ranks; /* of the team; those of RANKS that take part may be fewer */
    uint32_t blocks;
    uint32_t threads;
    uint64_t timeout_ns;
    uint64_t first; /* barriers passed before */
    int rounds;
    /* What each thread of a block writes in a round, plainly, for its namesakes on all ranks to read. */
    uint64_t note[RANKS][BLOCKS][THREADS];
    int wrong;
    int failed; /* threads */
} world_t;

typedef struct {
    world_t *world;
    uint32_t rank;
    uint32_t block;
    uint32_t tid;
} actor_t;

static world_t *world_new(uint32_t ranks, uint32_t blocks, uint32_t threads)
{
    world_t *world = calloc(1, sizeof(*world));
    uint32_t r;

    REQUIRE(world != NULL);
    for (r = 0; r < RANKS; ++r) {
        world->scratch[r] = calloc(1, sizeof(mscclpp_dev_sync_t));
        REQUIRE(world->scratch[r] != NULL);
    }
    world->ranks = ranks;
    world->blocks = blocks;
    world->threads = threads;
    world->timeout_ns = 60000000000u;
    world->rounds = ROUNDS;
    return world;
}

static void world_free(world_t *world)
{
    uint32_t r;

    for (r = 0; r < RANKS; ++r) {
        free(world->scratch[r]);
    }
    free(world);
}

static void fill(const actor_t *actor, mscclpp_dev_args_t *args, mscclpp_dev_ctx_t *ctx)
{
    world_t *world = actor->world;

    memset(args, 0, sizeof(*args));
    memset(ctx, 0, sizeof(*ctx));
    args->rank = actor->rank;
    args->nranks = world->ranks;
    args->timeout_ns = world->timeout_ns;
    args->state = &world->state[actor->rank];
    args->mailbox = &world->mailbox[actor->rank];
    memcpy(args->scratch, world->scratch, sizeof(world->scratch));
    ctx->tid = actor->tid;
    ctx->nthreads = world->threads;
    ctx->block = actor->block;
    ctx->nblocks = world->blocks;
    ctx->meeting = &world->meeting[actor->rank][actor->block];
}

/* Rounds of writing, meeting, reading what the others wrote, meeting; then the end of the kernel. */
static void *meet_main(void *argument)
{
    const actor_t *actor = argument;
    world_t *world = actor->world;
    const uint64_t before = world->first;
    uint64_t barriers = before;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    int round, wrong = 0;
    uint32_t r, t;

    fill(actor, &args, &ctx);
    for (round = 1; round <= world->rounds && !ctx.failed; ++round) {
        world->note[actor->rank][actor->block][actor->tid] = (uint64_t)round;
        mscclpp_dev_barrier(&ctx, &args, ++barriers);
        for (r = 0; r < world->ranks && !ctx.failed; ++r) {
            for (t = 0; t < world->threads; ++t) {
                wrong += world->note[r][actor->block][t] != (uint64_t)round;
            }
        }
        mscclpp_dev_barrier(&ctx, &args, ++barriers);
    }
    if (ctx.failed) {
        __atomic_add_fetch(&world->failed, 1, __ATOMIC_RELAXED);
    }
    __atomic_add_fetch(&world->wrong, wrong, __ATOMIC_RELAXED);
    mscclpp_dev_finish(&ctx, &args, mscclpp_dev_last_launch(&ctx, &args), 77, before, barriers);
    return NULL;
}

/* Runs the function for every thread of the ranks before `present`. */
static void run(world_t *world, uint32_t present, void *(*function)(void *))
{
    actor_t actors[RANKS * BLOCKS * THREADS];
    pthread_t threads[RANKS * BLOCKS * THREADS];
    uint32_t r, b, t, count = 0;

    for (r = 0; r < present; ++r) {
        for (b = 0; b < world->blocks; ++b) {
            for (t = 0; t < world->threads; ++t, ++count) {
                actors[count].world = world;
                actors[count].rank = r;
                actors[count].block = b;
                actors[count].tid = t;
                REQUIRE(pthread_create(&threads[count], NULL, function, &actors[count]) == 0);
            }
        }
    }
    while (count > 0) {
        pthread_join(threads[--count], NULL);
    }
}

static void test_meetings(uint32_t ranks, uint32_t blocks, uint32_t threads, uint64_t first)
{
    world_t *world = world_new(ranks, blocks, threads);
    uint32_t r, b, launch, peer;

    world->first = first;
    for (launch = 1; launch <= 2; ++launch) {
        run(world, ranks, meet_main);
        world->first += 2 * ROUNDS;
        CHECK_EQ(world->wrong, 0);
        CHECK_EQ(world->failed, 0);
        for (r = 0; r < ranks; ++r) {
            const mscclpp_dev_sync_t *sync = (const mscclpp_dev_sync_t *)world->scratch[r];

            for (b = 0; b < MSCCLPP_DEV_MAX_BLOCKS; ++b) {
                CHECK_EQ(world->state[r].progress[b].launches, launch);
                CHECK_EQ(world->state[r].progress[b].epoch, 77);
            }
            CHECK_EQ(world->mailbox[r].ended[0], launch);
            CHECK_EQ(world->mailbox[r].failed, 0);
            for (b = 0; b < blocks; ++b) {
                CHECK_EQ(world->state[r].barrier[b], world->first);
                for (peer = 0; peer < ranks; ++peer) {
                    /* Nobody signals itself. */
                    CHECK_EQ(sync->arrived[b][peer], peer == r ? 0 : world->first);
                }
            }
            CHECK_EQ(sync->arrived[blocks][0], 0);
        }
    }
    world_free(world);
}

/* One rank does not come: all threads of all blocks that wait for it fail, name it, and still end the kernel. */
static void test_missing(bool by_word)
{
    world_t *world = world_new(RANKS, BLOCKS, THREADS);
    uint32_t r;

    world->timeout_ns = by_word ? 0 : 30000000u;
    world->rounds = 1;
    for (r = 0; r < RANKS; ++r) {
        world->mailbox[r].abort = by_word;
    }
    run(world, RANKS - 1, meet_main);
    CHECK_EQ(world->failed, (RANKS - 1) * BLOCKS * THREADS);
    for (r = 0; r < RANKS - 1; ++r) {
        /* Told to leave, threads may do so before the peer that does come is there. */
        CHECK(world->mailbox[r].failed == RANKS || (by_word && world->mailbox[r].failed != 0));
        CHECK_EQ(world->mailbox[r].ended[0], 1);
    }
    CHECK_EQ(world->mailbox[RANKS - 1].failed, 0);
    world_free(world);
}

/* A thread that has failed before signals nobody, so that no peer takes its data for good. */
static void *fail_first_main(void *argument)
{
    const actor_t *actor = argument;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;

    fill(actor, &args, &ctx);
    ctx.failed = true;
    mscclpp_dev_barrier(&ctx, &args, 1);
    __atomic_add_fetch(&actor->world->failed, ctx.failed, __ATOMIC_RELAXED);
    return NULL;
}

static void test_failed_thread_is_silent(void)
{
    world_t *world = world_new(2, 1, 2);

    run(world, 1, fail_first_main);
    CHECK_EQ(world->failed, 2);
    CHECK_EQ(((mscclpp_dev_sync_t *)world->scratch[1])->arrived[0][0], 0);
    world_free(world);
}

/* Threads of one block meet, and a flag of one is a flag of all, in that meeting and no other. */
static void *sync_main(void *argument)
{
    const actor_t *actor = argument;
    world_t *world = actor->world;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    int round, wrong = 0;
    uint32_t t;

    fill(actor, &args, &ctx);
    for (round = 1; round <= 20 * ROUNDS; ++round) {
        bool mine = (uint32_t)round % (2 * THREADS) == actor->tid;

        world->note[0][0][actor->tid] = (uint64_t)round;
        wrong += mscclpp_dev_block_sync_or(&ctx, mine) != ((uint32_t)round % (2 * THREADS) < THREADS);
        for (t = 0; t < THREADS; ++t) {
            wrong += world->note[0][0][t] != (uint64_t)round;
        }
        mscclpp_dev_block_sync(&ctx);
    }
    __atomic_add_fetch(&world->wrong, wrong, __ATOMIC_RELAXED);
    return NULL;
}

static void test_block_sync(void)
{
    world_t *world = world_new(1, 1, THREADS);

    run(world, 1, sync_main);
    CHECK_EQ(world->wrong, 0);
    world_free(world);
}

int main(void)
{
    unit_begin();
    test_block_sync();
    test_meetings(1, 1, 1, 0);
    test_meetings(2, 1, 1, 0);
    test_meetings(RANKS, 1, 1, 0);
    test_meetings(RANKS, BLOCKS, THREADS, 0);
    /* Counts of a team that is old. */
    test_meetings(2, BLOCKS, 2, UINT64_C(0xfffffff0));
    test_missing(false);
    test_missing(true);
    test_failed_thread_is_silent();
    return unit_end();
}
