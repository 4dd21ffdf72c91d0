/* Faults on one rank: all ranks end alike and in time, and messages name the culprit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/transport/transport.h"
#include "test/host/faulty_gpu.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define TIMEOUT 1.0
#define WARN_AFTER 0.15

/* Seconds by which a deadline may be missed on a busy machine. */
#define SLACK 8.0

/* Prints what was logged if anything failed since `failed_before`. */
static void explain(const char *what, int failed_before)
{
    if (__atomic_load_n(&unit_failed, __ATOMIC_RELAXED) != failed_before) {
        fprintf(stderr, "in %s; logged:\n%s", what, log_record_text());
    }
}

static void wait_for(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

static void configure(mscclpp_config_t *config, const char *algorithm, int blocks, int threads)
{
    mscclpp_config_init(config);
    config->algorithm = algorithm;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->scratch_size = (size_t)1 << 20;
    config->engine_chunk = 1024;
    config->timeout = TIMEOUT;
    config->warn_after = WARN_AFTER;
    config->ucx = false;
    if (strncmp(algorithm, "nodes", strlen("nodes")) == 0) {
        config->ranks_per_node = 2;
        config->transport = "shm"; /* UCX 1.13 aborts where an endpoint fails while it is being wired up */
    }
}

/* The plan of one test, shared by its ranks. */
typedef struct {
    int culprit;
    int ended;    /* ranks whose calls have failed */
    double delay; /* of the culprit; a warning ends the delay early; 0: it waits until the others have given up */
    mscclpp_status_t status[RANKS_MAX];
    double seconds[RANKS_MAX];
    const char *algorithm[RANKS_MAX];
} plan_t;

static mscclpp_status_t timed_call(const rank_t *rank, plan_t *plan, traffic_t *traffic, uint64_t count)
{
    double started = mscclpp_now();
    bool right = false;
    mscclpp_status_t status = traffic_call(traffic, count, &right);

    plan->seconds[rank->rank] = mscclpp_now() - started;
    plan->status[rank->rank] = status;
    if (status == MSCCLPP_OK) {
        CHECK(right);
    }
    return status;
}

/* A good call, and then a call in which the culprit does not arrive. */
static void miss_a_call(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;
    bool right = false;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 500, &right), MSCCLPP_OK);
    meet(rank);
    if (rank->rank != plan->culprit) {
        (void)timed_call(rank, plan, &traffic, 3000);
        meet(rank);
    } else {
        meet(rank);
        /* The culprit comes at last. It finds the others' failure, or a result for which it had all data. */
        (void)timed_call(rank, plan, &traffic, 3000);
        CHECK(plan->status[rank->rank] == MSCCLPP_ERR_PEER || plan->status[rank->rank] == MSCCLPP_OK);
        CHECK(plan->seconds[rank->rank] < TIMEOUT + SLACK);
    }
    meet(rank);
    /* A team that has failed refuses calls at once. */
    if (rank->rank != plan->culprit) {
        double started = mscclpp_now();

        CHECK(mscclpp_team_broken(traffic.team));
        CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_ERR_PEER);
        CHECK(mscclpp_now() - started < TIMEOUT);
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_missing_rank(const char *algorithm, int blocks, int threads, int ranks, int culprit)
{
    int failed_before = unit_failed, rank, timeouts = 0;
    mscclpp_config_t config;
    plan_t plan;
    char late[64], what[128];

    configure(&config, algorithm, blocks, threads);
    memset(&plan, 0, sizeof(plan));
    plan.culprit = culprit;
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, &config, miss_a_call, &plan), 0);
    for (rank = 0; rank < ranks; ++rank) {
        if (rank == culprit) {
            continue;
        }
        CHECK(plan.status[rank] == MSCCLPP_ERR_TIMEOUT || plan.status[rank] == MSCCLPP_ERR_PEER);
        CHECK(plan.seconds[rank] > TIMEOUT / 2 && plan.seconds[rank] < TIMEOUT + SLACK);
        timeouts += plan.status[rank] == MSCCLPP_ERR_TIMEOUT;
    }
    CHECK(timeouts >= 1);
    snprintf(late, sizeof(late), "have not arrived: %d", culprit);
    CHECK(log_record_count(MSCCLPP_LOG_ERROR, late, "call 2 of 12000 bytes") >= 1);
    CHECK(log_record_count(MSCCLPP_LOG_WARN, late, "call 2 of 12000 bytes") >= 1);
    /* If buffers are exchanged, the hosts wait for one another before the algorithm begins. */
    CHECK(log_record_count(MSCCLPP_LOG_ERROR, late, algorithm) >= 1 || strcmp(algorithm, "zerocopy") == 0 ||
          strcmp(algorithm, "engines") == 0);
    /* Each survivor says once why its call failed, and once more for the call after. */
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "failed in an earlier call", "call 3"), ranks - 1);
    mscclpp_team_finalize(1.0);
    snprintf(what, sizeof(what), "missing rank %d of %d, %s, grid %dx%d", culprit, ranks, algorithm, blocks, threads);
    explain(what, failed_before);
}

