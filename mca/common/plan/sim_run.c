/* Runs a plan once: all ranks, all launches, in one order of steps. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim_run.h"

/*
 * Makes the state of a rank's channels and semaphores. `proxies` are the proxies of the rank's port channels, in the
 * run's list. Returns false if there is no memory; free_run frees what was allocated.
 */
static bool init_channels(mscclpp_sim_t *sim, uint32_t rank_number, mscclpp_sim_proxy_t *proxies)
{
    const mscclpp_plan_rank_t *plan = &sim->plan->ranks[rank_number];
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];

    for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
        rank->inboxes[type] = calloc(plan->channel_count[type] + 1, sizeof(*rank->inboxes[type]));
        if (rank->inboxes[type] == NULL) {
            return false;
        }
    }
    rank->proxies = proxies;
    rank->semaphores = calloc(plan->semaphore_count + 1, sizeof(*rank->semaphores));
    if (rank->semaphores == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < plan->semaphore_count; ++i) {
        rank->semaphores[i].value = plan->semaphores[i];
        rank->semaphores[i].total = calloc(sim->agents + 1, sizeof(*rank->semaphores[i].total));
        if (rank->semaphores[i].total == NULL) {
            return false;
        }
    }
    return true;
}

/*
 * Makes the state of a rank: of its channels and semaphores, and of its actors, which are its application, its blocks
 * and its proxies. *block_p and *proxy_p are the numbers of the rank's first block and proxy in the run; they advance
 * to those of the next rank. Returns false if there is no memory; free_run frees what was allocated.
 */
static bool init_rank(mscclpp_sim_t *sim, uint32_t rank_number, uint32_t *block_p, uint32_t *proxy_p)
{
    const mscclpp_plan_t *plan = sim->plan;
    uint32_t agent = sim->block_count + rank_number;

    sim->index_of_agent[agent] = rank_number;
    if (!init_channels(sim, rank_number, &sim->proxies[*proxy_p]) ||
        !mscclpp_sim_actor_init(sim, &sim->ranks[rank_number].actor, agent)) {
        return false;
    }
    for (uint32_t i = 0; i < plan->ranks[rank_number].block_count; ++i, ++*block_p) {
        mscclpp_sim_block_t *block = &sim->blocks[*block_p];

        sim->index_of_agent[*block_p] = *block_p;
        block->rank = rank_number;
        block->block = i;
        block->has_ended = true;
        if (!mscclpp_sim_actor_init(sim, &block->actor, *block_p)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < plan->ranks[rank_number].channel_count[MSCCLPP_PLAN_PORT]; ++i, ++*proxy_p) {
        mscclpp_sim_proxy_t *proxy = &sim->proxies[*proxy_p];

        agent = sim->block_count + plan->rank_count + *proxy_p;
        sim->index_of_agent[agent] = *proxy_p;
        proxy->rank = rank_number;
        proxy->channel = i;
        if (!mscclpp_sim_actor_init(sim, &proxy->actor, agent)) {
            return false;
        }
    }
    return true;
}

/*
 * Allocates the state of a run, but no cells. Numbers the actors: first all blocks, then the applications of all ranks,
 * then all proxies. Returns false if there is no memory; free_run frees what was allocated.
 */
static bool allocate_run(mscclpp_sim_t *sim)
{
    const mscclpp_plan_t *plan = sim->plan;
    uint32_t block = 0, proxy = 0;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        sim->block_count += plan->ranks[rank_number].block_count;
        sim->proxy_count += plan->ranks[rank_number].channel_count[MSCCLPP_PLAN_PORT];
    }
    sim->agents = sim->block_count + plan->rank_count + sim->proxy_count;
    /* Lists that may be empty get one extra entry, because calloc may return NULL for 0 bytes. */
    sim->blocks = calloc(sim->block_count + 1, sizeof(*sim->blocks));
    sim->proxies = calloc(sim->proxy_count + 1, sizeof(*sim->proxies));
    sim->ranks = calloc(plan->rank_count, sizeof(*sim->ranks));
    sim->index_of_agent = calloc(sim->agents, sizeof(*sim->index_of_agent));
    sim->spare = calloc(sim->agents + 1, sizeof(*sim->spare));
    if (sim->blocks == NULL || sim->proxies == NULL || sim->ranks == NULL || sim->index_of_agent == NULL ||
        sim->spare == NULL) {
        return false;
    }
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        if (!init_rank(sim, rank_number, &block, &proxy)) {
            return false;
        }
    }
    return true;
}

/*
 * Frees the state of a rank. Only a part of the memory may have been allocated. The rank's proxies belong to the run,
 * and are not freed here.
 */
static void destroy_rank(const mscclpp_sim_t *sim, uint32_t rank_number)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];

    for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
        for (uint32_t channel_index = 0;
             rank->inboxes[type] != NULL && channel_index < sim->plan->ranks[rank_number].channel_count[type];
             ++channel_index) {
            mscclpp_sim_inbox_t *inbox = &rank->inboxes[type][channel_index];

            for (uint32_t i = 0; i < inbox->count; ++i) {
                free(inbox->signals[(inbox->first + i) % inbox->capacity].know);
            }
            free(inbox->signals);
        }
        free(rank->inboxes[type]);
    }
    for (uint32_t i = 0; rank->semaphores != NULL && i < sim->plan->ranks[rank_number].semaphore_count; ++i) {
        for (uint64_t j = 0; j < rank->semaphores[i].released; ++j) {
            free(rank->semaphores[i].releases[j]);
        }
        free(rank->semaphores[i].releases);
        free(rank->semaphores[i].times);
        free(rank->semaphores[i].total);
    }
    free(rank->semaphores);
    mscclpp_sim_actor_destroy(&rank->actor);
}

