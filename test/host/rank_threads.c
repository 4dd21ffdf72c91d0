#include "test/host/rank_threads.h"
#include "mca/common/base/log.h"
#include "mca/common/setup/setup.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct message {
    struct message *next;
    int sender;
    size_t length;
    unsigned char bytes[MSCCLPP_OOB_MESSAGE_MAX];
} message_t;

/* What the ranks of one run share: a barrier that yields, a place for each rank's contribution, and mailboxes. */
typedef struct {
    int size;
    unsigned arrived;
    unsigned generation;
    unsigned any[2]; /* combined flags, by the generation's parity */
    int revoked;
    const void *contribution[RANKS_MAX];
    const mscclpp_oob_ahead_t *ahead[RANKS_MAX]; /* exchanges ahead of the all-gather; NULL: none */
    pthread_mutex_t lock;                        /* of the mailboxes */
    message_t *oldest[RANKS_MAX];
    message_t *newest[RANKS_MAX];
} world_t;

typedef struct {
    rank_t rank;
    world_t *world;
    void (*body)(rank_t *rank);
} thread_t;

/* How often a rank that waits for others yields before it naps. */
#define YIELDS 20

/* Waits for all ranks. Returns whether any of them passed true. */
static bool world_barrier(world_t *world, bool flag)
{
    /* There are more ranks than processors, so a rank that waits must leave them to the others, the more the longer. */
    const long longest_nap = 20000L * world->size;
    long nap = 50000;
    unsigned generation = __atomic_load_n(&world->generation, __ATOMIC_ACQUIRE), turns = 0;
    unsigned *any = &world->any[generation % 2];

    if (flag) {
        __atomic_store_n(any, 1, __ATOMIC_RELAXED);
    }
    if (__atomic_add_fetch(&world->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)world->size) {
        __atomic_store_n(&world->any[(generation + 1) % 2], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&world->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&world->generation, generation + 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&world->generation, __ATOMIC_ACQUIRE) == generation) {
        if (++turns < YIELDS) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
            nap = 2 * nap < longest_nap ? 2 * nap : nap;
        }
    }
    return __atomic_load_n(any, __ATOMIC_RELAXED) != 0;
}

/* Copies the messages for this rank, which each peer's exchange has for it unless the peer cannot send any. */
static void receive_ahead(const world_t *world, int rank)
{
    const mscclpp_oob_ahead_t *own = world->ahead[rank];
    int i, j;

    for (i = 0; i < own->count && own->lengths != NULL; ++i) {
        const mscclpp_oob_ahead_t *theirs = world->ahead[own->peers[i]];

        for (j = 0; j < theirs->count && theirs->peers[j] != rank; ++j) {
        }
        if (j < theirs->count && theirs->lengths != NULL) {
            memcpy((char *)own->received + (size_t)i * own->pitch,
                   (const char *)theirs->sent + (size_t)j * theirs->pitch, theirs->lengths[j]);
        }
    }
}

/*
 * Carries out the exchanges ahead of an all-gather, if some ranks make one. They all end with MSCCLPP_ERR_PEER unless
 * all ranks make the same one.
 */
static void exchange_ahead(world_t *world, int rank)
{
    const mscclpp_oob_ahead_t *own = world->ahead[rank];
    bool is_any = false, are_equal = true;
    int other;

    for (other = 0; other < world->size; ++other) {
        is_any = is_any || world->ahead[other] != NULL;
        are_equal = are_equal && world->ahead[other] != NULL && own != NULL && world->ahead[other]->id == own->id;
    }
    if (!is_any) {
        return;
    }
    if (own != NULL) {
        if (are_equal) {
            receive_ahead(world, rank);
        }
        own->complete(own->context, are_equal ? MSCCLPP_OK : MSCCLPP_ERR_PEER);
    }
    (void)world_barrier(world, false); /* now all contributions are complete */
}

/* The table's all-gather with an exchange ahead of it, between threads. */
static mscclpp_status_t exchange_and_gather(void *context, const mscclpp_oob_ahead_t *ahead, const void *sendbuf,
                                            void *recvbuf, size_t length)
{
    thread_t *thread = context;
    world_t *world = thread->world;
    bool lacking;
    int rank;

    world->contribution[thread->rank.rank] = recvbuf != NULL ? sendbuf : NULL;
    world->ahead[thread->rank.rank] = ahead;
    lacking = world_barrier(world, recvbuf == NULL);
    if (!lacking) {
        exchange_ahead(world, thread->rank.rank);
    }
    for (rank = 0; rank < world->size && lacking; ++rank) {
        if (world->contribution[rank] == NULL) {
            mscclpp_info("%s: rank %d: memory for the set-up: %s: device buffers are staged", thread->rank.oob.label,
                         rank, mscclpp_status_string(MSCCLPP_ERR_NO_MEMORY));
            break;
        }
    }
    for (rank = 0; rank < world->size && !lacking; ++rank) {
        memcpy((char *)recvbuf + (size_t)rank * length, world->contribution[rank], length);
    }
    (void)world_barrier(world, false);
    return lacking ? MSCCLPP_ERR_NOT_SUPPORTED : MSCCLPP_OK;
}

/* The table's all-gather. */
static mscclpp_status_t allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    return exchange_and_gather(context, NULL, sendbuf, recvbuf, length);
}

/* What a rank sends in an exchange with some others. */
typedef struct {
    const int *peers;
    int count;
    const char *sent;
    const size_t *lengths;
} outgoing_t;

