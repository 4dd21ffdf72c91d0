/*
 * Ranks whose threads use teams independently, on one node and on several. The ranks meet before each launch, also
 * before that of the set-up. At most one kernel of a rank at a time waits for other ranks, whatever else the driver
 * waits for meanwhile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/task/links.h"
#include "mca/common/group/admission.h"
#include "test/host/faulty_gpu.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define RANKS 3
#define TEAMS 20
#define MAX_COUNT 3000u

/* Seconds, more than kernels may take to meet in a set-up. */
#define LONG_WAIT 10.5

static parts_options_t options;

/* Each rank is a thread here. This is what a rank has if it is a process. */
typedef struct {
    mscclpp_admission_t admission;
    mscclpp_admission_candidate_t candidate; /* the test's own candidate, which may hold the slot */
    pthread_mutex_t driver;
    pthread_cond_t changed;
    bool freeing;
    int running; /* kernels that wait for others */
    int most;    /* such kernels at once so far */
    int frees;   /* frees of memory that found a kernel running */
    int takes;   /* how often copy engines have taken memory; atomic */
} process_t;

static process_t processes[RANKS];
static _Thread_local process_t *mine;
static int per_node; /* ranks of an imitated node; 0: there is one node */
static bool engines; /* copy engines serve, and the teams of a process share their memory */

/* Bytes of the memory of copy engines, unlike those of other memory. */
#define ENGINE_BYTES (((size_t)1 << 20) + 8192)

/* Like a driver: no kernel starts while a thread waits for all kernels to end. */
static void begin_kernel(process_t *process)
{
    pthread_mutex_lock(&process->driver);
    while (process->freeing) {
        pthread_cond_wait(&process->changed, &process->driver);
    }
    ++process->running;
    process->most = process->running > process->most ? process->running : process->most;
    pthread_mutex_unlock(&process->driver);
}

static void end_kernel(process_t *process)
{
    pthread_mutex_lock(&process->driver);
    --process->running;
    pthread_cond_broadcast(&process->changed);
    pthread_mutex_unlock(&process->driver);
}

static void wait_for_kernels(process_t *process)
{
    pthread_mutex_lock(&process->driver);
    while (process->freeing) {
        pthread_cond_wait(&process->changed, &process->driver);
    }
    process->freeing = true;
    process->frees += process->running > 0;
    while (process->running > 0) {
        pthread_cond_wait(&process->changed, &process->driver);
    }
    process->freeing = false;
    pthread_cond_broadcast(&process->changed);
    pthread_mutex_unlock(&process->driver);
}

/* A kernel that runs on in a thread of the twin, as one that waits for other nodes does. */
typedef struct {
    process_t *process;
    mscclpp_gpu_event_t *event;
} running_t;

static int watched; /* such kernels; atomic */

