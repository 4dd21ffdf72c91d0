/*
 * Requests in parts: all-reduces of every type with its operations, of several sizes, in place and not; messages of
 * types with and without holes. Blocks of a kernel mark the parts in an order of their own.
 * Usage: test_partitioned [versions]: two ranks of which one seems to have another version of the component.
 */
#include <stdlib.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"
#include "test/mpi/mpi_types.h"

enum { PARTS = 3, TURNS = 2 };

/* A kernel that marks all parts, each block its own. */
typedef struct {
    mpix_partitions_t marks;
    int salt;
} work_t;

static void mark(mpix_group_t *block, void *argument)
{
    const work_t *work = argument;

    for (int k = 0; k < PARTS; ++k) {
        const int part = (k + mt_rank + work->salt) % PARTS;

        if ((mpix_u32)part % block->blocks == block->block) {
            mpix_pready(block, &work->marks, (mpix_u32)part);
        }
    }
}

/* Starts the request, and lets a kernel mark its parts. */
static void execute(MPIX_Mscclpp_request *request, bool marks, void *stream, int salt)
{
    work_t work = {.salt = salt};
    mpix_host_kernel_t kernel = {mark, &work, 2, 2, 0};

    MT_MPI(MPIX_Mscclpp_request_get_device(*request, MPIX_MSCCLPP_DEVICE_ABI, &work.marks, sizeof(work.marks)));
    MT_MPI(MPIX_Mscclpp_start(1, request));
    if (marks) {
        MT_MPI(MPIX_Mscclpp_host_launch(stream, mpix_host_run, &kernel));
    }
    MT_MPI(MPIX_Mscclpp_complete(1, request));
    mq_stream_wait(stream);
    MT_MPI(MPIX_Mscclpp_wait(1, request));
}

/* All-reduces of PARTS * count elements. */
static void reduce(const mt_type_t *type, mt_op_t op, int count, bool in_place, void *stream)
{
    const size_t extent = type->layout->extent;
    const int all = PARTS * count;
    char *in = mt_host_alloc(extent * (size_t)all), *out = mt_host_alloc(extent * (size_t)all);
    char *wanted = mt_host_alloc(extent * (size_t)all);
    MPIX_Mscclpp_request request;
    int code;

    MT_MPI(MPIX_Mscclpp_pallreduce_init(in_place ? MPI_IN_PLACE : in, out, PARTS, count, type->type, mt_op_mpi(op),
                                        MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    code = MPIX_Mscclpp_prepare(1, &request);
    MT_CHECK((code == MPI_SUCCESS) == type->layout->on_twin, "%s of %s: prepare returned %d", mt_op_name(op),
             type->name, code);
    for (int turn = 0; turn < TURNS && code == MPI_SUCCESS; ++turn) {
        int differs;

        memset(out, 0x11, extent * (size_t)all);
        mt_fill(type, op, all, mt_rank, turn, in_place ? out : in);
        mt_compute(type, op, all, mt_size, turn, wanted);
        execute(&request, true, stream, turn);
        differs = mt_difference(type, all, out, wanted);
        MT_CHECK(differs < 0, "%s of %d %s: element %d is wrong", mt_op_name(op), all, type->name, differs);
    }
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    free(in);
    free(out);
    free(wanted);
}

static void types_and_ops(void *stream)
{
    const mt_type_t *types;
    const int number = mt_types(&types);
    int tried = 0;

    for (int i = 0; i < number; ++i) {
        for (int op = 0; op < MT_OP_COUNT; ++op) {
            if ((types[i].ops & 1u << op) != 0 && types[i].layout->on_twin) {
                reduce(&types[i], (mt_op_t)op, 1 + 37 * (i % 5), op % 2 == 0, stream);
                ++tried;
            }
        }
    }
    MT_CHECK(tried > 200, "only %d combinations", tried);
}

static void sizes(void *stream)
{
    static const int counts[] = {0, 1, 1000, 40000};

    for (int i = 0; i < (int)(sizeof(counts) / sizeof(counts[0])); ++i) {
        reduce(mt_type(MPI_INT), MT_OP_SUM, counts[i], i % 2 == 0, stream);
    }
}

/* A message from rank 0 to rank 1, of pairs of integers that may have a hole between them. */
static void message(int count, int stride, void *stream)
{
    const int all = PARTS * count;
    int *buffer = mt_host_alloc(sizeof(int) * (size_t)(all > 0 ? all * (stride + 1) : 1));
    MPIX_Mscclpp_request request;
    MPI_Datatype pairs;

    MT_MPI(MPI_Type_vector(2, 1, stride, MPI_INT, &pairs));
    MT_MPI(MPI_Type_commit(&pairs));
    MT_MPI(mt_rank == 0 ? MPIX_Mscclpp_psend_init(buffer, PARTS, count, pairs, 1, count, MPI_COMM_WORLD, &request)
                        : MPIX_Mscclpp_precv_init(buffer, PARTS, count, pairs, 0, count, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    for (int turn = 0; turn < TURNS; ++turn) {
        for (int i = 0; i < all * (stride + 1); ++i) {
            buffer[i] = mt_rank == 0 ? mq_value_of(0, i, turn) : -1;
        }
        mt_barrier(MPI_COMM_WORLD);
        execute(&request, mt_rank == 0, stream, turn);
        for (int i = 0; i < all * (stride + 1) && mt_rank == 1; ++i) {
            const bool data = i % (stride + 1) == 0 || i % (stride + 1) == stride;
            const int wanted = data ? mq_value_of(0, i, turn) : -1;

            if (buffer[i] != wanted) {
                MT_CHECK(0, "%d pairs, %d apart, turn %d: integer %d is %d, not %d", all, stride, turn, i, buffer[i],
                         wanted);
                break;
            }
        }
    }
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    MT_MPI(MPI_Type_free(&pairs));
    free(buffer);
}

/* One rank has a component of another version: all refuse the requests, and none waits for another. */
static void versions(void)
{
    int buffer = 0, unused = 0;
    MPIX_Mscclpp_request request;

    MT_MPI(mt_rank == 0 ? MPIX_Mscclpp_psend_init(&buffer, 1, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request)
                        : MPIX_Mscclpp_precv_init(&buffer, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, &unused));
    MT_CHECK(MPIX_Mscclpp_prepare(1, &request) != MPI_SUCCESS, "a message between two versions was prepared");
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    MT_MPI(MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, &buffer, 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, &unused));
    MT_CHECK(MPIX_Mscclpp_prepare(1, &request) != MPI_SUCCESS, "an all-reduce of two versions was prepared");
    MT_MPI(MPIX_Mscclpp_request_free(&request));
}

int main(int argc, char **argv)
{
    void *stream;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MT_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "versions") == 0) {
        versions();
        return mt_finish();
    }
    stream = mq_stream_make();
    sizes(stream);
    types_and_ops(stream);
    for (int count = 1; count < 20000 && mt_rank < 2; count = count * 13 + 1) {
        message(count, 1, stream);
        message(count, 3, stream);
    }
    mq_stream_free(stream);
    return mt_finish();
}
