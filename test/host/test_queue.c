/* Queued operations (mca/common/team/queue.h): flags renewed by kernels, graphs repeated among other calls. */
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

#define SCRATCH ((size_t)1 << 20)
#define CARS 12
#define ROOM 6000

static parts_options_t options;

static void configure(mscclpp_config_t *config, int blocks, int threads, size_t epoch_limit)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH;
    config->oneshot_max = 2048;
    config->twophase_max = 8192;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->epoch_limit = epoch_limit;
    config->timeout = options.timeout;
    config->ucx = false;
}

/* Operands and results of one rank: CARS operations of up to ROOM numbers each. */
typedef struct {
    int32_t *in;
    int32_t *out;
    uint64_t count[CARS];
} train_t;

static void make_train(rank_t *rank, train_t *train, uint64_t *seed)
{
    void *address = NULL;

    CHECK_EQ(rank->gpu->device_alloc(0, sizeof(int32_t) * CARS * ROOM * 2, &address), MSCCLPP_OK);
    train->in = address;
    train->out = train->in + CARS * ROOM;
    for (int car = 0; car < CARS; ++car) {
        train->count[car] = 1 + random_below(seed, random_below(seed, 3) == 0 ? ROOM - 1 : 300);
    }
}

static int32_t cargo(int round, int car, uint64_t k, int rank)
{
    return 1000 * round + car + (int32_t)k + rank;
}

static void load(const rank_t *rank, const train_t *train, int round)
{
    for (int car = 0; car < CARS; ++car) {
        for (uint64_t k = 0; k < train->count[car]; ++k) {
            train->in[(uint64_t)car * ROOM + k] = cargo(round, car, k, rank->rank);
            train->out[(uint64_t)car * ROOM + k] = -1;
        }
    }
}

/* An all-reduce, or every third time a broadcast by the last rank. */
static bool is_broadcast(int car)
{
    return car % 3 == 2;
}

static void send_off(const rank_t *rank, line_t *line, const train_t *train, int car)
{
    int32_t *in = train->in + car * ROOM, *out = train->out + car * ROOM;
    const int root = rank->size - 1;

    if (is_broadcast(car)) {
        const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_BCAST,
                                          .in = rank->rank == root ? in : NULL,
                                          .out = rank->rank == root ? NULL : out,
                                          .count = sizeof(int32_t) * train->count[car],
                                          .is_size_known = true,
                                          .dtype = MSCCLPP_DTYPE_UINT8,
                                          .op = MSCCLPP_OP_SUM,
                                          .root = root,
                                          .call = ++line->calls};

        CHECK_EQ(mscclpp_collective_enqueue(line->team, &args, line->stream), MSCCLPP_OK);
    } else {
        const mscclpp_allreduce_args_t args = {.sendbuf = in,
                                               .recvbuf = out,
                                               .count = train->count[car],
                                               .dtype = MSCCLPP_DTYPE_INT32,
                                               .op = MSCCLPP_OP_SUM,
                                               .may_wait = car % 2 == 0,
                                               .call = ++line->calls};

        CHECK_EQ(mscclpp_allreduce_enqueue(line->team, &args, line->stream), MSCCLPP_OK);
    }
}

static bool is_right(const rank_t *rank, const train_t *train, int round)
{
    const int32_t n = rank->size;

    for (int car = 0; car < CARS; ++car) {
        for (uint64_t k = 0; k < train->count[car]; ++k) {
            const int32_t got = train->out[(uint64_t)car * ROOM + k];
            const int32_t wanted = !is_broadcast(car)             ? n * cargo(round, car, k, 0) + n * (n - 1) / 2
                                   : rank->rank == rank->size - 1 ? -1
                                                                  : cargo(round, car, k, n - 1);

            if (got != wanted) {
                fprintf(stderr, "rank %d, round %d, operation %d: number %llu is %d, not %d\n", rank->rank, round, car,
                        (unsigned long long)k, got, wanted);
                return false;
            }
        }
    }
    return true;
}

