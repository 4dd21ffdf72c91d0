/*
 * The counters coll_mscclpp_staged_<reason> tell why calls are staged: each call here has one reason, and no other
 * counter goes up.
 * Usage: test_reasons calls|stage|mixed. With `stage` no algorithm of the component may serve (coll_mscclpp_algorithm),
 * and with `mixed` ranks may pass different kinds of memory (coll_mscclpp_mixed_buffers).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/mpi/mpi_sums.h"

#define ELEMENTS 64
#define ROUNDS 20 /* of calls in which some ranks are late */

/* More persistent requests than a communicator has memory for, and how many get none. */
#define REQUESTS 34
#define REQUESTS_WITHOUT 2

enum {
    INTER,
    OPERATION,
    TYPE,
    LOCAL,
    INTERNAL,
    COMMUNICATOR,
    ALGORITHM,
    RANKS,
    MIXED,
    WITHOUT,
    UNDECIDED,
    OTHER,
    LAST
};
static const char *const reasons[LAST] = {"inter",     "operation", "type",  "local",    "internal",  "communicator",
                                          "algorithm", "ranks",     "mixed", "requests", "undecided", "other"};

static mt_buffer_t in, out;

/* Reads the counters. */
static void read_counters(unsigned long long values[LAST])
{
    for (int i = 0; i < LAST; ++i) {
        char name[64];

        snprintf(name, sizeof(name), "staged_%s", reasons[i]);
        values[i] = mt_counter(name);
    }
}

/* Checks that since `before` so many calls were staged for one reason, and none for another. */
static void check(const char *what, const unsigned long long before[LAST], int reason, unsigned long long wanted)
{
    unsigned long long after[LAST];

    read_counters(after);
    for (int i = 0; i < LAST; ++i) {
        const unsigned long long more = after[i] - before[i];

        MT_CHECK(more == (i == reason ? wanted : 0), "%s: counter staged_%s has gone up by %llu and not %llu", what,
                 reasons[i], more, i == reason ? wanted : 0);
    }
}

/* An operation of the application. */
static void add(void *from, void *to, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; ++i) {
        ((int *)to)[i] += ((int *)from)[i];
    }
}

/* Collectives with an operation of the application. */
static void own_operation(void)
{
    unsigned long long before[LAST];
    MPI_Request request;
    MPI_Op op;

    MT_MPI(MPI_Op_create(add, 1, &op));
    read_counters(before);
    MT_MPI(MPI_Allreduce(in.data, out.data, ELEMENTS, MPI_INT, op, MPI_COMM_WORLD));
    MT_MPI(MPI_Scan(in.data, out.data, ELEMENTS, MPI_INT, op, MPI_COMM_WORLD));
    MT_MPI(MPI_Iallreduce(in.data, out.data, ELEMENTS, MPI_INT, op, MPI_COMM_WORLD, &request));
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check("operation of the application", before, OPERATION, 3);
    MT_MPI(MPI_Op_free(&op));
}

/*
 * Reductions of a type that no kernel knows. Rank 0 ends a scan before the others begin it, and decides the next call,
 * which kernels serve, before they have come to the scan.
 */
static void unknown_type(void)
{
    const struct timespec pause = {0, 2000000};
    unsigned long long before[LAST];

    MT_MPI(MPI_Scan(in.data, out.data, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    read_counters(before);
    for (int round = 0; round < ROUNDS; ++round) {
        if (0 != mt_rank) {
            nanosleep(&pause, NULL);
        }
        MT_MPI(MPI_Scan(in.data, out.data, 1, MPI_C_LONG_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD));
        MT_MPI(MPI_Scan(in.data, out.data, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    }
    check("type that kernels do not know", before, TYPE, ROUNDS);
    MT_MPI(MPI_Reduce_local(in.data, out.data, ELEMENTS, MPI_INT, MPI_SUM));
    before[TYPE] += ROUNDS;
    check("MPI_Reduce_local", before, LOCAL, 1);
}

/* What Open MPI calls itself is on host memory, which only the twin takes for device memory. */
static void communicators(void)
{
    unsigned long long before[LAST], after[LAST];
    MPI_Comm half, inter;

    read_counters(before);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0 == mt_rank, mt_rank, &half));
    MT_MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 0 == mt_rank ? 1 : 0, 1, &inter));
    read_counters(after);
    MT_CHECK(mt_twin == (after[INTERNAL] > before[INTERNAL]), "Open MPI has made %llu calls itself",
             after[INTERNAL] - before[INTERNAL]);
    read_counters(before);
    MT_MPI(MPI_Allreduce(in.data, out.data, ELEMENTS, MPI_INT, MPI_SUM, inter));
    check("inter-communicator", before, INTER, 1);
    MT_MPI(MPI_Comm_free(&inter));
    MT_MPI(MPI_Comm_free(&half));
}

/* More persistent requests than can be served. */
static void persistent(void)
{
    MPI_Request requests[REQUESTS];
    unsigned long long before[LAST];

    read_counters(before);
    for (int i = 0; i < REQUESTS; ++i) {
        MT_MPI(PERSISTENT_INIT(Allreduce)(in.data, out.data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                          &requests[i]));
    }
    for (int i = 0; i < REQUESTS; ++i) {
        MT_MPI(MPI_Start(&requests[i]));
        MT_MPI(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    check("persistent requests", before, WITHOUT, REQUESTS_WITHOUT);
    for (int i = 0; i < REQUESTS; ++i) {
        MT_MPI(MPI_Request_free(&requests[i]));
    }
}

/* Calls that kernels serve, but for the parameters that the usage names. */
static void usual(int reason, unsigned long long blocking, unsigned long long nonblocking)
{
    unsigned long long before[LAST];
    MPI_Request request;

    read_counters(before);
    MT_MPI(MPI_Allreduce(in.data, out.data, ELEMENTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MT_MPI(MPI_Bcast(out.data, ELEMENTS, MPI_INT, 0, MPI_COMM_WORLD));
    check("blocking calls", before, reason, blocking);
    before[reason] += blocking;
    MT_MPI(MPI_Iallreduce(in.data, out.data, ELEMENTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MT_MPI(MPI_Ibcast(out.data, ELEMENTS, MPI_INT, 0, MPI_COMM_WORLD, &request));
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check("nonblocking calls", before, reason, nonblocking);
}

int main(int argc, char **argv)
{
    const char *mode;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    mode = argc > 1 ? argv[1] : "";
    in = mt_buffer_alloc(MT_DEVICE, ELEMENTS * sizeof(long double) * 2, 0);
    out = mt_buffer_alloc(MT_DEVICE, ELEMENTS * sizeof(long double) * 2, 0);
    mt_buffer_set(&in, 0);
    mt_buffer_set(&out, 0);
    if (0 == strcmp(mode, "calls")) {
        usual(OTHER, 0, 0);
        own_operation();
        unknown_type();
        communicators();
        persistent();
    } else if (0 == strcmp(mode, "stage")) {
        usual(ALGORITHM, 2, 2);
    } else if (0 == strcmp(mode, "mixed")) {
        usual(MIXED, 0, 2);
    } else {
        MT_CHECK(false, "\"%s\" is not allowed; use calls, stage or mixed", mode);
    }
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
    return mt_finish();
}
