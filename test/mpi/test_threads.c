/*
 * MPI_THREAD_MULTIPLE: each thread calls all-reduce on a communicator of its own, all at the same time.
 * Usage: test_threads [--many], with more threads than a GPU has room for; test_threads --engines, with collectives
 * that copy engines are asked for, which have to serve most of them; or test_threads --move N, with N threads that call
 * collectives that only move data, of up to some 10 KiB a block, and no all-reduce.
 */
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

#define FEW 4
#define MANY 20
#define CALLS 60

/* With engines: rounds of collectives, and the most integers of a block. */
#define ROUNDS 12
#define BLOCK_MAX 40000
#define BRIEF_ROUNDS 3

typedef struct {
    MPI_Comm comm;
    int number;
    bool moves; /* calls collectives that move data */
    bool brief; /* calls nothing else, with small blocks */
} worker_t;

/* The value that a rank sends, in a round, to another one at this index. */
static int value(const worker_t *worker, int round, int from, int to, int index)
{
    return worker->number + 100 * (round + 100 * (from + 10 * to)) + index;
}

/* Sets the blocks that a rank sends: one for each rank, or `all` blocks alike. */
static void put_blocks(const worker_t *worker, int round, mt_buffer_t *buffer, int *values, int block, bool all)
{
    int rank;

    MPI_Comm_rank(worker->comm, &rank);
    for (int i = 0; i < mt_size * block; ++i) {
        values[i] = value(worker, round, rank, all ? 0 : i / block, i % block);
    }
    mt_buffer_put(buffer, values, (size_t)mt_size * (size_t)block * sizeof(int));
}

/* Checks the block that came from each rank. */
static void check_blocks(const worker_t *worker, int round, const mt_buffer_t *buffer, int *values, int block, bool all)
{
    int rank, wrong = 0;

    MPI_Comm_rank(worker->comm, &rank);
    mt_buffer_get(buffer, values, (size_t)mt_size * (size_t)block * sizeof(int));
    for (int i = 0; i < mt_size * block; ++i) {
        wrong += values[i] != value(worker, round, i / block, all ? 0 : rank, i % block);
    }
    MT_CHECK(0 == wrong, "thread %d, round %d: %d of %d integers are wrong", worker->number, round, wrong,
             mt_size * block);
}

/* Checks the block that came from the root. */
static void check_scattered(const worker_t *worker, int round, int root, const mt_buffer_t *buffer, int *values,
                            int block)
{
    int rank, wrong = 0;

    MPI_Comm_rank(worker->comm, &rank);
    mt_buffer_get(buffer, values, (size_t)block * sizeof(int));
    for (int i = 0; i < block; ++i) {
        wrong += values[i] != value(worker, round, root, rank, i);
    }
    MT_CHECK(0 == wrong, "thread %d, round %d: %d of %d integers of a scatter from rank %d are wrong", worker->number,
             round, wrong, block, root);
}

/* Calls collectives that only move data. */
static void move(const worker_t *worker)
{
    const size_t bytes = (size_t)mt_size * BLOCK_MAX * sizeof(int);
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, bytes, 0), out = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    int *values = mt_host_alloc(bytes);

    for (int round = 0; round < (worker->brief ? BRIEF_ROUNDS : ROUNDS); ++round) {
        const int block = worker->brief    ? 1200 * (1 + round % 3) + worker->number
                          : 0 == round % 3 ? BLOCK_MAX
                                           : 5000 * (round % 3) + worker->number;

        put_blocks(worker, round, &in, values, block, false);
        MT_MPI(MPI_Alltoall(in.data, block, MPI_INT, out.data, block, MPI_INT, worker->comm));
        check_blocks(worker, round, &out, values, block, false);
        put_blocks(worker, round, &in, values, block, true);
        MT_MPI(MPI_Allgather(in.data, block, MPI_INT, out.data, block, MPI_INT, worker->comm));
        check_blocks(worker, round, &out, values, block, true);
        for (int root = 0; root < mt_size; ++root) {
            put_blocks(worker, round, &in, values, block, true);
            MT_MPI(MPI_Bcast(in.data, block, MPI_INT, root, worker->comm));
            mt_buffer_get(&in, values, sizeof(values[0]));
            MT_CHECK(values[0] == value(worker, round, root, 0, 0), "thread %d, round %d: a broadcast is wrong",
                     worker->number, round);
            put_blocks(worker, round, &in, values, block, false);
            MT_MPI(MPI_Scatter(in.data, block, MPI_INT, out.data, block, MPI_INT, root, worker->comm));
            check_scattered(worker, round, root, &out, values, block);
        }
    }
    free(values);
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
}

