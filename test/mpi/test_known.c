/*
 * Nonblocking and persistent calls on mapped buffers: the same buffers again and again, in an order of each rank's own,
 * on two communicators, and buffers that are freed and allocated anew between starts, at the same addresses.
 *
 * --engines: copy engines have to serve all of them. --late: a rank that does not come in time to calls with buffers
 * that are known, which is an error of all. --killed: a rank ends by SIGKILL amid such calls; the others say that they
 * have ended well, and leave without MPI_Finalize.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_sums.h"

/* Elements of a block: large enough to be mapped where zero-copy is what a blocking call of that size takes. */
#define COUNT 300000
#define COUNT_ON_GPU (4 << 20)

enum { REQUESTS = 4, TURNS = 6, TRIES = 16 };

static int count, salt, replaced;

/* An all-gather of a block of each rank, as a persistent request or a nonblocking call. */
typedef struct {
    mt_buffer_t in, out;
    MPI_Request request;
} gather_t;

static unsigned *block, *blocks;

static void make_gather(gather_t *gather)
{
    gather->in = mt_buffer_alloc(MT_DEVICE, (size_t)count * sizeof(*block), 0);
    gather->out = mt_buffer_alloc(MT_DEVICE, (size_t)mt_size * (size_t)count * sizeof(*block), 0);
}

static void free_gather(gather_t *gather)
{
    mt_buffer_free(&gather->in, "in");
    mt_buffer_free(&gather->out, "out");
}

static void fill_gather(gather_t *gather, int call)
{
    for (int i = 0; i < count; ++i) {
        block[i] = sum_value(mt_rank, i, call);
    }
    mt_buffer_put(&gather->in, block, (size_t)count * sizeof(*block));
    mt_buffer_set(&gather->out, 0x5a);
}

static void check_gather(const gather_t *gather, int call, const char *what)
{
    int wrong = 0;

    mt_buffer_get(&gather->out, blocks, (size_t)mt_size * (size_t)count * sizeof(*blocks));
    for (int rank = 0; rank < mt_size; ++rank) {
        for (int i = 0; i < count; ++i) {
            wrong += blocks[(size_t)rank * (size_t)count + (size_t)i] != sum_value(rank, i, call);
        }
    }
    MT_CHECK(wrong == 0, "%s, call %d: %d numbers are wrong", what, call, wrong);
}

static void init_gather(gather_t *gather, MPI_Comm comm)
{
    MT_MPI(PERSISTENT_INIT(Allgather)(gather->in.data, count, MPI_UNSIGNED, gather->out.data, count, MPI_UNSIGNED, comm,
                                      MPI_INFO_NULL, &gather->request));
}

/* Frees a buffer, and allocates others until one of them is where it was. Then counts in `replaced`. */
static void replace(mt_buffer_t *buffer)
{
    const size_t size = buffer->size;
    char *const data = buffer->data;
    mt_buffer_t others[TRIES];
    int tries = 0, used = -1;

    mt_buffer_free(buffer, "a buffer between starts");
    for (; tries < TRIES && used < 0; ++tries) {
        others[tries] = mt_buffer_alloc(MT_DEVICE, size, 0);
        used = others[tries].data == data ? tries : -1;
    }
    *buffer = others[used < 0 ? 0 : used];
    for (int i = 0; i < tries; ++i) {
        if (i != (used < 0 ? 0 : used)) {
            mt_buffer_free(&others[i], "another buffer");
        }
    }
    replaced += used >= 0;
}

/*
 * Restarts requests, all at once or in an order of each rank's own, on two communicators. Between some starts a rank
 * frees a buffer of an inactive request. If no new one lies there, the request is made anew, which all ranks do.
 */
