/*
 * MPI_THREAD_MULTIPLE: each thread calls all-reduce on a communicator of its own, all at the same time.
 * Usage: test_threads [--many], with more threads than a GPU has room for.
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

typedef struct {
    MPI_Comm comm;
    int number;
} worker_t;

static void *work(void *argument)
{
    static const int counts[] = {1, 50, 2000, 30000};
    const worker_t *worker = argument;

    for (int i = 0; i < CALLS; ++i) {
        mt_call_t call = mt_call(worker->comm, counts[(i + worker->number) % 4], i * MANY + worker->number);
        call.in_place = 0 == i % 3;
        mt_verify(&call);
        if (20 == i) {
            /* Communicators come and go while the other threads are in their calls. */
            MPI_Comm duplicate;
            MT_MPI(MPI_Comm_dup(worker->comm, &duplicate));
            call.comm = duplicate;
            mt_verify(&call);
            MT_MPI(MPI_Comm_free(&duplicate));
        }
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
    const bool many = argc > 1 && 0 == strcmp(argv[1], "--many");
    const int count = many ? MANY : FEW;
    pthread_t threads[MANY];
    worker_t workers[MANY];
    uint64_t served;
    int ucx;

    mt_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    ucx = count_ucx();
    /* Kernels of many threads and processes that take turns on one GPU wait for one another through the driver. */
    if (many && mt_too_crowded(1)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    mt_type(MPI_INT); /* the table of types is made by one thread */
    for (int i = 0; i < count; ++i) {
        workers[i].number = i;
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
    MT_CHECK(served >= (uint64_t)(count * CALLS), "kernels served %llu of %d calls", (unsigned long long)served,
             count * CALLS);
    MT_CHECK(count_ucx() == ucx, "%d libraries of UCX were loaded beside running threads", count_ucx() - ucx);
    for (int i = 0; i < count; ++i) {
        MT_MPI(MPI_Comm_free(&workers[i].comm));
    }
    return mt_finish();
}
