/* A rank may fail in a call while a peer is still in the call before. That earlier call has to succeed on both. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "test/host/faulty_gpu.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define TURNS_BEFORE 3 /* turns of a wait; it does not look for failures in the first turns */

static __thread int turns_left; /* turns after which this thread waits for `failed_ahead`; 0: it does not wait */
static bool is_within, failed_ahead;
static void (*progress_of_oob)(void *context);

static void pause_for(long nanoseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static void hold_back(void *context)
{
    progress_of_oob(context);
    if (turns_left > 0 && --turns_left == 0) {
        __atomic_store_n(&is_within, true, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&failed_ahead, __ATOMIC_ACQUIRE)) {
            pause_for(1000000);
        }
        pause_for(10000000); /* so that it is time to look for failures */
    }
}

/* Rank 1 ends call 2 and fails in call 3, before rank 0 sees that call 2 has ended. */
static void fail_ahead(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    rank->gpu = &faulty_gpu_ops;
    if (rank->rank == 0) {
        progress_of_oob = rank->oob.progress;
        rank->oob.progress = hold_back;
    }
    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_OK);
    meet(rank);
    turns_left = rank->rank == 0 ? TURNS_BEFORE : 0;
    while (rank->rank == 1 && !__atomic_load_n(&is_within, __ATOMIC_ACQUIRE)) {
        pause_for(1000000);
    }
    CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_OK);
    CHECK(right);
    if (rank->rank == 1) {
        faulty_arm(FAULTY_LAUNCH, 1, MSCCLPP_ERR_DEVICE);
        CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_ERR_DEVICE);
        CHECK(faulty_disarm());
        __atomic_store_n(&failed_ahead, true, __ATOMIC_RELEASE);
    } else {
        CHECK_EQ(traffic_call(&traffic, 100, &right), MSCCLPP_ERR_PEER);
    }
    meet(rank);
    traffic_close(&traffic);
}

int main(void)
{
    mscclpp_config_t config;

    unit_begin();
    alarm(120);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_config_init(&config);
    config.algorithm = "oneshot";
    config.twin_blocks = config.twin_threads = 1;
    config.timeout = 20;
    config.ucx = false;
    CHECK_EQ(run_ranks(2, &config, fail_ahead, NULL), 0);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(faulty_held(), 0);
    if (unit_failed != 0) {
        fprintf(stderr, "logged:\n%s", log_record_text());
    }
    return unit_end();
}
