/*
 * Staged operations that are under way together: with one another in one buffer, with the application's own work
 * between the elements that they receive, many at once, started over and over, and from several threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT_INIT(Name_) MPIX_##Name_##_init
#else
#define PERSISTENT_INIT(Name_) MPI_##Name_##_init
#endif

#define RANKS_MAX 16
#define THREADS 4

static unsigned value(int rank, int index, int salt)
{
    return (unsigned)mt_mix((uint64_t)rank, (uint64_t)index, (uint64_t)salt);
}

static mt_buffer_t ints_alloc(int count)
{
    return mt_buffer_alloc(MT_DEVICE, sizeof(int) * (size_t)count, 0);
}

/* Copies to and from the middle of a buffer. */
static void put_at(const mt_buffer_t *buffer, int index, const unsigned *from, int count)
{
    mt_buffer_t part = *buffer;

    part.data += sizeof(int) * (size_t)index;
    mt_buffer_put(&part, from, sizeof(int) * (size_t)count);
}

static void check_staged(uint64_t before, uint64_t calls, const char *what)
{
    uint64_t staged = mt_staged(MPI_COMM_WORLD) - before;

    MT_CHECK(staged >= calls, "%s: %llu calls staged of %llu", what, (unsigned long long)staged,
             (unsigned long long)calls);
}

/* Two operations fill every other block of one buffer: neither may write what the other received. */
static void interleaved(void)
{
    enum { BLOCK = 100, TURNS = 20 };
    int counts[RANKS_MAX], displs[2][RANKS_MAX];
    int total = 2 * BLOCK * mt_size;
    unsigned *all = mt_host_alloc(sizeof(int) * (size_t)total);
    mt_buffer_t recv = ints_alloc(total), send[2] = {ints_alloc(BLOCK), ints_alloc(BLOCK)};
    uint64_t before = mt_staged(MPI_COMM_WORLD);

    for (int turn = 0; turn < TURNS; ++turn) {
        MPI_Request requests[2];
        for (int half = 0; half < 2; ++half) {
            unsigned own[BLOCK];
            for (int i = 0; i < BLOCK; ++i) {
                own[i] = value(mt_rank, i, 2 * turn + half);
            }
            mt_buffer_put(&send[half], own, sizeof(own));
            for (int rank = 0; rank < mt_size; ++rank) {
                counts[rank] = BLOCK;
                displs[half][rank] = (2 * rank + half) * BLOCK;
            }
        }
        for (int half = 0; half < 2; ++half) {
            MT_MPI(MPI_Iallgatherv(send[half].data, BLOCK, MPI_INT, recv.data, counts, displs[half], MPI_INT,
                                   MPI_COMM_WORLD, &requests[half]));
        }
        MT_MPI(MPI_Wait(&requests[turn % 2], MPI_STATUS_IGNORE));
        MT_MPI(MPI_Wait(&requests[1 - turn % 2], MPI_STATUS_IGNORE));
        mt_buffer_get(&recv, all, sizeof(int) * (size_t)total);
        for (int i = 0; i < total; ++i) {
            int rank = i / (2 * BLOCK), half = i / BLOCK % 2;
            MT_CHECK(all[i] == value(rank, i % BLOCK, 2 * turn + half), "interleaved, turn %d: integer %d is wrong",
                     turn, i);
        }
    }
    check_staged(before, 2 * TURNS, "interleaved");
    mt_buffer_free(&recv, "the shared receive buffer");
    mt_buffer_free(&send[0], "the first send buffer");
    mt_buffer_free(&send[1], "the second send buffer");
    free(all);
}

