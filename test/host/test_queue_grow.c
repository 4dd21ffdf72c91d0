/*
 * The scratch of teams for queued operations (mca/common/team/queue.h), which grows with the first large call: graphs
 * that are older, ranks that do not come, and memory that a rank has not.
 *
 * Usage: test_queue_grow [--quick|--long] [--timeout SECONDS] [PART]...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/queue.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/line.h"
#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define SCRATCH ((size_t)2 << 20)
#define SMALL 200 /* numbers of a call that the first scratch has room for */
#define LARGE 9000
#define CALLS 6 /* of a graph */

static parts_options_t options;

/* For calls that wait in vain, for half of this. */
static double short_timeout(void)
{
    return process_state_slow() ? 16 : 4;
}

static mscclpp_gpu_ops_t counting, refusing; /* the latter has no memory for a scratch of full size */
static int made;                             /* scratches of full size */

static mscclpp_status_t count_alloc(int device, size_t size, void **address_p)
{
    if (size > SCRATCH) {
        (void)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    }
    return mscclpp_gpu_twin_ops.device_alloc(device, size, address_p);
}

static mscclpp_status_t refuse_alloc(int device, size_t size, void **address_p)
{
    if (size <= SCRATCH) {
        return mscclpp_gpu_twin_ops.device_alloc(device, size, address_p);
    }
    (void)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return MSCCLPP_ERR_NO_MEMORY;
}

static void configure(mscclpp_config_t *config, int blocks, int threads, size_t epoch_limit)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH;
    config->oneshot_max = 2048;
    config->twophase_max = 8192;
    config->zerocopy = false;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->epoch_limit = epoch_limit;
    config->timeout = options.timeout;
    config->ucx = false;
    counting = mscclpp_gpu_twin_ops;
    counting.device_alloc = count_alloc;
    refusing = counting;
    refusing.device_alloc = refuse_alloc;
    made = 0;
}

/* A line with room for one large call. */
typedef struct {
    line_t line;
    int32_t *in, *out;
} work_t;

static bool open_work(rank_t *rank, const mscclpp_gpu_ops_t *gpu, work_t *work)
{
    void *address = NULL;

    rank->gpu = gpu;
    CHECK_EQ(gpu->device_alloc(0, sizeof(int32_t) * 2 * LARGE, &address), MSCCLPP_OK);
    work->in = address;
    work->out = work->in + LARGE;
    return line_open(rank, &work->line);
}

static void close_work(rank_t *rank, work_t *work)
{
    line_close(rank, &work->line);
    rank->gpu->device_free(0, work->in);
}

static void load(const rank_t *rank, work_t *work, int round)
{
    for (int k = 0; k < LARGE; ++k) {
        work->in[k] = 1000 * round + k + rank->rank;
        work->out[k] = -1;
    }
}

/* Queues an all-reduce of `count` numbers. */
static mscclpp_status_t queue_sum(work_t *work, int count, bool may_wait)
{
    const mscclpp_allreduce_args_t args = {.sendbuf = work->in,
                                           .recvbuf = work->out,
                                           .count = (uint64_t)count,
                                           .dtype = MSCCLPP_DTYPE_INT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .may_wait = may_wait,
                                           .call = ++work->line.calls};

    return mscclpp_allreduce_enqueue(work->line.team, &args, work->line.stream);
}

/* Queues a broadcast of `count` numbers from rank 0. */
static mscclpp_status_t queue_bcast(const rank_t *rank, work_t *work, int count, bool may_wait)
{
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_BCAST,
                                      .in = rank->rank == 0 ? work->in : NULL,
                                      .out = rank->rank == 0 ? NULL : work->out,
                                      .count = sizeof(int32_t) * (uint64_t)count,
                                      .is_size_known = true,
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .may_wait = may_wait,
                                      .call = ++work->line.calls};

    return mscclpp_collective_enqueue(work->line.team, &args, work->line.stream);
}

