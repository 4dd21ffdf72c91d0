/* MPI_THREAD_MULTIPLE: each thread calls all-reduce on a communicator of its own, all at the same time. */
#include <pthread.h>
#include <stdlib.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

#define THREADS 4
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
        mt_call_t call = mt_call(worker->comm, counts[(i + worker->number) % 4], i * THREADS + worker->number);
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

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    worker_t workers[THREADS];
    uint64_t served;

    mt_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    mt_type(MPI_INT); /* the table of types is made by one thread */
    for (int i = 0; i < THREADS; ++i) {
        workers[i].number = i;
        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? mt_rank : -mt_rank, &workers[i].comm));
    }
    for (int i = 0; i < THREADS; ++i) {
        if (0 != pthread_create(&threads[i], NULL, work, &workers[i])) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    served = mt_served(MPI_COMM_WORLD);
    MT_CHECK(served >= THREADS * CALLS, "kernels served %llu of %d calls", (unsigned long long)served, THREADS * CALLS);
    for (int i = 0; i < THREADS; ++i) {
        MT_MPI(MPI_Comm_free(&workers[i].comm));
    }
    return mt_finish();
}
