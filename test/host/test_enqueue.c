/* Calls that are queued in streams, many at once: kernels follow each other immediately, without the host between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/algo/algo.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define SCRATCH ((size_t)1 << 20)
#define CARS 16

static parts_options_t options;

/* Sets the limits so low that few elements reach every algorithm. */
static void configure(mscclpp_config_t *config, int blocks, int threads, size_t epoch_limit)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH;
    config->oneshot_max = 2048;
    config->twophase_max = 16384;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->epoch_limit = epoch_limit;
    config->timeout = options.timeout;
    config->ucx = false;
}

/* Queues one sum of integers. */
static mscclpp_status_t enqueue(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, const int32_t *in, int32_t *out,
                                uint64_t count, uint64_t call)
{
    const mscclpp_allreduce_args_t args = {.sendbuf = in,
                                           .recvbuf = out,
                                           .count = count,
                                           .dtype = MSCCLPP_DTYPE_INT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = call};

    return mscclpp_allreduce_enqueue(team, &args, stream);
}

/* Calls of a team. All are queued before the first one is waited for, and each has its own buffers. */
typedef struct {
    int rounds;
    uint64_t max_count;
    const uint64_t *counts; /* used in turn; NULL: random counts, most of them small */
    int count_count;
} train_t;

/* Element `k` of a car's operand. */
static int32_t cargo(int round, int car, uint64_t k, int rank)
{
    return round + car + (int32_t)k + rank;
}

/* True if the results of a train are right. */
static bool unload(const rank_t *rank, const int32_t *out, const uint64_t *count, uint64_t room, int round)
{
    int32_t n = rank->size;
    uint64_t k;
    int i;

    for (i = 0; i < CARS; ++i, out += room) {
        for (k = 0; k < count[i]; ++k) {
            int32_t wanted = n * cargo(round, i, k, 0) + n * (n - 1) / 2;

            if (out[k] != wanted) {
                fprintf(stderr, "rank %d, round %d, call %d of %llu numbers: number %llu is %d, not %d\n", rank->rank,
                        round, i, (unsigned long long)count[i], (unsigned long long)k, out[k], wanted);
                return false;
            }
        }
    }
    return true;
}

static void run_train(rank_t *rank)
{
    const train_t *train = rank->argument;
    const mscclpp_gpu_ops_t *gpu = rank->gpu;
    const uint64_t room = train->max_count;
    mscclpp_team_t *team = create_team(rank);
    mscclpp_gpu_stream_t *stream = NULL;
    uint64_t shared = 23, k, count[CARS], next = 0;
    void *address = NULL;
    int32_t *in, *out;
    int round, i;

    CHECK_EQ(gpu->device_alloc(0, sizeof(int32_t) * CARS * room * 2, &address), MSCCLPP_OK);
    CHECK_EQ(gpu->stream_create(0, &stream), MSCCLPP_OK);
    in = address;
    out = in + CARS * room;
    for (round = 0; round < process_state_calls(train->rounds) && team != NULL && in != NULL && stream != NULL;
         ++round) {
        bool right;

        for (i = 0; i < CARS; ++i) {
            count[i] = random_below(&shared, random_below(&shared, 3) == 0 ? room : 400);
            if (train->counts != NULL) {
                count[i] = train->counts[next++ % (uint64_t)train->count_count];
            }
            for (k = 0; k < count[i]; ++k) {
                in[(uint64_t)i * room + k] = cargo(round, i, k, rank->rank);
                out[(uint64_t)i * room + k] = -1;
            }
        }
        for (i = 0; i < CARS; ++i) {
            CHECK_EQ(enqueue(team, stream, in + (uint64_t)i * room, out + (uint64_t)i * room, count[i],
                             (uint64_t)(round * CARS + i + 1)),
                     MSCCLPP_OK);
        }
        CHECK_EQ(gpu->stream_sync(stream), MSCCLPP_OK);
        right = unload(rank, out, count, room, round);
        CHECK(right);
        /* The next round writes operands that peers have read by now. After an error no rank goes on. */
        if (meet_any(rank, !right)) {
            break;
        }
    }
    gpu->stream_destroy(stream);
    mscclpp_team_destroy(team);
    meet(rank);
    gpu->device_free(0, address);
}

static void test_trains(int scale)
{
    static const int grids[][2] = {{1, 1}, {1, 2}, {2, 2}};
    train_t train = {6 * scale, 6000, NULL, 0};
    mscclpp_config_t config;
    size_t i;

    for (i = 0; i < sizeof(grids) / sizeof(grids[0]); ++i) {
        configure(&config, grids[i][0], grids[i][1], (size_t)1 << 31);
        CHECK_EQ(run_ranks(3, &config, run_train, &train), 0);
        configure(&config, grids[i][0], grids[i][1], 16);
        CHECK_EQ(run_ranks(2, &config, run_train, &train), 0);
    }
    mscclpp_team_finalize(1.0);
}