/* Waits for the stream, and compares the output with that of an all-reduce. */
static bool has_sum(const rank_t *rank, const work_t *work, int count, int round)
{
    const int32_t n = rank->size;

    CHECK_EQ(rank->gpu->stream_sync(work->line.stream), MSCCLPP_OK);
    for (int k = 0; k < count; ++k) {
        const int32_t wanted = n * (1000 * round + k) + n * (n - 1) / 2;

        if (work->out[k] != wanted) {
            fprintf(stderr, "rank %d, round %d: number %d is %d, not %d\n", rank->rank, round, k, work->out[k], wanted);
            return false;
        }
    }
    return true;
}

/* The same for a broadcast. */
static bool has_data(const rank_t *rank, const work_t *work, int count, int round)
{
    CHECK_EQ(rank->gpu->stream_sync(work->line.stream), MSCCLPP_OK);
    for (int k = 0; k < count && rank->rank != 0; ++k) {
        if (work->out[k] != 1000 * round + k) {
            fprintf(stderr, "rank %d, round %d: number %d of the broadcast is %d\n", rank->rank, round, k,
                    work->out[k]);
            return false;
        }
    }
    return true;
}

static bool is_grown(const work_t *work)
{
    return work->line.team->kept != NULL && work->line.team->kept->scratch != NULL;
}

/* Records some calls of up to `count` numbers, the last of them of all. */
static mscclpp_dev_twin_graph_t *record(const rank_t *rank, work_t *work, int count)
{
    mscclpp_dev_twin_graph_t *graph = NULL;

    CHECK_EQ(mscclpp_dev_twin_begin_record(work->line.native), 0);
    for (int i = 1; i <= CALLS; ++i) {
        CHECK_EQ(i % 3 == 0 && i < CALLS ? queue_bcast(rank, work, count * i / CALLS, true)
                                         : queue_sum(work, count * i / CALLS, true),
                 MSCCLPP_OK);
    }
    CHECK_EQ(mscclpp_dev_twin_end_record(work->line.native, &graph), 0);
    return graph;
}

/*
 * One of four kinds of calls a round: the graph that is older than the large scratch, a later one, and single calls.
 * The last one is of the older graph, so that the end of the team finds its reports. There were more single calls with
 * the large scratch than all calls with the small one, so these reports are smaller numbers.
 */
static void run_graphs(rank_t *rank)
{
    const int rounds = *(const int *)rank->argument;
    mscclpp_dev_twin_graph_t *older, *later;
    uint64_t seed = 23;
    work_t work;
    double began;
    bool right;

    if (open_work(rank, &counting, &work)) {
        older = record(rank, &work, SMALL);
        load(rank, &work, 0);
        meet(rank);
        CHECK_EQ(mscclpp_dev_twin_replay(older, work.line.native), 0);
        CHECK_EQ(queue_sum(&work, SMALL, true), MSCCLPP_OK);
        CHECK(has_sum(rank, &work, SMALL, 0));
        CHECK(!is_grown(&work));
        CHECK_EQ(__atomic_load_n(&made, __ATOMIC_RELAXED), 0);
        /* Small operations may be in flight when the scratch grows. */
        meet(rank);
        for (int i = 0; i < 4; ++i) {
            CHECK_EQ(queue_sum(&work, SMALL, true), MSCCLPP_OK);
        }
        CHECK_EQ(queue_sum(&work, LARGE, true), MSCCLPP_OK);
        CHECK(is_grown(&work));
        CHECK(has_sum(rank, &work, LARGE, 0));
        later = record(rank, &work, LARGE);
        for (int round = 1; round <= rounds; ++round) {
            const uint64_t kind = round < rounds ? random_below(&seed, 4) : 0;
            const int count = kind % 2 == 0 ? SMALL : LARGE;

            meet(rank);
            load(rank, &work, round);
            meet(rank);
            for (int i = 0; i < 2 * CALLS * rounds && round == rounds; ++i) {
                CHECK_EQ(queue_sum(&work, 1, true), MSCCLPP_OK);
            }
            for (uint64_t times = 1 + random_below(&seed, 2); times > 0; --times) {
                if (kind < 2) {
                    CHECK_EQ(mscclpp_dev_twin_replay(kind == 0 ? older : later, work.line.native), 0);
                } else {
                    CHECK_EQ(queue_sum(&work, count, true), MSCCLPP_OK);
                }
            }
            right = has_sum(rank, &work, count, round);
            CHECK(right);
            if (meet_any(rank, !right)) {
                break;
            }
        }
        CHECK_EQ(mscclpp_team_check_kernels(work.line.team), MSCCLPP_OK);
        CHECK_EQ(__atomic_load_n(&made, __ATOMIC_RELAXED), rank->size);
        mscclpp_dev_twin_graph_destroy(later);
        meet(rank);
        began = mscclpp_now();
        mscclpp_team_close_queue(work.line.team);
        CHECK(mscclpp_now() - began < options.timeout / 2);
        mscclpp_dev_twin_graph_destroy(older);
    }
    close_work(rank, &work);
}

