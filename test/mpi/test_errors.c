/* Calls that MPI refuses return the error under MPI_ERRORS_RETURN, and the communicator goes on working. */
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static int class_of(int code)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv)
{
    mt_buffer_t send, recv;
    uint64_t served;
    mt_call_t call;
    MPI_Comm comm;
    int refusal;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* some versions raise errors of arguments here */
    send = mt_buffer_alloc(MT_DEVICE, 256, 0);
    recv = mt_buffer_alloc(MT_DEVICE, 256, 0);
    mt_buffer_set(&send, 0);
    for (int i = 0; i < 3; ++i) {
        MT_CHECK(MPI_ERR_OP == class_of(MPI_Allreduce(send.data, recv.data, 4, MPI_DOUBLE, MPI_BAND, comm)),
                 "MPI_BAND of doubles was not refused");
        MT_CHECK(MPI_ERR_OP == class_of(MPI_Allreduce(send.data, recv.data, 4, MPI_INT, MPI_MAXLOC, comm)),
                 "MPI_MAXLOC of ints was not refused");
        MT_CHECK(MPI_ERR_COUNT == class_of(MPI_Allreduce(send.data, recv.data, -1, MPI_INT, MPI_SUM, comm)),
                 "a negative count was not refused");
        MT_CHECK(MPI_ERR_BUFFER == class_of(MPI_Allreduce(recv.data, recv.data, 4, MPI_INT, MPI_SUM, comm)),
                 "the same buffer twice was not refused");
        refusal = class_of(MPI_Allreduce(send.data, recv.data, 4, MPI_DATATYPE_NULL, MPI_SUM, comm));
        MT_CHECK(MPI_ERR_TYPE == refusal || MPI_ERR_OP == refusal, "MPI_DATATYPE_NULL was not refused");
        call = mt_call(comm, 100, i);
        served = mt_served(comm);
        mt_verify(&call);
        MT_CHECK(served + 1 == mt_served(comm), "the call after those was not served by a kernel");
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    MT_MPI(MPI_Comm_free(&comm));
    return mt_finish();
}
