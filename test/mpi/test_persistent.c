/*
 * Persistent requests that kernels serve: started by each rank in an order of its own, among calls of all other kinds,
 * over and over.
 *
 * --restarts N: so often. --split: a buffer is several allocations at some starts. --late: a rank that does not come in
 * time, which is an error of all, of nonblocking calls, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/mpi/mpi_sums.h"

/* What calls of one test are told from those of the others by. */
static int salt;

/* Each rank starts a communicator's persistent requests in an order of its own, among calls of all other kinds. */
static void persistent(void)
{
    enum { REQUESTS = 5, TURNS = 9, BLOCK = 70 };
    static const int counts[REQUESTS] = {1, 30, 5000, 40000, 300};
    MPI_Request requests[REQUESTS + 1];
    mt_buffer_t send, recv;
    unsigned *own = mt_host_alloc(sizeof(int) * BLOCK), *all = mt_host_alloc(sizeof(int) * BLOCK * (size_t)mt_size);
    sum_t sums[REQUESTS], between;
    counts_t before;

    send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * BLOCK, 0);
    recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * BLOCK * (size_t)mt_size, 0);
    for (int i = 0; i < REQUESTS; ++i) {
        sum_make(&sums[i], counts[i], 0);
        sum_init(&sums[i], MPI_COMM_WORLD);
    }
    MT_MPI(PERSISTENT_INIT(Allgather)(send.data, BLOCK, MPI_INT, recv.data, BLOCK, MPI_INT, MPI_COMM_WORLD,
                                      MPI_INFO_NULL, &requests[REQUESTS]));
    before = counts_now();
    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = salt += REQUESTS + 2;

        for (int i = 0; i < BLOCK; ++i) {
            own[i] = sum_value(mt_rank, i, base);
        }
        mt_buffer_put(&send, own, sizeof(int) * BLOCK);
        for (int i = 0; i < REQUESTS; ++i) {
            sum_fill(&sums[i], base + i);
        }
        sum_make(&between, 200, base + REQUESTS);
        if (turn % 3 == 0) {
            for (int i = 0; i < REQUESTS; ++i) {
                requests[(i + mt_rank) % REQUESTS] = sums[i].request;
            }
            MT_MPI(MPI_Startall(REQUESTS + 1, requests));
            sum_start(&between, MPI_COMM_WORLD);
        } else {
            for (int k = 0; k <= REQUESTS; ++k) {
                const int i = (k * (mt_rank % 2 ? 1 : REQUESTS) + mt_rank + turn) % (REQUESTS + 1);

                MT_MPI(MPI_Start(REQUESTS == i ? &requests[REQUESTS] : &sums[i].request));
                if (2 == k) {
                    sum_start(&between, MPI_COMM_WORLD);
                }
                if (turn % 3 == 1 && 3 == k) {
                    sum_now(20, base + REQUESTS + 1, MPI_COMM_WORLD, "a blocking call among persistent ones");
                }
            }
        }
        for (int k = 0; k < REQUESTS; ++k) {
            const int i = (k * (mt_rank % 2 ? REQUESTS - 1 : 1) + turn) % REQUESTS;

            MT_MPI(MPI_Wait(&sums[i].request, MPI_STATUS_IGNORE));
            sum_compare(&sums[i], "persistent");
        }
        sum_wait(&between, "among persistent ones");
        MT_MPI(MPI_Wait(&requests[REQUESTS], MPI_STATUS_IGNORE));
        mt_buffer_get(&recv, all, sizeof(int) * BLOCK * (size_t)mt_size);
        for (int i = 0; i < BLOCK * mt_size; ++i) {
            MT_CHECK(all[i] == sum_value(i / BLOCK, i % BLOCK, base),
                     "persistent all-gather, turn %d: integer %d is wrong", turn, i);
        }
    }
    counts_check(before, (REQUESTS + 2) * TURNS + TURNS / 3, "persistent");
    for (int i = 0; i < REQUESTS; ++i) {
        MT_MPI(MPI_Request_free(&sums[i].request));
        sum_free(&sums[i]);
    }
    MT_MPI(MPI_Request_free(&requests[REQUESTS]));
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(own);
    free(all);
}

/* Made and freed again, started or not, each rank in an order of its own. */
static void short_lived(void)
{
    enum { TURNS = 40, REQUESTS = 3 };
    sum_t sums[REQUESTS];

    for (int turn = 0; turn < TURNS; ++turn) {
        for (int i = 0; i < REQUESTS; ++i) {
            sum_make(&sums[i], 10 + i, ++salt);
            sum_init(&sums[i], MPI_COMM_WORLD);
        }
        MT_MPI(MPI_Start(&sums[turn % REQUESTS].request));
        MT_MPI(MPI_Wait(&sums[turn % REQUESTS].request, MPI_STATUS_IGNORE));
        sum_compare(&sums[turn % REQUESTS], "short-lived");
        for (int k = 0; k < REQUESTS; ++k) {
            const int i = (k + mt_rank) % REQUESTS;

            MT_MPI(MPI_Request_free(&sums[i].request));
            sum_free(&sums[i]);
        }
    }
}