/* Graphs of all operations, and the same operations one by one, in turns. */
static void run_turns(rank_t *rank)
{
    const int rounds = *(const int *)rank->argument;
    mscclpp_dev_twin_graph_t *graph = NULL;
    uint64_t seed = 7;
    train_t train;
    line_t line;

    if (line_open(rank, &line)) {
        make_train(rank, &train, &seed);
        CHECK_EQ(mscclpp_dev_twin_begin_record(line.native), 0);
        for (int car = 0; car < CARS; ++car) {
            send_off(rank, &line, &train, car);
        }
        CHECK_EQ(mscclpp_dev_twin_end_record(line.native, &graph), 0);
        for (int round = 0; round < rounds; ++round) {
            bool right;

            load(rank, &train, round);
            meet(rank);
            for (int car = 0; car < CARS && round % 3 != 1; ++car) {
                send_off(rank, &line, &train, car);
            }
            for (int times = 0; times < 2 && round % 3 != 2; ++times) {
                CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
            }
            CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
            right = is_right(rank, &train, round);
            CHECK(right);
            if (meet_any(rank, !right)) {
                break;
            }
        }
        mscclpp_dev_twin_graph_destroy(graph);
        CHECK_EQ(mscclpp_team_check_kernels(line.team), MSCCLPP_OK);
    }
    line_close(rank, &line);
    rank->gpu->device_free(0, train.in);
}

static void test_turns(int scale)
{
    static const struct {
        int ranks, blocks, threads;
        size_t limit;
    } cases[] = {{2, 1, 1, 16}, {3, 2, 2, 16}, {2, 3, 2, 24}, {4, 1, 2, (size_t)1 << 31}};
    int rounds = 6 * scale;
    mscclpp_config_t config;

    jitter_set(10, 2000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        configure(&config, cases[i].blocks, cases[i].threads, cases[i].limit);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_turns, &rounds), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

/* Two teams. Each rank queues their operations in its own order. */
static void run_crossed(rank_t *rank)
{
    uint64_t seed = 11;
    train_t trains[2];
    line_t lines[2];

    if (line_open(rank, &lines[0]) && line_open(rank, &lines[1])) {
        for (int k = 0; k < 2; ++k) {
            make_train(rank, &trains[k], &seed);
            load(rank, &trains[k], k);
        }
        meet(rank);
        for (int k = 0; k < 2; ++k) {
            const int which = (k + rank->rank) % 2;

            for (int car = 0; car < CARS; ++car) {
                send_off(rank, &lines[which], &trains[which], car);
            }
        }
        for (int k = 0; k < 2; ++k) {
            CHECK_EQ(rank->gpu->stream_sync(lines[k].stream), MSCCLPP_OK);
            CHECK(is_right(rank, &trains[k], k));
        }
    }
    meet(rank);
    for (int k = 0; k < 2; ++k) {
        line_close(rank, &lines[k]);
        rank->gpu->device_free(0, trains[k].in);
    }
}

static void test_crossed(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 2, 16);
    CHECK_EQ(run_ranks(3, &config, run_crossed, NULL), 0);
    mscclpp_team_finalize(1.0);
}

/* Flags begin again after so many operations of one epoch each. */
#define LIFE 16
#define LIVES 4

/*
 * Flags of an earlier life that nobody overwrote. One operation of each life, always with the same flag, is long, and
 * the others are short. So its packets stay where they are until the flags are renewed. When that flag comes again, one
 * rank is late, and the others find the old packets there unless they were cleared.
 */
static void run_stale(rank_t *rank)
{
    enum { LONG = 512 };
    const struct timespec pause = {0, 3000000};
    void *address = NULL;
    int32_t *numbers;
    line_t line;

    CHECK_EQ(rank->gpu->device_alloc(0, sizeof(int32_t) * LONG, &address), MSCCLPP_OK);
    numbers = address;
    for (int i = 0; i < LIVES * LIFE && (i > 0 || line_open(rank, &line)); ++i) {
        const bool is_long = i % LIFE == 2;
        const mscclpp_allreduce_args_t args = {.sendbuf = numbers,
                                               .recvbuf = numbers,
                                               .count = is_long ? LONG : 1,
                                               .dtype = MSCCLPP_DTYPE_INT32,
                                               .op = MSCCLPP_OP_SUM,
                                               .call = ++line.calls};
        int wrong = 0;

        for (int k = 0; k < LONG; ++k) {
            numbers[k] = cargo(i, 0, (uint64_t)k, rank->rank);
        }
        meet(rank);
        if (is_long && rank->rank == rank->size - 1) {
            nanosleep(&pause, NULL);
        }
        CHECK_EQ(mscclpp_allreduce_enqueue(line.team, &args, line.stream), MSCCLPP_OK);
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        for (int k = 0; k < (int)args.count; ++k) {
            wrong += numbers[k] != rank->size * cargo(i, 0, (uint64_t)k, 0) + rank->size * (rank->size - 1) / 2;
        }
        CHECK_EQ(wrong, 0);
        if (meet_any(rank, wrong != 0)) {
            break;
        }
    }
    line_close(rank, &line);
    rank->gpu->device_free(0, address);
}

