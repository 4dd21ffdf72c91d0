/*
 * Nonblocking calls that kernels serve: started without waiting for anybody, several at once on one communicator and on
 * several, ended in any order, and beside blocking ones. --threads: from several threads, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_sums.h"

#define THREADS 4

/* What calls of one test are told from those of the others by. */
static int salt;

/* Nobody can send before the ranks have started a call that they have no team for yet: making it must not wait. */
static void first_of_communicator(void)
{
    counts_t before;
    MPI_Comm comm;
    sum_t sum;
    int token = 0;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    before = counts_now();
    sum_make(&sum, 1000, ++salt);
    if (0 == mt_rank) {
        sum_start(&sum, comm);
        for (int rank = 1; rank < mt_size; ++rank) {
            MT_MPI(MPI_Send(&token, 1, MPI_INT, rank, 1, MPI_COMM_WORLD));
        }
    } else {
        MT_MPI(MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        sum_start(&sum, comm);
    }
    sum_wait(&sum, "first of a communicator");
    counts_check(before, 1, "first of a communicator");
    MT_MPI(MPI_Comm_free(&comm));
}

/* One after the other, of all sizes, each with buffers of its own. */
static void sizes(void)
{
    static const int counts[] = {1, 2, 3, 17, 500, 4099, 70001, 600000};
    const counts_t before = counts_now();
    sum_t sum;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        sum_make(&sum, counts[i], ++salt);
        sum_start(&sum, MPI_COMM_WORLD);
        sum_wait(&sum, "sizes");
    }
    counts_check(before, sizeof(counts) / sizeof(counts[0]), "sizes");
}

typedef enum { FORWARDS, BACKWARDS, ANY, SOME, TESTALL, TESTS, ORDERS } order_t;