/* A column of a matrix is received while the application writes the other columns. */
static void compute_beside(void)
{
    enum { ROWS = 500, COLUMNS = 7 };
    unsigned *matrix = mt_host_alloc(sizeof(int) * ROWS * COLUMNS);
    mt_buffer_t grid = ints_alloc(ROWS * COLUMNS);
    MPI_Datatype column;
    MPI_Request request;

    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        matrix[i] = value(mt_rank, i, 1);
    }
    mt_buffer_put(&grid, matrix, sizeof(int) * ROWS * COLUMNS);
    MT_MPI(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    MT_MPI(MPI_Type_commit(&column));
    MT_MPI(MPI_Ibcast(grid.data, 1, column, 0, MPI_COMM_WORLD, &request));
    MT_MPI(MPI_Type_free(&column));
    for (int row = 0; row < ROWS; ++row) {
        for (int i = 1; i < COLUMNS; ++i) {
            matrix[row * COLUMNS + i] = value(mt_rank, row * COLUMNS + i, 2);
        }
        put_at(&grid, row * COLUMNS + 1, &matrix[row * COLUMNS + 1], COLUMNS - 1);
    }
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    mt_buffer_get(&grid, matrix, sizeof(int) * ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        unsigned wanted = 0 == i % COLUMNS ? value(0, i, 1) : value(mt_rank, i, 2);
        MT_CHECK(matrix[i] == wanted, "column beside the application's own work: integer %d is wrong", i);
    }
    mt_buffer_free(&grid, "the matrix");
    free(matrix);
}

/* More operations at once than anything keeps in store. */
static void many(void)
{
    enum { MANY = 300, INTS = 16 };
    mt_buffer_t send = ints_alloc(MANY * INTS), recv = ints_alloc(MANY * INTS);
    unsigned *host = mt_host_alloc(sizeof(int) * MANY * INTS);
    MPI_Request *requests = mt_host_alloc(sizeof(*requests) * MANY);
    int indices[MANY];
    uint64_t before = mt_staged(MPI_COMM_WORLD);

    for (int i = 0; i < MANY * INTS; ++i) {
        host[i] = value(mt_rank, i, 3) % 1000;
    }
    mt_buffer_put(&send, host, sizeof(int) * MANY * INTS);
    for (int i = 0; i < MANY; ++i) {
        char *from = send.data + sizeof(int) * INTS * (size_t)i, *to = recv.data + sizeof(int) * INTS * (size_t)i;
        MT_MPI(MPI_Iallreduce(from, to, INTS, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[i]));
    }
    for (int left = MANY; left > 0;) {
        int ended;
        MT_MPI(MPI_Waitsome(MANY, requests, &ended, indices, MPI_STATUSES_IGNORE));
        left -= ended;
    }
    check_staged(before, MANY, "many");
    mt_buffer_get(&recv, host, sizeof(int) * MANY * INTS);
    for (int i = 0; i < MANY * INTS; ++i) {
        unsigned wanted = 0;
        for (int rank = 0; rank < mt_size; ++rank) {
            unsigned one = value(rank, i, 3) % 1000;
            wanted = one > wanted ? one : wanted;
        }
        MT_CHECK(host[i] == wanted, "many: integer %d is %u and not %u", i, host[i], wanted);
    }
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(requests);
    free(host);
}

/* Persistent requests, ours beside those of a call that is not staged, started together again and again. */
static void persistent(void)
{
    enum { REQUESTS = 6, INTS = 40, TURNS = 10 };
    mt_buffer_t send = ints_alloc(REQUESTS * INTS), recv = ints_alloc(REQUESTS * INTS * mt_size);
    unsigned *own = mt_host_alloc(sizeof(int) * REQUESTS * INTS);
    unsigned *all = mt_host_alloc(sizeof(int) * REQUESTS * INTS * (size_t)mt_size);
    MPI_Request requests[REQUESTS + 1], inactive;
    int zero = 0;
    uint64_t before;

    for (int i = 0; i < REQUESTS; ++i) {
        char *from = send.data + sizeof(int) * INTS * (size_t)i;
        char *to = recv.data + sizeof(int) * INTS * (size_t)(i * mt_size);
        MT_MPI(PERSISTENT_INIT(Allgather)(from, INTS, MPI_INT, to, INTS, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                                          &requests[i < 3 ? i : i + 1]));
    }
    MT_MPI(
        PERSISTENT_INIT(Allreduce)(&zero, &zero + 0, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]));
    before = mt_staged(MPI_COMM_WORLD);
    for (int turn = 0; turn < TURNS; ++turn) {
        for (int i = 0; i < REQUESTS * INTS; ++i) {
            own[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&send, own, sizeof(int) * REQUESTS * INTS);
        MT_MPI(MPI_Startall(REQUESTS + 1, requests));
        MT_MPI(MPI_Waitall(REQUESTS + 1, requests, MPI_STATUSES_IGNORE));
        mt_buffer_get(&recv, all, sizeof(int) * REQUESTS * INTS * (size_t)mt_size);
        for (int i = 0; i < REQUESTS * INTS * mt_size; ++i) {
            int request = i / (INTS * mt_size), rank = i / INTS % mt_size;
            MT_CHECK(all[i] == value(rank, request * INTS + i % INTS, turn), "persistent, turn %d: integer %d is wrong",
                     turn, i);
        }
    }
    check_staged(before, REQUESTS * TURNS, "persistent");
    inactive = requests[0];
    MT_MPI(MPI_Wait(&inactive, MPI_STATUS_IGNORE));
    for (int i = 0; i <= REQUESTS; ++i) {
        MT_MPI(MPI_Request_free(&requests[i]));
    }
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(own);
    free(all);
}

