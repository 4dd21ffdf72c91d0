/* The twin's queues: launches run in order, all threads of one at once, at once where one thread is enough. */
#include "device/types/reduce.h"
#include "device/launch/launch.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "test/unit/unit.h"

/* A pair of ranks whose kernels meet, so that a launch of one ends only when the other's runs. */
typedef struct {
    mscclpp_dev_sync_t *scratch[2];
    mscclpp_dev_state_t *state[2];
    mscclpp_dev_mailbox_t *mailbox[2];
    mscclpp_dev_twin_queue_t *queue[2];
} pair_t;

static void *zeroed(size_t size)
{
    void *address = NULL;

    REQUIRE(posix_memalign(&address, 64, size) == 0);
    memset(address, 0, size);
    return address;
}

static void open_pair(pair_t *pair)
{
    int r;

    for (r = 0; r < 2; ++r) {
        pair->scratch[r] = zeroed(sizeof(*pair->scratch[r]));
        pair->state[r] = zeroed(sizeof(*pair->state[r]));
        pair->mailbox[r] = zeroed(sizeof(*pair->mailbox[r]));
        REQUIRE(mscclpp_dev_twin_queue_create(&pair->queue[r]) == 0);
    }
}

static void close_pair(pair_t *pair)
{
    int r;

    for (r = 0; r < 2; ++r) {
        mscclpp_dev_twin_queue_destroy(pair->queue[r]);
        free(pair->scratch[r]);
        free(pair->state[r]);
        free(pair->mailbox[r]);
    }
}

/* Starts a meeting of `nranks` (1: with nobody) on the queue of rank `r`. The arguments do not outlive the call. */
static int launch(pair_t *pair, int r, uint32_t nranks, uint32_t blocks, uint32_t threads)
{
    mscclpp_dev_args_t args;
    mscclpp_dev_launch_t started;
    int error;

    memset(&args, 0, sizeof(args));
    args.dtype = MSCCLPP_DTYPE_INT32;
    args.op = MSCCLPP_OP_SUM;
    args.rank = (uint32_t)r;
    args.nranks = nranks;
    args.timeout_ns = 60000000000u;
    args.state = pair->state[r];
    args.mailbox = pair->mailbox[r];
    args.scratch[0] = (char *)pair->scratch[0];
    args.scratch[1] = (char *)pair->scratch[1];
    started.kernel = MSCCLPP_KERNEL_BARRIER;
    started.nblocks = blocks;
    started.nthreads = threads;
    started.args = &args;
    error = mscclpp_dev_twin_launch(pair->queue[r], &started);
    memset(&args, 0xff, sizeof(args));
    return error;
}