static void *watch_main(void *argument)
{
    running_t *running = argument;

    while (mscclpp_gpu_twin_ops.event_query(running->event) == MSCCLPP_IN_PROGRESS) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    end_kernel(running->process);
    mscclpp_gpu_twin_ops.event_destroy(running->event);
    free(running);
    __atomic_sub_fetch(&watched, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Counts the kernel as running until the stream has come to its end. */
static void watch_kernel(process_t *process, mscclpp_gpu_stream_t *stream)
{
    running_t *running = calloc(1, sizeof(*running));
    pthread_t thread;

    REQUIRE(running != NULL);
    running->process = process;
    REQUIRE(mscclpp_gpu_twin_ops.event_create(0, &running->event) == MSCCLPP_OK);
    REQUIRE(mscclpp_gpu_twin_ops.event_record(running->event, stream) == MSCCLPP_OK);
    __atomic_add_fetch(&watched, 1, __ATOMIC_RELAXED);
    REQUIRE(pthread_create(&thread, NULL, watch_main, running) == 0);
    pthread_detach(thread);
}

static void await_watched(void)
{
    while (__atomic_load_n(&watched, __ATOMIC_ACQUIRE) > 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Kernels that wait for other ranks take a while, so that all kernels that may run together do run together. */
static mscclpp_status_t counting_launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_args_t *args = launch->args;
    process_t *process = mine;
    mscclpp_status_t status;

    if (args->nranks == 1 && per_node == 0) {
        return mscclpp_gpu_twin_ops.launch(stream, launch);
    }
    begin_kernel(process);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    /* On one node a grid of one thread runs here, to its end. */
    status = mscclpp_gpu_twin_ops.launch(stream, launch);
    if (per_node != 0 && status == MSCCLPP_OK) {
        watch_kernel(process, stream);
    } else {
        end_kernel(process);
    }
    return status;
}

static void waiting_free(int device, void *address)
{
    wait_for_kernels(mine);
    mscclpp_gpu_twin_ops.device_free(device, address);
}

/* Copy engines take memory in the middle of a call, for which drivers may wait, too. */
static mscclpp_status_t waiting_alloc(int device, size_t size, void **address_p)
{
    if (engines) {
        wait_for_kernels(mine);
        (void)__atomic_add_fetch(&mine->takes, size == ENGINE_BYTES, __ATOMIC_RELAXED);
    }
    return mscclpp_gpu_twin_ops.device_alloc(device, size, address_p);
}

/* Copies of engines begin late, so that calls of teams that may overlap do overlap. */
static mscclpp_status_t late_put(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    if (engines) {
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    return mscclpp_gpu_twin_ops.put(stream, to, from, size);
}

static mscclpp_gpu_ops_t counting_gpu;

static void configure(mscclpp_config_t *config, double timeout)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->twin_blocks = 1;
    config->twin_threads = 1;
    config->timeout = timeout;
    config->ucx = false;
    config->ranks_per_node = per_node;
    config->transport = "shm";
    config->engine_scratch = ENGINE_BYTES;
    config->engine_min = engines ? 1 : 0;
}

/* Makes this thread a rank with the slots of its process. */
static void be_threaded(rank_t *rank)
{
    mine = &processes[rank->rank];
    rank->concurrent = true;
    rank->admission = &mine->admission;
    rank->own_process = engines;
}

/* Takes the slot of a process; false if it was taken already. */
static bool fill(process_t *process)
{
    bool taken;

    mscclpp_admission_add(&process->admission, &process->candidate, 0);
    taken = mscclpp_admission_take_slot(&process->admission, &process->candidate);
    mscclpp_admission_remove(&process->admission, &process->candidate);
    return taken;
}

static void empty(process_t *process)
{
    mscclpp_admission_give_slot(&process->admission);
}

static void check_all_given_back(void)
{
    int i;

    for (i = 0; i < RANKS; ++i) {
        CHECK(fill(&processes[i]));
        empty(&processes[i]);
    }
}

static void run_ring(rank_t *rank, mscclpp_team_t *team)
{
    uint64_t in = (uint64_t)rank->rank, out = ~in;
    double seconds;

    if (team != NULL) {
        CHECK_EQ(mscclpp_links_try(team, &in, &out, sizeof(in), 2, false, &seconds), MSCCLPP_OK);
        CHECK_EQ(out, (rank->rank + rank->size - 1) % rank->size);
    }
}

static pthread_barrier_t all_made; /* met by all ranks of all teams */

/* One thread of a rank: it creates its own team and makes a few calls, twice. */
static void use_teams(rank_t *rank)
{
    const int *number = rank->argument;
    uint64_t own = (uint64_t)*number * 100 + (uint64_t)rank->rank + 1;
    int i, k;

    be_threaded(rank);
    rank->gpu = &counting_gpu;
    for (i = 0; i < 2 && rank->failures == 0; ++i) {
        traffic_t traffic;

        jitter_sleep(&own, 3000);
        traffic_open(&traffic, create_team(rank), MAX_COUNT, engines || *number % 2 == 0 ? USER_DEVICE : USER_EXACT);
        if (engines && i == 0) {
            pthread_barrier_wait(&all_made); /* then all teams set up their engines at the same time */
        }
        for (k = 0; k < 2 * options.scale && traffic.team != NULL; ++k) {
            const uint64_t draw = (uint64_t)(*number * 131 + k * 977);
            bool right = false;

            jitter_sleep(&own, 1000);
            /* Packets serve what is small. */
            CHECK_EQ(traffic_call(&traffic, (engines ? 2500 : 1) + draw % (engines ? 500 : MAX_COUNT), &right),
                     MSCCLPP_OK);
            CHECK(right);
            if (engines) {
                CHECK(strcmp(mscclpp_team_last_algorithm(traffic.team), "engines") == 0);
            }
        }
        run_ring(rank, per_node == 0 ? traffic.team : NULL);
        traffic_close(&traffic);
    }
}

static void *team_main(void *argument)
{
    mscclpp_config_t config;

    configure(&config, options.timeout);
    CHECK_EQ(run_ranks(RANKS, &config, use_teams, argument), 0);
    return NULL;
}

static void run_teams(void)
{
    pthread_t threads[TEAMS];
    int numbers[TEAMS], i;

    REQUIRE(pthread_barrier_init(&all_made, NULL, TEAMS * RANKS) == 0);
    for (i = 0; i < TEAMS; ++i) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, team_main, &numbers[i]) == 0);
    }
    for (i = 0; i < TEAMS; ++i) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&all_made);
    await_watched();
    mscclpp_team_finalize(1.0);
}