static void test_graphs(int scale)
{
    static const struct {
        int ranks, blocks, threads;
        size_t limit;
    } cases[] = {{2, 1, 1, 16}, {3, 2, 2, 24}, {2, 3, 2, (size_t)1 << 31}, {4, 1, 2, 16}};
    int rounds = 12 * scale;
    mscclpp_config_t config;

    jitter_set(10, 2000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        configure(&config, cases[i].blocks, cases[i].threads, cases[i].limit);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_graphs, &rounds), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

/* A graph that is older than the large scratch is launched when its communicator is gone. It then writes to no peer. */
static void run_outlived(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph;
    unsigned char *packets;
    uint64_t size;
    bool is_unchanged = true;
    work_t work;

    if (open_work(rank, &counting, &work)) {
        graph = record(rank, &work, SMALL);
        load(rank, &work, 0);
        meet(rank);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, work.line.native), 0);
        CHECK_EQ(queue_sum(&work, LARGE, true), MSCCLPP_OK);
        CHECK(has_sum(rank, &work, LARGE, 0));
        CHECK(is_grown(&work));
        packets = (unsigned char *)work.line.team->kept->scratch + MSCCLPP_DEV_PACKET_OFFSET;
        size = 2 * work.line.team->kept->layout.packet_half;
        meet(rank);
        mscclpp_team_destroy(work.line.team);
        memset(packets, 0x77, size);
        meet(rank);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, work.line.native), 0);
        line_await_idle(work.line.native);
        meet(rank);
        for (uint64_t i = 0; i < size; ++i) {
            is_unchanged = is_unchanged && packets[i] == 0x77;
        }
        CHECK(is_unchanged);
        meet(rank);
        mscclpp_dev_twin_graph_destroy(graph);
        mscclpp_dev_twin_queue_destroy(work.line.native);
    }
    meet(rank);
    mscclpp_team_reap();
    rank->gpu->device_free(0, work.in);
}

