/*
 * Random collective calls on random communicators: blocking, nonblocking and persistent, several under way at a time,
 * while communicators are duplicated, split and freed.
 *
 * Usage: test_random [--seed N] [--rounds N] [--threads N]. Each thread has communicators of its own.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/random_call.h"

enum { SLOTS = 6, CALLS = 10, TURNS = 4, THREADS_MAX = 4, APART = 4 };

/* A communicator. On ranks that do not belong to it, `comm` is MPI_COMM_NULL. Slot 0 always has one of all ranks. */
typedef struct {
    bool exists;
    MPI_Comm comm;
    random_ranks_t ranks;
} slot_t;

typedef struct {
    random_call_t call;
    int slot;
    bool takes_part; /* this rank */
} item_t;

/* What a thread does. */
typedef struct {
    random_source_t shared; /* equal on all ranks */
    random_source_t own;
    slot_t slots[SLOTS];
    int rounds;
} run_t;

static int find_slot(run_t *run)
{
    int slot;

    do {
        slot = random_below(&run->shared, SLOTS);
    } while (!run->slots[slot].exists);
    return slot;
}

/* Chooses a call and its communicator. */
static void choose(run_t *run, item_t *item, random_how_t how)
{
    item->slot = find_slot(run);
    random_choose(&item->call, &run->shared, how);
    item->takes_part = MPI_COMM_NULL != run->slots[item->slot].comm;
    if (item->takes_part) {
        random_make(&item->call, &run->slots[item->slot].ranks);
    }
}

/* Makes a call of MPI; a blocking one has ended then. */
static void issue(run_t *run, item_t *item)
{
    if (!item->takes_part) {
        return;
    }
    random_fill(&item->call);
    random_issue(&item->call, run->slots[item->slot].comm);
    if (RANDOM_BLOCKING == item->call.how) {
        random_check(&item->call);
    }
}

static void finish(item_t *item)
{
    if (item->takes_part) {
        random_free(&item->call);
    }
}

static void wait_for(run_t *run, MPI_Request *request)
{
    const bool polls = random_chance(&run->own, 50);
    int done = 0;

    while (polls && !done) {
        MT_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    }
    if (!polls) {
        MT_MPI(MPI_Wait(request, MPI_STATUS_IGNORE));
    }
}

static void block_once(run_t *run)
{
    item_t item;

    choose(run, &item, RANDOM_BLOCKING);
    issue(run, &item);
    finish(&item);
}

/* Each rank starts the persistent requests, and waits for all calls under way, in an order of its own. */
static void complete(run_t *run, item_t *items, int count, int turn)
{
    int order[CALLS];

    random_order(&run->own, order, count);
    for (int i = 0; i < count; ++i) {
        item_t *item = &items[order[i]];

        if (item->takes_part && RANDOM_PERSISTENT == item->call.how) {
            item->call.turn = turn;
            random_fill(&item->call);
            MT_MPI(MPI_Start(&item->call.request));
        }
    }
    if (random_chance(&run->shared, 30)) {
        block_once(run);
    }
    random_order(&run->own, order, count);
    for (int i = 0; i < count; ++i) {
        item_t *item = &items[order[i]];

        if (item->takes_part &&
            (RANDOM_PERSISTENT == item->call.how || (RANDOM_NONBLOCKING == item->call.how && 0 == turn))) {
            wait_for(run, &item->call.request);
            random_check(&item->call);
        }
    }
}

/* Nonblocking calls. If their communicators are different ones, each rank makes them in an order of its own. */
static void go_apart(run_t *run)
{
    item_t items[APART];
    int order[APART];
    bool distinct = true;

    for (int i = 0; i < APART; ++i) {
        choose(run, &items[i], RANDOM_NONBLOCKING);
        for (int other = 0; other < i; ++other) {
            distinct = distinct && items[i].slot != items[other].slot;
        }
    }
    random_order(&run->own, order, APART);
    for (int i = 0; i < APART; ++i) {
        issue(run, &items[distinct ? order[i] : i]);
    }
    complete(run, items, APART, 0);
    for (int i = 0; i < APART; ++i) {
        finish(&items[i]);
    }
}

/* Sets a slot's ranks from a table of all ranks' colours and keys, which all ranks know. */
static void set_ranks(slot_t *slot, const int *colours, const int *keys)
{
    random_ranks_t *ranks = &slot->ranks;

    ranks->size = 0;
    for (int rank = 0; rank < mt_size && colours[mt_rank] >= 0; ++rank) {
        int place = ranks->size;

        if (colours[rank] != colours[mt_rank]) {
            continue;
        }
        for (; place > 0 && keys[ranks->members[place - 1]] > keys[rank]; --place) {
            ranks->members[place] = ranks->members[place - 1];
        }
        ranks->members[place] = rank;
        ++ranks->size;
    }
    for (int i = 0; i < ranks->size; ++i) {
        ranks->rank = mt_rank == ranks->members[i] ? i : ranks->rank;
    }
}