static bool crowded; /* atomic */

/* A thread that frees memory all the time, as an application's threads that make no calls may do. */
static void *free_main(void *argument)
{
    process_t *process = argument;

    while (__atomic_load_n(&crowded, __ATOMIC_RELAXED)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        wait_for_kernels(process);
    }
    return NULL;
}

/* Sets up more teams than there are slots, all at the same time, in an order that differs between ranks. */
static void test_crowd(int scale)
{
    pthread_t threads[RANKS];
    int i;

    (void)scale;
    __atomic_store_n(&crowded, true, __ATOMIC_RELAXED);
    for (i = 0; i < RANKS; ++i) {
        REQUIRE(pthread_create(&threads[i], NULL, free_main, &processes[i]) == 0);
    }
    run_teams();
    __atomic_store_n(&crowded, false, __ATOMIC_RELAXED);
    for (i = 0; i < RANKS; ++i) {
        pthread_join(threads[i], NULL);
        printf("process %d: at most %d kernels at once, %d frees waited for one\n", i, processes[i].most,
               processes[i].frees);
        /* Between nodes a kernel that has told its end counts until the stream is there. */
        CHECK(processes[i].most == 1 || per_node != 0);
        CHECK(processes[i].frees > 0);
        processes[i].most = 0;
        processes[i].frees = 0;
    }
    check_all_given_back();
}

/*
 * The same with copy engines, whose kernels wait for no rank. A team has the slot during its call, and while it sets up
 * its engines, so all teams of a process share one memory.
 */
static void test_crowd_of_engines(int scale)
{
    int i;

    engines = true;
    test_crowd(scale);
    engines = false;
    for (i = 0; i < RANKS; ++i) {
        printf("process %d: engines of %d teams took memory %d times\n", i, 2 * TEAMS, processes[i].takes);
        CHECK(processes[i].takes > 0 && processes[i].takes < TEAMS / 2);
    }
}

/* The same on several nodes, of two ranks and of one. */
static void test_nodes(int scale)
{
    per_node = 2;
    test_crowd(scale);
    per_node = 0;
}

/*
 * Ranks without threads of their own always have a slot, however many are threads of this process. Rank 0 has threads,
 * and takes slots if the argument says so.
 */
static void meet_without_room(rank_t *rank)
{
    traffic_t traffic;
    int i;

    rank->concurrent = rank->rank == 0;
    rank->admission = rank->rank == 0 && *(const bool *)rank->argument ? &processes[0].admission : NULL;
    traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
    for (i = 0; i < 3 && traffic.team != NULL; ++i) {
        bool right = false;

        CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_OK);
        CHECK(right);
    }
    traffic_close(&traffic);
}

static void test_one_process(int scale)
{
    mscclpp_config_t config;
    bool takes;
    int i;

    (void)scale;
    for (i = 0; i < 4; ++i) {
        takes = i % 2 == 1;
        per_node = i < 2 ? 0 : 2;
        configure(&config, options.timeout);
        CHECK_EQ(run_ranks(5, &config, meet_without_room, &takes), 0);
    }
    per_node = 0;
    check_all_given_back();
    mscclpp_team_finalize(1.0);
}

/* A set-up waits for a slot longer than it would wait for kernels, and then succeeds. */
static void wait_in_set_up(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    be_threaded(rank);
    traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
    if (traffic.team != NULL) {
        CHECK_EQ(traffic_call(&traffic, 1000, &right), MSCCLPP_OK);
        CHECK(right);
    }
    traffic_close(&traffic);
}