static mscclpp_status_t exchange(void *context, const int *peers, int count, const void *sent, const size_t *lengths,
                                 void *received, size_t pitch)
{
    const outgoing_t own = {peers, lengths != NULL ? count : 0, sent, lengths};
    thread_t *thread = context;
    world_t *world = thread->world;
    int i, j;

    world->contribution[thread->rank.rank] = &own;
    (void)world_barrier(world, false);
    for (i = 0; i < own.count; ++i) {
        const outgoing_t *theirs = world->contribution[peers[i]];

        for (j = 0; j < theirs->count && theirs->peers[j] != thread->rank.rank; ++j) {
        }
        if (j < theirs->count) {
            memcpy((char *)received + (size_t)i * pitch, theirs->sent + (size_t)j * pitch, theirs->lengths[j]);
        }
    }
    (void)world_barrier(world, false);
    return MSCCLPP_OK;
}

static void progress(void *context)
{
    (void)context;
    sched_yield();
}

static mscclpp_status_t check(void *context)
{
    const thread_t *thread = context;

    return __atomic_load_n(&thread->world->revoked, __ATOMIC_RELAXED) ? MSCCLPP_ERR_REVOKED : MSCCLPP_OK;
}

/* The table's post_message: puts the message in the peer's list. */
static mscclpp_status_t post_message(void *context, int peer, const void *bytes, size_t length)
{
    thread_t *thread = context;
    world_t *world = thread->world;
    message_t *message = calloc(1, sizeof(*message));

    if (message == NULL || length > sizeof(message->bytes)) {
        free(message);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    message->sender = thread->rank.rank;
    message->length = length;
    memcpy(message->bytes, bytes, length);
    pthread_mutex_lock(&world->lock);
    if (world->newest[peer] != NULL) {
        world->newest[peer]->next = message;
    } else {
        world->oldest[peer] = message;
    }
    world->newest[peer] = message;
    pthread_mutex_unlock(&world->lock);
    return MSCCLPP_OK;
}

/* The table's poll_message: takes the oldest message of this rank's list. */
static mscclpp_status_t poll_message(void *context, int *peer_p, void *bytes, size_t *length_p)
{
    thread_t *thread = context;
    world_t *world = thread->world;
    int rank = thread->rank.rank;
    message_t *message;

    pthread_mutex_lock(&world->lock);
    message = world->oldest[rank];
    if (message != NULL) {
        world->oldest[rank] = message->next;
        if (message->next == NULL) {
            world->newest[rank] = NULL;
        }
    }
    pthread_mutex_unlock(&world->lock);
    if (message == NULL) {
        return MSCCLPP_IN_PROGRESS;
    }
    memcpy(bytes, message->bytes, message->length);
    *length_p = message->length;
    *peer_p = message->sender;
    free(message);
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
    world_t *world = calloc(1, sizeof(*world));
    thread_t *threads = calloc((size_t)size, sizeof(*threads));
    pthread_t ids[RANKS_MAX];
    int i, failures = 0;

    if (world == NULL || threads == NULL) {
        perror("calloc");
        exit(1);
    }
    world->size = size;
    pthread_mutex_init(&world->lock, NULL);
    for (i = 0; i < size; ++i) {
        rank_t *rank = &threads[i].rank;

        threads[i].world = world;
        threads[i].body = body;
        rank->rank = i;
        rank->size = size;
        rank->config = config;
        rank->gpu = &mscclpp_gpu_twin_ops;
        rank->argument = argument;
        rank->oob.context = &threads[i];
        rank->oob.rank = i;
        rank->oob.size = size;
        rank->oob.label = "test";
        rank->oob.allgather = allgather;
        rank->oob.exchange = exchange;
        rank->oob.exchange_and_gather = exchange_and_gather;
        rank->oob.progress = progress;
        rank->oob.check = check;
        rank->oob.post_message = post_message;
        rank->oob.poll_message = poll_message;
        if (pthread_create(&ids[i], NULL, thread_main, &threads[i]) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    for (i = 0; i < size; ++i) {
        pthread_join(ids[i], NULL);
        failures += threads[i].rank.failures;
    }
    for (i = 0; i < size; ++i) {
        while (world->oldest[i] != NULL) {
            message_t *next = world->oldest[i]->next;

            free(world->oldest[i]);
            world->oldest[i] = next;
        }
    }
    pthread_mutex_destroy(&world->lock);
    free(threads);
    free(world);
    return failures;
}

mscclpp_status_t try_team(rank_t *rank, const mscclpp_config_t *config, mscclpp_team_t **team_p)
{
    mscclpp_team_params_t params;

    memset(&params, 0, sizeof(params));
    params.config = config;
    params.gpu = rank->gpu;
    params.device = rank->device;
    params.concurrent = rank->concurrent;
    params.admission = rank->admission;
    params.own_process = rank->own_process;
    params.rules = rank->rules;
    params.reuse = rank->reuse;
    params.oob = rank->oob;
    return mscclpp_team_create(&params, team_p);
}

mscclpp_team_t *create_team(rank_t *rank)
{
    mscclpp_team_t *team = NULL;
    mscclpp_status_t status = try_team(rank, rank->config, &team);

    if (status != MSCCLPP_OK) {
        fprintf(stderr, "rank %d: no team: %s\n", rank->rank, mscclpp_status_string(status));
        ++rank->failures;
    }
    return team;
}

void meet(rank_t *rank)
{
    (void)meet_any(rank, false);
}

bool meet_any(rank_t *rank, bool flag)
{
    thread_t *thread = rank->oob.context;

    return world_barrier(thread->world, flag);
}

void revoke_all(rank_t *rank)
{
    thread_t *thread = rank->oob.context;

    __atomic_store_n(&thread->world->revoked, 1, __ATOMIC_RELAXED);
}