static uint64_t done(const pair_t *pair, int r)
{
    return __atomic_load_n(&pair->mailbox[r]->ended[0], __ATOMIC_ACQUIRE);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void wait_idle(pair_t *pair, int r)
{
    while (!mscclpp_dev_twin_queue_is_idle(pair->queue[r])) {
        sched_yield();
    }
}

/* A launch of one thread on an empty queue has ended when the call returns; no thread is made for it. */
static void test_inline(void)
{
    pair_t pair;
    int i;

    open_pair(&pair);
    CHECK(mscclpp_dev_twin_queue_is_idle(pair.queue[0]));
    for (i = 1; i <= 5; ++i) {
        CHECK_EQ(launch(&pair, 0, 1, 1, 1), 0);
        CHECK_EQ(done(&pair, 0), i);
        CHECK(mscclpp_dev_twin_queue_is_idle(pair.queue[0]));
    }
    close_pair(&pair);
    mscclpp_dev_twin_queue_destroy(NULL);
}

/* Larger ones are queued: the call returns, they wait for their peers, they end in order. */
static void test_order(uint32_t blocks, uint32_t threads)
{
    pair_t pair;
    uint64_t i;

    open_pair(&pair);
    for (i = 0; i < 6; ++i) {
        CHECK_EQ(launch(&pair, 0, 2, blocks, threads), 0);
    }
    pause_ms(20);
    CHECK(!mscclpp_dev_twin_queue_is_idle(pair.queue[0]));
    CHECK_EQ(done(&pair, 0), 0);
    for (i = 1; i <= 6; ++i) {
        CHECK_EQ(launch(&pair, 1, 2, blocks, threads), 0);
        wait_idle(&pair, 1);
        CHECK_EQ(done(&pair, 1), i);
        /* As many of the other side as there were partners, not one more. */
        while (done(&pair, 0) < i) {
            sched_yield();
        }
        CHECK_EQ(done(&pair, 0), i);
    }
    wait_idle(&pair, 0);
    CHECK_EQ(pair.state[0]->barrier[blocks - 1], 6);
    close_pair(&pair);
}

/* A launch of one thread does not overtake what is queued. */
static void test_single_thread_waits_its_turn(void)
{
    pair_t pair;

    open_pair(&pair);
    CHECK_EQ(launch(&pair, 0, 2, 1, 2), 0);
    CHECK_EQ(launch(&pair, 0, 1, 1, 1), 0);
    pause_ms(20);
    CHECK_EQ(done(&pair, 0), 0);
    CHECK_EQ(launch(&pair, 1, 2, 1, 2), 0);
    wait_idle(&pair, 0);
    wait_idle(&pair, 1);
    CHECK_EQ(done(&pair, 0), 2);
    CHECK_EQ(done(&pair, 1), 1);
    close_pair(&pair);
}

/* Grids that grow and shrink: blocks of all sizes run at once, up to far more threads than there are processors. */
static void test_grids(void)
{
    static const uint32_t grids[][2] = {{1, 2}, {4, 8}, {1, 1}, {16, 4}, {2, 1}, {1, 64}, {3, 3}};
    pair_t pair;
    size_t i;

    open_pair(&pair);
    for (i = 0; i < sizeof(grids) / sizeof(grids[0]); ++i) {
        /* Rank 0's is queued in any case: one of a single thread would wait for its peer in this one. */
        if (grids[i][0] * grids[i][1] > 1) {
            CHECK_EQ(launch(&pair, 0, 2, grids[i][0], grids[i][1]), 0);
            CHECK_EQ(launch(&pair, 1, 2, grids[i][0], grids[i][1]), 0);
        } else {
            CHECK_EQ(launch(&pair, 0, 1, 1, 1), 0);
            CHECK_EQ(launch(&pair, 1, 1, 1, 1), 0);
        }
    }
    wait_idle(&pair, 0);
    wait_idle(&pair, 1);
    CHECK_EQ(done(&pair, 0), i);
    CHECK_EQ(done(&pair, 1), i);
    CHECK_EQ(pair.mailbox[0]->failed + pair.mailbox[1]->failed, 0);
    close_pair(&pair);
}

/* Destroying a queue waits for all that is in it. */
typedef struct {
    pair_t *pair;
    int ended;
} destroyer_t;

static void *destroy_main(void *argument)
{
    destroyer_t *destroyer = argument;

    mscclpp_dev_twin_queue_destroy(destroyer->pair->queue[0]);
    __atomic_store_n(&destroyer->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_destroy_waits(void)
{
    destroyer_t destroyer = {NULL, 0};
    pthread_t thread;
    pair_t pair;
    int i;

    open_pair(&pair);
    destroyer.pair = &pair;
    for (i = 0; i < 3; ++i) {
        CHECK_EQ(launch(&pair, 0, 2, 2, 2), 0);
    }
    REQUIRE(pthread_create(&thread, NULL, destroy_main, &destroyer) == 0);
    pause_ms(30);
    for (i = 0; i < 3; ++i) {
        CHECK_EQ(__atomic_load_n(&destroyer.ended, __ATOMIC_ACQUIRE), 0);
        CHECK_EQ(launch(&pair, 1, 2, 2, 2), 0);
        wait_idle(&pair, 1);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(done(&pair, 0), 3);
    pair.queue[0] = NULL;
    close_pair(&pair);
}

/* Several threads feed one queue; some of their launches run in the callers' threads. */
enum { FEEDERS = 4, FEEDS = 60 };

typedef struct {
    pair_t *pair;
    int number;
} feeder_t;

static void *feed_main(void *argument)
{
    const feeder_t *feeder = argument;
    int i;

    for (i = 0; i < FEEDS; ++i) {
        CHECK_EQ(launch(feeder->pair, 0, 1, 1 + (uint32_t)(i + feeder->number) % 2, 1 + (uint32_t)i % 3), 0);
    }
    return NULL;
}

static void test_many_feeders(void)
{
    feeder_t feeders[FEEDERS];
    pthread_t threads[FEEDERS];
    pair_t pair;
    int i;

    open_pair(&pair);
    for (i = 0; i < FEEDERS; ++i) {
        feeders[i].pair = &pair;
        feeders[i].number = i;
        REQUIRE(pthread_create(&threads[i], NULL, feed_main, &feeders[i]) == 0);
    }
    for (i = 0; i < FEEDERS; ++i) {
        pthread_join(threads[i], NULL);
    }
    wait_idle(&pair, 0);
    CHECK_EQ(done(&pair, 0), FEEDERS * FEEDS);
    CHECK_EQ(pair.state[0]->progress[0].launches, FEEDERS * FEEDS);
    close_pair(&pair);
}

/* Waits in the caller's thread keep the caller's business moving; waits in the queue's own threads have none. */
typedef struct {
    pair_t *pair;
    pthread_t thread;
    int turns;
    int elsewhere;
} progress_t;

static void progress(void *context)
{
    progress_t *state = context;

    ++state->turns;
    state->elsewhere += !pthread_equal(pthread_self(), state->thread);
    if (state->turns == 3) {
        /* What the caller has to do for its own kernel to end. */
        CHECK_EQ(launch(state->pair, 1, 2, 1, 2), 0);
    }
}

static void test_progress(void)
{
    progress_t state;
    pair_t pair;
    int turns;

    open_pair(&pair);
    memset(&state, 0, sizeof(state));
    state.pair = &pair;
    state.thread = pthread_self();
    mscclpp_dev_twin_set_progress(progress, &state);
    CHECK_EQ(launch(&pair, 0, 2, 1, 1), 0);
    CHECK_EQ(done(&pair, 0), 1);
    CHECK(state.turns >= 3);
    CHECK_EQ(state.elsewhere, 0);
    wait_idle(&pair, 1);
    turns = state.turns;
    CHECK_EQ(launch(&pair, 0, 2, 1, 2), 0);
    pause_ms(10);
    CHECK_EQ(launch(&pair, 1, 2, 1, 2), 0);
    wait_idle(&pair, 0);
    wait_idle(&pair, 1);
    CHECK_EQ(state.turns, turns);
    mscclpp_dev_twin_set_progress(NULL, NULL);
    CHECK_EQ(launch(&pair, 0, 1, 1, 1), 0);
    CHECK_EQ(state.turns, turns);
    close_pair(&pair);
}

/* Copies keep their place behind a launch that waits, and among themselves; the caller never does their work. */
static void test_copies(void)
{
    enum { SIZE = 4099 };
    unsigned char from[SIZE], to[SIZE], second[SIZE];
    uint64_t first, last;
    pair_t pair;
    size_t i;

    for (i = 0; i < SIZE; ++i) {
        from[i] = (unsigned char)(i * 7 + 1);
    }
    memset(to, 0, sizeof(to));
    memset(second, 0, sizeof(second));
    open_pair(&pair);
    CHECK(mscclpp_dev_twin_queue_has_passed(pair.queue[0], mscclpp_dev_twin_queue_mark_end(pair.queue[0])));
    CHECK_EQ(launch(&pair, 0, 2, 1, 2), 0);
    CHECK_EQ(mscclpp_dev_twin_copy(pair.queue[0], &(mscclpp_dev_twin_copy_t){to, from, SIZE}), 0);
    first = mscclpp_dev_twin_queue_mark_end(pair.queue[0]);
    CHECK_EQ(mscclpp_dev_twin_copy(pair.queue[0], &(mscclpp_dev_twin_copy_t){second, to, SIZE}), 0);
    last = mscclpp_dev_twin_queue_mark_end(pair.queue[0]);
    pause_ms(10);
    CHECK(!mscclpp_dev_twin_queue_has_passed(pair.queue[0], first));
    CHECK(!mscclpp_dev_twin_queue_is_idle(pair.queue[0]));
    CHECK_EQ(launch(&pair, 1, 2, 1, 2), 0);
    while (!mscclpp_dev_twin_queue_has_passed(pair.queue[0], last)) {
        sched_yield();
    }
    /* The mark alone says that all of it is there. */
    CHECK(memcmp(second, from, SIZE) == 0);
    CHECK(mscclpp_dev_twin_queue_has_passed(pair.queue[0], first));
    wait_idle(&pair, 0);
    /* On an empty queue too. */
    memset(second, 0, sizeof(second));
    CHECK_EQ(mscclpp_dev_twin_copy(pair.queue[0], &(mscclpp_dev_twin_copy_t){second, to, SIZE}), 0);
    wait_idle(&pair, 0);
    CHECK(memcmp(second, from, SIZE) == 0);
    close_pair(&pair);
}

static void test_sizes(void)
{
    int kernel;

    for (kernel = 0; kernel < MSCCLPP_KERNEL_LAST; ++kernel) {
        CHECK(mscclpp_dev_args_size((mscclpp_dev_kernel_t)kernel) >= sizeof(mscclpp_dev_args_t));
    }
    CHECK_EQ(mscclpp_dev_args_size(MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY), sizeof(mscclpp_dev_zerocopy_args_t));
    CHECK_EQ(mscclpp_dev_args_size(MSCCLPP_KERNEL_ALLREDUCE_SCRATCH), sizeof(mscclpp_dev_args_t));
    CHECK_EQ(mscclpp_dev_args_size(MSCCLPP_KERNEL_REDUCE_CHUNK), sizeof(mscclpp_dev_reduce_args_t));
}

/* Counts its turns, and ends the loop after a number of them. */
typedef struct {
    uint64_t condition;
    int turns;
    int limit;
    int outer; /* turns of the loop around it */
} turns_t;

static void count_turn(void *argument)
{
    turns_t *turns = argument;

    ++turns->turns;
    __atomic_store_n(&turns->condition, turns->turns % turns->limit != 0, __ATOMIC_RELEASE);
}

/* Begins the inner loop once more, three times. */
static void count_outer(void *argument)
{
    turns_t *turns = argument;

    turns->condition = 1;
    ++turns->outer;
}

static void end_after_three(void *argument)
{
    turns_t *turns = argument;

    __atomic_store_n(&turns[1].condition, turns->outer < 3, __ATOMIC_RELEASE);
}

static mscclpp_dev_twin_graph_t *graph_of(mscclpp_dev_twin_queue_t *queue, void (*function)(void *), void *argument)
{
    mscclpp_dev_twin_graph_t *graph = NULL;

    REQUIRE(mscclpp_dev_twin_begin_record(queue) == 0);
    REQUIRE(mscclpp_dev_twin_call(queue, function, argument) == 0);
    REQUIRE(mscclpp_dev_twin_end_record(queue, &graph) == 0);
    return graph;
}

/* Loops: none, one, several turns; recorded and repeated, one within another; a mark behind a loop waits for its end.
 */
static void test_loops(void)
{
    turns_t turns[2] = {{0, 0, 5, 0}, {0, 0, 1, 0}};
    mscclpp_dev_twin_graph_t *body, *again, *inner, *whole;
    mscclpp_dev_twin_queue_t *queue;
    uint64_t mark;
    int i;

    REQUIRE(mscclpp_dev_twin_queue_create(&queue) == 0);
    mscclpp_dev_twin_queue_set_apart(queue);
    body = graph_of(queue, count_turn, turns);
    again = graph_of(queue, count_outer, turns);
    REQUIRE(mscclpp_dev_twin_loop(queue, body, &turns[0].condition) == 0);
    mark = mscclpp_dev_twin_queue_mark_end(queue);
    while (!mscclpp_dev_twin_queue_has_passed(queue, mark)) {
        sched_yield();
    }
    CHECK(turns[0].turns == 0);
    turns[0].condition = 1;
    REQUIRE(mscclpp_dev_twin_loop(queue, body, &turns[0].condition) == 0);
    mark = mscclpp_dev_twin_queue_mark_end(queue);
    while (!mscclpp_dev_twin_queue_has_passed(queue, mark)) {
        sched_yield();
    }
    CHECK(turns[0].turns == 5);
    CHECK(mscclpp_dev_twin_queue_is_idle(queue));
    /* The body of the outer loop: begin anew, the inner loop, look whether that was the third time. */
    REQUIRE(mscclpp_dev_twin_begin_record(queue) == 0);
    REQUIRE(mscclpp_dev_twin_loop(queue, body, &turns[0].condition) == 0);
    REQUIRE(mscclpp_dev_twin_call(queue, end_after_three, turns) == 0);
    REQUIRE(mscclpp_dev_twin_end_record(queue, &inner) == 0);
    REQUIRE(mscclpp_dev_twin_append(again, inner) == 0);
    REQUIRE(mscclpp_dev_twin_begin_record(queue) == 0);
    REQUIRE(mscclpp_dev_twin_loop(queue, again, &turns[1].condition) == 0);
    REQUIRE(mscclpp_dev_twin_end_record(queue, &whole) == 0);
    mscclpp_dev_twin_graph_destroy(inner);
    mscclpp_dev_twin_graph_destroy(again);
    mscclpp_dev_twin_graph_destroy(body);
    for (i = 1; i <= 2; ++i) {
        turns[0].outer = 0;
        turns[1].condition = 1;
        REQUIRE(mscclpp_dev_twin_replay(whole, queue) == 0);
        mark = mscclpp_dev_twin_queue_mark_end(queue);
        while (!mscclpp_dev_twin_queue_has_passed(queue, mark)) {
            sched_yield();
        }
        CHECK(turns[0].outer == 3);
        CHECK(turns[0].turns == 5 + i * 15);
    }
    mscclpp_dev_twin_graph_destroy(whole);
    mscclpp_dev_twin_queue_destroy(queue);
}

int main(void)
{
    unit_begin();
    test_loops();
    test_sizes();
    test_inline();
    test_order(1, 2);
    test_order(3, 2);
    test_single_thread_waits_its_turn();
    test_grids();
    test_copies();
    test_destroy_waits();
    test_many_feeders();
    test_progress();
    return unit_end();
}
