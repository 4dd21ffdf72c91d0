/*
 * Counts from 0 to beyond 2 GiB, every alignment of either buffer, in place and not, with guard bytes round every
 * buffer. Usage: test_counts [quick|staged|big]; quick takes fewer types and alignments, staged the same ones, none of
 * which kernels may serve, and big is one call beyond 2 GiB, for which each rank needs 2 GiB of device memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static void zero_count(void)
{
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, 64, 0);
    char before[64], after[64];

    mt_buffer_get(&buffer, before, sizeof(before));
    MT_MPI(MPI_Allreduce(buffer.data, buffer.data + 32, 0, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    MT_MPI(MPI_Allreduce(MPI_IN_PLACE, buffer.data, 0, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD));
    MT_MPI(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    mt_buffer_get(&buffer, after, sizeof(after));
    MT_CHECK(0 == memcmp(before, after, sizeof(before)), "a call with count 0 touched its buffers");
    mt_buffer_free(&buffer, "buffer of a call with count 0");
}

static void every_count(MPI_Datatype type)
{
    static const int counts[] = {1,    2,    3,    4,    5,    7,     8,     9,     11,     13,
                                 15,   16,   17,   31,   32,   33,    63,    64,    65,     100,
                                 127,  129,  255,  257,  511,  513,   1000,  1023,  1025,   2047,
                                 4095, 4097, 5000, 8191, 8193, 16385, 32771, 65537, 131071, 262147};
    mt_call_t call = mt_call(MPI_COMM_WORLD, 0, 1);

    call.type = mt_type(type);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call.count = counts[i];
        call.seed = (int)i;
        call.in_place = false;
        mt_verify(&call);
        call.in_place = true;
        mt_verify(&call);
    }
}

/* Ranks differ in their alignments, which MPI allows. */
static void every_alignment(MPI_Datatype type, int count, size_t step)
{
    mt_call_t call = mt_call(MPI_COMM_WORLD, count, 2);

    call.type = mt_type(type);
    for (size_t send = 0; send < 16; ++send) {
        for (size_t recv = 0; recv < 16; recv += step) {
            call.send_misalign = (send + 5 * (size_t)mt_rank) % 16;
            call.recv_misalign = (recv + 3 * (size_t)mt_rank) % 16;
            call.in_place = false;
            mt_verify(&call);
        }
        call.recv_misalign = (send + 7 * (size_t)mt_rank) % 16;
        call.in_place = true;
        mt_verify(&call);
    }
}

/* Operands that need no table: the index itself, with the rank in the high byte. */
static uint16_t big_operand(size_t index, int rank)
{
    return (uint16_t)(index * 40503u + (size_t)rank * 257u + (index >> 16));
}

static void beyond_two_gib(void)
{
    const size_t count = ((size_t)1 << 30) + 7, chunk = (size_t)1 << 20;
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, count * sizeof(uint16_t), 0);
    uint16_t *values = mt_host_alloc(chunk * sizeof(uint16_t));

    for (size_t done = 0; done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        mt_buffer_t slice = buffer;
        slice.data += done * sizeof(uint16_t);
        for (size_t i = 0; i < part; ++i) {
            values[i] = big_operand(done + i, mt_rank);
        }
        mt_buffer_put(&slice, values, part * sizeof(uint16_t));
    }
    MT_MPI(MPI_Allreduce(MPI_IN_PLACE, buffer.data, (int)count, MPI_UINT16_T, MPI_SUM, MPI_COMM_WORLD));
    for (size_t done = 0; done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        mt_buffer_t slice = buffer;
        slice.data += done * sizeof(uint16_t);
        mt_buffer_get(&slice, values, part * sizeof(uint16_t));
        for (size_t i = 0; i < part; ++i) {
            uint16_t sum = 0;
            for (int rank = 0; rank < mt_size; ++rank) {
                sum = (uint16_t)(sum + big_operand(done + i, rank));
            }
            MT_CHECK(sum == values[i], "beyond 2 GiB: element %zu is %u and not %u", done + i, values[i], sum);
        }
    }
    free(values);
    mt_buffer_free(&buffer, "buffer beyond 2 GiB");
}

/* A communicator's first large message lets its memory grow; flags of packets that came before must not be found again.
 */
static void small_after_large(void)
{
    static const int counts[] = {4, 3, 100000, 2, 4, 1, 4};
    mt_call_t call;
    MPI_Comm comm;

    for (size_t first = 0; first <= 2; ++first) {
        MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (size_t i = first; i < sizeof(counts) / sizeof(counts[0]); ++i) {
            call = mt_call(comm, counts[i], (int)(10 * first + i));
            mt_verify(&call);
        }
        MT_MPI(MPI_Comm_free(&comm));
    }
}

static void run(bool quick)
{
    zero_count();
    small_after_large();
    every_count(MPI_UNSIGNED_CHAR);
    every_count(MPI_DOUBLE);
    every_alignment(MPI_INT, 37, quick ? 5 : 1);
    every_alignment(MPI_UNSIGNED_CHAR, 70001, quick ? 15 : 5);
    if (!quick) {
        every_count(MPI_SHORT);
        every_count(MPI_INT);
        every_count(MPI_C_DOUBLE_COMPLEX);
        every_alignment(MPI_UNSIGNED_CHAR, 61, 1);
        every_alignment(MPI_DOUBLE, 19, 1);
        every_alignment(MPI_FLOAT, 20011, 5);
    }
}

int main(int argc, char **argv)
{
    bool staged = argc > 1 && 0 == strcmp(argv[1], "staged");
    bool quick = staged || (argc > 1 && 0 == strcmp(argv[1], "quick")), big = argc > 1 && 0 == strcmp(argv[1], "big");
    uint64_t served, expected = big ? 1 : quick ? 200 : 900;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    served = mt_served(MPI_COMM_WORLD);
    if (big) {
        beyond_two_gib();
    } else {
        run(quick);
    }
    served = mt_served(MPI_COMM_WORLD) - served;
    if (staged || mt_parameter_is("algorithm", "stage")) {
        MT_CHECK(0 == served, "all calls are to be staged, but kernels served %llu", (unsigned long long)served);
    } else {
        MT_CHECK(served >= expected, "kernels served only %llu calls", (unsigned long long)served);
    }
    return mt_finish();
}
