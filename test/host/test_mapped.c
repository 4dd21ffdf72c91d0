/*
 * Queued calls whose kernels use the buffers of all ranks: in graphs, and of requests, all-reduces whole and in parts.
 * Ranks that do not come, and buffers that nobody can map. The blocks that queued kernels get.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/task/collective.h"
#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/queue.h"
#include "test/host/jitter.h"
#include "test/host/line.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

enum { PARTS = 3, PART = 1500, COUNT = PARTS * PART };

static parts_options_t options;

static void configure(mscclpp_config_t *config, int blocks, int threads)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->timeout = options.timeout;
    config->ucx = false;
}

/* A line, with an operand and a result. */
typedef struct {
    line_t queue;
    int32_t *in, *out;
} full_line_t;

static void make_buffers(const rank_t *rank, full_line_t *line)
{
    void *address = NULL;

    CHECK_EQ(rank->gpu->device_alloc(0, sizeof(int32_t) * 2 * COUNT, &address), MSCCLPP_OK);
    line->in = address;
    line->out = line->in + COUNT;
}

static void open_line(rank_t *rank, full_line_t *line)
{
    (void)line_open(rank, &line->queue);
    make_buffers(rank, line);
}

static void close_line(rank_t *rank, full_line_t *line)
{
    CHECK_EQ(mscclpp_team_check_kernels(line->queue.team), MSCCLPP_OK);
    line_close(rank, &line->queue);
    rank->gpu->device_free(0, line->in);
}

static void load(const rank_t *rank, full_line_t *line, int round)
{
    for (int k = 0; k < COUNT; ++k) {
        line->in[k] = 1000 * round + k + rank->rank;
        line->out[k] = -1;
    }
}

static bool is_right(const rank_t *rank, const full_line_t *line, int round)
{
    const int32_t n = rank->size;

    for (int k = 0; k < COUNT; ++k) {
        const int32_t wanted = n * (1000 * round + k) + n * (n - 1) / 2;

        if (line->out[k] != wanted) {
            fprintf(stderr, "rank %d, round %d: number %d is %d, not %d\n", rank->rank, round, k, line->out[k], wanted);
            return false;
        }
    }
    return true;
}

/* The call of part `part`, or of everything for -1. */
static mscclpp_allreduce_args_t call_of(full_line_t *line, int part)
{
    const int first = part < 0 ? 0 : part * PART;

    return (mscclpp_allreduce_args_t){.sendbuf = line->in + first,
                                      .recvbuf = line->out + first,
                                      .count = part < 0 ? COUNT : PART,
                                      .dtype = MSCCLPP_DTYPE_INT32,
                                      .op = MSCCLPP_OP_SUM,
                                      .call = ++line->queue.calls};
}

/* Queues a call, and checks which algorithm serves it. */
static void queue(full_line_t *line, int part, mscclpp_mapped_t *mapped, bool may_map, const char *algorithm)
{
    mscclpp_allreduce_args_t args = call_of(line, part);

    args.mapped = mapped;
    args.may_wait = may_map;
    CHECK_EQ(mscclpp_allreduce_enqueue(line->queue.team, &args, line->queue.stream), MSCCLPP_OK);
    CHECK(strcmp(mscclpp_team_last_algorithm(line->queue.team), algorithm) == 0);
}

static mscclpp_dev_twin_graph_t *record(full_line_t *line, mscclpp_mapped_t *mapped, const char *algorithm)
{
    mscclpp_dev_twin_graph_t *graph = NULL;

    CHECK_EQ(mscclpp_dev_twin_begin_record(line->queue.native), 0);
    queue(line, -1, mapped, mapped == NULL, algorithm);
    CHECK_EQ(mscclpp_dev_twin_end_record(line->queue.native, &graph), 0);
    return graph;
}

