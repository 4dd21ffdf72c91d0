/*
 * Early kernels of several communicators, which every rank starts in an order of its own. Each kernel waits for the
 * same one of all ranks, as kernels on a GPU do, and amid them ranks free memory, which waits for all kernels of the
 * rank. A rank may never have more than one of them under way, and all come to their end however the orders differ.
 * Large early all-reduces, whose kernels a thread apart launches while the rank's own thread stays away. Large early
 * all-gathers by copy engines, which a thread apart starts, and whose end it tells the other ranks.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define RANKS 3
#define TEAMS 6
#define TURNS 40
#define LONG_KERNEL 300 /* turns of the host that some kernels take at least */

static parts_options_t options;

static mscclpp_admission_t admissions[RANKS]; /* each rank is a thread here; this is what it has if it is a process */
static int begun[TEAMS];                      /* kernels of each team that have begun on any rank; atomic */

typedef struct {
    rank_t *rank;
    mscclpp_team_t *team;
    int number; /* of the team */
    int turn;
    int *inside; /* kernels of this rank that are under way */
    bool under_way;
    bool failed;
} call_t;

static bool has_begun_everywhere(const call_t *call)
{
    return __atomic_load_n(&begun[call->number], __ATOMIC_RELAXED) >= RANKS * (call->turn + 1);
}

/* Like a kernel: begins only if all ranks can have it under way, and ends when it has begun on all of them. */
static void serve(void *argument)
{
    call_t *call = argument;
    const double until = mscclpp_now() + options.timeout;

    call->failed = call->failed || mscclpp_group_meet(&call->team->group, 8, true) != MSCCLPP_OK || ++*call->inside > 1;
    call->under_way = true;
    (void)__atomic_add_fetch(&begun[call->number], 1, __ATOMIC_RELAXED);
    while (!call->failed && !has_begun_everywhere(call)) {
        call->failed = mscclpp_now() > until;
        (void)mscclpp_fiber_yield();
    }
    /* Some stay longer than it takes to admit another one. */
    for (int i = 0; call->turn % 3 == 0 && i < LONG_KERNEL; ++i) {
        (void)mscclpp_fiber_yield();
    }
    call->under_way = false;
    --*call->inside;
    mscclpp_group_give_slot(&call->team->group);
}

/* Like cudaFree: comes to MPI again when all kernels of this rank have ended. Other ranks may have to begin theirs. */
static void free_memory(call_t *calls)
{
    const double until = mscclpp_now() + options.timeout;

    for (int k = 0; k < TEAMS; ++k) {
        while (calls[k].under_way && !calls[k].failed && !has_begun_everywhere(&calls[k])) {
            calls[k].failed = mscclpp_now() > until;
            sched_yield();
        }
    }
}

static void one_turn(rank_t *rank, mscclpp_team_t **teams, int turn, uint64_t *random)
{
    mscclpp_fiber_t *fibers[TEAMS] = {NULL};
    call_t calls[TEAMS];
    int inside = 0, left = TEAMS, k;

    /* By turns in one order, and from another first one on each rank, in opposite directions. */
    for (int i = 0; i < TEAMS; ++i) {
        k = turn % 3 == 0 ? i : ((rank->rank % 2 == 0 ? i : TEAMS - i) + 2 * rank->rank + turn) % TEAMS;
        calls[k] = (call_t){rank, teams[k], k, turn, &inside, false, false};
        fibers[k] = mscclpp_fiber_create(serve, &calls[k]);
        REQUIRE(fibers[k] != NULL);
        if (mscclpp_fiber_resume(fibers[k])) {
            fibers[k] = NULL;
            --left;
        }
    }
    for (; left > 0;) {
        k = (int)random_below(random, TEAMS);
        if (turn % 4 == 0) {
            jitter_sleep(random, 200);
        }
        for (int i = 0; i < TEAMS; ++i) {
            const int at = (k + i) % TEAMS;

            if (fibers[at] != NULL && mscclpp_fiber_resume(fibers[at])) {
                fibers[at] = NULL;
                --left;
            }
            /* Set-up frees memory amid the work on other communicators, and applications do between calls. */
            if (turn % 2 == 1) {
                jitter_sleep(random, 50);
                free_memory(calls);
            }
        }
    }
    for (k = 0; k < TEAMS; ++k) {
        CHECK(!calls[k].failed);
        rank->failures += calls[k].failed;
    }
    CHECK_EQ(inside, 0);
}

