/*
 * The first call of a communicator whose ranks have set one up before, in an order of events that is not the usual one.
 * Usage: test_duplicates gone RANK: RANK has freed the earlier communicator already, and so does not know what its
 * ranks have agreed on; the others know it and offer it. The call must serve all.
 *        test_duplicates late RANK SECONDS: RANK comes so late, after coll_mscclpp_timeout. The call must end with an
 * error on all ranks, and a duplicate of MPI_COMM_WORLD after that must serve.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"

/* Returns what an all-reduce of one number of each rank returns. After a success the sum must be right. */
static int sum(MPI_Comm comm, mt_buffer_t *buffer)
{
    double value = mt_rank + 1.0;
    int rc;

    mt_buffer_put(buffer, &value, sizeof(value));
    rc = MPI_Allreduce(MPI_IN_PLACE, buffer->data, 1, MPI_DOUBLE, MPI_SUM, comm);
    if (MPI_SUCCESS == rc) {
        mt_buffer_get(buffer, &value, sizeof(value));
        MT_CHECK(value == mt_size * (mt_size + 1.0) / 2, "the sum is %g", value);
    }
    return rc;
}

/* A duplicate of MPI_COMM_WORLD that has served a call by kernels. */
static MPI_Comm serve(mt_buffer_t *buffer)
{
    uint64_t before;
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    before = mt_served(comm);
    MT_MPI(sum(comm, buffer));
    MT_CHECK(mt_served(comm) > before, "kernels served no call");
    return comm;
}

static void be_gone(int rank, mt_buffer_t *buffer)
{
    MPI_Comm first = serve(buffer), second;
    uint64_t before;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    before = mt_served(second);
    if (rank == mt_rank) {
        MT_MPI(MPI_Comm_free(&first));
    }
    MT_MPI(sum(second, buffer));
    MT_CHECK(mt_served(second) > before, "kernels served no call");
    if (rank != mt_rank) {
        MT_MPI(MPI_Comm_free(&first));
    }
    first = serve(buffer); /* by what all know again */
    MT_MPI(MPI_Comm_free(&first));
    MT_MPI(MPI_Comm_free(&second));
}

static void be_late(int rank, int seconds, mt_buffer_t *buffer)
{
    MPI_Comm first = serve(buffer), second;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    MT_MPI(MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN));
    mt_barrier(MPI_COMM_WORLD);
    if (rank == mt_rank) {
        (void)sleep((unsigned)seconds);
    }
    MT_CHECK(MPI_SUCCESS != sum(second, buffer), "the late call served");
    MT_MPI(MPI_Comm_free(&second));
    second = serve(buffer);
    MT_MPI(MPI_Comm_free(&second));
    MT_MPI(MPI_Comm_free(&first));
}

int main(int argc, char **argv)
{
    mt_buffer_t buffer;
    int rank;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    rank = argc > 2 ? atoi(argv[2]) : -1;
    buffer = mt_buffer_alloc(MT_DEVICE, sizeof(double), 0);
    if (3 == argc && 0 == strcmp(argv[1], "gone")) {
        be_gone(rank, &buffer);
    } else if (4 == argc && 0 == strcmp(argv[1], "late")) {
        be_late(rank, atoi(argv[3]), &buffer);
    } else {
        fprintf(stderr, "usage: test_duplicates gone RANK | late RANK SECONDS\n");
        return 2;
    }
    mt_buffer_free(&buffer, "test_duplicates");
    return mt_finish();
}