static void test_outlived(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 1, (size_t)1 << 31);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_ERROR); /* each rank says that the graph was launched too late */
    CHECK_EQ(run_ranks(3, &config, run_outlived, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
}

/* The number of warnings about a scratch that has not grown. */
static int warnings(void)
{
    return log_record_count(MSCCLPP_LOG_WARN, "bytes of scratch for large messages (", "");
}

/* The last rank makes the first large call when the others have given it up. All keep the small scratch. */
static void run_late(rank_t *rank)
{
    const bool is_late = rank->rank == rank->size - 1;
    double began;
    work_t work;

    if (open_work(rank, &counting, &work)) {
        load(rank, &work, 1);
        meet(rank);
        if (is_late) {
            meet(rank);
        }
        began = mscclpp_now();
        CHECK_EQ(queue_sum(&work, LARGE, true), MSCCLPP_OK);
        CHECK(is_late ? mscclpp_now() - began < short_timeout() / 4 : mscclpp_now() - began > short_timeout() / 4);
        if (!is_late) {
            meet(rank);
        }
        CHECK(!is_grown(&work));
        CHECK(has_sum(rank, &work, LARGE, 1));
        /* The next ones wait for nobody. */
        meet(rank);
        load(rank, &work, 2);
        meet(rank);
        began = mscclpp_now();
        CHECK_EQ(queue_bcast(rank, &work, LARGE, true), MSCCLPP_OK);
        CHECK(mscclpp_now() - began < short_timeout() / 4);
        CHECK(has_data(rank, &work, LARGE, 2));
        CHECK(!is_grown(&work));
    }
    close_work(rank, &work);
}

static void test_late(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 1, 2, (size_t)1 << 31);
    config.timeout = short_timeout();
    log_record_clear();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(3, &config, run_late, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(warnings(), 3);
}

/* One rank has no memory for the larger scratch. All keep the small one, and do not try again. */
static void run_no_memory(rank_t *rank)
{
    work_t work;

    if (open_work(rank, rank->rank == 1 ? &refusing : &counting, &work)) {
        for (int round = 0; round < 3; ++round) {
            meet(rank);
            load(rank, &work, round);
            meet(rank);
            CHECK_EQ(round == 1 ? queue_bcast(rank, &work, LARGE, true) : queue_sum(&work, LARGE, true), MSCCLPP_OK);
            CHECK(round == 1 ? has_data(rank, &work, LARGE, round) : has_sum(rank, &work, LARGE, round));
            CHECK(!is_grown(&work));
        }
        CHECK_EQ(__atomic_load_n(&made, __ATOMIC_RELAXED), rank->size);
    }
    close_work(rank, &work);
}

static void test_no_memory(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 1, (size_t)1 << 31);
    log_record_clear();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(3, &config, run_no_memory, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(warnings(), 1);
}

/*
 * Rank 0 captures a call that would map buffers, while the others queue it, for which they would grow. Neither comes
 * about, and the call has its result. Rank 0 then waits in vain for the others to grow.
 */
static void run_kinds(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph = NULL;
    work_t work;

    if (open_work(rank, &counting, &work)) {
        load(rank, &work, 1);
        meet(rank);
        if (rank->rank == 0) {
            CHECK_EQ(mscclpp_dev_twin_begin_record(work.line.native), 0);
        }
        CHECK_EQ(queue_bcast(rank, &work, LARGE, true), MSCCLPP_OK);
        if (rank->rank == 0) {
            CHECK_EQ(mscclpp_dev_twin_end_record(work.line.native, &graph), 0);
            CHECK_EQ(mscclpp_dev_twin_replay(graph, work.line.native), 0);
        }
        CHECK(has_data(rank, &work, LARGE, 1));
        CHECK(!is_grown(&work));
        meet(rank);
        mscclpp_dev_twin_graph_destroy(graph);
    }
    close_work(rank, &work);
}

static void test_kinds(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 1, (size_t)1 << 31);
    config.zerocopy = true;
    config.timeout = short_timeout();
    log_record_clear();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(3, &config, run_kinds, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(warnings(), 1);
}

/* The scratch grows when a request is prepared. Its starts wait for nobody. */
static void run_requests(rank_t *rank)
{
    mscclpp_mapped_t *mapped;
    double began;
    work_t work;

    if (open_work(rank, &counting, &work)) {
        const mscclpp_allreduce_args_t args = {.sendbuf = work.in,
                                               .recvbuf = work.out,
                                               .count = LARGE,
                                               .dtype = MSCCLPP_DTYPE_INT32,
                                               .op = MSCCLPP_OP_SUM};

        load(rank, &work, 3);
        /* A start without preparation waits for nobody, either. */
        meet(rank);
        if (rank->rank == rank->size - 1) {
            meet(rank);
        }
        began = mscclpp_now();
        CHECK_EQ(queue_sum(&work, LARGE, false), MSCCLPP_OK);
        CHECK(mscclpp_now() - began < options.timeout / 4);
        if (rank->rank != rank->size - 1) {
            meet(rank);
        }
        CHECK(has_sum(rank, &work, LARGE, 3));
        CHECK(!is_grown(&work));
        CHECK_EQ(mscclpp_allreduce_map_buffers(work.line.team, &args, &mapped), MSCCLPP_OK);
        CHECK(mapped == NULL);
        CHECK(is_grown(&work));
        meet(rank);
        load(rank, &work, 4);
        meet(rank);
        CHECK_EQ(queue_sum(&work, LARGE, false), MSCCLPP_OK);
        CHECK(has_sum(rank, &work, LARGE, 4));
    }
    close_work(rank, &work);
}

/* The same for another collective. */
static void run_prepared(rank_t *rank)
{
    mscclpp_mapped_t *mapped;
    work_t work;

    if (open_work(rank, &counting, &work)) {
        const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_REDUCE,
                                          .in = work.in,
                                          .out = rank->rank == 0 ? work.out : NULL,
                                          .count = LARGE,
                                          .is_size_known = true,
                                          .dtype = MSCCLPP_DTYPE_INT32,
                                          .op = MSCCLPP_OP_SUM};

        CHECK_EQ(mscclpp_collective_map_buffers(work.line.team, &args, &mapped), MSCCLPP_OK);
        CHECK(mapped == NULL);
        CHECK(is_grown(&work));
    }
    close_work(rank, &work);
}