static void test_stale(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 1, 1, LIFE);
    CHECK_EQ(run_ranks(2, &config, run_stale, NULL), 0);
    configure(&config, 2, 2, LIFE);
    CHECK_EQ(run_ranks(3, &config, run_stale, NULL), 0);
    mscclpp_team_finalize(1.0);
}

/* On rank 0 two operations run at once, in two queues. Rank 0 reports it, and the other ranks learn of it. */
static void run_overlap(rank_t *rank)
{
    const struct timespec pause = {0, 100000000};
    mscclpp_dev_twin_queue_t *second = NULL;
    mscclpp_gpu_stream_t *own;
    mscclpp_status_t status;
    char text[MSCCLPP_TEAM_FAILURE_TEXT] = "";
    uint64_t seed = 5;
    train_t train;
    line_t line;

    if (line_open(rank, &line)) {
        make_train(rank, &train, &seed);
        train.count[0] = train.count[1] = 10;
        load(rank, &train, 0);
        CHECK_EQ(mscclpp_dev_twin_queue_create(&second), 0);
        mscclpp_dev_twin_queue_set_apart(second);
        if (rank->rank != 0) {
            meet(rank);
        }
        send_off(rank, &line, &train, 0);
        own = line.stream;
        if (rank->rank == 0) {
            CHECK_EQ(mscclpp_team_find_stream(line.team, second, &line.stream), MSCCLPP_OK);
        }
        send_off(rank, &line, &train, 1);
        line.stream = own;
        if (rank->rank == 0) {
            nanosleep(&pause, NULL);
            meet(rank);
        }
        status = line_await_failure(&line, 60, text);
        CHECK(rank->rank == 0 ? status == MSCCLPP_ERR_INVALID && strstr(text, "at once") != NULL
                              : status == MSCCLPP_ERR_PEER || status == MSCCLPP_ERR_TIMEOUT);
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        CHECK(mscclpp_team_broken(line.team));
    }
    meet(rank);
    mscclpp_dev_twin_queue_destroy(second);
    line_close(rank, &line);
    rank->gpu->device_free(0, train.in);
}

static void test_overlap(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    if (process_state_tsan() && getenv("MSCCLPP_TEST_RACES") == NULL) {
        return; /* the error that this test makes is a race */
    }
    configure(&config, 1, 2, (size_t)1 << 31);
    config.timeout = process_state_slow() ? 20 : 5;
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(2, &config, run_overlap, NULL), 0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    mscclpp_team_finalize(1.0);
}

/*
 * A graph that one rank does not launch. The kernels of the others give up at their deadline and name it, that rank
 * hears of it, and what is launched after that ends long before another deadline.
 */
static void run_absent(rank_t *rank)
{
    const bool absent = rank->rank == rank->size - 1;
    const double timeout = *(const double *)rank->argument;
    mscclpp_dev_twin_graph_t *graph = NULL;
    char text[MSCCLPP_TEAM_FAILURE_TEXT];
    mscclpp_status_t status;
    uint64_t seed = 3;
    double began;
    train_t train;
    line_t line;

    if (line_open(rank, &line)) {
        make_train(rank, &train, &seed);
        load(rank, &train, 0);
        CHECK_EQ(mscclpp_dev_twin_begin_record(line.native), 0);
        send_off(rank, &line, &train, 0);
        CHECK_EQ(mscclpp_dev_twin_end_record(line.native, &graph), 0);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        meet(rank);
        if (!absent) {
            CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
        }
        status = line_await_failure(&line, 10 * timeout, text);
        CHECK(status == MSCCLPP_ERR_PEER || (!absent && status == MSCCLPP_ERR_TIMEOUT));
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        meet(rank);
        began = mscclpp_now();
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        CHECK(mscclpp_now() - began < timeout);
        mscclpp_dev_twin_graph_destroy(graph);
    }
    line_close(rank, &line);
    rank->gpu->device_free(0, train.in);
}

