/*
 * Floating-point sums of values that no type holds exactly: bit for bit the same on all ranks, in every repeat, for any
 * alignment, in place or not; those of the kernels of one node are the sum in rank order; all are within its error
 * bound.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

static double operand(int rank, int i)
{
    return (double)(int64_t)mt_mix((uint64_t)rank, (uint64_t)i, 3) / 9007199254740993.0;
}

static void store(bool is_double, void *to, int i, double value)
{
    if (is_double) {
        ((double *)to)[i] = value;
    } else {
        ((float *)to)[i] = (float)value;
    }
}

static double load(bool is_double, const void *from, int i)
{
    return is_double ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* The sum in rank order, in the type itself, and the bound for any other order. */
static double in_rank_order(bool is_double, int i, double *bound_p)
{
    double sum = operand(0, i), magnitude = fabs(sum);
    float sum_float = (float)sum;

    for (int rank = 1; rank < mt_size; ++rank) {
        double next = operand(rank, i);
        sum += next;
        sum_float += (float)next;
        magnitude += fabs(next);
    }
    *bound_p = 2 * mt_size * (is_double ? DBL_EPSILON : (double)FLT_EPSILON) * magnitude;
    return is_double ? sum : (double)sum_float;
}

static void reduce(bool is_double, int count, size_t misalign, bool in_place, void *result)
{
    size_t size = is_double ? sizeof(double) : sizeof(float), bytes = (size_t)count * size;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, bytes, misalign);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, bytes, misalign / 2);
    void *values = mt_host_alloc(bytes);

    for (int i = 0; i < count; ++i) {
        store(is_double, values, i, operand(mt_rank, i));
    }
    mt_buffer_put(in_place ? &recv : &send, values, bytes);
    MT_MPI(MPI_Allreduce(in_place ? MPI_IN_PLACE : send.data, recv.data, count, is_double ? MPI_DOUBLE : MPI_FLOAT,
                         MPI_SUM, MPI_COMM_WORLD));
    mt_buffer_get(&recv, result, bytes);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    free(values);
}

static void check_values(bool is_double, int count, const void *result, bool ordered)
{
    for (int i = 0; i < count; ++i) {
        double bound, expected = in_rank_order(is_double, i, &bound), found = load(is_double, result, i);
        MT_CHECK(fabs(found - expected) <= bound, "count %d: element %d is %.17g and not %.17g", count, i, found,
                 expected);
        MT_CHECK(!ordered || found == expected,
                 "count %d: element %d is not the sum in rank order: %.17g and not %.17g", count, i, found, expected);
    }
}

static void run(bool is_double, int count, bool ordered)
{
    size_t bytes = (size_t)count * (is_double ? sizeof(double) : sizeof(float));
    char *first = mt_host_alloc(bytes), *again = mt_host_alloc(bytes);
    char *all = mt_host_alloc(bytes * (size_t)mt_size);

    reduce(is_double, count, 0, false, first);
    check_values(is_double, count, first, ordered);
    mt_allgather(MPI_COMM_WORLD, first, all, bytes);
    for (int rank = 0; rank < mt_size; ++rank) {
        MT_CHECK(0 == memcmp(first, all + (size_t)rank * bytes, bytes), "count %d: the bits of rank %d are others",
                 count, rank);
    }
    for (int repeat = 0; repeat < 6; ++repeat) {
        reduce(is_double, count, repeat < 2 ? 0 : (size_t)(repeat * 4 + mt_rank) % 16, 0 != repeat % 2, again);
        MT_CHECK(0 == memcmp(first, again, bytes), "count %d: repeat %d has other bits", count, repeat);
    }
    free(all);
    free(again);
    free(first);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 7, 100, 1000, 10007, 100003};
    bool staged, ordered;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    staged = mt_parameter_is("algorithm", "stage");
    /* Nodes combine what each of them has combined. */
    ordered = !staged && mt_parameter_is("ranks_per_node", "0");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        run(false, counts[i], ordered);
        run(true, counts[i], ordered);
    }
    MT_CHECK(staged == (0 == mt_served(MPI_COMM_WORLD)), "kernels served %llu calls",
             (unsigned long long)mt_served(MPI_COMM_WORLD));
    return mt_finish();
}
