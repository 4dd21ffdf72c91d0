/*
 * Calls in which some ranks send and receive nothing, of which each does what the others do: a root's gather and
 * scatter, and an exchange of blocks, round after round, with ranks that come late by chance. Where some are given, a
 * rank that passes nothing passes NULL.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_test.h"

#define ROUNDS 1500 /* unless an argument says otherwise */
#define COUNT_MAX 5
#define RANKS_MAX 64
#define FIRST_COMMS 12
#define HOST_ROUNDS 100

/* Elements that `from` has for `to` in a round; most ranks have none. */
static int count_of(int round, int from, int to)
{
    const uint64_t draw = mt_mix((uint64_t)round, (uint64_t)from, (uint64_t)to);

    return 0 == mt_mix((uint64_t)round, (uint64_t)from, 1000) % 2 ? 0 : (int)(draw % COUNT_MAX);
}

static int value_of(int round, int from, int to, int index)
{
    return round * 1000 + from * 100 + to * 10 + index;
}

/* Up to some microseconds, of which a rank of a round has its own. */
static void come_late(int round)
{
    const struct timespec pause = {.tv_nsec = (long)(mt_mix((uint64_t)round, (uint64_t)mt_rank, 7) % 60000)};

    if (0 == mt_mix((uint64_t)round, (uint64_t)mt_rank, 8) % 3) {
        nanosleep(&pause, NULL);
    }
}

/* What this rank sends, and what it is to get, of the ranks for which it counts. */
typedef struct {
    int out[RANKS_MAX], in[RANKS_MAX], out_at[RANKS_MAX], in_at[RANKS_MAX];
    int sent, received;
} plan_t;

static void plan(plan_t *p, int round, int sender, int receiver)
{
    p->sent = p->received = 0;
    for (int rank = 0; rank < mt_size; ++rank) {
        const bool sends = (sender < 0 || sender == mt_rank) && (receiver < 0 || receiver == rank);
        const bool gets = (sender < 0 || sender == rank) && (receiver < 0 || receiver == mt_rank);

        p->out[rank] = sends ? count_of(round, mt_rank, rank) : 0;
        p->in[rank] = gets ? count_of(round, rank, mt_rank) : 0;
        p->out_at[rank] = p->sent;
        p->in_at[rank] = p->received;
        p->sent += p->out[rank];
        p->received += p->in[rank];
    }
}

static void one_round(MPI_Comm comm, int round, mt_buffer_t *send, mt_buffer_t *recv, int *host)
{
    const int kind = round % 3, root = round / 3 % mt_size;
    void *from, *to;
    plan_t p;

    plan(&p, round, 1 == kind ? root : -1, 0 == kind ? root : -1);
    for (int rank = 0; rank < mt_size; ++rank) {
        for (int i = 0; i < p.out[rank]; ++i) {
            host[p.out_at[rank] + i] = value_of(round, mt_rank, rank, i);
        }
    }
    mt_buffer_put(send, host, sizeof(int) * (size_t)(p.sent > 0 ? p.sent : 1));
    from = p.sent > 0 ? send->data : NULL;
    to = p.received > 0 ? recv->data : NULL;
    come_late(round);
    if (0 == kind) {
        MT_MPI(MPI_Gatherv(from, p.sent, MPI_INT, to, p.in, p.in_at, MPI_INT, root, comm));
    } else if (1 == kind) {
        MT_MPI(MPI_Scatterv(from, p.out, p.out_at, MPI_INT, to, p.received, MPI_INT, root, comm));
    } else {
        MT_MPI(MPI_Alltoallv(from, p.out, p.out_at, MPI_INT, to, p.in, p.in_at, MPI_INT, comm));
    }
    mt_buffer_get(recv, host, sizeof(int) * (size_t)(p.received > 0 ? p.received : 1));
    for (int rank = 0; rank < mt_size; ++rank) {
        for (int i = 0; i < p.in[rank]; ++i) {
            MT_CHECK(host[p.in_at[rank] + i] == value_of(round, rank, mt_rank, i), "round %d, of rank %d: %d", round,
                     rank, host[p.in_at[rank] + i]);
        }
    }
}

/* Communicators whose first calls are of these kinds, with nobody yet to look at: some ranks pass nothing. */
static void first_calls(mt_buffer_t *send, mt_buffer_t *recv, int *host)
{
    for (int first = 0; first < FIRST_COMMS; ++first) {
        MPI_Comm comm;

        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int round = first; round < first + 4; ++round) {
            one_round(comm, round, send, recv, host);
        }
        MT_MPI(MPI_Comm_free(&comm));
    }
}

/* A communicator that is passed host memory, call after call, and then device memory, still comes to be served. */
static void late_device(mt_buffer_t *send, mt_buffer_t *recv, int *host)
{
    mt_buffer_t plain[2] = {mt_buffer_alloc(MT_HOST, send->size, 0), mt_buffer_alloc(MT_HOST, send->size, 0)};
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int round = 0; round < HOST_ROUNDS; ++round) {
        one_round(comm, round, &plain[0], &plain[1], host);
    }
    for (int round = 0; round < HOST_ROUNDS; ++round) {
        one_round(comm, round, send, recv, host);
    }
    MT_CHECK(mt_size < 2 || mt_served(comm) > HOST_ROUNDS / 8, "%llu calls served, after host memory",
             (unsigned long long)mt_served(comm));
    MT_MPI(MPI_Comm_free(&comm));
    mt_buffer_free(&plain[0], "a host buffer");
    mt_buffer_free(&plain[1], "a host buffer");
}

int main(int argc, char **argv)
{
    const size_t size = sizeof(int) * COUNT_MAX * RANKS_MAX;
    mt_buffer_t send, recv;
    int one = 1, rounds;
    int *host;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    MT_CHECK(mt_size <= RANKS_MAX, "at most %d ranks", RANKS_MAX);
    send = mt_buffer_alloc(MT_DEVICE, size, 0);
    recv = mt_buffer_alloc(MT_DEVICE, size, 0);
    host = mt_host_alloc(size);
    first_calls(&send, &recv, host);
    late_device(&send, &recv, host);
    /* Those that pass something make the ranks a team. */
    mt_buffer_put(&send, &one, sizeof(one));
    MT_MPI(MPI_Allreduce(send.data, recv.data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int round = 0; round < rounds; ++round) {
        one_round(MPI_COMM_WORLD, round, &send, &recv, host);
    }
    MT_CHECK(mt_served(MPI_COMM_WORLD) > (uint64_t)rounds / 4, "%llu calls served",
             (unsigned long long)mt_served(MPI_COMM_WORLD));
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(host);
    return mt_finish();
}