static mscclpp_mapped_t *map(full_line_t *line, int part)
{
    mscclpp_allreduce_args_t args = call_of(line, part);
    mscclpp_mapped_t *mapped = NULL;

    CHECK_EQ(mscclpp_allreduce_map_buffers(line->queue.team, &args, &mapped), MSCCLPP_OK);
    return mapped;
}

/* Waits for the stream, and checks the result. True if it is wrong on any rank; collective. */
static bool is_wrong_anywhere(rank_t *rank, full_line_t *line, int round)
{
    bool right;

    CHECK_EQ(rank->gpu->stream_sync(line->queue.stream), MSCCLPP_OK);
    right = is_right(rank, line, round);
    CHECK(right);
    return meet_any(rank, !right);
}

/*
 * By turns a graph, a request whose parts are queued one by one, a graph of the request, and a call that is not mapped.
 * The operands change as soon as a rank has its own result. So no peer may read them after that.
 */
static void run_turns(rank_t *rank)
{
    const int rounds = *(const int *)rank->argument;
    mscclpp_dev_twin_graph_t *graphs[2];
    mscclpp_mapped_t *mapped;
    full_line_t line;

    open_line(rank, &line);
    mapped = map(&line, 0);
    CHECK(mapped != NULL);
    graphs[0] = record(&line, NULL, "zerocopy");
    graphs[1] = record(&line, mapped, "zerocopy");
    for (int round = 0; round < rounds; ++round) {
        bool right;

        load(rank, &line, round);
        if (round % 4 == 1) {
            for (int part = 0; part < PARTS; ++part) {
                queue(&line, part, mapped, false, "zerocopy");
            }
        } else if (round % 4 == 3) {
            queue(&line, -1, NULL, true, "scratch"); /* not captured */
        } else {
            CHECK_EQ(mscclpp_dev_twin_replay(graphs[round % 4 / 2], line.queue.native), 0);
        }
        CHECK_EQ(rank->gpu->stream_sync(line.queue.stream), MSCCLPP_OK);
        right = is_right(rank, &line, round);
        CHECK(right);
        memset(line.in, 0x55, sizeof(int32_t) * 2 * COUNT);
        if (round % 8 == 7 && meet_any(rank, !right)) {
            break;
        }
    }
    meet(rank);
    mscclpp_allreduce_unmap_buffers(mapped);
    for (int i = 0; i < 2; ++i) {
        mscclpp_dev_twin_graph_destroy(graphs[i]);
    }
    close_line(rank, &line);
}