static void use_teams(rank_t *rank)
{
    const int *turns = rank->argument;
    mscclpp_team_t *teams[TEAMS];
    uint64_t random = 77 + (uint64_t)rank->rank;
    bool failed = false;

    rank->admission = &admissions[rank->rank];
    for (int i = 0; i < TEAMS; ++i) {
        teams[i] = create_team(rank);
        failed = failed || teams[i] == NULL;
    }
    for (int turn = 0; turn < *turns && !meet_any(rank, failed || rank->failures > 0); ++turn) {
        one_turn(rank, teams, turn, &random);
    }
    meet(rank);
    for (int i = 0; i < TEAMS; ++i) {
        mscclpp_team_destroy(teams[i]);
    }
}

static void run_turns(int turns)
{
    mscclpp_config_t config;

    for (int i = 0; i < TEAMS; ++i) {
        begun[i] = 0;
    }
    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.twin_blocks = 1;
    config.twin_threads = 1;
    config.timeout = options.timeout;
    config.ucx = false;
    CHECK_EQ(run_ranks(RANKS, &config, use_teams, &turns), 0);
    mscclpp_team_finalize(1.0);
}

/* Large enough that a thread apart may launch the kernel. */
#define SUM_COUNT 300000
#define SUMS 12

/* The most all-reduces that follow one another without the rank's own thread. */
#define CHAIN 3

/*
 * Early all-reduces of one rank, and a thread apart that may continue them, and begin those that follow. Only the
 * holder of the lock uses it.
 */
typedef struct {
    pthread_mutex_t lock;
    mscclpp_fiber_t *fiber; /* NULL: none is under way */
    int left;               /* calls that follow, each with the next part of the buffers */
    mscclpp_team_t *team;
    mscclpp_allreduce_args_t args;
    mscclpp_coll_args_t gather;
    mscclpp_status_t status;
    int continued; /* times that the thread apart has moved a fiber on */
    int ended;     /* calls that it has ended */
    bool ends;     /* the thread apart ends */
} apart_t;

static void reduce(void *argument)
{
    apart_t *apart = argument;

    apart->status = mscclpp_allreduce(apart->team, &apart->args);
}

/* Begins the next all-reduce, if there is one, after one that has ended. */
static void begin_next(apart_t *apart)
{
    apart->fiber = NULL;
    if (apart->left > 0) {
        --apart->left;
        ++apart->args.call;
        apart->args.sendbuf = (const int *)apart->args.sendbuf + SUM_COUNT;
        apart->args.recvbuf = (int *)apart->args.recvbuf + SUM_COUNT;
        apart->fiber = mscclpp_fiber_create(reduce, apart);
        mscclpp_fiber_open_new(apart->fiber);
    }
}

/* Lets the fiber go on, if the thread apart may do that. The end of the last call is left to the rank's own thread. */
static void go_on_apart(apart_t *apart)
{
    if (apart->fiber == NULL || !mscclpp_fiber_is_open(apart->fiber) ||
        (apart->left == 0 && !mscclpp_fiber_is_urgent(apart->fiber))) {
        return;
    }
    switch (mscclpp_fiber_resume_apart(apart->fiber)) {
    case MSCCLPP_FIBER_ENDED:
        ++apart->ended;
        begin_next(apart);
        break;
    case MSCCLPP_FIBER_MOVED:
        ++apart->continued;
        break;
    case MSCCLPP_FIBER_WAITS:
        break;
    }
}

/* The thread apart. */
static void *continue_open(void *argument)
{
    apart_t *apart = argument;
    bool ends = false;

    while (!ends) {
        pthread_mutex_lock(&apart->lock);
        go_on_apart(apart);
        ends = apart->ends;
        pthread_mutex_unlock(&apart->lock);
        sched_yield();
    }
    return NULL;
}

/* Runs the fiber once more. True if all calls have ended. */
static bool resume(apart_t *apart)
{
    bool ended;

    pthread_mutex_lock(&apart->lock);
    if (apart->fiber != NULL && mscclpp_fiber_resume(apart->fiber)) {
        begin_next(apart);
    }
    ended = apart->fiber == NULL;
    pthread_mutex_unlock(&apart->lock);
    return ended;
}

/* Waits until all kernels have been launched and have ended, without running a fiber. False if they have not. */
static bool await_kernels(apart_t *apart, uint64_t launches)
{
    const double until = mscclpp_now() + options.timeout;
    bool ended;

    do {
        sched_yield();
        pthread_mutex_lock(&apart->lock);
        ended = apart->team->runner.launches >= launches && mscclpp_runner_has_ended(&apart->team->runner);
        pthread_mutex_unlock(&apart->lock);
    } while (!ended && mscclpp_now() < until);
    return ended;
}