/*
 * If a waiting thread falls behind, packets of one call meet those of the call before in the same memory. This needs
 * sizes whose last epoch leaves some threads without a unit. Calls follow whose packets overlap the earlier ones.
 */
static void test_heels(int scale)
{
    enum { RANKS = 3, THREADS = 2 };
    mscclpp_layout_t layout;
    mscclpp_config_t config;
    uint64_t oneshot, twophase, unit = MSCCLPP_DEV_UNIT / sizeof(int32_t);

    mscclpp_layout_init(&layout, SCRATCH);
    oneshot = MSCCLPP_DEV_ONESHOT_CAPACITY(layout.packet_half, RANKS) / THREADS * THREADS;
    twophase = MSCCLPP_DEV_TWOPHASE_CAPACITY(layout.packet_half, RANKS) / THREADS * THREADS;
    jitter_set(4, 3000);
    {
        /* One epoch and a unit. The short calls follow before a thread that sleeps wakes up. */
        const uint64_t counts[] = {(oneshot + THREADS + 1) * unit, 40, (oneshot + 1) * unit, oneshot * unit, 1};
        train_t train = {3 * scale, (oneshot + THREADS + 1) * unit, counts, 5};

        configure(&config, 1, THREADS, (size_t)1 << 31);
        config.algorithm = "oneshot";
        CHECK_EQ(run_ranks(RANKS, &config, run_train, &train), 0);
        config.packet = "ll8";
        CHECK_EQ(run_ranks(RANKS, &config, run_train, &train), 0);
    }
    {
        /* Both algorithms in turns. They divide the packet area differently. */
        const uint64_t half = oneshot * unit / 2, longest = (2 * twophase + 1) * unit * RANKS;
        const uint64_t whole[] = {half + 1, half, half + 40, half, half}, cut[] = {longest, half};
        train_t train = {3 * scale, longest, whole, 5};

        configure(&config, 1, THREADS, (size_t)1 << 31);
        config.oneshot_max = half * sizeof(int32_t);
        config.twophase_max = (size_t)1 << 24;
        CHECK_EQ(run_ranks(RANKS, &config, run_train, &train), 0);
        jitter_set(4, 20000);
        train.counts = cut;
        train.count_count = 2;
        train.rounds = 6 * scale;
        CHECK_EQ(run_ranks(RANKS, &config, run_train, &train), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

/*
 * Calls that use each other's results. Packets write the first numbers, and zero-copy then reads them from all ranks,
 * in place and into a third buffer. If a rank falls behind, its operands must be read neither too early nor too late.
 */
static void run_chain(rank_t *rank)
{
    enum { ALL = 8000, FEW = 900 };
    const int *rounds = rank->argument;
    const mscclpp_gpu_ops_t *gpu = rank->gpu;
    mscclpp_team_t *team = create_team(rank);
    mscclpp_gpu_stream_t *stream = NULL;
    const int32_t n = rank->size;
    void *address = NULL;
    int32_t *a, *b, *c;
    int round, k;

    CHECK_EQ(gpu->device_alloc(0, sizeof(int32_t) * ALL * 3, &address), MSCCLPP_OK);
    CHECK_EQ(gpu->stream_create(0, &stream), MSCCLPP_OK);
    a = address;
    b = a + ALL;
    c = b + ALL;
    for (round = 0; round < process_state_calls(*rounds) && team != NULL && a != NULL && stream != NULL; ++round) {
        uint64_t call = (uint64_t)round * 5;
        int wrong = 0;

        for (k = 0; k < ALL; ++k) {
            a[k] = round + k + rank->rank;
            b[k] = 1 + rank->rank;
            c[k] = -1;
        }
        /* Peers write into these buffers without asking the stream. */
        meet(rank);
        CHECK_EQ(enqueue(team, stream, a, b, FEW, call + 1), MSCCLPP_OK);
        CHECK_EQ(enqueue(team, stream, b, c, ALL, call + 2), MSCCLPP_OK);
        CHECK_EQ(enqueue(team, stream, c, b, FEW, call + 3), MSCCLPP_OK);
        CHECK_EQ(enqueue(team, stream, b, b, ALL, call + 4), MSCCLPP_OK);
        CHECK_EQ(enqueue(team, stream, b, a, 40, call + 5), MSCCLPP_OK);
        CHECK_EQ(gpu->stream_sync(stream), MSCCLPP_OK);
        for (k = 0; k < ALL; ++k) {
            int32_t sum = n * (round + k) + n * (n - 1) / 2;

            wrong += c[k] != (k < FEW ? n * sum : n * (n + 1) / 2);
            wrong += b[k] != (k < FEW ? n * n * n * sum : n * (n + 1) / 2);
            wrong += a[k] != (k < 40 ? n * n * n * n * sum : round + k + rank->rank);
        }
        CHECK_EQ(wrong, 0);
        if (meet_any(rank, wrong != 0)) {
            break;
        }
    }
    gpu->stream_destroy(stream);
    mscclpp_team_destroy(team);
    meet(rank);
    gpu->device_free(0, address);
}

static void test_chains(int scale)
{
    mscclpp_config_t config;
    int rounds = 12 * scale;

    jitter_set(20, 2000);
    configure(&config, 1, 2, (size_t)1 << 31);
    CHECK_EQ(run_ranks(3, &config, run_chain, &rounds), 0);
    configure(&config, 2, 3, 16);
    CHECK_EQ(run_ranks(4, &config, run_chain, &rounds), 0);
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

static double cpu_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* When the threads of the proxies have nothing to do, they use no processor time. */
static void rest(rank_t *rank)
{
    const struct timespec settle = {0, 100000000}, pause = {0, 400000000};
    mscclpp_team_t *team = create_team(rank);
    mscclpp_gpu_stream_t *stream = NULL;
    int32_t in = rank->rank, out = 0;
    double spent;
    int i;

    CHECK_EQ(rank->gpu->stream_create(0, &stream), MSCCLPP_OK);
    for (i = 0; i < 5; ++i) {
        CHECK_EQ(enqueue(team, stream, &in, &out, 1, (uint64_t)i + 1), MSCCLPP_OK);
    }
    CHECK_EQ(rank->gpu->stream_sync(stream), MSCCLPP_OK);
    CHECK_EQ(out, rank->size * (rank->size - 1) / 2);
    nanosleep(&settle, NULL);
    meet(rank);
    spent = cpu_time();
    nanosleep(&pause, NULL);
    CHECK(cpu_time() - spent < 0.2);
    meet(rank);
    rank->gpu->stream_destroy(stream);
    mscclpp_team_destroy(team);
}

/* The last rank stays away. The kernels of the others give up by themselves, and the next call reports it. */
static void stay_away(rank_t *rank)
{
    mscclpp_team_t *team = create_team(rank);
    mscclpp_gpu_stream_t *stream = NULL;
    int32_t in = 1, out = 0;
    mscclpp_status_t status;

    CHECK_EQ(rank->gpu->stream_create(0, &stream), MSCCLPP_OK);
    if (rank->rank != rank->size - 1) {
        CHECK_EQ(enqueue(team, stream, &in, &out, 1, 1), MSCCLPP_OK);
        CHECK_EQ(rank->gpu->stream_sync(stream), MSCCLPP_OK);
        status = enqueue(team, stream, &in, &out, 1, 2);
        CHECK(status == MSCCLPP_ERR_TIMEOUT || status == MSCCLPP_ERR_PEER);
        CHECK(mscclpp_team_broken(team));
    }
    meet(rank);
    rank->gpu->stream_destroy(stream);
    mscclpp_team_destroy(team);
}

/*
 * True if case `i` of those that wait for deadlines is to run: under a sanitizer, each third of them, unless all calls
 * are asked for.
 */
static bool takes_deadline(size_t i)
{
    return i % 3 == 0 || process_state_whole();
}

/* Over several nodes only the proxy's thread executes the requests of queued kernels. */
static void test_nodes(int scale)
{
    static const struct {
        int ranks, per_node, grid[2];
        const char *proxy;
    } cases[] = {
        {2, 1, {1, 1}, "progress"}, {3, 2, {1, 2}, "progress"}, {3, 1, {2, 1}, "thread"}, {4, 2, {2, 2}, "progress"}};
    train_t train = {3 * scale, 6000, NULL, 0};
    int rounds = 4 * scale;
    mscclpp_config_t config;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        configure(&config, cases[i].grid[0], cases[i].grid[1], (size_t)1 << 31);
        config.ranks_per_node = cases[i].per_node;
        config.proxy = cases[i].proxy;
        config.transport = "shm";
        config.exchange_size = (size_t)64 << 10;
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_train, &train), 0);
        jitter_set(20, 2000);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_chain, &rounds), 0);
        jitter_set(0, 0);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, rest, NULL), 0);
        if (!takes_deadline(i)) {
            continue;
        }
        config.timeout = process_state_slow() ? 2 : 0.5;
        log_record_clear();
        mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_ERROR);
        jitter_rest(true);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, stay_away, NULL), 0);
        jitter_rest(false);
        mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
        CHECK(log_record_count(MSCCLPP_LOG_ERROR, "", "") >= cases[i].ranks - 1);
    }
    mscclpp_team_finalize(1.0);
}