static void come_late(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    meet(rank);
    if (rank->rank == plan->culprit) {
        double until = mscclpp_now() + plan->delay;

        while (mscclpp_now() < until &&
               log_record_count(MSCCLPP_LOG_WARN, "have not arrived: 1", " has waited ") == 0) {
            wait_for(WARN_AFTER);
        }
    }
    CHECK_EQ(timed_call(rank, plan, &traffic, 3000), MSCCLPP_OK);
    CHECK_EQ(timed_call(rank, plan, &traffic, 30), MSCCLPP_OK);
    CHECK(!mscclpp_team_broken(traffic.team));
    traffic_close(&traffic);
}

/* A rank that is late but within the deadline causes a warning, and nothing else. */
static void test_late_rank(const char *algorithm)
{
    int failed_before = unit_failed;
    mscclpp_config_t config;
    plan_t plan;

    configure(&config, algorithm, 1, 1);
    config.timeout = 60;
    memset(&plan, 0, sizeof(plan));
    plan.culprit = 1;
    plan.delay = config.timeout / 2;
    log_record_clear();
    CHECK_EQ(run_ranks(3, &config, come_late, &plan), 0);
    CHECK(log_record_count(MSCCLPP_LOG_WARN, "have not arrived: 1", " has waited ") >= 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 0);
    mscclpp_team_finalize(1.0);
    explain("late rank", failed_before);
}

/* The culprit passes host buffers and goes its own way. */
static void mix(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;
    bool right = false;
    int found;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 500, &right), MSCCLPP_OK);
    meet(rank);
    if (rank->rank == plan->culprit) {
        mscclpp_team_announce(traffic.team, 2, MSCCLPP_CALL_HOST);
        /* Asks until the others' calls have ended, as the embedding runtime does. */
        while (__atomic_load_n(&plan->ended, __ATOMIC_ACQUIRE) < rank->size - 1) {
            (void)mscclpp_team_find_device_rank(traffic.team, 2);
            wait_for(0.01);
        }
        found = mscclpp_team_find_device_rank(traffic.team, 2);
        CHECK(found >= 0 && found != plan->culprit);
    } else {
        CHECK_EQ(timed_call(rank, plan, &traffic, 3000), MSCCLPP_ERR_MIXED);
        /* The call ends long before the deadline. */
        CHECK(plan->seconds[rank->rank] < 30);
        __atomic_add_fetch(&plan->ended, 1, __ATOMIC_RELEASE);
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_mixture(const char *algorithm, int culprit)
{
    int failed_before = unit_failed, rank;
    mscclpp_config_t config;
    plan_t plan;
    char text[128];

    configure(&config, algorithm, 1, 1);
    config.timeout = 60;
    memset(&plan, 0, sizeof(plan));
    plan.culprit = culprit;
    log_record_clear();
    CHECK_EQ(run_ranks(3, &config, mix, &plan), 0);
    for (rank = 0; rank < 3; ++rank) {
        snprintf(text, sizeof(text), "rank %d passed host buffers and rank %d device buffers", culprit, rank);
        CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, text, "call 2"), rank != culprit);
    }
    mscclpp_team_finalize(1.0);
    explain("mixture", failed_before);
}

