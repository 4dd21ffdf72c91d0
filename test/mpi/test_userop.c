/*
 * User-defined operations and derived types on device buffers: the operation runs on the host and meets host memory,
 * the result is right, and the gaps of the type are not touched.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#define COUNT 113
#define MODULUS 10007

static int calls_of_user_op;

/* Not commutative: products of 2 by 2 matrices, of which an element of the type is one. */
static void multiply(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const int *a = in;
    int *b = inout;

    (void)type;
    ++calls_of_user_op;
    for (int i = 0; i < *length; ++i, a += 4, b += 4) {
        long p = ((long)a[0] * b[0] + (long)a[1] * b[2]) % MODULUS,
             q = ((long)a[0] * b[1] + (long)a[1] * b[3]) % MODULUS;
        long r = ((long)a[2] * b[0] + (long)a[3] * b[2]) % MODULUS,
             s = ((long)a[2] * b[1] + (long)a[3] * b[3]) % MODULUS;
        b[0] = (int)p;
        b[1] = (int)q;
        b[2] = (int)r;
        b[3] = (int)s;
    }
}

static void matrices(int rank, int *values)
{
    for (int i = 0; i < 4 * COUNT; ++i) {
        values[i] = (int)(mt_mix((uint64_t)rank, (uint64_t)i, 7) % MODULUS);
    }
}

static void noncommutative(void)
{
    int expected[4 * COUNT], operand[4 * COUNT], result[4 * COUNT], length = COUNT;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    MPI_Datatype type;
    MPI_Op op;

    MT_MPI(MPI_Type_contiguous(4, MPI_INT, &type));
    MT_MPI(MPI_Type_commit(&type));
    MT_MPI(MPI_Op_create(multiply, 0, &op));
    matrices(mt_size - 1, expected);
    for (int rank = mt_size - 2; rank >= 0; --rank) {
        matrices(rank, operand);
        multiply(operand, expected, &length, &type);
    }
    for (int in_place = 0; in_place < 2; ++in_place) {
        calls_of_user_op = 0;
        matrices(mt_rank, operand);
        mt_buffer_put(in_place ? &recv : &send, operand, sizeof(operand));
        MT_MPI(MPI_Allreduce(in_place ? MPI_IN_PLACE : send.data, recv.data, COUNT, type, op, MPI_COMM_WORLD));
        mt_buffer_get(&recv, result, sizeof(result));
        MT_CHECK(0 == memcmp(result, expected, sizeof(result)), "product of matrices%s", in_place ? " in place" : "");
    }
    MT_MPI(MPI_Op_free(&op));
    MT_MPI(MPI_Type_free(&type));
    mt_buffer_free(&send, "send buffer of matrices");
    mt_buffer_free(&recv, "receive buffer of matrices");
}

/* An element is 3 ints of which the type names the first and the third; it starts `low` bytes behind the address. */
#define STRIDE 3

static void add_gapped(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const int *a = in;
    int *b = inout;
    MPI_Aint low, extent;

    ++calls_of_user_op;
    MPI_Type_get_true_extent(*type, &low, &extent);
    for (int i = 0; i < *length; ++i) {
        const int *from = a + low / (MPI_Aint)sizeof(int) + i * STRIDE;
        int *to = b + low / (MPI_Aint)sizeof(int) + i * STRIDE;
        to[0] += from[0];
        to[2] += from[2];
    }
}

