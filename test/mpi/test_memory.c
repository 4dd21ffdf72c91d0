/*
 * Send and receive buffers of different kinds of memory, and ranks whose kinds differ. A call counts as one on device
 * memory if either buffer of a rank is device, managed, pool or mapped memory; every rank has one such here.
 */
#include <stdio.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static uint64_t calls;

static void verify(mt_call_t *call)
{
    mt_verify(call);
    ++calls;
}

static bool is_device(mt_kind_t kind)
{
    return mt_twin || MT_DEVICE == kind || MT_MANAGED == kind || MT_POOL == kind || MT_MAPPED == kind;
}

static void pair(mt_kind_t send, mt_kind_t recv)
{
    static const int counts[] = {1, 1000, 300000};

    for (int i = 0; i < 3; ++i) {
        mt_call_t call = mt_call(MPI_COMM_WORLD, counts[i], i);
        call.send_kind = send;
        call.recv_kind = recv;
        verify(&call);
        call.recv_misalign = 4;
        call.in_place = is_device(recv);
        verify(&call);
    }
}

/* Each rank has kinds of its own, which change from call to call. */
static void different_ranks(const mt_kind_t *kinds, int count)
{
    for (int i = 0; i < 4 * count; ++i) {
        mt_call_t call = mt_call(MPI_COMM_WORLD, i % 2 ? 500 : 200000, i);
        call.send_kind = kinds[(i + mt_rank) % count];
        call.recv_kind = kinds[(i * 3 + mt_rank) % count];
        if (!is_device(call.send_kind) && !is_device(call.recv_kind)) {
            call.recv_kind = MT_DEVICE;
        }
        verify(&call);
    }
}

int main(int argc, char **argv)
{
    mt_kind_t kinds[MT_KIND_LAST];
    int count = 0;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    for (int kind = 0; kind < MT_KIND_LAST; ++kind) {
        if (mt_kind_exists((mt_kind_t)kind)) {
            kinds[count++] = (mt_kind_t)kind;
        }
    }
    for (int i = 0; i < count; ++i) {
        for (int j = 0; j < count; ++j) {
            if (is_device(kinds[i]) || is_device(kinds[j])) {
                pair(kinds[i], kinds[j]);
            }
        }
    }
    different_ranks(kinds, count);
    MT_CHECK(calls == mt_served(MPI_COMM_WORLD), "kernels served %llu of %llu calls",
             (unsigned long long)mt_served(MPI_COMM_WORLD), (unsigned long long)calls);
    if (0 == mt_rank) {
        printf("%d kinds of memory\n", count);
    }
    return mt_finish();
}