/* The embedding runtime asks for the end of all waits. */
static void be_revoked(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    meet(rank);
    if (rank->rank == plan->culprit) {
        wait_for(0.1);
        revoke_all(rank);
    } else {
        mscclpp_status_t status = timed_call(rank, plan, &traffic, 3000);

        CHECK(status == MSCCLPP_ERR_REVOKED || status == MSCCLPP_ERR_PEER);
        CHECK(plan->seconds[rank->rank] < 30);
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_revocation(const char *algorithm)
{
    int failed_before = unit_failed;
    mscclpp_config_t config;
    plan_t plan;

    configure(&config, algorithm, 1, 2);
    config.timeout = 60;
    memset(&plan, 0, sizeof(plan));
    plan.culprit = 2;
    log_record_clear();
    CHECK_EQ(run_ranks(3, &config, be_revoked, &plan), 0);
    CHECK(plan.status[0] == MSCCLPP_ERR_REVOKED || plan.status[1] == MSCCLPP_ERR_REVOKED);
    mscclpp_team_finalize(1.0);
    explain("revocation", failed_before);
}

/* Rank 1 was started with other parameters than the others. */
static void differ(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_config_t config = *rank->config;
    mscclpp_team_t *team = NULL;

    if (rank->rank == 1 && plan->culprit == 0) {
        config.scratch_size *= 2;
    } else if (rank->rank == 1) {
        config.algorithm = "scratch";
        config.twin_threads = 3;
        config.epoch_limit = 16;
    }
    plan->status[rank->rank] = try_team(rank, &config, &team);
    if (team != NULL) {
        traffic_t traffic;
        bool right = false;
        int i;

        traffic_open(&traffic, team, 100, USER_EXACT);
        for (i = 0; i < 40; ++i) {
            CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_OK);
            CHECK(right);
        }
        plan->algorithm[rank->rank] = mscclpp_team_last_algorithm(team);
        traffic_close(&traffic);
    }
}

/* Rank 0's settings count on all ranks. Rank 0 names each parameter that was set otherwise, once. */
static void test_different_parameters(void)
{
    int failed_before = unit_failed, rank;
    mscclpp_config_t config;
    plan_t plan;

    configure(&config, "twophase", 1, 1);
    memset(&plan, 0, sizeof(plan));
    for (plan.culprit = 0; plan.culprit < 2; ++plan.culprit) {
        log_record_clear();
        CHECK_EQ(run_ranks(3, &config, differ, &plan), 0);
        for (rank = 0; rank < 3; ++rank) {
            CHECK_EQ(plan.status[rank], MSCCLPP_OK);
            CHECK(plan.algorithm[rank] != NULL && strcmp(plan.algorithm[rank], "twophase") == 0);
        }
        if (plan.culprit == 0) {
            CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "parameter scratch_size is 2097152 on rank 1 and 1048576 on ",
                                      "rank 0, whose value all ranks use"),
                     1);
        } else {
            CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "algorithm is scratch on rank 1 and twophase on rank 0", ""),
                     1);
            CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "twin_threads is 3 on rank 1 and 1 on rank 0", ""), 1);
            CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "epoch_limit is 16 on rank 1 and 2147483648 on rank 0", ""), 1);
        }
        explain("different parameters", failed_before);
    }
    log_record_clear();
    CHECK_EQ(run_ranks(3, &config, differ, &plan), 0);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "parameter", ""), 0);
    mscclpp_team_finalize(1.0);
    explain("different parameters, again", failed_before);
}

/* One fault of the runtime on one rank. */
typedef struct {
    faulty_function_t function;
    int nth;
    int culprit;
    bool happened;
    mscclpp_status_t created[RANKS_MAX];
    mscclpp_status_t called[RANKS_MAX];
    double seconds[RANKS_MAX];
    user_kind_t kind; /* of the buffers */
    bool in_call;     /* the fault is armed for the call, not for the bring-up */
} injection_t;

static void inject(rank_t *rank)
{
    injection_t *injection = rank->argument;
    mscclpp_team_t *team = NULL;
    double started = mscclpp_now();
    traffic_t traffic;
    bool right = false;

    rank->gpu = &faulty_gpu_ops;
    if (rank->rank == injection->culprit && !injection->in_call) {
        faulty_arm(injection->function, injection->nth, MSCCLPP_ERR_DEVICE);
    }
    injection->created[rank->rank] = try_team(rank, rank->config, &team);
    injection->seconds[rank->rank] = mscclpp_now() - started;
    if (rank->rank == injection->culprit && !injection->in_call) {
        injection->happened = faulty_disarm();
    }
    meet(rank);
    if (team == NULL) {
        return;
    }
    traffic_open(&traffic, team, 20000, injection->kind);
    CHECK_EQ(traffic_call(&traffic, 20000, &right), MSCCLPP_OK);
    CHECK(right);
    meet(rank);
    if (injection->in_call) {
        started = mscclpp_now();
        if (rank->rank == injection->culprit) {
            faulty_arm(injection->function, injection->nth, MSCCLPP_ERR_DEVICE);
        }
        right = false;
        injection->called[rank->rank] = traffic_call(&traffic, 15000, &right);
        injection->seconds[rank->rank] = mscclpp_now() - started;
        if (rank->rank == injection->culprit) {
            injection->happened = faulty_disarm();
        }
        if (injection->called[rank->rank] == MSCCLPP_OK) {
            CHECK(right);
        }
    }
    /* Peers' kernels may still read the buffers, so all ranks meet before they are freed. */
    meet(rank);
    traffic_close(&traffic);
}