static void end_in_order(sum_t *sums, int count, order_t order)
{
    MPI_Request *requests = mt_host_alloc(sizeof(*requests) * (size_t)count);
    int *indices = mt_host_alloc(sizeof(int) * (size_t)count);
    int left = count, ended, index;

    for (int i = 0; i < count; ++i) {
        requests[i] = sums[i].request;
    }
    for (int i = 0; i < count && (FORWARDS == order || BACKWARDS == order); ++i) {
        MT_MPI(MPI_Wait(&requests[FORWARDS == order ? i : count - 1 - i], MPI_STATUS_IGNORE));
    }
    while (left > 0 && ANY == order) {
        MT_MPI(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
        --left;
    }
    while (left > 0 && SOME == order) {
        MT_MPI(MPI_Waitsome(count, requests, &ended, indices, MPI_STATUSES_IGNORE));
        left -= ended;
    }
    for (ended = 0; TESTALL == order && !ended;) {
        MT_MPI(MPI_Testall(count, requests, &ended, MPI_STATUSES_IGNORE));
    }
    for (index = 0; TESTS == order && left > 0; index = (index + 7) % count) {
        if (MPI_REQUEST_NULL != requests[index]) {
            MT_MPI(MPI_Test(&requests[index], &ended, MPI_STATUS_IGNORE));
            left -= ended;
        }
    }
    free(indices);
    free(requests);
}

/* Many at once, small and large by turns. */
static void many(void)
{
    enum { MANY = 60 };
    static sum_t sums[MANY];

    for (int order = 0; order < ORDERS; ++order) {
        const counts_t before = counts_now();

        for (int i = 0; i < MANY; ++i) {
            sum_make(&sums[i], i % 7 == 3 ? 20000 : 1 + 5 * i, ++salt);
        }
        for (int i = 0; i < MANY; ++i) {
            sum_start(&sums[i], MPI_COMM_WORLD);
        }
        end_in_order(sums, MANY, (order_t)order);
        counts_check(before, MANY, "many");
        for (int i = 0; i < MANY; ++i) {
            sum_check(&sums[i], "many");
        }
    }
}

/* Ranks start, and wait for, calls of several communicators each in an order of its own. */
static void communicators(void)
{
    enum { COMMS = 5, TURNS = 6 };
    MPI_Comm comms[COMMS];
    sum_t sums[COMMS];
    counts_t before;

    for (int i = 0; i < COMMS; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    before = counts_now();
    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = salt;

        salt += COMMS;
        for (int i = 0; i < COMMS; ++i) {
            sum_make(&sums[i], turn % 2 ? 30000 + i : 10 + i, base + i);
        }
        if (turn % 3 == 2) {
            /* Each is started and waited for before the next one, in opposite orders, while the others are under way.
             */
            for (int i = 0; i < COMMS && mt_rank % 2 == 0; ++i) {
                sum_start(&sums[i], comms[i]);
            }
            for (int k = 0; k < COMMS; ++k) {
                const int i = COMMS - 1 - k;

                if (mt_rank % 2 != 0) {
                    sum_start(&sums[i], comms[i]);
                }
                sum_wait(&sums[i], "communicators by turns");
            }
            continue;
        }
        for (int k = 0; k < COMMS; ++k) {
            const int i = (k * (mt_rank % 2 ? COMMS - 1 : 1) + mt_rank) % COMMS;

            sum_start(&sums[i], comms[i]);
        }
        for (int k = 0; k < COMMS; ++k) {
            sum_wait(&sums[(k * (mt_rank % 2 ? 1 : COMMS - 1) + turn) % COMMS], "communicators");
        }
    }
    counts_check(before, COMMS * TURNS, "communicators");
    for (int i = 0; i < COMMS; ++i) {
        MT_MPI(MPI_Comm_free(&comms[i]));
    }
}

/* Blocking calls come after what has been started on their communicator, and not after what is on others. */
static void beside_blocking(void)
{
    enum { TURNS = 8 };
    MPI_Comm other;
    counts_t before;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    sum_now(10, ++salt, other, "a first call");
    before = counts_now();
    for (int turn = 0; turn < TURNS; ++turn) {
        sum_t first, second, third;

        sum_make(&first, turn % 2 ? 5 : 25000, ++salt);
        sum_make(&second, 100, ++salt);
        sum_make(&third, 7, ++salt);
        salt += 4;
        if (mt_rank == turn % mt_size) {
            /* This one is in the other communicator's blocking call while its peers wait for it here. */
            sum_now(300, salt, other, "a blocking call on another communicator");
            sum_start(&first, MPI_COMM_WORLD);
        } else {
            sum_start(&first, MPI_COMM_WORLD);
            sum_now(300, salt, other, "a blocking call on another communicator");
        }
        sum_now(50, salt - 1, MPI_COMM_WORLD, "a blocking call after a nonblocking one");
        sum_start(&second, MPI_COMM_WORLD);
        sum_start(&third, MPI_COMM_WORLD);
        sum_now(9000, salt - 2, MPI_COMM_WORLD, "a blocking call after two");
        sum_wait(&third, "beside blocking ones");
        sum_wait(&first, "beside blocking ones");
        sum_wait(&second, "beside blocking ones");
    }
    counts_check(before, 6 * TURNS, "beside blocking ones");
    MT_MPI(MPI_Comm_free(&other));
}

/* Ranks that do not come to MPI for long. */
static void late(void)
{
    const counts_t before = counts_now();
    sum_t sums[3];

    for (int late = 0; late < 2; ++late) {
        for (int i = 0; i < 3; ++i) {
            sum_make(&sums[i], 1 == i ? 50000 : 20, ++salt);
        }
        if (late == mt_rank) {
            usleep(400000);
        }
        for (int i = 0; i < 3; ++i) {
            sum_start(&sums[i], MPI_COMM_WORLD);
        }
        if (late != mt_rank) {
            usleep(300000);
        }
        for (int i = 2; i >= 0; --i) {
            sum_wait(&sums[i], "late ranks");
        }
    }
    counts_check(before, 6, "late ranks");
}

/*
 * What other components serve in the same communicator is handed to them in one order on all ranks, whatever of this
 * component's calls is under way.
 */
static void beside_others(void)
{
    enum { TURNS = 10, INTS = 60 };
    int host[2][INTS], counts[64], displs[64];
    MPI_Request requests[4];
    sum_t sum;

    for (int rank = 0; rank < mt_size; ++rank) {
        counts[rank] = 0; /* nobody passes anything, so that nobody knows of what kind it is */
        displs[rank] = 0;
    }
    for (int turn = 0; turn < TURNS; ++turn) {
        sum_make(&sum, 40, ++salt);
        for (int i = 0; i < INTS; ++i) {
            host[0][i] = i + mt_rank + turn;
            host[1][i] = -1;
        }
        if (mt_rank == turn % mt_size) {
            usleep(2000);
        }
        sum_start(&sum, MPI_COMM_WORLD);
        MT_MPI(MPI_Iallgatherv(NULL, 0, MPI_INT, NULL, counts, displs, MPI_INT, MPI_COMM_WORLD, &requests[0]));
        MT_MPI(
            MPI_Ialltoallv(NULL, counts, displs, MPI_INT, NULL, counts, displs, MPI_INT, MPI_COMM_WORLD, &requests[1]));
        MT_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]));
        MT_MPI(MPI_Iallreduce(host[0], host[1], INTS, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[3]));
        MT_MPI(MPI_Wait(&requests[3], MPI_STATUS_IGNORE));
        MT_MPI(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < INTS; ++i) {
            MT_CHECK(host[1][i] == i + mt_size - 1 + turn, "beside others, turn %d: integer %d is %d", turn, i,
                     host[1][i]);
        }
        sum_wait(&sum, "beside others");
    }
}

/* MPI lets a communicator be freed before what was started on it has ended. */
static void freed_communicator(void)
{
    MPI_Comm comm;
    sum_t sum;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    sum_make(&sum, 3000, ++salt);
    sum_start(&sum, comm);
    MT_MPI(MPI_Comm_free(&comm));
    sum_wait(&sum, "freed communicator");
}

typedef struct {
    MPI_Comm comm;
    int number;
    pthread_t thread;
} worker_t;

static void *work(void *argument)
{
    enum { TURNS = 30, DEPTH = 3 };
    const worker_t *worker = argument;

    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = 1000000 * (worker->number + 1) + 10 * turn;
        sum_t sums[DEPTH];

        for (int i = 0; i < DEPTH; ++i) {
            sum_make(&sums[i], 1 == i ? 3000 : 20, base + i);
            sum_start(&sums[i], worker->comm);
        }
        if (turn % 3 == 0) {
            sum_now(100, base + DEPTH, worker->comm, "threads, blocking");
        }
        for (int i = DEPTH - 1; i >= 0; --i) {
            sum_wait(&sums[i], "threads");
        }
    }
    return NULL;
}

static void threads(void)
{
    worker_t workers[THREADS];

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
}

int main(int argc, char **argv)
{
    bool multiple = argc > 1 && 0 == strcmp(argv[1], "--threads");

    mt_init(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    first_of_communicator();
    sizes();
    many();
    communicators();
    beside_blocking();
    late();
    beside_others();
    freed_communicator();
    if (multiple) {
        threads();
    }
    return mt_finish();
}
