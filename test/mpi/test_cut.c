/*
 * The network between nodes is cut in the middle of the calls: every rank gets an MPI error in time, and the broken
 * communicator refuses further calls at once. Usage: test_cut FILE SECONDS. Rank 0 makes the file when all ranks have
 * been served for a while, for whoever runs the test to cut the network; each call has to end within SECONDS.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

#define CALLS_BEFORE 20

/* Small and large in turn, as these are sent in different ways. */
static int reduce(MPI_Comm comm, const mt_buffer_t *send, const mt_buffer_t *recv, int call, double *seconds_p)
{
    const int count = call % 2 == 0 ? 1 : (int)(send->size / sizeof(int));
    double start = mt_now();
    int code = MPI_Allreduce(send->data, recv->data, count, MPI_INT, MPI_SUM, comm);

    *seconds_p = mt_now() - start;
    return code;
}

static void ask_for_the_cut(const char *path)
{
    int file = open(path, O_CREAT | O_WRONLY, 0600);

    MT_CHECK(file >= 0, "%s cannot be made", path);
    if (file >= 0) {
        close(file);
    }
}

int main(int argc, char **argv)
{
    mt_buffer_t send, recv;
    double limit, took = 0, start;
    int code = MPI_SUCCESS, call = 0;
    uint64_t served;
    MPI_Comm comm;

    if (argc != 3) {
        return 2;
    }
    limit = strtod(argv[2], NULL);
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    send = mt_buffer_alloc(MT_DEVICE, 100000, 0);
    recv = mt_buffer_alloc(MT_DEVICE, 100000, 0);
    mt_buffer_set(&send, 0);
    served = mt_served(comm);
    for (; call < CALLS_BEFORE; ++call) {
        MT_MPI(reduce(comm, &send, &recv, call, &took));
    }
    MT_CHECK(served + CALLS_BEFORE == mt_served(comm), "kernels did not serve the calls");
    if (0 == mt_rank) {
        ask_for_the_cut(argv[1]);
    }
    for (start = mt_now(); MPI_SUCCESS == code && mt_now() - start < limit; ++call) {
        code = reduce(comm, &send, &recv, call, &took);
    }
    MT_CHECK(MPI_SUCCESS != code, "%d calls succeeded, and the network was not cut", call);
    MT_CHECK(took < limit, "call %d took %.1f s to fail", call, took);
    code = reduce(comm, &send, &recv, 0, &took);
    MT_CHECK(MPI_SUCCESS != code, "a call on the broken communicator succeeded");
    MT_CHECK(took < 1, "a call on the broken communicator took %.1f s", took);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    MT_MPI(MPI_Comm_free(&comm));
    return mt_finish();
}