/* Starts `chain` all-reduces, and lets the thread apart do the rest until their kernels have ended. */
static void reduce_apart(rank_t *rank, apart_t *apart, int *in, int *out, int call, int chain)
{
    const int count = chain * SUM_COUNT;
    uint64_t launches;
    int wrong = 0;

    for (int i = 0; i < count; ++i) {
        in[i] = (i + call) * (rank->rank + 1);
    }
    if (call % RANKS == rank->rank) { /* another rank comes late in each call */
        jitter_sleep(&(uint64_t){(uint64_t)call + 1}, 20000);
    }
    pthread_mutex_lock(&apart->lock);
    launches = apart->team->runner.launches + (uint64_t)chain;
    apart->args.call = (uint64_t)call;
    apart->args.sendbuf = in;
    apart->args.recvbuf = out;
    apart->left = chain - 1;
    apart->fiber = mscclpp_fiber_create(reduce, apart);
    pthread_mutex_unlock(&apart->lock);
    if (!resume(apart)) {
        rank->failures += !await_kernels(apart, launches);
        while (!resume(apart)) {
            sched_yield();
        }
    }
    CHECK_EQ(apart->status, MSCCLPP_OK);
    for (int i = 0; i < count; ++i) {
        wrong += out[i] != (i + call) * (RANKS * (RANKS + 1) / 2);
    }
    CHECK_EQ(wrong, 0);
}

static void use_thread_apart(rank_t *rank)
{
    const int *calls = rank->argument;
    int *in = calloc(CHAIN * SUM_COUNT, sizeof(*in)), *out = calloc(CHAIN * SUM_COUNT, sizeof(*out));
    apart_t apart = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .args = {.sendbuf = in,
                              .recvbuf = out,
                              .count = SUM_COUNT,
                              .dtype = MSCCLPP_DTYPE_INT32,
                              .op = MSCCLPP_OP_SUM,
                              .early = true}};
    pthread_t thread;

    rank->admission = &admissions[rank->rank];
    apart.team = create_team(rank);
    REQUIRE(apart.team != NULL && in != NULL && out != NULL);
    /* The first call makes memory, for which ranks meet more than once. */
    apart.args.call = 1;
    apart.args.early = false;
    CHECK_EQ(mscclpp_allreduce(apart.team, &apart.args), MSCCLPP_OK);
    apart.args.early = true;
    CHECK_EQ(pthread_create(&thread, NULL, continue_open, &apart), 0);
    for (int i = 0; i < *calls && !meet_any(rank, rank->failures > 0); ++i) {
        reduce_apart(rank, &apart, in, out, 2 + CHAIN * i, 1 + i % CHAIN);
    }
    pthread_mutex_lock(&apart.lock);
    apart.ends = true;
    pthread_mutex_unlock(&apart.lock);
    pthread_join(thread, NULL);
    CHECK(apart.continued > 0);
    CHECK(*calls < CHAIN || apart.ended > 0);
    meet(rank);
    mscclpp_team_destroy(apart.team);
    free(in);
    free(out);
}

/* Kernels that run in the thread that launches them, and kernels in threads of their own. */
static void test_apart(int scale)
{
    for (int threads = 1; threads <= 2; ++threads) {
        int calls = SUMS * scale;
        mscclpp_config_t config;

        mscclpp_config_init(&config);
        config.twin_blocks = 1;
        config.twin_threads = threads;
        config.timeout = options.timeout;
        config.ucx = false;
        CHECK_EQ(run_ranks(RANKS, &config, use_thread_apart, &calls), 0);
        mscclpp_team_finalize(1.0);
    }
}

/* Elements of a block, and the calls. */
#define GATHER_COUNT 300000
#define GATHERS 12

static int gathered; /* number of calls that ranks have seen the end of; atomic */

static void gather(void *argument)
{
    apart_t *apart = argument;

    apart->status = mscclpp_collective(apart->team, &apart->gather);
}

/*
 * Waits, without running the fiber, until all other ranks have seen the end of call number `call`. Returns false if
 * they have not. In each call one rank stays away so, and does not count it.
 */
static bool stay_away(uint64_t call)
{
    const double until = mscclpp_now() + options.timeout;
    bool ended;

    do {
        sched_yield();
        ended = __atomic_load_n(&gathered, __ATOMIC_ACQUIRE) >= (int)call * (RANKS - 1);
    } while (!ended && mscclpp_now() < until);
    return ended;
}

/*
 * Makes an all-gather. The thread of one rank only starts the call, and comes again once the others have ended it. So
 * the thread apart has to start the copies there, and to tell of their end.
 */