#define LATE_CALLS 4
#define LATE_COUNT 4096

/*
 * All ranks queue all their calls at once. The last rank does so only when the calls of the others have given up. Data
 * that the others have sent must not pass for data that they have not sent: either the results are right, or the team's
 * next call reports an error. `chained`: there are two calls, and the second takes the results of the first as
 * operands.
 */
static void be_late(rank_t *rank)
{
    const bool chained = *(const bool *)rank->argument;
    const mscclpp_gpu_ops_t *gpu = rank->gpu;
    const bool late = rank->rank == rank->size - 1;
    /* The late rank leaves out the last call, of which the others have sent the least. */
    const int calls = chained ? 2 : late ? LATE_CALLS - 1 : LATE_CALLS;
    mscclpp_team_t *team = create_team(rank);
    mscclpp_gpu_stream_t *stream = NULL;
    void *address = NULL;
    int32_t *in, *out, one = 1, sum = 0;
    int i, k, wrong = 0;

    CHECK_EQ(gpu->device_alloc(0, sizeof(int32_t) * LATE_COUNT * LATE_CALLS * 2, &address), MSCCLPP_OK);
    CHECK_EQ(gpu->stream_create(0, &stream), MSCCLPP_OK);
    in = address;
    out = in + LATE_COUNT * LATE_CALLS;
    for (i = 0; i < LATE_CALLS * LATE_COUNT; ++i) {
        in[i] = cargo(0, i / LATE_COUNT, (uint64_t)i, rank->rank);
        out[i] = -1;
    }
    for (k = 0; k < 2; ++k) {
        for (i = 0; i < calls && late == (k == 1); ++i) {
            const int32_t *from = chained && i > 0 ? out + (i - 1) * LATE_COUNT : in + i * LATE_COUNT;

            CHECK_EQ(enqueue(team, stream, from, out + i * LATE_COUNT, LATE_COUNT, (uint64_t)i + 1), MSCCLPP_OK);
        }
        CHECK_EQ(gpu->stream_sync(stream), MSCCLPP_OK);
        meet(rank);
    }
    for (i = 0; i < calls * LATE_COUNT; ++i) {
        const int32_t n = rank->size;
        const int first = chained ? i % LATE_COUNT : i;
        int32_t expected = n * cargo(0, first / LATE_COUNT, (uint64_t)first, 0) + n * (n - 1) / 2;

        for (k = i / LATE_COUNT; k > 0 && chained; --k) {
            expected *= n;
        }
        wrong += out[i] != expected;
    }
    /* The late rank calls first, while no peer can tell it of the failure. */
    for (k = 1; k >= 0; --k) {
        if (late == (k == 1)) {
            CHECK(wrong == 0 || enqueue(team, stream, &one, &sum, 1, (uint64_t)calls + 1) != MSCCLPP_OK);
        }
        meet(rank);
    }
    gpu->stream_destroy(stream);
    mscclpp_team_destroy(team);
    meet(rank);
    gpu->device_free(0, address);
}