static void restart(MPI_Comm second)
{
    gather_t gathers[REQUESTS];
    MPI_Request requests[REQUESTS];

    for (int i = 0; i < REQUESTS; ++i) {
        make_gather(&gathers[i]);
        init_gather(&gathers[i], i % 2 == 0 ? MPI_COMM_WORLD : second);
    }
    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = salt += REQUESTS;

        if (turn > 0 && turn % 2 == 0) {
            gather_t *gather = &gathers[turn / 2 % REQUESTS];
            mt_buffer_t *buffer = turn % 4 == 0 ? &gather->in : &gather->out;
            char *const data = buffer->data;
            int moved;

            if (mt_rank == turn / 2 % mt_size) {
                replace(buffer);
            }
            moved = buffer->data != data;
            MT_MPI(MPI_Allreduce(MPI_IN_PLACE, &moved, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
            if (moved) {
                MT_MPI(MPI_Request_free(&gather->request));
                init_gather(gather, (gather - gathers) % 2 == 0 ? MPI_COMM_WORLD : second);
            }
        }
        for (int i = 0; i < REQUESTS; ++i) {
            fill_gather(&gathers[i], base + i);
        }
        for (int k = 0; k < REQUESTS; ++k) {
            requests[k] = gathers[(k + mt_rank) % REQUESTS].request;
        }
        if (turn % 2 == 0) {
            MT_MPI(MPI_Startall(REQUESTS, requests));
        } else {
            for (int k = 0; k < REQUESTS; ++k) {
                MT_MPI(MPI_Start(&requests[k]));
            }
        }
        MT_MPI(MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < REQUESTS; ++i) {
            check_gather(&gathers[i], base + i, "restarted");
        }
    }
    for (int k = 0; k < REQUESTS; ++k) {
        MT_MPI(MPI_Request_free(&gathers[(k + mt_rank) % REQUESTS].request));
    }
    mt_barrier(MPI_COMM_WORLD);
    for (int i = 0; i < REQUESTS; ++i) {
        free_gather(&gathers[i]);
    }
}

/* Nonblocking calls with two pairs of buffers by turns, some of which are replaced between calls. */
static void again(void)
{
    gather_t gathers[2];

    make_gather(&gathers[0]);
    make_gather(&gathers[1]);
    for (int turn = 0; turn < TURNS; ++turn) {
        const int base = salt += 2;

        if (mt_rank == turn % (mt_size + 1)) {
            replace(&gathers[turn % 2].out);
        }
        for (int i = 0; i < 2; ++i) {
            fill_gather(&gathers[i], base + i);
            MT_MPI(MPI_Iallgather(gathers[i].in.data, count, MPI_UNSIGNED, gathers[i].out.data, count, MPI_UNSIGNED,
                                  MPI_COMM_WORLD, &gathers[i].request));
        }
        for (int i = 1; i >= 0; --i) {
            MT_MPI(MPI_Wait(&gathers[i].request, MPI_STATUS_IGNORE));
            check_gather(&gathers[i], base + i, "nonblocking");
        }
    }
    mt_barrier(MPI_COMM_WORLD);
    free_gather(&gathers[0]);
    free_gather(&gathers[1]);
}

/* Open MPI frees persistent requests that fail. */
static void fail_late(MPI_Comm second)
{
    const bool last = mt_rank == mt_size - 1;
    gather_t now, started;
    int codes[2];

    /* Errors of requests of collectives are the world's to Open MPI. */
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MT_MPI(MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN));
    make_gather(&now);
    make_gather(&started);
    init_gather(&started, second);
    for (int call = 0; call < 2; ++call) {
        fill_gather(&now, ++salt);
        fill_gather(&started, salt);
        if (call > 0 && last) {
            sleep(5);
        }
        MT_MPI(MPI_Start(&started.request));
        MT_MPI(MPI_Iallgather(now.in.data, count, MPI_UNSIGNED, now.out.data, count, MPI_UNSIGNED, MPI_COMM_WORLD,
                              &now.request));
        codes[0] = MPI_Wait(&now.request, MPI_STATUS_IGNORE);
        codes[1] = MPI_Wait(&started.request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; ++i) {
            MT_CHECK((MPI_SUCCESS == codes[i]) == (0 == call), "%s call number %d returned code %d",
                     0 == i ? "nonblocking" : "persistent", call, codes[i]);
        }
    }
    if (MPI_REQUEST_NULL != started.request) {
        MT_MPI(MPI_Request_free(&started.request));
    }
    mt_barrier(MPI_COMM_WORLD);
    free_gather(&now);
    free_gather(&started);
}

