/*
 * How the memory of communicators over several nodes grows (mca/common/fabric/area.c, mca/common/team/grow.h): with
 * which calls, how much it takes before, and that all ranks keep what they have if one cannot get more.
 *
 * Usage: test_area [--long] [--timeout SECONDS] [PART]...
 */
#include <stdio.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/team/parts.h"
#include "test/host/faulty_gpu.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define KIB ((uint64_t)1024)
#define THOUSANDTH ((uint64_t)200 * 1024 * 1024 / 1000) /* of 200 MiB */
#define TINY 60u
#define KILOBYTE 250u
#define MEDIUM 600u /* more than packets of the smallest area hold, and less than those of the next one */
#define LARGE 30000u

static parts_options_t options;

typedef struct {
    faulty_function_t function;
    int nth; /* 0: nothing fails */
    int culprit;
    bool happened;
} plan_t;

static void configure(mscclpp_config_t *config, int per)
{
    mscclpp_config_init(config);
    config->transport = "shm";
    config->ranks_per_node = per;
    config->twin_blocks = 3;
    config->twin_threads = 1;
    config->timeout = options.timeout;
    config->warn_after = 0;
    config->ucx = false;
}

static bool call(rank_t *rank, traffic_t *traffic, uint64_t count)
{
    bool right = false;
    const mscclpp_status_t status = traffic_call(traffic, count, &right);

    CHECK_EQ(status, MSCCLPP_OK);
    CHECK(right);
    return !meet_any(rank, status != MSCCLPP_OK || !right);
}

/* Bytes of a rank's scratch and area. */
static uint64_t held(const mscclpp_team_t *team)
{
    return team->runner.layout.total + team->fabric->area_size;
}

/* Each call is looked at on all ranks, so that none is ahead of a growth. */
static void grow(rank_t *rank)
{
    mscclpp_team_t *team = create_team(rank);
    const uint64_t nodes = team != NULL ? (uint64_t)team->fabric->nodes.count : 1;
    traffic_t traffic;
    int i;

    if (meet_any(rank, team == NULL)) {
        mscclpp_team_destroy(team);
        return;
    }
    traffic_open(&traffic, team, LARGE, USER_DEVICE);
    CHECK(call(rank, &traffic, TINY) && call(rank, &traffic, KILOBYTE));
    CHECK_EQ(team->fabric->size, MSCCLPP_FABRIC_SMALL);
    CHECK(held(team) <= (nodes == 2 ? THOUSANDTH : 256 * KIB));
    CHECK(call(rank, &traffic, MEDIUM) && call(rank, &traffic, TINY));
    CHECK_EQ(team->fabric->size, MSCCLPP_FABRIC_MIDDLE);
    CHECK(held(team) < 1024 * KIB);
    CHECK(call(rank, &traffic, LARGE));
    CHECK_EQ(team->fabric->size, MSCCLPP_FABRIC_FULL);
    CHECK(held(team) >= rank->config->exchange_size + rank->config->scratch_size);
    for (i = 0; i < 40 * options.scale && rank->failures == 0; ++i) {
        bool right = false;

        CHECK_EQ(traffic_call(&traffic,
                              i % 4 == 3   ? LARGE - (unsigned)i
                              : i % 4 == 1 ? MEDIUM
                                           : TINY,
                              &right),
                 MSCCLPP_OK);
        CHECK(right);
    }
    meet_any(rank, false);
    traffic_close(&traffic);
}

/* From the smallest area to the full one at once, while puts of earlier calls may still be under way. */
static void leap(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    traffic_open(&traffic, create_team(rank), LARGE, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 1, &right), MSCCLPP_OK);
    CHECK(right);
    CHECK_EQ(traffic_call(&traffic, LARGE, &right), MSCCLPP_OK);
    CHECK(right);
    CHECK_EQ(traffic_call(&traffic, KILOBYTE, &right), MSCCLPP_OK);
    CHECK(right);
    meet_any(rank, false);
    traffic_close(&traffic);
}

/* If a rank cannot get its part, no rank's area grows, and all sizes are served. */
static void fail_to_grow(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;
    bool right = true;

    rank->gpu = &faulty_gpu_ops;
    traffic_open(&traffic, create_team(rank), LARGE, USER_DEVICE);
    CHECK(call(rank, &traffic, TINY));
    if (rank->rank == plan->culprit) {
        faulty_arm(plan->function, plan->nth, MSCCLPP_ERR_NO_MEMORY);
    }
    right = call(rank, &traffic, MEDIUM) && call(rank, &traffic, 3000);
    if (rank->rank == plan->culprit) {
        plan->happened = faulty_disarm();
    }
    CHECK(right && call(rank, &traffic, TINY) && call(rank, &traffic, MEDIUM));
    meet_any(rank, false);
    traffic_close(&traffic);
}

static void run_shapes(void (*use)(rank_t *rank))
{
    static const int shapes[][2] = {{2, 1}, {4, 2}, {3, 2}, {4, 1}, {8, 3}}; /* ranks, and those of a node */
    size_t i;
    int stores;

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); ++i) {
        for (stores = 0; stores < 2; ++stores) {
            const int failed_before = unit_failed;
            mscclpp_config_t config;

            configure(&config, shapes[i][1]);
            config.exchange_stores = stores != 0;
            CHECK_EQ(run_ranks(shapes[i][0], &config, use, NULL), 0);
            mscclpp_team_finalize(1.0);
            if (unit_failed != failed_before) {
                fprintf(stderr, "%d ranks, %d on a node, %s; logged:\n%s", shapes[i][0], shapes[i][1],
                        stores != 0 ? "stores" : "puts", log_record_text());
            }
        }
    }
}

static void test_growth(int scale)
{
    (void)scale;
    run_shapes(grow);
}

static void test_leaps(int scale)
{
    (void)scale;
    jitter_set(10, 2000);
    run_shapes(leap);
    jitter_set(0, 0);
}

static void test_failures(int scale)
{
    static const faulty_function_t functions[] = {FAULTY_DEVICE_ALLOC, FAULTY_HOST_REGISTER};
    mscclpp_config_t config;
    int faults = 0;
    size_t i;

    (void)scale;
    for (i = 0; i < 8; ++i) {
        plan_t plan = {.function = functions[i % 2], .culprit = (int)i / 2, .happened = true};

        for (plan.nth = 1; plan.happened; ++plan.nth) {
            const int failed_before = unit_failed;

            configure(&config, 2);
            log_record_clear();
            plan.happened = false;
            CHECK_EQ(run_ranks(4, &config, fail_to_grow, &plan), 0);
            mscclpp_team_finalize(1.0);
            CHECK_EQ(faulty_held(), 0);
            faults += plan.happened;
            if (unit_failed != failed_before) {
                fprintf(stderr, "in %s, call %d on rank %d; logged:\n%s", faulty_name(plan.function), plan.nth,
                        plan.culprit, log_record_text());
            }
        }
    }
    CHECK(faults >= 12);
}

static const part_t parts[] = {
    {"growth", test_growth},
    {"leaps", test_leaps},
    {"failures", test_failures},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