static void test_late(int scale)
{
    static const struct {
        const char *algorithm;
        int ranks_per_node;
        bool stores;
        bool chained;
    } cases[] = {{"oneshot_put", 0, false, false}, {"scratch", 0, false, false}, {"oneshot", 0, false, true},
                 {"twophase", 0, false, true},     {"nodes", 1, false, true},    {"nodes_packets", 1, false, true},
                 {"nodes_packets", 1, true, true}};
    mscclpp_config_t config;
    size_t i;

    (void)scale;
    log_record_clear();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_ERROR);
    jitter_rest(true);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        if (!takes_deadline(i)) {
            continue;
        }
        configure(&config, 1, 2, (size_t)1 << 31);
        config.algorithm = cases[i].algorithm;
        config.ranks_per_node = cases[i].ranks_per_node;
        config.exchange_stores = cases[i].stores;
        config.transport = "shm";
        config.timeout = process_state_slow() ? 1 : 0.2;
        CHECK_EQ(run_ranks(2, &config, be_late, (void *)(uintptr_t)&cases[i].chained), 0);
    }
    jitter_rest(false);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK(log_record_count(MSCCLPP_LOG_ERROR, "", "") > 0);
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {
    {"trains", test_trains}, {"heels", test_heels}, {"chains", test_chains},
    {"nodes", test_nodes},   {"late", test_late},   {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