typedef struct {
    double number;
    int index;
    unsigned gap; /* belongs to no element of MPI_DOUBLE_INT */
} pair_t;

/* Pairs with a gap in each that stays as it is, few and then many. */
static void pairs(void)
{
    enum { PAIRS = 3000 };
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(pair_t) * PAIRS, 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(pair_t) * PAIRS, 0);
    pair_t *host = mt_host_alloc(sizeof(pair_t) * PAIRS);

    for (int count = 30; count <= PAIRS; count *= 100) {
        MPI_Request request;
        uint64_t before = mt_staged(MPI_COMM_WORLD);
        for (int i = 0; i < PAIRS; ++i) {
            host[i] = (pair_t){.number = (i + mt_rank) % mt_size, .index = mt_rank, .gap = 77};
        }
        mt_buffer_put(&send, host, sizeof(pair_t) * PAIRS);
        for (int i = 0; i < PAIRS; ++i) {
            host[i] = (pair_t){.number = -5, .index = -6, .gap = value(mt_rank, i, count)};
        }
        mt_buffer_put(&recv, host, sizeof(pair_t) * PAIRS);
        MT_MPI(MPI_Iallreduce(send.data, recv.data, count, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD, &request));
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_staged(before, 1, "pairs");
        mt_buffer_get(&recv, host, sizeof(pair_t) * PAIRS);
        for (int i = 0; i < PAIRS; ++i) {
            bool within = i < count;
            int owner = (mt_size - 1 - i % mt_size + mt_size) % mt_size;
            MT_CHECK(host[i].number == (within ? mt_size - 1 : -5) && host[i].index == (within ? owner : -6),
                     "%d pairs: pair %d is (%g, %d)", count, i, host[i].number, host[i].index);
            MT_CHECK(host[i].gap == value(mt_rank, i, count), "%d pairs: the gap of pair %d was written", count, i);
        }
        if (PAIRS == count) {
            break;
        }
    }
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(host);
}