static void test_absent(int scale)
{
    double timeout = process_state_slow() ? 12 : 3;
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 1, 2, (size_t)1 << 31);
    config.timeout = timeout;
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    jitter_rest(true);
    CHECK_EQ(run_ranks(3, &config, run_absent, &timeout), 0);
    jitter_rest(false);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    mscclpp_team_finalize(1.0);
}

/* Records all operations in a graph. */
static mscclpp_dev_twin_graph_t *record(const rank_t *rank, line_t *line, const train_t *train)
{
    mscclpp_dev_twin_graph_t *graph = NULL;

    CHECK_EQ(mscclpp_dev_twin_begin_record(line->native), 0);
    for (int car = 0; car < CARS; ++car) {
        send_off(rank, line, train, car);
    }
    CHECK_EQ(mscclpp_dev_twin_end_record(line->native, &graph), 0);
    return graph;
}

/* Graphs that are copied, recorded anew, launched in another stream, and destroyed while they run. */
static void run_graphs(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph, *copy = NULL;
    mscclpp_dev_twin_queue_t *other = NULL;
    uint64_t seed = 13;
    train_t train;
    line_t line;

    CHECK_EQ(mscclpp_dev_twin_queue_create(&other), 0);
    if (line_open(rank, &line)) {
        make_train(rank, &train, &seed);
        for (int round = 0; round < 6; ++round) {
            bool right;

            load(rank, &train, round);
            meet(rank);
            graph = record(rank, &line, &train);
            if (copy == NULL) {
                CHECK_EQ(mscclpp_dev_twin_begin_record(line.native), 0);
                CHECK_EQ(mscclpp_dev_twin_end_record(line.native, &copy), 0);
                CHECK_EQ(mscclpp_dev_twin_append(copy, graph), 0);
            }
            CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
            mscclpp_dev_twin_graph_destroy(graph);
            CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
            CHECK_EQ(mscclpp_dev_twin_replay(copy, other), 0);
            line_await_idle(other);
            right = is_right(rank, &train, round);
            CHECK(right);
            if (meet_any(rank, !right)) {
                break;
            }
        }
        CHECK_EQ(mscclpp_team_check_kernels(line.team), MSCCLPP_OK);
        mscclpp_dev_twin_graph_destroy(copy);
    }
    line_close(rank, &line);
    mscclpp_dev_twin_queue_destroy(other);
    rank->gpu->device_free(0, train.in);
}

static void test_graphs(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 2, 16);
    CHECK_EQ(run_ranks(3, &config, run_graphs, NULL), 0);
    mscclpp_team_finalize(1.0);
}

/* A graph is launched, and destroyed, when its communicator is gone. Its operations end at once, which a line says. */
static void run_outlived(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph = NULL;
    uint64_t seed = 17;
    train_t train;
    line_t line;

    if (line_open(rank, &line)) {
        make_train(rank, &train, &seed);
        load(rank, &train, 0);
        meet(rank);
        graph = record(rank, &line, &train);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
        CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
        CHECK(is_right(rank, &train, 0));
        meet(rank);
    }
    mscclpp_team_destroy(line.team);
    if (rank->rank == 0) {
        mscclpp_dev_twin_graph_destroy(graph); /* so rank 0 has no memory left for the others to write to */
        graph = NULL;
    }
    meet(rank);
    mscclpp_team_reap();
    meet(rank);
    if (graph != NULL) {
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.native), 0);
        line_await_idle(line.native);
    }
    meet(rank);
    mscclpp_team_reap();
    mscclpp_dev_twin_graph_destroy(graph);
    mscclpp_dev_twin_queue_destroy(line.native);
    meet(rank);
    rank->gpu->device_free(0, train.in);
}

static void test_outlived(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    for (int per_node = 0; per_node <= 1; ++per_node) {
        log_record_clear();
        configure(&config, 2, 2, (size_t)1 << 31);
        config.ranks_per_node = per_node;
        mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
        CHECK_EQ(run_ranks(3, &config, run_outlived, NULL), 0);
        mscclpp_team_finalize(1.0);
        mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "which had been freed; these calls did nothing", ""), 2);
    }
}

static const part_t parts[] = {
    {"turns", test_turns},   {"crossed", test_crossed}, {"stale", test_stale},       {"overlap", test_overlap},
    {"absent", test_absent}, {"graphs", test_graphs},   {"outlived", test_outlived}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