/* Splits the communicator of all ranks: into one or two groups, without some ranks, in any order. */
static void split(run_t *run, slot_t *slot)
{
    const bool is_one = random_chance(&run->shared, 40);
    int colours[RANDOM_RANKS], keys[RANDOM_RANKS];

    random_order(&run->shared, keys, mt_size);
    for (int rank = 0; rank < mt_size; ++rank) {
        colours[rank] = is_one ? 0 : random_chance(&run->shared, 15) ? -1 : random_below(&run->shared, 2);
    }
    MT_MPI(MPI_Comm_split(run->slots[0].comm, colours[mt_rank] < 0 ? MPI_UNDEFINED : colours[mt_rank], keys[mt_rank],
                          &slot->comm));
    set_ranks(slot, colours, keys);
}

static void duplicate(run_t *run, slot_t *slot)
{
    const slot_t *parent = &run->slots[find_slot(run)];
    const bool waits = random_chance(&run->shared, 50);
    MPI_Request request;

    slot->ranks = parent->ranks;
    slot->comm = MPI_COMM_NULL;
    if (MPI_COMM_NULL != parent->comm && waits) {
        MT_MPI(MPI_Comm_dup(parent->comm, &slot->comm));
    } else if (MPI_COMM_NULL != parent->comm) {
        MT_MPI(MPI_Comm_idup(parent->comm, &slot->comm, &request));
        wait_for(run, &request);
    }
}

/* Frees the communicator of a slot other than 0, or makes one. */
static void change_comms(run_t *run)
{
    slot_t *slot = &run->slots[1 + random_below(&run->shared, SLOTS - 1)];

    if (slot->exists && MPI_COMM_NULL != slot->comm) {
        MT_MPI(MPI_Comm_free(&slot->comm));
    } else if (!slot->exists && random_chance(&run->shared, 70)) {
        split(run, slot);
    } else if (!slot->exists) {
        duplicate(run, slot);
    }
    slot->exists = !slot->exists;
}

/* Calls of all kinds. Some persistent requests are freed after their communicator. */
static void go_together(run_t *run)
{
    const int count = 1 + random_below(&run->shared, CALLS), turns = 1 + random_below(&run->shared, TURNS);
    const bool frees_late = random_chance(&run->shared, 50);
    item_t items[CALLS];

    for (int i = 0; i < count; ++i) {
        const int kind = random_below(&run->shared, 10);

        choose(run, &items[i], kind < 4 ? RANDOM_BLOCKING : kind < 8 ? RANDOM_NONBLOCKING : RANDOM_PERSISTENT);
        issue(run, &items[i]);
    }
    for (int turn = 0; turn < turns; ++turn) {
        complete(run, items, count, turn);
    }
    if (frees_late) {
        change_comms(run);
    }
    for (int i = 0; i < count; ++i) {
        finish(&items[i]);
    }
    if (!frees_late) {
        change_comms(run);
    }
}

static void *work(void *argument)
{
    run_t *run = argument;

    for (int round = 0; round < run->rounds; ++round) {
        go_together(run);
        go_apart(run);
    }
    for (int slot = 1; slot < SLOTS; ++slot) {
        if (run->slots[slot].exists && MPI_COMM_NULL != run->slots[slot].comm) {
            MT_MPI(MPI_Comm_free(&run->slots[slot].comm));
        }
    }
    return NULL;
}

/* The value of an option; `missing` without it. */
static int option(int argc, char **argv, const char *name, int missing)
{
    for (int i = 1; i + 1 < argc; ++i) {
        missing = 0 == strcmp(argv[i], name) ? atoi(argv[i + 1]) : missing;
    }
    return missing;
}

int main(int argc, char **argv)
{
    const int threads = option(argc, argv, "--threads", 1), seed = option(argc, argv, "--seed", 1);
    const int no_colours[RANDOM_RANKS] = {0}, keys[RANDOM_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    static run_t runs[THREADS_MAX];
    pthread_t others[THREADS_MAX];

    mt_init(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_size > RANDOM_RANKS || threads > THREADS_MAX) {
        MT_CHECK(false, "%d ranks with %d threads: up to %d with up to %d are allowed", mt_size, threads, RANDOM_RANKS,
                 THREADS_MAX);
        return mt_finish();
    }
    random_types_make();
    for (int i = 0; i < threads; ++i) {
        runs[i].shared.state = mt_mix((uint64_t)seed, (uint64_t)i, 1);
        runs[i].own.state = mt_mix((uint64_t)seed, (uint64_t)i, 2 + (uint64_t)mt_rank);
        runs[i].rounds = option(argc, argv, "--rounds", 10);
        runs[i].slots[0].exists = true;
        set_ranks(&runs[i].slots[0], no_colours, keys);
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &runs[i].slots[0].comm));
    }
    for (int i = 1; i < threads; ++i) {
        MT_CHECK(0 == pthread_create(&others[i], NULL, work, &runs[i]), "no thread %d", i);
    }
    work(&runs[0]);
    for (int i = 1; i < threads; ++i) {
        (void)pthread_join(others[i], NULL);
    }
    MT_CHECK(mt_served(MPI_COMM_WORLD) > 0, "kernels served no all-reduce");
    for (int i = 0; i < threads; ++i) {
        MT_MPI(MPI_Comm_free(&runs[i].slots[0].comm));
    }
    random_types_free();
    return mt_finish();
}