/* Buffers that only the type knows of: absolute addresses, and elements that go downwards. */
static void odd_addresses(void)
{
    enum { INTS = 50 };
    mt_buffer_t buffer = ints_alloc(INTS);
    unsigned host[INTS];
    MPI_Datatype absolute, downwards;
    MPI_Aint address;
    int length = INTS;
    uint64_t before = mt_staged(MPI_COMM_WORLD);

    for (int i = 0; i < INTS; ++i) {
        host[i] = value(mt_rank, i, 5);
    }
    mt_buffer_put(&buffer, host, sizeof(host));
    MT_MPI(MPI_Get_address(buffer.data, &address));
    MT_MPI(MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &absolute));
    MT_MPI(MPI_Type_commit(&absolute));
    MT_MPI(MPI_Bcast(MPI_BOTTOM, 1, absolute, mt_size - 1, MPI_COMM_WORLD));
    MT_MPI(MPI_Type_free(&absolute));
    mt_buffer_get(&buffer, host, sizeof(host));
    for (int i = 0; i < INTS; ++i) {
        MT_CHECK(host[i] == value(mt_size - 1, i, 5), "MPI_BOTTOM: integer %d is wrong", i);
        host[i] = value(mt_rank, i, 6);
    }

    mt_buffer_put(&buffer, host, sizeof(host));
    MT_MPI(MPI_Type_create_resized(MPI_INT, 0, -2 * (MPI_Aint)sizeof(int), &downwards));
    MT_MPI(MPI_Type_commit(&downwards));
    MT_MPI(MPI_Bcast(buffer.data + sizeof(int) * (INTS - 1), INTS / 2, downwards, 0, MPI_COMM_WORLD));
    MT_MPI(MPI_Type_free(&downwards));
    mt_buffer_get(&buffer, host, sizeof(host));
    for (int i = 0; i < INTS; ++i) {
        MT_CHECK(host[i] == value(i % 2 ? 0 : mt_rank, i, 6), "a negative extent: integer %d is wrong", i);
    }
    check_staged(before, 2, "odd addresses");
    mt_buffer_free(&buffer, "the buffer");
}

static void reduce_locally(void)
{
    enum { INTS = 64 };
    mt_buffer_t in = ints_alloc(INTS), inout = ints_alloc(INTS);
    unsigned host[INTS];
    uint64_t before = mt_staged(MPI_COMM_WORLD);

    for (int i = 0; i < INTS; ++i) {
        host[i] = 1000u * (unsigned)i;
    }
    mt_buffer_put(&in, host, sizeof(host));
    for (int i = 0; i < INTS; ++i) {
        host[i] = 7u + (unsigned)mt_rank;
    }
    mt_buffer_put(&inout, host, sizeof(host));
    MT_MPI(MPI_Reduce_local(in.data, inout.data, INTS, MPI_INT, MPI_SUM));
    mt_buffer_get(&inout, host, sizeof(host));
    for (int i = 0; i < INTS; ++i) {
        MT_CHECK(host[i] == 1000u * (unsigned)i + 7u + (unsigned)mt_rank, "reduce_local: integer %d is wrong", i);
    }
    check_staged(before, 1, "reduce_local");
    mt_buffer_free(&in, "the first operand");
    mt_buffer_free(&inout, "the second operand");
}

/* A buffer for which no pinned memory is kept between calls. */
static void large(void)
{
    enum { INTS = 18 << 20 };
    mt_buffer_t buffer = ints_alloc(INTS);
    unsigned *host = mt_host_alloc(sizeof(int) * INTS);

    for (int turn = 0; turn < 2; ++turn) {
        for (int i = 0; i < INTS; ++i) {
            host[i] = 0 == mt_rank ? (unsigned)(i + turn) * 2654435761u : 0;
        }
        mt_buffer_put(&buffer, host, sizeof(int) * INTS);
        MT_MPI(MPI_Bcast(buffer.data, INTS, MPI_INT, 0, MPI_COMM_WORLD));
        mt_buffer_get(&buffer, host, sizeof(int) * INTS);
        for (int i = 0; i < INTS; ++i) {
            MT_CHECK(host[i] == (unsigned)(i + turn) * 2654435761u, "72 MiB, turn %d: integer %d is wrong", turn, i);
        }
    }
    mt_buffer_free(&buffer, "the large buffer");
    free(host);
}

typedef struct {
    MPI_Comm comm;
    int number;
    pthread_t thread;
} worker_t;

