/*
 * The last rank comes late to a call.
 * Usage: test_late warn SECONDS:    the call ends well; the runner looks for the warning that names the rank
 *        test_late timeout SECONDS: coll_mscclpp_timeout is shorter: the others get an error within SECONDS, and so
 * does the late rank; the communicator stays broken, others go on working, and so do those that come after its end. A
 * third argument "first" makes the late call the first of its communicator.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static int reduce(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, double *seconds_p)
{
    double start = mt_now();
    int code = MPI_Allreduce(send->data, recv->data, 100, MPI_INT, MPI_SUM, comm);

    *seconds_p = mt_now() - start;
    return code;
}

static void warn(MPI_Comm comm, int seconds)
{
    mt_call_t call = mt_call(comm, 1000, 5);

    if (mt_rank == mt_size - 1) {
        sleep((unsigned)seconds);
    }
    mt_verify(&call);
}

static void time_out(MPI_Comm comm, int seconds)
{
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, 400, 0), recv = mt_buffer_alloc(MT_DEVICE, 400, 0);
    bool late = mt_rank == mt_size - 1;
    double took;
    int code;

    mt_buffer_set(&send, 0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (late) {
        sleep((unsigned)seconds);
    }
    code = reduce(comm, &send, &recv, &took);
    MT_CHECK(late || MPI_SUCCESS != code, "the call succeeded although its deadline had passed");
    MT_CHECK(took < seconds, "the call took %.1f s", took);
    code = reduce(comm, &send, &recv, &took);
    MT_CHECK(MPI_SUCCESS != code, "a call on the broken communicator succeeded");
    MT_CHECK(took < 1, "a call on the broken communicator took %.1f s", took);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

int main(int argc, char **argv)
{
    bool first = argc > 3 && 0 == strcmp(argv[3], "first");
    int seconds = argc > 2 ? atoi(argv[2]) : 3;
    mt_call_t call;
    MPI_Comm comm;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    call = mt_call(first ? MPI_COMM_WORLD : comm, 1000, 1);
    mt_verify(&call);
    if (argc > 1 && 0 == strcmp(argv[1], "timeout")) {
        time_out(comm, seconds);
    } else {
        warn(comm, seconds);
    }
    mt_barrier(MPI_COMM_WORLD);
    call = mt_call(MPI_COMM_WORLD, 1000, 2);
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    call = mt_call(comm, 1000, 3);
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&comm));
    return mt_finish();
}
