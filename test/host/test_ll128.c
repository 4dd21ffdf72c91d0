/* LL128: which teams use it, and that its data never passes for other packets, nor other packets for its data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define LONG_COUNT 50000u /* numbers, so many that they overlap several slots of other packets in shared memory */
#define SHORT_COUNT 1000u /* below the smallest LL128 */
#define LINES_MIN 16384u  /* bytes */

static parts_options_t options;

static void configure(mscclpp_config_t *config, const char *packet, int blocks, int threads)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->algorithm = "twophase";
    config->packet = packet;
    config->lines_min = LINES_MIN;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->timeout = options.timeout;
    config->ucx = false;
}

static bool never(int device, const unsigned char *peer_uuid)
{
    (void)device;
    (void)peer_uuid;
    return false;
}

/* This outlives the teams, because pooled streams keep a pointer to it. */
static mscclpp_gpu_ops_t unpromising;

/* One way to bring up a team, and the expected result. */
typedef struct {
    const char *packet;
    int without; /* the rank whose runtime promises nothing; -1: none */
    bool lines;
} choice_t;

static void choose(rank_t *rank)
{
    const choice_t *plan = rank->argument;
    traffic_t traffic;
    bool right = false;

    if (rank->rank == plan->without) {
        rank->gpu = &unpromising;
    }
    traffic_open(&traffic, create_team(rank), LONG_COUNT, USER_EXACT);
    if (traffic.team == NULL) {
        return;
    }
    CHECK_EQ(mscclpp_team_keeps_lines(traffic.team), plan->lines);
    CHECK_EQ(traffic_call(&traffic, LONG_COUNT, &right), MSCCLPP_OK);
    CHECK(right);
    traffic_close(&traffic);
}

/* All ranks use LL128 or none. If the user asks for LL128, it needs no promise. If it is forbidden, it is not used. */
static void test_choices(int scale)
{
    static const choice_t choices[] = {
        {"auto", -1, true}, {"auto", 2, false},  {"ll128", -1, true},
        {"ll128", 2, true}, {"ll16", -1, false}, {"ll8", -1, false},
    };
    mscclpp_config_t config;
    size_t i;

    (void)scale;
    unpromising = mscclpp_gpu_twin_ops;
    unpromising.keeps_lines = never;
    for (i = 0; i < sizeof(choices) / sizeof(choices[0]); ++i) {
        log_record_clear();
        mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_DEBUG);
        configure(&config, choices[i].packet, 1, 2);
        CHECK_EQ(run_ranks(3, &config, choose, (void *)(uintptr_t)&choices[i]), 0);
        mscclpp_team_finalize(1.0);
        unit_begin();
        CHECK_EQ(log_record_count(MSCCLPP_LOG_DEBUG, "twophase", "LL128"), choices[i].lines ? 3 : 0);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_DEBUG, "twophase", "threads"), 3);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_INFO, "rank 2", "no packets of 128 bytes"),
                 strcmp(choices[i].packet, "auto") == 0 && choices[i].without == 2);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "", ""), 0);
    }
}

/*
 * Unit `u` of a call's operand. It is equal on all ranks, and the operation is the maximum. Long messages are sent as
 * LL128, and their units take the values of all flags that come next. So data that a line leaves behind would pass for
 * packets of 16 bytes.
 */
static uint32_t value(uint64_t call, uint64_t count, uint64_t u)
{
    return count == LONG_COUNT ? (uint32_t)(call + u % 16) : (uint32_t)(0x10000u + call);
}

static bool look_alike(mscclpp_team_t *team, uint32_t *in, uint32_t *out, uint64_t call, uint64_t count)
{
    mscclpp_allreduce_args_t args = {.early = false};
    uint64_t i;

    for (i = 0; i < count; ++i) {
        in[i] = value(call, count, i / 4);
        out[i] = 0;
    }
    args.sendbuf = in;
    args.recvbuf = out;
    args.count = count;
    args.dtype = MSCCLPP_DTYPE_UINT32;
    args.op = MSCCLPP_OP_MAX;
    args.call = call;
    if (mscclpp_allreduce(team, &args) != MSCCLPP_OK) {
        return false;
    }
    for (i = 0; i < count; ++i) {
        if (out[i] != value(call, count, i / 4)) {
            fprintf(stderr, "    call %llu: number %llu of %llu is %u, not %u\n", (unsigned long long)call,
                    (unsigned long long)i, (unsigned long long)count, out[i], value(call, count, i / 4));
            return false;
        }
    }
    return true;
}

/* In each `period` calls the first `longs` calls are long. */
typedef struct {
    int calls;
    int period;
    int longs;
} turns_t;

static void alternate(rank_t *rank)
{
    const turns_t *plan = rank->argument;
    uint32_t *in = malloc(LONG_COUNT * sizeof(*in)), *out = malloc(LONG_COUNT * sizeof(*out));
    mscclpp_team_t *team = create_team(rank);
    int call;

    CHECK(team == NULL || mscclpp_team_keeps_lines(team));
    for (call = 1; call <= plan->calls && team != NULL; ++call) {
        const bool right =
            look_alike(team, in, out, (uint64_t)call, call % plan->period < plan->longs ? LONG_COUNT : SHORT_COUNT);

        CHECK(right);
        if (meet_any(rank, !right)) {
            break;
        }
    }
    mscclpp_team_destroy(team);
    meet(rank);
    free(in);
    free(out);
}

#define LIMIT 32

/*
 * Calls of both formats by turns. Then flags begin again after each LIMIT calls: a long call has the same flag as the
 * long call before, and nothing in between overwrites its lines.
 */
static void test_formats(int scale)
{
    const turns_t turns = {scale * 30, 5, 2}, renewals = {3 * LIMIT, LIMIT, 1};
    mscclpp_config_t config;
    int ranks;

    for (ranks = 2; ranks <= 4; ++ranks) {
        configure(&config, "auto", ranks == 3 ? 2 : 1, ranks == 2 ? 1 : 2);
        CHECK_EQ(run_ranks(ranks, &config, alternate, (void *)(uintptr_t)&turns), 0);
        mscclpp_team_finalize(1.0);
        config.epoch_limit = LIMIT;
        CHECK_EQ(run_ranks(ranks, &config, alternate, (void *)(uintptr_t)&renewals), 0);
        mscclpp_team_finalize(1.0);
    }
}

static const part_t parts[] = {{"choices", test_choices}, {"formats", test_formats}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