static void test_turns(int scale)
{
    static const struct {
        int ranks, blocks, threads;
    } cases[] = {{2, 1, 1}, {3, 2, 2}, {4, 3, 1}};
    int rounds = 24 * scale;
    mscclpp_config_t config;

    jitter_set(10, 2000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        configure(&config, cases[i].blocks, cases[i].threads);
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_turns, &rounds), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

/* A call of another collective, from `in` to `out`: blocks of BLOCK numbers, as many as ranks where there are many. */
enum { BLOCK = 900 };

static const mscclpp_coll_t collectives[] = {MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_REDUCE_SCATTER_BLOCK,
                                             MSCCLPP_COLL_BCAST, MSCCLPP_COLL_REDUCE, MSCCLPP_COLL_ALLTOALL};
#define COLLECTIVES (sizeof(collectives) / sizeof(collectives[0]))

static mscclpp_coll_args_t collective_of(const rank_t *rank, full_line_t *line, mscclpp_coll_t coll)
{
    const bool is_root = rank->rank == 0;

    return (mscclpp_coll_args_t){
        .coll = coll,
        .in = coll == MSCCLPP_COLL_BCAST && !is_root ? NULL : line->in,
        .out = (coll == MSCCLPP_COLL_BCAST && is_root) || (coll == MSCCLPP_COLL_REDUCE && !is_root) ? NULL : line->out,
        .count = BLOCK,
        .is_size_known = true,
        .dtype = MSCCLPP_DTYPE_INT32,
        .op = MSCCLPP_OP_SUM,
        .call = ++line->queue.calls};
}

/* What number k of the output is for the operands of load(). */
static int32_t wanted_of(const rank_t *rank, mscclpp_coll_t coll, int round, int k)
{
    const int32_t n = rank->size, mine = rank->rank * BLOCK, sums = n * (n - 1) / 2;

    return coll == MSCCLPP_COLL_ALLGATHER              ? 1000 * round + k % BLOCK + k / BLOCK
           : coll == MSCCLPP_COLL_ALLTOALL             ? 1000 * round + mine + k % BLOCK + k / BLOCK
           : coll == MSCCLPP_COLL_BCAST                ? 1000 * round + k
           : coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK ? n * (1000 * round + mine + k) + sums
                                                       : n * (1000 * round + k) + sums;
}

/* True if the output is right, on a rank that has one. */
static bool is_right_of(const rank_t *rank, const full_line_t *line, mscclpp_coll_t coll, int round)
{
    const bool has_many = coll == MSCCLPP_COLL_ALLGATHER || coll == MSCCLPP_COLL_ALLTOALL;
    const bool has_none = coll == MSCCLPP_COLL_BCAST ? rank->rank == 0 : coll == MSCCLPP_COLL_REDUCE && rank->rank != 0;

    for (int k = 0; k < (has_many ? rank->size : 1) * BLOCK && !has_none; ++k) {
        if (line->out[k] != wanted_of(rank, coll, round, k)) {
            fprintf(stderr, "rank %d, %s, round %d: number %d is %d, not %d\n", rank->rank, mscclpp_coll_name(coll),
                    round, k, line->out[k], wanted_of(rank, coll, round, k));
            return false;
        }
    }
    return true;
}

/* By turns graphs of the collectives, and their requests. As in run_turns, operands change at once. */
static void run_collectives(rank_t *rank)
{
    const int rounds = *(const int *)rank->argument;
    mscclpp_dev_twin_graph_t *graphs[COLLECTIVES];
    mscclpp_mapped_t *mapped[COLLECTIVES] = {NULL};
    full_line_t line;

    open_line(rank, &line);
    for (size_t i = 0; i < COLLECTIVES; ++i) {
        mscclpp_coll_args_t args = collective_of(rank, &line, collectives[i]);

        args.may_wait = true;
        CHECK_EQ(mscclpp_dev_twin_begin_record(line.queue.native), 0);
        CHECK_EQ(mscclpp_collective_enqueue(line.queue.team, &args, line.queue.stream), MSCCLPP_OK);
        CHECK(strcmp(mscclpp_team_last_algorithm(line.queue.team), "zerocopy") == 0);
        CHECK_EQ(mscclpp_dev_twin_end_record(line.queue.native, &graphs[i]), 0);
        CHECK_EQ(mscclpp_collective_map_buffers(line.queue.team, &args, &mapped[i]), MSCCLPP_OK);
        CHECK(mapped[i] != NULL);
    }
    for (int round = 0; round < rounds; ++round) {
        const size_t i = (size_t)round % COLLECTIVES;
        bool right;

        load(rank, &line, round);
        if (round / COLLECTIVES % 2 == 0) {
            CHECK_EQ(mscclpp_dev_twin_replay(graphs[i], line.queue.native), 0);
        } else {
            mscclpp_coll_args_t args = collective_of(rank, &line, collectives[i]);

            args.mapped = mapped[i];
            CHECK_EQ(mscclpp_collective_enqueue(line.queue.team, &args, line.queue.stream), MSCCLPP_OK);
            CHECK(strcmp(mscclpp_team_last_algorithm(line.queue.team), "zerocopy") == 0);
        }
        CHECK_EQ(rank->gpu->stream_sync(line.queue.stream), MSCCLPP_OK);
        right = is_right_of(rank, &line, collectives[i], round);
        CHECK(right);
        memset(line.in, 0x55, sizeof(int32_t) * 2 * COUNT);
        if (round % 8 == 7 && meet_any(rank, !right)) {
            break;
        }
    }
    meet(rank);
    for (size_t i = 0; i < COLLECTIVES; ++i) {
        mscclpp_allreduce_unmap_buffers(mapped[i]);
        mscclpp_dev_twin_graph_destroy(graphs[i]);
    }
    for (int i = 0; i < 2; ++i) { /* gives back what nobody uses */
        queue(&line, -1, NULL, false, "scratch");
        CHECK_EQ(rank->gpu->stream_sync(line.queue.stream), MSCCLPP_OK);
    }
    meet(rank);
    if (rank->rank == 0) {
        CHECK_EQ(mscclpp_mapping_drain(), 0);
    }
    close_line(rank, &line);
}

static void test_collectives(int scale)
{
    int rounds = 40 * scale;
    mscclpp_config_t config;

    jitter_set(10, 2000);
    for (int ranks = 2; ranks <= 4; ++ranks) {
        configure(&config, 5 - ranks, 1);
        CHECK_EQ(run_ranks(ranks, &config, run_collectives, &rounds), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

/*
 * After a call that all ranks capture, the last rank does not capture one that the others capture. These go on by
 * scratch, and so does the last rank when it captures it later.
 */
static void run_absent(rank_t *rank)
{
    const bool absent = rank->rank == rank->size - 1;
    mscclpp_dev_twin_graph_t *graph = NULL;
    full_line_t line;

    open_line(rank, &line);
    mscclpp_dev_twin_graph_destroy(record(&line, NULL, "zerocopy"));
    if (!absent) {
        graph = record(&line, NULL, "scratch");
    }
    meet(rank);
    if (absent) {
        graph = record(&line, NULL, "scratch");
    }
    CHECK(map(&line, 0) == NULL);
    for (int round = 0; round < 2; ++round) {
        load(rank, &line, round);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.queue.native), 0);
        if (is_wrong_anywhere(rank, &line, round)) {
            break;
        }
    }
    mscclpp_dev_twin_graph_destroy(graph);
    close_line(rank, &line);
}

static void test_absent(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 1);
    config.timeout = process_state_slow() ? 20 : 3; /* the ranks wait for half of it */
    jitter_rest(true);
    CHECK_EQ(run_ranks(3, &config, run_absent, NULL), 0);
    jitter_rest(false);
    mscclpp_team_finalize(1.0);
}

/* The first rank's result lies where no peer can map it, so no rank maps anything. Other buffers are mapped later. */
static void run_private(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph;
    int32_t *shared;
    full_line_t line;

    open_line(rank, &line);
    shared = line.out;
    if (rank->rank == 0) {
        line.out = malloc(sizeof(int32_t) * COUNT);
    }
    for (int round = 0; round < 2; ++round) {
        graph = record(&line, NULL, round == 0 ? "scratch" : "zerocopy");
        load(rank, &line, round);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.queue.native), 0);
        (void)is_wrong_anywhere(rank, &line, round);
        mscclpp_dev_twin_graph_destroy(graph);
        if (rank->rank == 0 && round == 0) {
            free(line.out);
        }
        line.out = shared;
    }
    close_line(rank, &line);
}

