/*
 * Queued all-gathers and all-to-alls of one rank with a type with holes, the others without, out of place and in place:
 * all ranks have to choose the same plan. Usage: test_queued_holes [PLAN], the plan that has to serve the last call.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_queued.h"

enum { MARK = -7 };

static MPI_Datatype spread; /* an integer, and a hole of the same size behind it */

static int value_of(int rank, int index)
{
    return (int)(mt_mix((uint64_t)rank, (uint64_t)index, 9) & 0xffff);
}

/* The integer that a rank gets in place `i` of its output. */
static int expected(bool gathers, int count, int i)
{
    return value_of(i / count, gathers ? i % count : mt_rank * count + i % count);
}

/* `step`: integers from one element to the next on this rank. */
static void try_call(bool gathers, bool in_place, int count, void *stream)
{
    const int step = 0 == mt_rank ? 2 : 1, all = count * mt_size, sent = gathers ? count : all;
    const MPI_Datatype type = 2 == step ? spread : MPI_INT;
    const size_t bytes = sizeof(int) * (size_t)(all * step);
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, bytes, 0), recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    int *const input = mt_host_alloc(bytes), *const output = mt_host_alloc(bytes);
    const void *const from = in_place ? MPI_IN_PLACE : send.data;

    for (int i = 0; i < all * step; ++i) {
        input[i] = output[i] = MARK;
    }
    for (int i = 0; i < sent; ++i) {
        input[i * step] = value_of(mt_rank, i);
        output[(i + (gathers ? mt_rank * count : 0)) * step] = value_of(mt_rank, i);
    }
    mt_buffer_put(&send, input, bytes);
    mt_buffer_put(&recv, output, bytes);
    if (gathers) {
        MT_MPI(MPIX_Mscclpp_allgather_enqueue(from, count, type, recv.data, count, type, MPI_COMM_WORLD, stream));
    } else {
        MT_MPI(MPIX_Mscclpp_alltoall_enqueue(from, count, type, recv.data, count, type, MPI_COMM_WORLD, stream));
    }
    mq_stream_wait(stream);
    mt_buffer_get(&recv, output, bytes);
    for (int i = 0; i < all; ++i) {
        if (expected(gathers, count, i) != output[i * step] || (2 == step && !in_place && MARK != output[2 * i + 1])) {
            MT_CHECK(false, "%s of %d, in place %d: integer %d is wrong", gathers ? "all-gather" : "all-to-all", count,
                     in_place, i);
            break;
        }
    }
    mt_buffer_free(&send, "the send buffer");
    mt_buffer_free(&recv, "the receive buffer");
    free(input);
    free(output);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 7, 60, 1000};
    const bool gathers = argc > 1 && strstr(argv[1], "allgather") != NULL;
    char name[256];
    void *stream;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    stream = mq_stream_make();
    MT_MPI(MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &spread));
    MT_MPI(MPI_Type_commit(&spread));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        try_call(gathers, false, counts[i], stream);
        try_call(gathers, true, counts[i], stream);
    }
    mt_plan(name, sizeof(name));
    MT_CHECK(argc < 2 || 0 == strcmp(name, argv[1]), "plan \"%s\" served the last call instead of \"%s\"", name,
             argv[1]);
    MT_MPI(MPI_Type_free(&spread));
    mq_stream_free(stream);
    return mt_finish();
}