static void *full_main(void *argument)
{
    const double until = mscclpp_now() + LONG_WAIT;

    while (mscclpp_now() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    empty(argument);
    return NULL;
}

static void test_patience(int scale)
{
    mscclpp_config_t config;
    pthread_t thread;

    (void)scale;
    if (process_state_slow()) {
        return; /* most of it is waiting */
    }
    configure(&config, options.timeout);
    config.warn_after = 0;
    CHECK(fill(&processes[1]));
    REQUIRE(pthread_create(&thread, NULL, full_main, &processes[1]) == 0);
    CHECK_EQ(run_ranks(RANKS, &config, wait_in_set_up, NULL), 0);
    pthread_join(thread, NULL);
    check_all_given_back();
    mscclpp_team_finalize(1.0);
}

/* There is never a slot. After one deadline a set-up ends alike on all ranks, and a call ends with an error. */
static void wait_in_vain(rank_t *rank)
{
    const bool in_call = *(const bool *)rank->argument;
    mscclpp_team_t *team = NULL;
    mscclpp_status_t status;
    int32_t in = rank->rank, out = -1;
    const mscclpp_allreduce_args_t args = {
        .sendbuf = &in, .recvbuf = &out, .count = 1, .dtype = MSCCLPP_DTYPE_INT32, .op = MSCCLPP_OP_SUM, .call = 1};
    double started;

    be_threaded(rank);
    if (rank->rank == 0 && !in_call) {
        CHECK(fill(mine));
    }
    meet(rank);
    started = mscclpp_now();
    status = try_team(rank, rank->config, &team);
    if (in_call) {
        CHECK_EQ(status, MSCCLPP_OK);
        meet(rank);
        if (rank->rank == 0) {
            CHECK(fill(mine));
        }
        meet(rank);
        started = mscclpp_now();
        status = team != NULL ? mscclpp_allreduce(team, &args) : MSCCLPP_ERR_INVALID;
        CHECK(status == MSCCLPP_ERR_TIMEOUT || status == MSCCLPP_ERR_PEER);
        mscclpp_team_destroy(team);
    } else {
        CHECK_EQ(status, MSCCLPP_ERR_NOT_SUPPORTED);
    }
    CHECK(mscclpp_now() - started >= rank->config->timeout);
    CHECK(mscclpp_now() - started < rank->config->timeout + (process_state_slow() ? 30 : 8));
    meet(rank);
    if (rank->rank == 0) {
        empty(mine);
    }
}

static void test_no_room(int scale)
{
    mscclpp_config_t config;
    bool in_call;

    (void)scale;
    configure(&config, 0.5);
    config.warn_after = 0;
    for (int i = 0; i < 2; ++i) {
        in_call = i == 1;
        unit_expect_log();
        CHECK_EQ(run_ranks(RANKS, &config, wait_in_vain, &in_call), 0);
        CHECK(unit_logged() >= 1);
        check_all_given_back();
    }
    mscclpp_team_finalize(1.0);
}

/* The nth launch of one rank fails. Its first launch waits for no rank. The later ones are the set-up's meetings. */
static void fail_in_set_up(rank_t *rank)
{
    const int nth = *(const int *)rank->argument;
    mscclpp_team_t *team = NULL;

    be_threaded(rank);
    rank->gpu = &faulty_gpu_ops;
    if (rank->rank == RANKS - 1) {
        faulty_arm(FAULTY_LAUNCH, nth, MSCCLPP_ERR_DEVICE);
    }
    CHECK_EQ(try_team(rank, rank->config, &team), MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(faulty_disarm(), rank->rank == RANKS - 1);
}

static void test_faults(int scale)
{
    mscclpp_config_t config;
    int nth;

    (void)scale;
    configure(&config, options.timeout);
    for (nth = 1; nth <= 3; ++nth) {
        unit_expect_log();
        CHECK_EQ(run_ranks(RANKS, &config, fail_in_set_up, &nth), 0);
        (void)unit_logged();
        check_all_given_back();
    }
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {
    {"crowd", test_crowd},       {"engines", test_crowd_of_engines},
    {"nodes", test_nodes},       {"process", test_one_process},
    {"patience", test_patience}, {"no_room", test_no_room},
    {"faults", test_faults},     {NULL, NULL},
};

int main(int argc, char **argv)
{
    int i;

    unit_begin();
    counting_gpu = mscclpp_gpu_twin_ops;
    counting_gpu.launch = counting_launch;
    counting_gpu.device_free = waiting_free;
    counting_gpu.device_alloc = waiting_alloc;
    counting_gpu.put = late_put;
    for (i = 0; i < RANKS; ++i) {
        mscclpp_admission_init(&processes[i].admission);
        pthread_mutex_init(&processes[i].driver, NULL);
        pthread_cond_init(&processes[i].changed, NULL);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