static void test_private(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 1, 2);
    CHECK_EQ(run_ranks(3, &config, run_private, NULL), 0);
    mscclpp_team_finalize(1.0);
}

/*
 * Mappings stay as long as a graph or a request uses them, and go after that. Buffers are freed and allocated anew, and
 * captured again. A graph outlives the request, and another one the team.
 */
static void run_lives(rank_t *rank)
{
    mscclpp_dev_twin_graph_t *graph;
    mscclpp_mapped_t *mapped;
    full_line_t line;

    open_line(rank, &line);
    for (int round = 0; round < 4; ++round) {
        mapped = round % 2 == 0 ? map(&line, -1) : NULL;
        CHECK((mapped != NULL) == (round % 2 == 0));
        graph = record(&line, mapped, "zerocopy");
        mscclpp_allreduce_unmap_buffers(mapped);
        load(rank, &line, round);
        queue(&line, -1, NULL, false, "scratch"); /* gives back what nobody uses */
        meet(rank);
        CHECK(mscclpp_mapping_drain() > 0);
        CHECK_EQ(mscclpp_dev_twin_replay(graph, line.queue.native), 0);
        if (is_wrong_anywhere(rank, &line, round)) {
            mscclpp_dev_twin_graph_destroy(graph);
            break;
        }
        mscclpp_dev_twin_graph_destroy(graph);
        queue(&line, -1, NULL, false, "scratch");
        CHECK_EQ(rank->gpu->stream_sync(line.queue.stream), MSCCLPP_OK);
        queue(&line, -1, NULL, false, "scratch");
        CHECK_EQ(rank->gpu->stream_sync(line.queue.stream), MSCCLPP_OK);
        meet(rank);
        if (rank->rank == 0) {
            CHECK_EQ(mscclpp_mapping_drain(), 0); /* one rank alone, as mappings that another one closes still count */
        }
        meet(rank);
        rank->gpu->device_free(0, line.in);
        make_buffers(rank, &line);
    }
    graph = record(&line, NULL, "zerocopy");
    mscclpp_team_destroy(line.queue.team);
    meet(rank);
    if (rank->rank == 0) {
        CHECK_EQ(mscclpp_mapping_drain(), 0);
    }
    load(rank, &line, 9);
    meet(rank);
    CHECK_EQ(mscclpp_dev_twin_replay(graph, line.queue.native), 0);
    line_await_idle(line.queue.native);
    CHECK_EQ(line.out[0], -1); /* the call did nothing */
    meet(rank);
    mscclpp_dev_twin_graph_destroy(graph);
    mscclpp_dev_twin_queue_destroy(line.queue.native);
    rank->gpu->device_free(0, line.in);
}

