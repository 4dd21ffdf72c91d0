#include "test/mpi/mpi_types.h"

#include <stdlib.h>
#include <string.h>

void mt_fill(const mt_type_t *type, mt_op_t op, int count, int rank, int seed, void *to)
{
    char *elements = to;

    memset(to, 0, (size_t)count * type->layout->extent); /* the padding as well */
    for (int i = 0; i < count; ++i) {
        uint64_t random = mt_mix((uint64_t)rank, (uint64_t)i, (uint64_t)(seed * 64 + (int)op));
        type->layout->make(op, random, elements + (size_t)i * type->layout->extent);
    }
}

void mt_compute(const mt_type_t *type, mt_op_t op, int count, int size, int seed, void *result)
{
    char *operand = mt_host_alloc((size_t)count * type->layout->extent);

    mt_fill(type, op, count, 0, seed, result);
    for (int rank = 1; rank < size; ++rank) {
        mt_fill(type, op, count, rank, seed, operand);
        for (int i = 0; i < count; ++i) {
            size_t at = (size_t)i * type->layout->extent;
            type->layout->combine(op, (char *)result + at, operand + at);
        }
    }
    free(operand);
}

int mt_difference(const mt_type_t *type, int count, const void *a, const void *b)
{
    for (int i = 0; i < count; ++i) {
        size_t at = (size_t)i * type->layout->extent;
        if (!type->layout->equal((const char *)a + at, (const char *)b + at)) {
            return i;
        }
    }
    return -1;
}

mt_call_t mt_call(MPI_Comm comm, int count, int seed)
{
    mt_call_t call = {.comm = comm,
                      .type = mt_type(MPI_INT),
                      .op = MT_OP_SUM,
                      .count = count,
                      .send_kind = MT_DEVICE,
                      .recv_kind = MT_DEVICE,
                      .seed = seed};

    return call;
}

void mt_verify(const mt_call_t *call)
{
    const mt_type_t *type = call->type;
    size_t bytes = (size_t)call->count * type->layout->extent;
    char *operand = mt_host_alloc(bytes), *expected = mt_host_alloc(bytes), *result = mt_host_alloc(bytes);
    mt_buffer_t send = mt_buffer_alloc(call->send_kind, bytes, call->send_misalign);
    mt_buffer_t recv = mt_buffer_alloc(call->recv_kind, bytes, call->recv_misalign);
    int rank, size, wrong;

    MPI_Comm_rank(call->comm, &rank);
    MPI_Comm_size(call->comm, &size);
    mt_fill(type, call->op, call->count, rank, call->seed, operand);
    mt_compute(type, call->op, call->count, size, call->seed, expected);
    mt_buffer_put(call->in_place ? &recv : &send, operand, bytes);
    MT_MPI(MPI_Allreduce(call->in_place ? MPI_IN_PLACE : send.data, recv.data, call->count, type->type,
                         mt_op_mpi(call->op), call->comm));
    mt_buffer_get(&recv, result, bytes);
    wrong = mt_difference(type, call->count, result, expected);
    MT_CHECK(wrong < 0, "%s %s count %d%s, %s memory at +%zu to %s memory at +%zu, rank %d of %d: element %d is wrong",
             type->name, mt_op_name(call->op), call->count, call->in_place ? " in place" : "",
             mt_kind_name(call->send_kind), call->send_misalign, mt_kind_name(call->recv_kind), call->recv_misalign,
             rank, size, wrong);
    if (!call->in_place) {
        mt_buffer_get(&send, result, bytes);
        MT_CHECK(0 == memcmp(result, operand, bytes), "%s %s count %d: the send buffer was changed", type->name,
                 mt_op_name(call->op), call->count);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    free(result);
    free(expected);
    free(operand);
}