static void restarts(int times)
{
    enum { REQUESTS = 2 };
    const counts_t before = counts_now();
    MPI_Request requests[REQUESTS];
    sum_t sums[REQUESTS];

    for (int i = 0; i < REQUESTS; ++i) {
        sum_make(&sums[i], 4 + 60 * i, i);
        sum_init(&sums[i], MPI_COMM_WORLD);
    }
    for (int turn = 0; turn < times; ++turn) {
        if (turn % 1000 == 0 || turn + 1 == times) {
            sum_fill(&sums[0], turn);
            sum_fill(&sums[1], turn + 1);
        }
        for (int i = 0; i < REQUESTS; ++i) {
            requests[(i + mt_rank) % REQUESTS] = sums[i].request;
        }
        MT_MPI(MPI_Startall(REQUESTS, requests));
        MT_MPI(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE));
        if (turn % 1000 == 0 || turn + 1 == times) {
            sum_compare(&sums[0], "restarts");
            sum_compare(&sums[1], "restarts");
        }
    }
    counts_check(before, (uint64_t)times * REQUESTS, "restarts");
    for (int i = 0; i < REQUESTS; ++i) {
        MT_MPI(MPI_Request_free(&sums[i].request));
        sum_free(&sums[i]);
    }
}

/* Maps memory that counts as one allocation of the device if coll_mscclpp_twin_shared_only is set. */
static char *map_shared(char *address, size_t length)
{
    char *memory = mmap(address, length, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | (address != NULL ? MAP_FIXED : 0), -1, 0);

    MT_CHECK(MAP_FAILED != (void *)memory, "no shared memory");
    return memory;
}

/*
 * Between starts, the buffers become several allocations at the same addresses, and one again. Only blocks with types
 * of their own may lie in several.
 */
static void split(void)
{
    enum { RANKS = 4, TURNS = 6, BLOCK = 4096 /* bytes: a page */, INTS = BLOCK / sizeof(int) };
    const size_t length = (size_t)BLOCK * (size_t)mt_size;
    const counts_t before = counts_now();
    int counts[RANKS], displs[RANKS];
    MPI_Datatype types[RANKS];
    MPI_Request request;
    char *in, *out;

    MT_CHECK(mt_size <= RANKS && BLOCK == sysconf(_SC_PAGESIZE), "for up to %d ranks and pages of %d bytes", RANKS,
             BLOCK);
    in = map_shared(NULL, length);
    out = map_shared(NULL, length);
    for (int i = 0; i < mt_size; ++i) {
        counts[i] = INTS;
        displs[i] = BLOCK * i;
        types[i] = MPI_INT;
    }
    MT_MPI(PERSISTENT_INIT(Alltoallw)(in, counts, displs, types, out, counts, displs, types, MPI_COMM_WORLD,
                                      MPI_INFO_NULL, &request));
    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = salt += 1;

        if (turn % 4 == 2) {
            (void)map_shared((mt_rank % 2 ? in : out) + BLOCK, length - BLOCK);
        } else if (turn % 4 == 0) {
            (void)map_shared(mt_rank % 2 ? in : out, length);
        }
        for (int i = 0; i < mt_size * INTS; ++i) {
            ((unsigned *)(void *)in)[i] = sum_value(mt_rank, i, base);
        }
        MT_MPI(MPI_Start(&request));
        MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < mt_size * INTS; ++i) {
            MT_CHECK(((unsigned *)(void *)out)[i] == sum_value(i / INTS, mt_rank * INTS + i % INTS, base),
                     "split, turn %d: integer %d is wrong", turn, i);
        }
    }
    counts_check(before, TURNS, "split");
    MT_MPI(MPI_Request_free(&request));
    (void)munmap(in, length);
    (void)munmap(out, length);
}

/*
 * The last rank comes after the others' deadline. It may find its operands there, as they have been sent; all others
 * are told, and each call from then on fails on all ranks. Open MPI frees persistent requests that fail.
 */
static void fail_late(void)
{
    const bool last = mt_rank == mt_size - 1;
    MPI_Comm comms[2];
    sum_t sum, again, persistent;
    int code;

    /* Errors of requests of collectives are the world's to Open MPI. */
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < 2; ++i) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        MT_MPI(MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN));
    }
    sum_make(&sum, 20, ++salt);
    sum_make(&again, 20, ++salt);
    sum_make(&persistent, 20, ++salt);
    sum_now(5, ++salt, comms[0], "before the late call");
    sum_init(&persistent, comms[1]);
    if (last) {
        sleep(5);
    }
    MT_MPI(MPI_Start(&persistent.request));
    sum_start(&sum, comms[0]);
    sum_start(&again, comms[0]);
    MT_CHECK(MPI_SUCCESS != MPI_Wait(&again.request, MPI_STATUS_IGNORE), "a call after a failed one did not fail");
    code = MPI_Wait(&sum.request, MPI_STATUS_IGNORE);
    MT_CHECK(last || MPI_SUCCESS != code, "a call with a late rank did not fail");
    code = MPI_Wait(&persistent.request, MPI_STATUS_IGNORE);
    MT_CHECK(last || MPI_SUCCESS != code, "a start with a late rank did not fail");
    if (MPI_REQUEST_NULL != persistent.request) {
        MT_MPI(MPI_Start(&persistent.request));
        MT_CHECK(MPI_SUCCESS != MPI_Wait(&persistent.request, MPI_STATUS_IGNORE), "a start after a failed one did not");
    }
    MT_CHECK(MPI_SUCCESS != MPI_Allreduce(again.send.data, again.recv.data, 20, MPI_INT, MPI_SUM, comms[0]),
             "a blocking call after a failed one did not fail");
    sum_free(&sum);
    sum_free(&again);
    sum_free(&persistent);
    MT_MPI(MPI_Comm_free(&comms[0]));
    MT_MPI(MPI_Comm_free(&comms[1]));
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    if (argc > 2 && 0 == strcmp(argv[1], "--restarts")) {
        restarts(atoi(argv[2]));
    } else if (argc > 1 && 0 == strcmp(argv[1], "--split")) {
        split();
    } else if (argc > 1 && 0 == strcmp(argv[1], "--late")) {
        fail_late();
    } else {
        persistent();
        short_lived();
    }
    return mt_finish();
}