static void gather_apart(rank_t *rank, apart_t *apart, int *in, int *out)
{
    const uint64_t call = ++apart->gather.call;
    const bool is_away = call % RANKS == (uint64_t)rank->rank;
    int wrong = 0;

    for (int i = 0; i < GATHER_COUNT; ++i) {
        in[i] = (i + (int)call) * (rank->rank + 1);
    }
    if ((call / RANKS) % RANKS == (uint64_t)rank->rank) { /* another rank comes late */
        jitter_sleep(&(uint64_t){call}, 20000);
    }
    for (int i = 0; i < RANKS * GATHER_COUNT; ++i) {
        out[i] = -1;
    }
    pthread_mutex_lock(&apart->lock);
    apart->fiber = mscclpp_fiber_create(gather, apart);
    pthread_mutex_unlock(&apart->lock);
    if (!resume(apart)) {
        CHECK(!is_away || call == 1 || stay_away(call));
        while (!resume(apart)) {
            sched_yield();
        }
    }
    if (!is_away) {
        (void)__atomic_add_fetch(&gathered, 1, __ATOMIC_RELEASE);
    }
    CHECK_EQ(apart->status, MSCCLPP_OK);
    CHECK(strcmp(mscclpp_team_last_algorithm(apart->team), "engines") == 0);
    for (int i = 0; i < RANKS * GATHER_COUNT; ++i) {
        wrong += out[i] != (i % GATHER_COUNT + (int)call) * (i / GATHER_COUNT + 1);
    }
    CHECK_EQ(wrong, 0);
    rank->failures += apart->status != MSCCLPP_OK || wrong > 0;
}

static int *make_buffer(const rank_t *rank, int count)
{
    void *address = NULL;

    REQUIRE(rank->gpu->device_alloc(0, sizeof(int) * (size_t)count, &address) == MSCCLPP_OK);
    return address;
}

/* In the first call the ranks exchange their buffers, for which their own threads have to map them. */
static void use_engines_apart(rank_t *rank)
{
    const int *calls = rank->argument;
    int *in = make_buffer(rank, GATHER_COUNT), *out = make_buffer(rank, RANKS * GATHER_COUNT);
    apart_t apart = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .gather = {.coll = MSCCLPP_COLL_ALLGATHER,
                                .in = in,
                                .out = out,
                                .count = GATHER_COUNT,
                                .largest_block = GATHER_COUNT * sizeof(*in),
                                .is_size_known = true,
                                .dtype = MSCCLPP_DTYPE_INT32,
                                .early = true}};
    const mscclpp_rule_set_t all = {.count = 1, .rules = {{.bytes = UINT64_MAX, .algorithm = MSCCLPP_COLL_BY_ENGINES}}};
    mscclpp_rules_t *rules = mscclpp_rules_create();
    pthread_t thread;

    REQUIRE(rules != NULL && mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_ALLGATHER, RANKS, 1, true, &all));
    rank->admission = &admissions[rank->rank];
    rank->rules = rules;
    apart.team = create_team(rank);
    REQUIRE(apart.team != NULL);
    CHECK_EQ(pthread_create(&thread, NULL, continue_open, &apart), 0);
    for (int i = 0; i < *calls && !meet_any(rank, rank->failures > 0); ++i) {
        gather_apart(rank, &apart, in, out);
    }
    pthread_mutex_lock(&apart.lock);
    apart.ends = true;
    pthread_mutex_unlock(&apart.lock);
    pthread_join(thread, NULL);
    CHECK(apart.continued > 0);
    meet(rank);
    mscclpp_team_destroy(apart.team);
    mscclpp_rules_destroy(rules);
    meet(rank);
    rank->gpu->device_free(0, in);
    rank->gpu->device_free(0, out);
}

static void test_engines(int scale)
{
    int calls = GATHERS * scale;
    mscclpp_config_t config;

    gathered = 0;
    mscclpp_config_init(&config);
    config.twin_blocks = 1;
    config.twin_threads = 1;
    config.timeout = options.timeout;
    config.ucx = false;
    CHECK_EQ(run_ranks(RANKS, &config, use_engines_apart, &calls), 0);
    mscclpp_team_finalize(1.0);
}

static void test_orders(int scale)
{
    run_turns(TURNS * scale);
}

static const part_t parts[] = {{"orders", test_orders}, {"apart", test_apart}, {"engines", test_engines}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    for (int i = 0; i < RANKS; ++i) {
        mscclpp_admission_init(&admissions[i]);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