static void *work(void *argument)
{
    static const int counts[] = {1, 50, 2000, 30000};
    const worker_t *worker = argument;

    for (int i = 0; i < CALLS && !worker->brief; ++i) {
        mt_call_t call = mt_call(worker->comm, counts[(i + worker->number) % 4], i * MANY + worker->number);
        call.in_place = 0 == i % 3;
        mt_verify(&call);
        if (worker->moves && 10 == i) {
            move(worker);
        }
        if (20 == i) {
            /* Communicators come and go while the other threads are in their calls. */
            MPI_Comm duplicate;
            MT_MPI(MPI_Comm_dup(worker->comm, &duplicate));
            call.comm = duplicate;
            mt_verify(&call);
            MT_MPI(MPI_Comm_free(&duplicate));
        }
    }
    if (worker->brief) {
        move(worker);
    }
    return NULL;
}

static int count_ucx_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(int *)context += strstr(info->dlpi_name, "/libuc") != NULL;
    return 0;
}

/* UCX and its modules, which take memory away from threads that allocate some while they are being loaded. */
static int count_ucx(void)
{
    int count = 0;

    dl_iterate_phdr(count_ucx_library, &count);
    return count;
}

int main(int argc, char **argv)
{
    static const char *const counters[] = {"allreduce_engines", "alltoall_engines", "allgather_engines",
                                           "bcast_engines"};
    const bool many = argc > 1 && 0 == strcmp(argv[1], "--many");
    const bool engines = argc > 1 && 0 == strcmp(argv[1], "--engines");
    const bool brief = argc > 2 && 0 == strcmp(argv[1], "--move");
    const int count = many ? MANY : brief ? atoi(argv[2]) : FEW;
    const int calls = brief ? BRIEF_ROUNDS * 2 : CALLS; /* besides those of each root */
    pthread_t threads[MANY];
    worker_t workers[MANY];
    uint64_t served;
    int ucx;

    mt_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < 4 && engines; ++i) {
        (void)mt_counter(counters[i]); /* begins to count */
    }
    ucx = count_ucx();
    /* Kernels of many threads and processes that take turns on one GPU wait for one another through the driver. */
    if (many && mt_too_crowded(1)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    mt_type(MPI_INT); /* the table of types is made by one thread */
    for (int i = 0; i < count; ++i) {
        workers[i].number = i;
        workers[i].moves = engines;
        workers[i].brief = brief;
        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? mt_rank : -mt_rank, &workers[i].comm));
    }
    for (int i = 0; i < count; ++i) {
        if (0 != pthread_create(&threads[i], NULL, work, &workers[i])) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
    }
    served = mt_served(MPI_COMM_WORLD);
    MT_CHECK(served >= (uint64_t)(count * calls), "kernels served %llu of %d calls", (unsigned long long)served,
             count * calls);
    if (engines) {
        const uint64_t moved = (uint64_t)count * ROUNDS;

        for (int i = 0; i < 4; ++i) {
            const uint64_t by_engines = mt_counter(counters[i]), wanted = 0 == i ? 1 : 3 == i ? moved * mt_size : moved;

            MT_CHECK(by_engines >= wanted, "%s is %llu and not %llu or more", counters[i],
                     (unsigned long long)by_engines, (unsigned long long)wanted);
        }
    }
    MT_CHECK(count_ucx() == ucx, "%d libraries of UCX were loaded beside running threads", count_ucx() - ucx);
    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_free(&workers[i].comm));
    }
    return mt_finish();
}
