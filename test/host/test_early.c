/*
 * Early kernels of several communicators, which every rank starts in an order of its own. Each kernel waits for the
 * same one of all ranks, as kernels on a GPU do, and amid them ranks free memory, which waits for all kernels of the
 * rank. A rank may never have more than one of them under way, and all come to their end however the orders differ.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
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

static void test_orders(int scale)
{
    run_turns(TURNS * scale);
}

static const part_t parts[] = {{"orders", test_orders}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    for (int i = 0; i < RANKS; ++i) {
        mscclpp_admission_init(&admissions[i]);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
