#include "test/mpi/mpi_sums.h"

#include <stdlib.h>

unsigned sum_value(int rank, int index, int call)
{
    return (unsigned)mt_mix((uint64_t)rank, (uint64_t)index, (uint64_t)call) % 100000;
}

void sum_fill(sum_t *sum, int call)
{
    unsigned *host = mt_host_alloc(sizeof(int) * (size_t)sum->count);

    sum->call = call;
    for (int i = 0; i < sum->count; ++i) {
        host[i] = sum_value(mt_rank, i, call);
    }
    mt_buffer_put(&sum->send, host, sizeof(int) * (size_t)sum->count);
    mt_buffer_set(&sum->recv, 0x5a);
    free(host);
}

void sum_make(sum_t *sum, int count, int call)
{
    sum->count = count;
    sum->send = mt_buffer_alloc(MT_DEVICE, sizeof(int) * (size_t)count, 0);
    sum->recv = mt_buffer_alloc(MT_DEVICE, sizeof(int) * (size_t)count, 0);
    sum_fill(sum, call);
}

void sum_start(sum_t *sum, MPI_Comm comm)
{
    MT_MPI(MPI_Iallreduce(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm, &sum->request));
}

void sum_compare(const sum_t *sum, const char *what)
{
    unsigned *host = mt_host_alloc(sizeof(int) * (size_t)sum->count);

    mt_buffer_get(&sum->recv, host, sizeof(int) * (size_t)sum->count);
    for (int i = 0; i < sum->count; ++i) {
        unsigned wanted = 0;
        for (int rank = 0; rank < mt_size; ++rank) {
            wanted += sum_value(rank, i, sum->call);
        }
        if (host[i] != wanted) {
            mt_fail(__FILE__, __LINE__, "%s: call %d: integer %d of %d is %u and not %u", what, sum->call, i,
                    sum->count, host[i], wanted);
            break;
        }
    }
    free(host);
}

void sum_free(sum_t *sum)
{
    mt_buffer_free(&sum->send, "the send buffer of a sum");
    mt_buffer_free(&sum->recv, "the receive buffer of a sum");
}

void sum_check(sum_t *sum, const char *what)
{
    sum_compare(sum, what);
    sum_free(sum);
}

void sum_wait(sum_t *sum, const char *what)
{
    MT_MPI(MPI_Wait(&sum->request, MPI_STATUS_IGNORE));
    sum_check(sum, what);
}

void sum_now(int count, int call, MPI_Comm comm, const char *what)
{
    sum_t sum;

    sum_make(&sum, count, call);
    MT_MPI(MPI_Allreduce(sum.send.data, sum.recv.data, count, MPI_INT, MPI_SUM, comm));
    sum_check(&sum, what);
}

counts_t counts_now(void)
{
    return (counts_t){.served = mt_served(MPI_COMM_WORLD), .staged = mt_staged(MPI_COMM_WORLD)};
}

void counts_check(counts_t before, uint64_t calls, const char *what)
{
    const counts_t now = counts_now();

    MT_CHECK(now.served - before.served == calls && now.staged == before.staged,
             "%s: kernels served %llu calls of %llu, %llu were staged", what,
             (unsigned long long)(now.served - before.served), (unsigned long long)calls,
             (unsigned long long)(now.staged - before.staged));
}

void sum_init(sum_t *sum, MPI_Comm comm)
{
    MT_MPI(PERSISTENT_INIT(Allreduce)(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                      &sum->request));
}
