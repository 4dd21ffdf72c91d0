/*
 * Plans for two ranks on the communicators of every two of three ranks. Each communicator counts its launches, and has
 * semaphores, barriers and scratch of its own, so its ranks agree on the flags of packets whatever else they call.
 */
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

enum { RANKS = 3, ROUNDS = 12, INTS = 700 };

/* The communicator of this rank and the next one, and that of it and the one before; MPI_COMM_NULL in turn. */
static void make_pairs(MPI_Comm *pairs)
{
    for (int first = 0; first < RANKS; ++first) {
        const bool is_in = mt_rank == first || mt_rank == (first + 1) % RANKS;

        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, is_in ? 0 : MPI_UNDEFINED, mt_rank, &pairs[first]));
    }
}

/* Calls one after another, more often on some communicators than on others, with a size that alternates. */
static uint64_t call_blocking(MPI_Comm *pairs)
{
    uint64_t calls = 0;

    for (int round = 0; round < ROUNDS; ++round) {
        for (int first = 0; first < RANKS; ++first) {
            for (int i = 0; i < 1 + (round * first) % 4 && MPI_COMM_NULL != pairs[first]; ++i) {
                mt_call_t call = mt_call(pairs[first], INTS + round % 2, round);

                mt_verify(&call);
                ++calls;
            }
        }
    }
    return calls;
}

/* Calls on both communicators of this rank at once. */
static uint64_t call_at_once(MPI_Comm *pairs)
{
    uint64_t calls = 0;

    for (int round = 0; round < ROUNDS; ++round) {
        mt_buffer_t send[RANKS], recv[RANKS];
        MPI_Request requests[RANKS];
        int values[RANKS][INTS];

        for (int first = 0; first < RANKS; ++first) {
            requests[first] = MPI_REQUEST_NULL;
            if (MPI_COMM_NULL == pairs[first]) {
                continue;
            }
            send[first] = mt_buffer_alloc(MT_DEVICE, sizeof(values[first]), 0);
            recv[first] = mt_buffer_alloc(MT_DEVICE, sizeof(values[first]), 0);
            for (int i = 0; i < INTS; ++i) {
                values[first][i] = (mt_rank + 1) * (1 + i % 9) + round;
            }
            mt_buffer_put(&send[first], values[first], sizeof(values[first]));
            MT_MPI(MPI_Iallreduce(send[first].data, recv[first].data, INTS, MPI_INT, MPI_SUM, pairs[first],
                                  &requests[first]));
            ++calls;
        }
        MT_MPI(MPI_Waitall(RANKS, requests, MPI_STATUSES_IGNORE));
        for (int first = 0; first < RANKS; ++first) {
            if (MPI_COMM_NULL == pairs[first]) {
                continue;
            }
            mt_buffer_get(&recv[first], values[first], sizeof(values[first]));
            for (int i = 0; i < INTS; ++i) {
                const int ranks = first + 1 + (first + 1) % RANKS + 1;

                MT_CHECK(values[first][i] == ranks * (1 + i % 9) + 2 * round, "round %d, pair %d: element %d is %d",
                         round, first, i, values[first][i]);
            }
            mt_buffer_free(&send[first], "send buffer");
            mt_buffer_free(&recv[first], "receive buffer");
        }
    }
    return calls;
}

int main(int argc, char **argv)
{
    MPI_Comm pairs[RANKS];
    uint64_t before, calls;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(RANKS)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    make_pairs(pairs);
    before = mt_planned(MPI_COMM_WORLD);
    calls = call_blocking(pairs);
    calls += call_at_once(pairs);
    MT_CHECK(mt_planned(MPI_COMM_WORLD) - before == calls, "plans served %llu of %llu calls",
             (unsigned long long)(mt_planned(MPI_COMM_WORLD) - before), (unsigned long long)calls);
    for (int first = 0; first < RANKS; ++first) {
        if (MPI_COMM_NULL != pairs[first]) {
            MT_MPI(MPI_Comm_free(&pairs[first]));
        }
    }
    return mt_finish();
}
