/*
 * Every predefined type with every operation that MPI allows for it: compared with results computed here, and with
 * those of the component that served before (MPI_Reduce and MPI_Bcast of host copies go through it).
 * Usage: test_types_ops [quick], with one count in place of three.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static int combinations;
static int refused;
static int mistaken;
static bool forced_stage;
static bool quick;

/* What the previous component makes of the same operands. */
static void previous(const mt_type_t *type, mt_op_t op, int count, int seed, char *result)
{
    char *operand = mt_host_alloc((size_t)count * type->layout->extent);

    mt_fill(type, op, count, mt_rank, seed, operand);
    MT_MPI(MPI_Reduce(operand, result, count, type->type, mt_op_mpi(op), 0, MPI_COMM_WORLD));
    MT_MPI(MPI_Bcast(result, count, type->type, 0, MPI_COMM_WORLD));
    free(operand);
}

static bool by_kernel(const mt_type_t *type)
{
    return !forced_stage && (mt_twin ? type->layout->on_twin : type->layout->on_gpu);
}

static void run(const mt_type_t *type, mt_op_t op, int count, bool in_place, int seed, const char *expected,
                const char *also_allowed)
{
    size_t bytes = (size_t)count * type->layout->extent;
    char *operand = mt_host_alloc(bytes), *result = mt_host_alloc(bytes);
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, bytes, 0), recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    bool kernel = by_kernel(type);
    uint64_t served = mt_served(MPI_COMM_WORLD), staged = mt_staged(MPI_COMM_WORLD);
    int wrong;

    mt_fill(type, op, count, mt_rank, seed, operand);
    mt_buffer_put(in_place ? &recv : &send, operand, bytes);
    MT_MPI(MPI_Allreduce(in_place ? MPI_IN_PLACE : send.data, recv.data, count, type->type, mt_op_mpi(op),
                         MPI_COMM_WORLD));
    served = mt_served(MPI_COMM_WORLD) - served;
    staged = mt_staged(MPI_COMM_WORLD) - staged;
    MT_CHECK(kernel ? 1 == served && 0 == staged : 0 == served && 1 == staged,
             "%s %s count %d: expected to be %s, but served %llu and staged %llu", type->name, mt_op_name(op), count,
             kernel ? "served" : "staged", (unsigned long long)served, (unsigned long long)staged);
    mt_buffer_get(&recv, result, bytes);
    wrong = mt_difference(type, count, result, expected);
    MT_CHECK(wrong < 0 || mt_difference(type, count, result, also_allowed) < 0, "%s %s count %d%s: element %d is wrong",
             type->name, mt_op_name(op), count, in_place ? " in place" : "", wrong);
    if (!in_place) {
        mt_buffer_get(&send, result, bytes);
        MT_CHECK(0 == memcmp(result, operand, bytes), "%s %s count %d: the send buffer was changed", type->name,
                 mt_op_name(op), count);
    }
    mt_buffer_free(&send, type->name);
    mt_buffer_free(&recv, type->name);
    free(result);
    free(operand);
}

/* Whether this Open MPI itself reduces the type with the operation. */
static bool allowed(const mt_type_t *type, mt_op_t op)
{
    long double a[2] = {0, 0}, b[2] = {0, 0};
    bool ok;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    ok = MPI_SUCCESS == MPI_Reduce_local(a, b, 1, type->type, mt_op_mpi(op));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return ok;
}

/*
 * Some versions of Open MPI combine a type as if it were another one of its size (4.1 takes MPI_UNSIGNED_LONG for
 * signed). What they get wrong on one process, without any collective, is no oracle: then
 * either result passes, and the case is counted and printed.
 */
static bool combined_wrongly(const mt_type_t *type, mt_op_t op)
{
    size_t bytes = 64 * type->layout->extent;
    char *a = mt_host_alloc(bytes), *b = mt_host_alloc(bytes), *expected = mt_host_alloc(bytes);
    bool wrong;

    mt_fill(type, op, 64, 0, 0, expected);
    mt_fill(type, op, 64, 1, 0, a);
    for (int i = 0; i < 64; ++i) {
        size_t at = (size_t)i * type->layout->extent;
        type->layout->combine(op, expected + at, a + at);
    }
    mt_fill(type, op, 64, 0, 0, b);
    MT_MPI(MPI_Reduce_local(a, b, 64, type->type, mt_op_mpi(op)));
    wrong = mt_difference(type, 64, b, expected) >= 0;
    free(b);
    free(expected);
    free(a);
    return wrong;
}

static void run_all(const mt_type_t *type, mt_op_t op)
{
    static const int counts[] = {1, 3, 37};
    bool no_oracle = combined_wrongly(type, op);

    if (no_oracle) {
        ++mistaken;
        if (0 == mt_rank) {
            printf("this Open MPI combines %s with %s wrongly; either result passes\n", type->name, mt_op_name(op));
        }
    }
    for (size_t i = quick ? 2 : 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        int count = counts[i], seed = (int)i, wrong;
        size_t bytes = (size_t)count * type->layout->extent;
        char *expected = mt_host_alloc(bytes), *oracle = mt_host_alloc(bytes);
        mt_compute(type, op, count, mt_size, seed, expected);
        previous(type, op, count, seed, oracle);
        wrong = mt_difference(type, count, oracle, expected);
        MT_CHECK(no_oracle || wrong < 0, "%s %s count %d: the previous component and this test disagree on element %d",
                 type->name, mt_op_name(op), count, wrong);
        run(type, op, count, false, seed, expected, no_oracle ? oracle : expected);
        run(type, op, count, true, seed, expected, no_oracle ? oracle : expected);
        free(expected);
        free(oracle);
    }
}

int main(int argc, char **argv)
{
    const mt_type_t *types;
    int count;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    quick = argc > 1 && 0 == strcmp(argv[1], "quick");
    forced_stage = mt_parameter_is("algorithm", "stage");
    count = mt_types(&types);
    for (int i = 0; i < count; ++i) {
        for (int op = 0; op < MT_OP_COUNT; ++op) {
            if (0 == (types[i].ops & 1u << op)) {
                continue;
            }
            if (!allowed(&types[i], (mt_op_t)op)) {
                ++refused;
                continue;
            }
            ++combinations;
            run_all(&types[i], (mt_op_t)op);
        }
    }
    if (0 == mt_rank) {
        printf("%d types, %d combinations with operations, %d more that this Open MPI refuses\n", count, combinations,
               refused);
    }
    MT_CHECK(mistaken <= 16, "this Open MPI combines %d of them wrongly", mistaken);
    MT_CHECK(combinations > 250, "only %d combinations", combinations);
    return mt_finish();
}