/* The application frees a communicator while operations on it are under way, and one of the ranks is late. */
static void outlive(void)
{
    enum { COUNT = 1000, TURNS = 10 };
    mt_buffer_t send = ints_alloc(COUNT), recv = ints_alloc(COUNT);
    unsigned *ints = mt_host_alloc(sizeof(int) * COUNT);

    for (int turn = 0; turn < TURNS; ++turn) {
        MPI_Request requests[2];
        MPI_Comm comm;
        bool good = true;

        for (int i = 0; i < COUNT; ++i) {
            ints[i] = value(mt_rank, i, turn);
        }
        mt_buffer_put(&send, ints, sizeof(int) * COUNT);
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MT_MPI(PERSISTENT_INIT(Allreduce)(send.data, recv.data, COUNT, MPI_UNSIGNED, MPI_SUM, comm, MPI_INFO_NULL,
                                          &requests[1]));
        if (turn % mt_size == mt_rank) {
            usleep(5000);
        }
        if (turn % 2 == 0) {
            MT_MPI(MPI_Iallreduce(send.data, recv.data, COUNT, MPI_UNSIGNED, MPI_SUM, comm, &requests[0]));
        } else {
            MT_MPI(MPI_Start(&requests[1]));
            requests[0] = MPI_REQUEST_NULL;
        }
        MT_MPI(MPI_Comm_free(&comm));
        MT_MPI(MPI_Wait(&requests[turn % 2], MPI_STATUS_IGNORE));
        MT_MPI(MPI_Request_free(&requests[1]));
        mt_buffer_get(&recv, ints, sizeof(int) * COUNT);
        for (int i = 0; i < COUNT; ++i) {
            unsigned sum = 0;

            for (int rank = 0; rank < mt_size; ++rank) {
                sum += value(rank, i, turn);
            }
            good = good && ints[i] == sum;
        }
        MT_CHECK(good, "turn %d: an all-reduce that outlives its communicator is wrong", turn);
    }
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(ints);
}

static void *work(void *argument)
{
    enum { INTS = 500, TURNS = 40 };
    const worker_t *worker = argument;
    mt_buffer_t send = ints_alloc(INTS * mt_size), recv = ints_alloc(INTS * mt_size);
    unsigned *host = mt_host_alloc(sizeof(int) * (size_t)(INTS * mt_size));

    for (int turn = 0; turn < TURNS; ++turn) {
        MPI_Request request = MPI_REQUEST_NULL;
        int salt = 100 * worker->number + turn;
        for (int i = 0; i < INTS * mt_size; ++i) {
            host[i] = value(mt_rank, i, salt);
        }
        mt_buffer_put(&send, host, sizeof(int) * (size_t)(INTS * mt_size));
        if (turn % 2) {
            MT_MPI(MPI_Alltoall(send.data, INTS, MPI_INT, recv.data, INTS, MPI_INT, worker->comm));
        } else {
            MT_MPI(MPI_Ialltoall(send.data, INTS, MPI_INT, recv.data, INTS, MPI_INT, worker->comm, &request));
            MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        mt_buffer_get(&recv, host, sizeof(int) * (size_t)(INTS * mt_size));
        for (int i = 0; i < INTS * mt_size; ++i) {
            MT_CHECK(host[i] == value(i / INTS, mt_rank * INTS + i % INTS, salt),
                     "thread %d, turn %d: integer %d is wrong", worker->number, turn, i);
        }
    }
    mt_buffer_free(&send, "a thread's send buffer");
    mt_buffer_free(&recv, "a thread's receive buffer");
    free(host);
    return NULL;
}

static void threads(void)
{
    worker_t workers[THREADS];
    uint64_t before = mt_staged(MPI_COMM_WORLD);

    for (int i = 0; i < THREADS; ++i) {
        workers[i].number = i;
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm));
    }
    for (int i = 0; i < THREADS; ++i) {
        MT_CHECK(0 == pthread_create(&workers[i].thread, NULL, work, &workers[i]), "no thread");
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(workers[i].thread, NULL);
        MT_MPI(MPI_Comm_free(&workers[i].comm));
    }
    check_staged(before, 40 * THREADS, "threads");
}

int main(int argc, char **argv)
{
    bool multiple = argc > 1 && 0 == strcmp(argv[1], "--threads");

    mt_init(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_CHECK(mt_size <= RANKS_MAX, "at most %d ranks", RANKS_MAX);
    interleaved();
    compute_beside();
    many();
    persistent();
    pairs();
    odd_addresses();
    reduce_locally();
    large();
    outlive();
    if (multiple) {
        threads();
    }
    return mt_finish();
}
