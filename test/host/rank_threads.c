#include "test/host/rank_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the ranks of one run share: a barrier that yields, and a place for each rank's contribution. */
typedef struct {
    int size;
    unsigned arrived;
    unsigned generation;
    const void *contribution[RANKS_MAX];
} world_t;

typedef struct {
    rank_t rank;
    world_t *world;
    void (*body)(rank_t *rank);
} thread_t;

static void world_barrier(world_t *world)
{
    unsigned generation = __atomic_load_n(&world->generation, __ATOMIC_ACQUIRE);

    if (__atomic_add_fetch(&world->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)world->size) {
        __atomic_store_n(&world->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&world->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&world->generation, __ATOMIC_ACQUIRE) == generation) {
        sched_yield();
    }
}

static mscclpp_status_t allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    thread_t *thread = context;
    world_t *world = thread->world;
    int rank;

    world->contribution[thread->rank.rank] = sendbuf;
    world_barrier(world);
    for (rank = 0; rank < world->size; ++rank) {
        memcpy((char *)recvbuf + (size_t)rank * length, world->contribution[rank], length);
    }
    world_barrier(world);
    return MSCCLPP_OK;
}

static void progress(void *context)
{
    (void)context;
    sched_yield();
}

static mscclpp_status_t check(void *context)
{
    (void)context;
    return MSCCLPP_OK;
}

static void *thread_main(void *argument)
{
    thread_t *thread = argument;

    thread->body(&thread->rank);
    return NULL;
}

int run_ranks(int size, const mscclpp_config_t *config, void (*body)(rank_t *rank), void *argument)
{
    world_t world;
    thread_t threads[RANKS_MAX];
    pthread_t ids[RANKS_MAX];
    int i, failures = 0;

    memset(&world, 0, sizeof(world));
    memset(threads, 0, sizeof(threads));
    world.size = size;
    for (i = 0; i < size; ++i) {
        threads[i].world = &world;
        threads[i].body = body;
        threads[i].rank.rank = i;
        threads[i].rank.size = size;
        threads[i].rank.config = config;
        threads[i].rank.argument = argument;
        threads[i].rank.oob.context = &threads[i];
        threads[i].rank.oob.rank = i;
        threads[i].rank.oob.size = size;
        threads[i].rank.oob.label = "test";
        threads[i].rank.oob.allgather = allgather;
        threads[i].rank.oob.progress = progress;
        threads[i].rank.oob.check = check;
        if (pthread_create(&ids[i], NULL, thread_main, &threads[i]) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (i = 0; i < size; ++i) {
        pthread_join(ids[i], NULL);
        failures += threads[i].rank.failures;
    }
    return failures;
}

mscclpp_team_t *create_team(rank_t *rank)
{
    mscclpp_team_params_t params;
    mscclpp_team_t *team = NULL;
    mscclpp_status_t status;

    memset(&params, 0, sizeof(params));
    params.config = rank->config;
    params.gpu = &mscclpp_gpu_host_ops;
    params.oob = rank->oob;
    params.single_node = true;
    status = mscclpp_team_create(&params, &team);
    if (status != MSCCLPP_OK) {
        fprintf(stderr, "rank %d: no team: %s\n", rank->rank, mscclpp_status_string(status));
        ++rank->failures;
    }
    return team;
}

void meet(rank_t *rank)
{
    thread_t *thread = rank->oob.context;

    world_barrier(thread->world);
}
