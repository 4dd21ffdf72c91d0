/*
 * Rank 0 passes host memory and the others device memory. On the twin the parameter twin_host_ranks=0 (later: 0/1)
 * makes it so, and may name more ranks. Usage: test_mixed allowed: coll_mscclpp_mixed_buffers is 1, and the results are
 * right test_mixed refused [first|later]: the job must end with a message that names the ranks; coming through the call
 * is the failure. The runner checks message, exit status and time.
 */
#include <stdio.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static mt_kind_t kind_of_rank(void)
{
    return 0 == mt_rank && !mt_twin ? MT_HOST : MT_DEVICE;
}

static void allowed(void)
{
    static const int counts[] = {1, 17, 4000, 200000};

    for (int i = 0; i < 12; ++i) {
        mt_call_t call = mt_call(MPI_COMM_WORLD, counts[i % 4], i);
        call.send_kind = kind_of_rank();
        call.recv_kind = kind_of_rank();
        call.in_place = 0 == i % 3;
        mt_verify(&call);
    }
    /* Only one of the two buffers of rank 0 is host memory: that was never a mixture. */
    if (!mt_twin) {
        mt_call_t call = mt_call(MPI_COMM_WORLD, 1000, 99);
        call.send_kind = kind_of_rank();
        mt_verify(&call);
    }
    MT_CHECK(mt_served(MPI_COMM_WORLD) > 0, "no call was served by a kernel");
}

static void refused(bool later)
{
    mt_call_t call = mt_call(MPI_COMM_WORLD, 1000, 1);

    if (later) {
        mt_verify(&call); /* the ranks have met already */
        MT_CHECK(1 == mt_served(MPI_COMM_WORLD), "the call before was not served by a kernel");
    }
    call.send_kind = kind_of_rank();
    call.recv_kind = kind_of_rank();
    mt_verify(&call);
    printf("rank %d came through a call with mixed buffers\n", mt_rank);
    MT_CHECK(false, "a mixture of host and device buffers went unnoticed");
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    if (argc > 1 && 0 == strcmp(argv[1], "allowed")) {
        allowed();
    } else {
        refused(argc > 2 && 0 == strcmp(argv[2], "later"));
    }
    return mt_finish();
}