/* Every call of every function during the bring-up fails once, on rank 0 and on rank 1: the two act differently. */
static void test_faults_in_bringup(const char *algorithm, int ranks)
{
    int function, nth, culprit, rank, reached = 0;

    for (function = 0; function < FAULTY_LAST; ++function) {
        for (culprit = 0; culprit < 2; ++culprit) {
            bool more = true;

            for (nth = 1; more; ++nth) {
                /* From the second call on a rank pins peers' memory for kernels' stores. A team works without it. */
                const bool pins_peers = function == FAULTY_HOST_REGISTER && nth > 1;
                int failed_before = unit_failed;
                mscclpp_config_t config;
                injection_t injection;
                char what[128];

                configure(&config, algorithm, 1, 1);
                config.timeout = 60;
                memset(&injection, 0, sizeof(injection));
                injection.function = (faulty_function_t)function;
                injection.nth = nth;
                injection.culprit = culprit;
                injection.kind = USER_DEVICE;
                log_record_clear();
                CHECK_EQ(run_ranks(ranks, &config, inject, &injection), 0);
                more = injection.happened;
                reached += injection.happened;
                for (rank = 0; rank < ranks; ++rank) {
                    if (injection.happened && pins_peers) {
                        CHECK_EQ(injection.created[rank], MSCCLPP_OK);
                    } else if (injection.happened && function != FAULTY_STREAM_QUERY) {
                        CHECK_EQ(injection.created[rank], MSCCLPP_ERR_NOT_SUPPORTED);
                    } else if (injection.happened) {
                        /* Ranks query a stream only now and then and may miss the fault. All have to agree. */
                        CHECK_EQ(injection.created[rank], injection.created[0]);
                    } else {
                        CHECK_EQ(injection.created[rank], MSCCLPP_OK);
                    }
                    CHECK(injection.seconds[rank] < SLACK);
                }
                if (injection.happened && pins_peers) {
                    CHECK_EQ(log_record_count(MSCCLPP_LOG_INFO, "the proxy puts packets", ""), culprit == 0);
                }
                mscclpp_team_finalize(1.0);
                CHECK_EQ(faulty_held(), 0);
                snprintf(what, sizeof(what), "bring-up (%s), call %d of %s on rank %d of %d", algorithm, nth,
                         faulty_name((faulty_function_t)function), culprit, ranks);
                explain(what, failed_before);
                more = more && unit_failed == failed_before && nth < 50;
            }
        }
    }
    printf("%d faults in the bring-up of %d ranks (%s)\n", reached, ranks, algorithm);
    /* For two culprits, at least: information, preload, scratch, mailbox, export, imports, stream and launch. */
    CHECK(reached >= 2 * (7 + ranks));
}

/* If one rank cannot pin shared memory, imitated nodes use the transport that serves between real nodes. */
static void test_next_transport(void)
{
    mscclpp_config_t config;
    injection_t injection;

    if (process_state_tsan() || mscclpp_transport_find("ucx") == NULL) {
        printf("skipped: the transport after shm is ucx, which is not here\n");
        return;
    }
    configure(&config, "nodes", 1, 1);
    config.transport = "auto";
    memset(&injection, 0, sizeof(injection));
    injection.function = FAULTY_HOST_REGISTER;
    injection.nth = 1;
    injection.culprit = 1;
    log_record_clear();
    CHECK_EQ(run_ranks(4, &config, inject, &injection), 0);
    CHECK(injection.happened);
    CHECK_EQ(injection.created[0], MSCCLPP_OK);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_INFO, "inter-node transport ucx", ""), 1);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(faulty_held(), 0);
}

/*
 * The same in a call. If a buffer cannot be exported or mapped, all ranks use the scratch. Every other fault ends the
 * call on all ranks that need the culprit.
 */
