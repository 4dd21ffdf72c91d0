/*
 * All-reduce in brief, for machines on which the whole layer would take hours: counts on both sides of every limit,
 * every operation on one type, several communicators at once, refusals. Every call has to be served by a kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static unsigned calls;
static uint64_t served;

/* Open MPI's own calls, such as those of MPI_Comm_split, do not count, which kernels of the twin may serve as well. */
static void verify(const mt_call_t *call)
{
    const uint64_t before = mt_served(call->comm);

    mt_verify(call);
    served += mt_served(call->comm) - before;
    ++calls;
}

/* From one element to several exchanges of everything that a rank may have under way. */
static void counts(void)
{
    static const int counts[] = {1, 5, 1023, 4097, 65539, 300007};
    mt_call_t call = mt_call(MPI_COMM_WORLD, 0, 1);

    call.type = mt_type(MPI_UNSIGNED_CHAR);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call.count = counts[i];
        call.seed = (int)i;
        call.in_place = i % 2 == 1;
        call.send_misalign = (i + (size_t)mt_rank) % 16;
        call.recv_misalign = (3 * i + 5 * (size_t)mt_rank) % 16;
        verify(&call);
    }
    /* Many in a row, with no time between them in which something could settle. */
    for (int i = 0; i < 50; ++i) {
        call = mt_call(MPI_COMM_WORLD, 1 + i % 3 * 700, i);
        verify(&call);
    }
}

static void operations(void)
{
    mt_call_t call = mt_call(MPI_COMM_WORLD, 37, 2);

    for (int op = 0; op < MT_OP_COUNT; ++op) {
        if (0 != (call.type->ops & 1u << op)) {
            call.op = (mt_op_t)op;
            verify(&call);
        }
    }
    call.op = MT_OP_SUM;
    call.type = mt_type(MPI_DOUBLE);
    verify(&call);
}

static void communicators(void)
{
    enum { COMMS = 4 };
    MPI_Comm comms[COMMS];

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -mt_rank, &comms[1]));
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank % 2, mt_rank, &comms[2]));
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0 == mt_rank ? MPI_UNDEFINED : 1, 0, &comms[3]));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < COMMS; ++i) {
            int which = (i + round) % COMMS;
            if (MPI_COMM_NULL != comms[which]) {
                mt_call_t call = mt_call(comms[which], 100 + 3000 * round, round + i);
                verify(&call);
            }
        }
    }
    /* Those that are gone leave the others as they are. */
    MT_MPI(MPI_Comm_free(&comms[0]));
    for (int i = 1; i < COMMS; ++i) {
        if (MPI_COMM_NULL != comms[i]) {
            mt_call_t call = mt_call(comms[i], 200, 20 + i);
            verify(&call);
            MT_MPI(MPI_Comm_free(&comms[i]));
        }
    }
}

static void refusals(void)
{
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, 64, 0), recv = mt_buffer_alloc(MT_DEVICE, 64, 0);
    mt_call_t call = mt_call(MPI_COMM_WORLD, 100, 3);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MT_CHECK(MPI_SUCCESS != MPI_Allreduce(send.data, recv.data, 4, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD),
             "MPI_BAND of doubles was not refused");
    MT_CHECK(MPI_SUCCESS != MPI_Allreduce(send.data, recv.data, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
             "a negative count was not refused");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    verify(&call);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    counts();
    operations();
    communicators();
    refusals();
    MT_CHECK(calls == served, "kernels served %llu of %u calls", (unsigned long long)served, calls);
    return mt_finish();
}