/*
 * The last rank ends once it has started the third calls, of which its thread may carry out some. The others' calls end
 * with an error, at the latest the fourth ones. They end within SECONDS, as coll_mscclpp_timeout is shorter.
 */
static void __attribute__((noreturn)) lose_last(MPI_Comm second)
{
    enum { CALLS = 4, SECONDS = 8 };
    const bool last = mt_rank == mt_size - 1;
    bool failed[2] = {false, false};
    gather_t now, started;
    int failures, total;
    MPI_Comm rest;

    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, last, mt_rank, &rest));
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MT_MPI(MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN));
    make_gather(&now);
    make_gather(&started);
    init_gather(&started, second);
    for (int call = 1; call <= CALLS && !(failed[0] && failed[1]); ++call) {
        const double start = mt_now();

        if (!failed[1]) {
            MT_MPI(MPI_Start(&started.request));
        }
        if (!failed[0]) {
            MT_MPI(MPI_Iallgather(now.in.data, count, MPI_UNSIGNED, now.out.data, count, MPI_UNSIGNED, MPI_COMM_WORLD,
                                  &now.request));
        }
        if (last && 3 == call) {
            (void)raise(SIGKILL);
        }
        failed[0] = failed[0] || MPI_SUCCESS != MPI_Wait(&now.request, MPI_STATUS_IGNORE);
        failed[1] = failed[1] || MPI_SUCCESS != MPI_Wait(&started.request, MPI_STATUS_IGNORE);
        MT_CHECK(call > 2 || !(failed[0] || failed[1]), "call %d failed before the rank was gone", call);
        MT_CHECK(mt_now() - start < SECONDS, "call %d took %.1f s", call, mt_now() - start);
    }
    MT_CHECK(failed[0] && failed[1], "calls without the last rank succeeded");
    failures = mt_failures();
    MT_MPI(MPI_Allreduce(&failures, &total, 1, MPI_INT, MPI_SUM, rest));
    if (0 == mt_rank && 0 == total) {
        printf("all that are left have ended well\n");
    }
    fflush(NULL);
    _exit(0 == failures ? 0 : 1);
}

int main(int argc, char **argv)
{
    const bool engines = argc > 1 && 0 == strcmp(argv[1], "--engines");
    counts_t before;
    uint64_t by_engines;
    MPI_Comm second;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2) || mt_too_crowded(1)) {
        return MT_SKIPPED;
    }
    count = mt_twin ? COUNT : COUNT_ON_GPU;
    block = mt_host_alloc((size_t)count * sizeof(*block));
    blocks = mt_host_alloc((size_t)mt_size * (size_t)count * sizeof(*blocks));
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    if (argc > 1 && 0 == strcmp(argv[1], "--late")) {
        fail_late(second);
        return mt_finish();
    }
    if (argc > 1 && 0 == strcmp(argv[1], "--killed")) {
        lose_last(second);
    }
    before = counts_now();
    by_engines = mt_counter("allgather_engines");
    restart(second);
    again();
    by_engines = mt_counter("allgather_engines") - by_engines;
    MT_CHECK(!engines || TURNS * (REQUESTS + 2) == by_engines, "engines have served %llu calls, and not %d",
             (unsigned long long)by_engines, TURNS * (REQUESTS + 2));
    MT_CHECK(mt_staged(MPI_COMM_WORLD) == before.staged, "calls were staged");
    MT_CHECK(!mt_twin || mt_rank != 0 || replaced > 0, "no new buffer lay where a freed one was");
    MT_MPI(MPI_Comm_free(&second));
    free(block);
    free(blocks);
    return mt_finish();
}