static void test_requests(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 2, (size_t)1 << 31);
    CHECK_EQ(run_ranks(3, &config, run_requests, NULL), 0);
    CHECK_EQ(run_ranks(2, &config, run_prepared, NULL), 0);
    mscclpp_team_finalize(1.0);
}

/*
 * On rank 0 two operations run at once: one of a graph that is older than the large scratch, and one with the large
 * scratch. Rank 0 reports it, as if both had the same scratch.
 */
static void run_overlap(rank_t *rank)
{
    mscclpp_dev_twin_queue_t *second = NULL;
    mscclpp_dev_twin_graph_t *older;
    char text[MSCCLPP_TEAM_FAILURE_TEXT] = "";
    mscclpp_status_t status;
    work_t work;

    CHECK_EQ(mscclpp_dev_twin_queue_create(&second), 0);
    mscclpp_dev_twin_queue_set_apart(second);
    if (open_work(rank, &counting, &work)) {
        load(rank, &work, 0);
        older = record(rank, &work, SMALL);
        meet(rank);
        CHECK_EQ(queue_sum(&work, LARGE, true), MSCCLPP_OK);
        CHECK(is_grown(&work));
        CHECK_EQ(rank->gpu->stream_sync(work.line.stream), MSCCLPP_OK);
        meet(rank);
        if (rank->rank != 0) {
            meet(rank);
        }
        CHECK_EQ(queue_sum(&work, LARGE, true), MSCCLPP_OK);
        CHECK_EQ(mscclpp_dev_twin_replay(older, rank->rank == 0 ? second : work.line.native), 0);
        if (rank->rank == 0) {
            nanosleep(&(struct timespec){0, 100000000}, NULL); /* both wait for rank 1 */
            meet(rank);
        }
        status = line_await_failure(&work.line, 4 * short_timeout(), text);
        CHECK(rank->rank == 0 ? status == MSCCLPP_ERR_INVALID && strstr(text, "at once") != NULL
                              : status == MSCCLPP_ERR_PEER || status == MSCCLPP_ERR_TIMEOUT);
        line_await_idle(second);
        CHECK_EQ(rank->gpu->stream_sync(work.line.stream), MSCCLPP_OK);
        mscclpp_dev_twin_graph_destroy(older);
    }
    meet(rank);
    mscclpp_dev_twin_queue_destroy(second);
    close_work(rank, &work);
}

static void test_overlap(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    if (process_state_tsan() && getenv("MSCCLPP_TEST_RACES") == NULL) {
        return; /* the error that this test makes is a race */
    }
    configure(&config, 1, 2, (size_t)1 << 31);
    config.timeout = short_timeout();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(2, &config, run_overlap, NULL), 0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {
    {"graphs", test_graphs}, {"outlived", test_outlived}, {"late", test_late},       {"no_memory", test_no_memory},
    {"kinds", test_kinds},   {"requests", test_requests}, {"overlap", test_overlap}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
