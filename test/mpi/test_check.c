/*
 * Calls that do not match, on three ranks or more: the last one passes something else. Usage:
 *   test_check blocking|nonblocking FAULT  with coll_mscclpp_check_calls: every rank gets an error before
 *       anything has happened, and the communicator goes on working; nonblocking calls end the job
 *   test_check exchange|wait               without it: an error on all ranks, where they exchange their buffers anyway,
 *       or on those that have to wait
 * FAULT is a row of the table below. The runner looks for what the component prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#define RANKS_MAX 16
#define INTS 64

typedef enum { BLOCKING, NONBLOCKING } variant_t;

static mt_buffer_t send, recv;
static int counts[RANKS_MAX], displs[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];
static MPI_Request request = MPI_REQUEST_NULL;

#define VARIANTS(name_, ...)                                                                                           \
    (NONBLOCKING == variant ? MPI_I##name_(__VA_ARGS__, MPI_COMM_WORLD, &request) : CALL_##name_(__VA_ARGS__))

#define CALL_allreduce(...) MPI_Allreduce(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_bcast(...) MPI_Bcast(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_reduce(...) MPI_Reduce(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_scan(...) MPI_Scan(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_exscan(...) MPI_Exscan(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_allgather(...) MPI_Allgather(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_allgatherv(...) MPI_Allgatherv(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_alltoall(...) MPI_Alltoall(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_alltoallv(...) MPI_Alltoallv(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_alltoallw(...) MPI_Alltoallw(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_gather(...) MPI_Gather(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_gatherv(...) MPI_Gatherv(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_scatter(...) MPI_Scatter(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_scatterv(...) MPI_Scatterv(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_reduce_scatter(...) MPI_Reduce_scatter(__VA_ARGS__, MPI_COMM_WORLD)
#define CALL_reduce_scatter_block(...) MPI_Reduce_scatter_block(__VA_ARGS__, MPI_COMM_WORLD)

/* `odd`: this rank's call is the one that does not match. Counts differ by one element where nothing else does. */
static int call(const char *fault, variant_t variant, bool odd)
{
    const int n = odd ? 3 : 4;

    for (int rank = 0; rank < mt_size; ++rank) {
        counts[rank] = odd && rank == 0 ? 3 : 4;
        displs[rank] = 4 * rank;
        types[rank] = MPI_INT;
    }
    if (0 == strcmp(fault, "count")) {
        return VARIANTS(allreduce, send.data, recv.data, n, MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "type")) {
        return VARIANTS(allreduce, send.data, recv.data, 4, odd ? MPI_DOUBLE : MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "op")) {
        return VARIANTS(allreduce, send.data, recv.data, 4, MPI_INT, odd ? MPI_MAX : MPI_SUM);
    }
    if (0 == strcmp(fault, "collective")) {
        return odd ? VARIANTS(bcast, recv.data, 4, MPI_INT, 0)
                   : VARIANTS(allreduce, send.data, recv.data, 4, MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "variant")) {
        int code = odd ? MPI_Iallreduce(send.data, recv.data, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request)
                       : MPI_Allreduce(send.data, recv.data, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        return MPI_SUCCESS == code && odd ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
    if (0 == strcmp(fault, "root")) {
        return VARIANTS(bcast, recv.data, 4, MPI_INT, odd ? 1 : 0);
    }
    if (0 == strcmp(fault, "bcast")) {
        return VARIANTS(bcast, recv.data, n, MPI_INT, 0);
    }
    if (0 == strcmp(fault, "reduce")) {
        return VARIANTS(reduce, send.data, recv.data, n, MPI_INT, MPI_SUM, 1);
    }
    if (0 == strcmp(fault, "scan")) {
        return VARIANTS(scan, send.data, recv.data, n, MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "exscan")) {
        return VARIANTS(exscan, send.data, recv.data, n, MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "allgather")) {
        return VARIANTS(allgather, send.data, n, MPI_INT, recv.data, 4, MPI_INT);
    }
    if (0 == strcmp(fault, "allgatherv")) {
        return VARIANTS(allgatherv, send.data, 4, MPI_INT, recv.data, counts, displs, MPI_INT);
    }
    if (0 == strcmp(fault, "alltoall")) {
        return VARIANTS(alltoall, send.data, n, MPI_INT, recv.data, n, MPI_INT);
    }
    if (0 == strcmp(fault, "alltoallv")) {
        return VARIANTS(alltoallv, send.data, counts, displs, MPI_INT, recv.data, counts, displs, MPI_INT);
    }
    if (0 == strcmp(fault, "alltoallw")) {
        return VARIANTS(alltoallw, send.data, counts, displs, types, recv.data, counts, displs, types);
    }
    if (0 == strcmp(fault, "gather")) {
        return VARIANTS(gather, send.data, n, MPI_INT, recv.data, 4, MPI_INT, 0);
    }
    if (0 == strcmp(fault, "gatherv")) {
        return VARIANTS(gatherv, send.data, n, MPI_INT, recv.data, counts, displs, MPI_INT, 0);
    }
    if (0 == strcmp(fault, "scatter")) {
        return VARIANTS(scatter, send.data, 4, MPI_INT, recv.data, n, MPI_INT, 0);
    }
    if (0 == strcmp(fault, "scatterv")) {
        return VARIANTS(scatterv, send.data, counts, displs, MPI_INT, recv.data, n, MPI_INT, 0);
    }
    if (0 == strcmp(fault, "reduce_scatter")) {
        return VARIANTS(reduce_scatter, send.data, recv.data, counts, MPI_INT, MPI_SUM);
    }
    if (0 == strcmp(fault, "reduce_scatter_block")) {
        return VARIANTS(reduce_scatter_block, send.data, recv.data, n, MPI_INT, MPI_SUM);
    }
    fprintf(stderr, "test_check: fault '%s' is not allowed; see test/mpi/test_check.c\n", fault);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return MPI_ERR_OTHER;
}

/* A good call of every rank: its result, and that it is right. */
static void verify(void)
{
    int ones[INTS], sums[INTS];

    for (int i = 0; i < INTS; ++i) {
        ones[i] = 1;
    }
    mt_buffer_put(&send, ones, sizeof(ones));
    MT_MPI(MPI_Allreduce(send.data, recv.data, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    mt_buffer_get(&recv, sums, sizeof(sums));
    for (int i = 0; i < INTS; ++i) {
        MT_CHECK(mt_size == sums[i], "element %d is %d and not %d", i, sums[i], mt_size);
    }
}

static void compare_blocking(const char *fault)
{
    int code;

    verify();
    code = call(fault, BLOCKING, mt_rank == mt_size - 1);
    MT_CHECK(MPI_SUCCESS != code, "calls that do not match succeeded");
    verify();
    MT_MPI(call(fault, BLOCKING, false));
    verify();
}

/* The component ends the job, at the latest in the wait. */
static void compare_later(const char *fault)
{
    verify();
    (void)call(fault, NONBLOCKING, mt_rank == mt_size - 1);
    (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (;;) {
        int flag;

        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

/* The first call makes the team; in the second the ranks ask for different things. */
static void differ(size_t bytes, bool all)
{
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, bytes, 0), out = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    const int count = (int)(bytes / sizeof(int)), odd = mt_rank == mt_size - 1;
    int code, codes[RANKS_MAX];
    bool found = false;

    mt_buffer_set(&in, 0);
    MT_MPI(MPI_Allreduce(in.data, out.data, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    code = MPI_Allreduce(in.data, out.data, odd ? count - 4 : count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mt_allgather(MPI_COMM_WORLD, &code, codes, sizeof(code));
    for (int rank = 0; rank < mt_size; ++rank) {
        found = found || MPI_SUCCESS != codes[rank];
    }
    MT_CHECK(all ? MPI_SUCCESS != code : found, "calls that do not match succeeded");
    mt_buffer_free(&in, "input");
    mt_buffer_free(&out, "output");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "", *fault = argc > 2 ? argv[2] : "count";

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(3)) {
        return mt_finish();
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    send = mt_buffer_alloc(MT_DEVICE, INTS * sizeof(int) * 2, 0);
    recv = mt_buffer_alloc(MT_DEVICE, INTS * sizeof(int) * 2, 0);
    mt_buffer_set(&send, 0);
    mt_buffer_set(&recv, 0);
    if (0 == strcmp(how, "blocking")) {
        compare_blocking(fault);
    } else if (0 == strcmp(how, "nonblocking")) {
        compare_later(fault);
    } else if (0 == strcmp(how, "exchange")) {
        differ((size_t)4 << 20, true);
    } else if (0 == strcmp(how, "wait")) {
        differ(1 << 16, false);
    } else {
        fprintf(stderr, "test_check: '%s' is not allowed; use blocking, nonblocking, exchange or wait\n", how);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    return mt_finish();
}