/* `shift` ints lie between the address and the first element; it may be negative. */
static MPI_Datatype gapped_type(int shift)
{
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {shift * (MPI_Aint)sizeof(int), (shift + 2) * (MPI_Aint)sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, bare, type;

    MT_MPI(MPI_Type_create_struct(2, lengths, places, types, &bare));
    MT_MPI(MPI_Type_create_resized(bare, shift * (MPI_Aint)sizeof(int), STRIDE * (MPI_Aint)sizeof(int), &type));
    MT_MPI(MPI_Type_commit(&type));
    MT_MPI(MPI_Type_free(&bare));
    return type;
}

static void gaps(int shift)
{
    enum { INTS = COUNT * STRIDE };
    int operand[INTS], result[INTS];
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    MPI_Datatype type = gapped_type(shift);
    MPI_Op op;
    MPI_Aint back = shift * (MPI_Aint)sizeof(int);

    MT_MPI(MPI_Op_create(add_gapped, 1, &op));
    for (int i = 0; i < INTS; ++i) {
        operand[i] = 100 * mt_rank + i;
        result[i] = -1 - i;
    }
    mt_buffer_put(&send, operand, sizeof(operand));
    mt_buffer_put(&recv, result, sizeof(result));
    MT_MPI(MPI_Allreduce(send.data - back, recv.data - back, COUNT, type, op, MPI_COMM_WORLD));
    mt_buffer_get(&recv, result, sizeof(result));
    for (int i = 0; i < INTS; ++i) {
        int sum = 100 * (mt_size * (mt_size - 1) / 2) + mt_size * i;
        int expected = 1 == i % STRIDE ? -1 - i : sum;
        MT_CHECK(expected == result[i], "shift %d: int %d (%s) is %d and not %d", shift, i,
                 1 == i % STRIDE ? "a gap" : "data", result[i], expected);
    }
    MT_MPI(MPI_Op_free(&op));
    MT_MPI(MPI_Type_free(&type));
    mt_buffer_free(&send, "send buffer with gaps");
    mt_buffer_free(&recv, "receive buffer with gaps");
}

/* A user's operation on a predefined type. */
static void smallest_distance(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const double *a = in;
    double *b = inout;

    (void)type;
    ++calls_of_user_op;
    for (int i = 0; i < *length; ++i) {
        double da = a[i] < 50 ? 50 - a[i] : a[i] - 50, db = b[i] < 50 ? 50 - b[i] : b[i] - 50;
        b[i] = da < db ? a[i] : b[i];
    }
}

static void predefined(void)
{
    double operand[COUNT], expected[COUNT], result[COUNT];
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    mt_buffer_t recv = mt_buffer_alloc(MT_DEVICE, sizeof(operand), 0);
    int length = COUNT;
    MPI_Op op;

    MT_MPI(MPI_Op_create(smallest_distance, 1, &op));
    for (int rank = 0; rank < mt_size; ++rank) {
        for (int i = 0; i < COUNT; ++i) {
            operand[i] = (double)(mt_mix((uint64_t)rank, (uint64_t)i, 9) % 100000) / 1000;
        }
        if (0 == rank) {
            memcpy(expected, operand, sizeof(expected));
        } else {
            smallest_distance(operand, expected, &length, NULL);
        }
        if (rank == mt_rank) {
            mt_buffer_put(&send, operand, sizeof(operand));
        }
    }
    MT_MPI(MPI_Allreduce(send.data, recv.data, COUNT, MPI_DOUBLE, op, MPI_COMM_WORLD));
    mt_buffer_get(&recv, result, sizeof(result));
    MT_CHECK(0 == memcmp(result, expected, sizeof(result)), "a user's operation on MPI_DOUBLE");
    MT_MPI(MPI_Op_free(&op));
    mt_buffer_free(&send, "send buffer of doubles");
    mt_buffer_free(&recv, "receive buffer of doubles");
}

/* MPI gives its own operations to predefined types alone, so such a call ends before anything has been touched. */
static void derived_types(void)
{
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, 4 * sizeof(float), 0);
    float values[4] = {1, 2, 3, 4}, result[4];
    MPI_Datatype types[2];
    int class;

    MT_MPI(MPI_Type_contiguous(4, MPI_FLOAT, &types[0]));
    MT_MPI(MPI_Type_dup(MPI_FLOAT, &types[1]));
    mt_buffer_put(&buffer, values, sizeof(values));
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < 2; ++i) {
        MT_MPI(MPI_Type_commit(&types[i]));
        MPI_Error_class(MPI_Allreduce(MPI_IN_PLACE, buffer.data, 1, types[i], MPI_SUM, MPI_COMM_WORLD), &class);
        MT_CHECK(MPI_ERR_OP == class, "MPI_SUM of derived type %d: error class %d", i, class);
        MT_MPI(MPI_Type_free(&types[i]));
    }
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    mt_buffer_get(&buffer, result, sizeof(result));
    MT_CHECK(0 == memcmp(result, values, sizeof(result)), "a refused all-reduce has changed its buffer");
    mt_buffer_free(&buffer, "buffer of derived types");
}

int main(int argc, char **argv)
{
    uint64_t staged, served;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    staged = mt_staged(MPI_COMM_WORLD);
    served = mt_served(MPI_COMM_WORLD);
    noncommutative();
    gaps(0);
    gaps(4);
    gaps(-5);
    predefined();
    derived_types();
    staged = mt_staged(MPI_COMM_WORLD) - staged;
    served = mt_served(MPI_COMM_WORLD) - served;
    MT_CHECK(6 == staged && 0 == served, "of 6 calls %llu were staged and %llu served", (unsigned long long)staged,
             (unsigned long long)served);
    return mt_finish();
}