static void ignore_line(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
}

static void test_lives(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 2, 2);
    mscclpp_log_set(ignore_line, NULL, MSCCLPP_LOG_WARN); /* a graph is launched after the end of its team */
    CHECK_EQ(run_ranks(3, &config, run_lives, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
}

/* The blocks that teams get where a GPU can run 132, and where it can run 32. There is room for four teams. */
static void run_room(rank_t *rank)
{
    static const uint32_t wanted[2][4] = {{16, 8, 4, 4}, {2, 2, 2, 2}};

    for (int few = 0; few < 2; ++few) {
        mscclpp_team_t *teams[5];

        for (int i = 0; i < 5; ++i) {
            teams[i] = create_team(rank);
            teams[i]->runner.block_limit = few ? 32 : 132;
            CHECK_EQ(mscclpp_team_open_queue(teams[i]), i < 4 ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED);
            CHECK_EQ(teams[i]->runner.queue_blocks, i < 4 ? wanted[few][i] : 0);
        }
        mscclpp_team_destroy(teams[4]);
        mscclpp_team_destroy(teams[0]); /* its blocks go to the next ones */
        teams[0] = create_team(rank);
        teams[0]->runner.block_limit = few ? 32 : 132;
        CHECK_EQ(mscclpp_team_open_queue(teams[0]), MSCCLPP_OK);
        CHECK_EQ(teams[0]->runner.queue_blocks, few ? 2 : 8);
        for (int i = 0; i < 4; ++i) {
            mscclpp_team_destroy(teams[i]);
        }
    }
}

static void test_room(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config, 1, 1);
    CHECK_EQ(run_ranks(1, &config, run_room, NULL), 0);
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {{"turns", test_turns},
                               {"collectives", test_collectives},
                               {"absent", test_absent},
                               {"private", test_private},
                               {"lives", test_lives},
                               {"room", test_room},
                               {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
