/*
 * Execution plans that programs run by their names: MPIX_Mscclpp_plan_run. Usage: test_plan_run PLAN
 *
 * PLAN exchanges chunks of neighbours, as custom_halo of plans.py does. It says sum; these calls ask for an exclusive
 * or. Of many sizes and types, aligned and not; three calls follow one another without a barrier. Then arguments that
 * are refused. Host memory, on one rank and on all, is served as well.
 */
#include <stdlib.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp_plans.h"
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

enum { CALLS = 3 };

static const mt_type_t *type;
static int count;
static size_t chunk; /* bytes */

/* The chunks of a rank. */
static void fill(int rank, int seed, char *to)
{
    mt_fill(type, MT_OP_BXOR, 2 * count, rank, seed, to);
}

static void expect(int seed, char *expected)
{
    char *theirs = mt_host_alloc(2 * chunk);

    fill((mt_rank + mt_size - 1) % mt_size, seed, theirs);
    memcpy(expected, theirs + chunk, chunk);
    fill((mt_rank + 1) % mt_size, seed, theirs);
    memcpy(expected + chunk, theirs, chunk);
    fill(mt_rank, seed, theirs);
    for (size_t i = 0; 0 == mt_rank && i < chunk; ++i) {
        expected[2 * chunk + i] = theirs[i] ^ theirs[chunk + i];
    }
    free(theirs);
}

static void run(const char *plan, mt_kind_t kind, size_t misalign)
{
    const size_t out = (0 == mt_rank ? 3 : 2) * chunk;
    const int elements = (0 == mt_rank ? 3 : 2) * count;
    char *operand = mt_host_alloc(2 * chunk), *result = mt_host_alloc(out), *expected = mt_host_alloc(out);
    mt_buffer_t send = mt_buffer_alloc(kind, 2 * chunk, misalign), recv = mt_buffer_alloc(kind, out, misalign);
    int wrong;

    for (int seed = 0; seed < CALLS; ++seed) {
        fill(mt_rank, seed, operand);
        mt_buffer_put(&send, operand, 2 * chunk);
        MT_MPI(MPIX_Mscclpp_plan_run(plan, send.data, recv.data, count, type->type, MPI_BXOR, MPI_COMM_WORLD));
        mt_buffer_get(&recv, result, out);
        expect(seed, expected);
        wrong = mt_difference(type, elements, result, expected);
        MT_CHECK(wrong < 0, "%s of %s, %d elements at +%zu, call %d: element %d is wrong", plan, type->name, count,
                 misalign, seed, wrong);
    }
    mt_buffer_free(&send, "input");
    mt_buffer_free(&recv, "output");
    free(operand);
    free(result);
    free(expected);
}

static void refused(const char *plan, MPI_Count elements, MPI_Datatype datatype, MPI_Op op, int wanted)
{
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, 1024, 0);
    int class = MPI_SUCCESS;

    MPI_Error_class(MPIX_Mscclpp_plan_run(plan, buffer.data, buffer.data, elements, datatype, op, MPI_COMM_WORLD),
                    &class);
    MT_CHECK(wanted == class, "plan \"%s\": error class %d instead of %d", plan, class, wanted);
    mt_buffer_free(&buffer, "buffer");
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 4, 17, 96, 1000, 4099, 70001};
    const MPI_Datatype types[] = {MPI_INT, MPI_LONG, MPI_SIGNED_CHAR, MPI_SHORT};
    const char *plan = argc > 1 ? argv[1] : "custom_halo";
    uint64_t before;
    char name[256];

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); ++t) {
        type = mt_type(types[t]);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); ++c) {
            count = counts[c];
            chunk = (size_t)count * type->layout->extent;
            before = mt_planned(MPI_COMM_WORLD);
            run(plan, MT_DEVICE, c % 2 != 0 ? type->layout->extent : 0);
            MT_CHECK(CALLS == mt_planned(MPI_COMM_WORLD) - before, "not all calls of %s are counted", plan);
            mt_plan(name, sizeof(name));
            MT_CHECK(0 == strcmp(name, plan), "coll_mscclpp_plan is \"%s\" instead of \"%s\"", name, plan);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    refused("nowhere", 1, MPI_INT, MPI_SUM, MPI_ERR_UNSUPPORTED_OPERATION);
    refused("allreduce_ring", 1, MPI_INT, MPI_SUM, MPI_ERR_UNSUPPORTED_OPERATION);
    refused(plan, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_ERR_UNSUPPORTED_OPERATION);
    refused(plan, -1, MPI_INT, MPI_SUM, MPI_ERR_COUNT);
    refused(plan, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_ERR_TYPE);
    refused(NULL, 1, MPI_INT, MPI_SUM, MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    type = mt_type(MPI_INT);
    count = 5;
    chunk = 20;
    run(plan, MT_DEVICE, 0);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); ++c) {
        count = counts[c];
        chunk = (size_t)count * sizeof(int);
        before = mt_planned(MPI_COMM_WORLD);
        run(plan, 0 == mt_rank ? MT_HOST : MT_DEVICE, sizeof(int));
        run(plan, MT_HOST, 0);
        MT_CHECK(2 * CALLS == mt_planned(MPI_COMM_WORLD) - before, "not all calls on host memory are counted");
    }
    return mt_finish();
}