/* Frees the state of a run. Only a part of the memory may have been allocated. */
static void free_run(mscclpp_sim_t *sim)
{
    for (uint32_t rank_number = 0; sim->ranks != NULL && rank_number < sim->plan->rank_count; ++rank_number) {
        destroy_rank(sim, rank_number);
    }
    for (uint32_t i = 0; sim->blocks != NULL && i < sim->block_count; ++i) {
        mscclpp_sim_actor_destroy(&sim->blocks[i].actor);
    }
    for (uint32_t i = 0; sim->proxies != NULL && i < sim->proxy_count; ++i) {
        for (uint32_t j = sim->proxies[i].done; j < sim->proxies[i].queued; ++j) {
            free(sim->proxies[i].entries[j].know);
        }
        free(sim->proxies[i].entries);
        mscclpp_sim_actor_destroy(&sim->proxies[i].actor);
    }
    mscclpp_sim_memory_destroy(sim);
    free(sim->blocks);
    free(sim->proxies);
    free(sim->ranks);
    free(sim->index_of_agent);
    free(sim->spare);
}

/* Returns the next random number. A xorshift generator, whose state must not be 0 and never becomes 0. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/*
 * Gives each actor one turn. The order of actors and the numbers of operations are random, so that runs find races that
 * one order hides. If *random_state is 0, the order is fixed, and each actor continues until it must wait. Returns
 * false if no actor could do anything: all have ended, there is a deadlock, or memory has run out.
 */
static bool run_once_each(mscclpp_sim_t *sim, uint64_t *random_state, uint32_t *order)
{
    enum {
        STEPS_AT_ONCE = 12
    }; /* in a random order, the maximum number of steps of one actor before the next actor's turn */
    uint32_t actors = sim->block_count + sim->proxy_count;
    bool has_moved = false;

    for (uint32_t i = 0; *random_state != 0 && i + 1 < actors; ++i) {
        uint32_t other = i + (uint32_t)(next_random(random_state) % (actors - i)), swapped = order[i];

        order[i] = order[other];
        order[other] = swapped;
    }
    for (uint32_t i = 0; i < actors && !sim->no_memory; ++i) {
        uint64_t max_steps = *random_state != 0 ? 1 + next_random(random_state) % STEPS_AT_ONCE : UINT64_MAX;

        for (uint64_t step = 0; step < max_steps; ++step) {
            bool has_stepped = order[i] < sim->block_count
                                   ? mscclpp_sim_step(sim, &sim->blocks[order[i]])
                                   : mscclpp_sim_proxy_step(sim, &sim->proxies[order[i] - sim->block_count]);

            has_moved = has_moved || has_stepped;
            if (!has_stepped) {
                break;
            }
        }
    }
    for (uint32_t rank_number = 0; rank_number < sim->plan->rank_count; ++rank_number) {
        has_moved = mscclpp_sim_end_launch(sim, rank_number) || has_moved;
    }
    return has_moved;
}

/*
 * Starts all ranks, and gives the actors turns until none can do anything or there are MAX_FAULTS faults. Reports a
 * deadlock if no actor can move and a rank has not ended. After MAX_FAULTS faults or without memory, the run is
 * incomplete, so a deadlock is not reported. `order_seed` is as in mscclpp_sim_run.
 */
static void run(mscclpp_sim_t *sim, uint64_t order_seed)
{
    enum { MAX_FAULTS = 8 }; /* of a run, which then ends */
    uint32_t actors = sim->block_count + sim->proxy_count;
    uint32_t *order = calloc(actors + 1, sizeof(*order));
    bool have_all_ended = true;

    if (order == NULL) {
        sim->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < actors; ++i) {
        order[i] = i;
    }
    for (uint32_t rank_number = 0; rank_number < sim->plan->rank_count; ++rank_number) {
        mscclpp_sim_launch(sim, rank_number);
    }
    while (!sim->no_memory && sim->report->faults - sim->faults_before < MAX_FAULTS &&
           run_once_each(sim, &order_seed, order)) {
    }
    free(order);
    for (uint32_t rank_number = 0; rank_number < sim->plan->rank_count; ++rank_number) {
        have_all_ended = have_all_ended && sim->ranks[rank_number].has_ended;
    }
    if (!have_all_ended && !sim->no_memory && sim->report->faults - sim->faults_before < MAX_FAULTS) {
        mscclpp_sim_explain_stuck(sim);
    }
}

/* A lack of memory says nothing about the plan, so it is no failure here. */
bool mscclpp_sim_run(mscclpp_sim_t *sim, uint64_t order_seed)
{
    bool fits = false;

    sim->faults_before = sim->report->faults;
    if (allocate_run(sim)) {
        fits = mscclpp_sim_layout(sim);
        if (fits) {
            run(sim, order_seed);
        }
    } else {
        sim->no_memory = true;
    }
    free_run(sim);
    if (sim->no_memory) {
        sim->report->no_memory = true;
    }
    return fits || sim->no_memory;
}