static void test_faults_in_call(const char *algorithm, int ranks, bool queued, user_kind_t kind)
{
    int function, nth, rank, reached = 0;

    for (function = 0; function < FAULTY_LAST; ++function) {
        bool more = true;

        for (nth = 1; more; ++nth) {
            int failed_before = unit_failed;
            bool cured = function == FAULTY_EXPORT || function == FAULTY_IMPORT || function == FAULTY_PREPARE;
            mscclpp_config_t config;
            injection_t injection;
            char what[128];

            configure(&config, algorithm, 1, queued ? 2 : 1);
            config.timeout = 60;
            config.warn_after = 0;
            memset(&injection, 0, sizeof(injection));
            injection.function = (faulty_function_t)function;
            injection.nth = nth;
            injection.culprit = 1;
            injection.kind = kind;
            injection.in_call = true;
            log_record_clear();
            CHECK_EQ(run_ranks(ranks, &config, inject, &injection), 0);
            more = injection.happened;
            reached += injection.happened;
            for (rank = 0; rank < ranks; ++rank) {
                if (!injection.happened || cured) {
                    CHECK_EQ(injection.called[rank], MSCCLPP_OK);
                } else if (rank == injection.culprit) {
                    CHECK_EQ(injection.called[rank], MSCCLPP_ERR_DEVICE);
                } else {
                    CHECK(injection.called[rank] == MSCCLPP_ERR_PEER || injection.called[rank] == MSCCLPP_OK);
                    CHECK(injection.called[rank] == MSCCLPP_ERR_PEER || function != FAULTY_LAUNCH);
                }
                CHECK(injection.seconds[rank] < SLACK);
            }
            mscclpp_team_finalize(1.0);
            CHECK_EQ(faulty_held(), 0);
            snprintf(what, sizeof(what), "call of %s, call %d of %s on rank 1 of %d", algorithm, nth,
                     faulty_name((faulty_function_t)function), ranks);
            explain(what, failed_before);
            more = more && unit_failed == failed_before && nth < 50;
        }
    }
    printf("%d faults in a call of %s, %d ranks\n", reached, algorithm, ranks);
    CHECK(reached >= 1);
}

/* The table with faults has every function that the twin's has. */
static void test_table(void)
{
    const void *ours[sizeof(mscclpp_gpu_ops_t) / sizeof(void *)], *theirs[sizeof(mscclpp_gpu_ops_t) / sizeof(void *)];
    size_t i;

    memcpy(ours, &faulty_gpu_ops, sizeof(ours));
    memcpy(theirs, &mscclpp_gpu_twin_ops, sizeof(theirs));
    for (i = 0; i < sizeof(ours) / sizeof(ours[0]); ++i) {
        REQUIRE((ours[i] != NULL) == (theirs[i] != NULL));
    }
}

int main(void)
{
    static const char *const algorithms[] = {"oneshot", "twophase", "oneshot_put", "zerocopy", "engines", "scratch"};
    process_state_t before, after;
    size_t i;

    unit_begin();
    alarm(900);
    test_table();
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_gpu_twin_set_filter(user_is_host);
    jitter_rest(true);
    for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); ++i) {
        test_missing_rank(algorithms[i], 1, 1, 3, 2);
        if (i == 0) {
            /* Everything that is made once has been made. */
            process_state_read(&before);
        }
        test_missing_rank(algorithms[i], 2, 2, 3, 0);
        test_late_rank(algorithms[i]);
        test_mixture(algorithms[i], (int)i % 3);
        test_revocation(algorithms[i]);
    }
    jitter_rest(false);
    test_different_parameters();
    test_faults_in_bringup("auto", 3);
    test_faults_in_call("oneshot", 3, false, USER_DEVICE);
    test_faults_in_call("scratch", 3, true, USER_HOST);
    test_faults_in_call("twophase", 2, false, USER_HOST);
    test_faults_in_call("zerocopy", 3, false, USER_DEVICE);
    test_faults_in_call("zerocopy", 2, true, USER_DEVICE);
    test_faults_in_call("engines", 3, true, USER_DEVICE);
    for (i = 0; i < 3; ++i) {
        test_mixture("nodes", (int)i);
    }
    test_faults_in_bringup("nodes", 3);
    test_faults_in_call("nodes", 3, false, USER_HOST);
    test_faults_in_call("nodes_packets", 3, false, USER_HOST);
    test_faults_in_call("nodes_doubling", 3, false, USER_HOST);
    test_faults_in_call("nodes_split", 3, false, USER_HOST);
    test_faults_in_call("nodes_ring", 3, false, USER_HOST);
    test_faults_in_call("nodes_halving", 3, false, USER_HOST);
    test_faults_in_call("nodes_trees", 3, false, USER_HOST);
    process_state_read(&after);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK_EQ(after.threads, before.threads);
    test_next_transport();
    return unit_end();
}
