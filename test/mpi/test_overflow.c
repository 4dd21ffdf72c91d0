/*
 * Sums of small integers that overflow wrap around, whichever way the component serves them. The runner lets Open MPI
 * use its vector code, which saturates most elements, and has all-reduce calls served by kernels or staged.
 * Usage: test_overflow served|staged
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#define COUNT 1001 /* whole vectors and a rest; a multiple of no number of ranks */

typedef enum {
    ALLREDUCE,
    IALLREDUCE,
    REDUCE,
    IREDUCE,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    SCAN,
    EXSCAN,
    REDUCE_LOCAL,
    COLLECTIVES
} collective_t;

/* So many of them are blocking calls of several ranks, which kernels serve. */
#define SERVED (COLLECTIVES - 1) /* by kernels: all but MPI_Reduce_local, in which nobody else takes part */

static const char *const names[COLLECTIVES] = {
    "MPI_Allreduce",      "MPI_Iallreduce", "MPI_Reduce", "MPI_Ireduce",     "MPI_Reduce_scatter_block",
    "MPI_Reduce_scatter", "MPI_Scan",       "MPI_Exscan", "MPI_Reduce_local"};

/* Integers as they are in memory, signed or not. */
static unsigned load(const char *data, int index, int width)
{
    uint8_t one;
    uint16_t two;

    if (1 == width) {
        memcpy(&one, data + index, sizeof(one));
        return one;
    }
    memcpy(&two, data + 2 * index, sizeof(two));
    return two;
}

static void store(char *data, int index, int width, unsigned value)
{
    uint8_t one = (uint8_t)value;
    uint16_t two = (uint16_t)value;

    memcpy(data + width * index, 1 == width ? (const void *)&one : (const void *)&two, (size_t)width);
}

/* Contributions of any size. */
static unsigned contribution(int rank, int index)
{
    return (unsigned)mt_mix((uint64_t)rank, (uint64_t)index, 7);
}

/* What one rank receives: the sum over ranks first .. last of `count` elements from `from` on. */
typedef struct {
    int first, last;
    int from, count;
} share_t;

static void start(collective_t collective, const mt_buffer_t *send, mt_buffer_t *recv, MPI_Datatype type,
                  share_t *share)
{
    const int block = COUNT / mt_size, last = mt_size - 1;
    int *counts = mt_host_alloc(sizeof(int) * (size_t)mt_size);
    MPI_Request request = MPI_REQUEST_NULL;

    *share = (share_t){0, last, 0, COUNT};
    switch (collective) {
    case ALLREDUCE:
        MT_MPI(MPI_Allreduce(send->data, recv->data, COUNT, type, MPI_SUM, MPI_COMM_WORLD));
        break;
    case IALLREDUCE:
        MT_MPI(MPI_Iallreduce(send->data, recv->data, COUNT, type, MPI_SUM, MPI_COMM_WORLD, &request));
        break;
    case REDUCE:
        MT_MPI(MPI_Reduce(send->data, recv->data, COUNT, type, MPI_SUM, last, MPI_COMM_WORLD));
        share->count = last == mt_rank ? COUNT : 0;
        break;
    case IREDUCE:
        MT_MPI(MPI_Ireduce(send->data, recv->data, COUNT, type, MPI_SUM, last, MPI_COMM_WORLD, &request));
        share->count = last == mt_rank ? COUNT : 0;
        break;
    case REDUCE_SCATTER_BLOCK:
        MT_MPI(MPI_Reduce_scatter_block(send->data, recv->data, block, type, MPI_SUM, MPI_COMM_WORLD));
        share->from = mt_rank * block;
        share->count = block;
        break;
    case REDUCE_SCATTER:
        for (int rank = 0; rank < mt_size; ++rank) {
            counts[rank] = last == rank ? COUNT - last * block : block;
        }
        MT_MPI(MPI_Reduce_scatter(send->data, recv->data, counts, type, MPI_SUM, MPI_COMM_WORLD));
        share->from = mt_rank * block;
        share->count = counts[mt_rank];
        break;
    case SCAN:
        MT_MPI(MPI_Scan(send->data, recv->data, COUNT, type, MPI_SUM, MPI_COMM_WORLD));
        share->last = mt_rank;
        break;
    case EXSCAN:
        MT_MPI(MPI_Exscan(send->data, recv->data, COUNT, type, MPI_SUM, MPI_COMM_WORLD));
        share->last = mt_rank - 1;
        share->count = 0 == mt_rank ? 0 : COUNT;
        break;
    default:
        MT_MPI(MPI_Reduce_local(send->data, recv->data, COUNT, type, MPI_SUM));
        share->first = mt_rank;
        share->last = mt_rank + 1; /* what the buffer held before */
        break;
    }
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(counts);
}

static void test(collective_t collective, MPI_Datatype type, const char *type_name, int width)
{
    const size_t size = COUNT * (size_t)width;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, size, 0), recv = mt_buffer_alloc(MT_DEVICE, size, 0);
    char *data = mt_host_alloc(size);
    int wrong = 0, at = 0;
    share_t share;

    for (int i = 0; i < COUNT; ++i) {
        store(data, i, width, contribution(mt_rank + 1, i));
    }
    mt_buffer_put(&recv, data, size);
    for (int i = 0; i < COUNT; ++i) {
        store(data, i, width, contribution(mt_rank, i));
    }
    mt_buffer_put(&send, data, size);
    start(collective, &send, &recv, type, &share);
    mt_buffer_get(&recv, data, size);
    for (int i = 0; i < share.count; ++i) {
        unsigned sum = 0;

        for (int rank = share.first; rank <= share.last; ++rank) {
            sum += contribution(rank, share.from + i);
        }
        if (load(data, i, width) != (1 == width ? (uint8_t)sum : (uint16_t)sum)) {
            at = 0 == wrong ? i : at;
            ++wrong;
        }
    }
    MT_CHECK(0 == wrong, "%s of %s: %d of %d elements did not wrap around, the first at %d", names[collective],
             type_name, wrong, share.count, at);
    free(data);
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
}

int main(int argc, char **argv)
{
    const struct {
        MPI_Datatype type;
        const char *name;
        int width;
    } types[] = {{MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR", 1},
                 {MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR", 1},
                 {MPI_INT8_T, "MPI_INT8_T", 1},
                 {MPI_UINT8_T, "MPI_UINT8_T", 1},
                 {MPI_SHORT, "MPI_SHORT", 2},
                 {MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT", 2},
                 {MPI_INT16_T, "MPI_INT16_T", 2},
                 {MPI_UINT16_T, "MPI_UINT16_T", 2}};
    const uint64_t type_count = sizeof(types) / sizeof(types[0]);
    bool served = argc > 1 && 0 == strcmp(argv[1], "served");
    uint64_t expected_staged, expected_served;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    for (size_t i = 0; i < type_count; ++i) {
        for (int collective = 0; collective < COLLECTIVES; ++collective) {
            test((collective_t)collective, types[i].type, types[i].name, types[i].width);
        }
    }
    expected_served = served ? type_count * SERVED : 0;
    expected_staged = type_count * COLLECTIVES - expected_served;
    MT_CHECK(mt_served(MPI_COMM_WORLD) == expected_served, "kernels served %llu calls and not %llu",
             (unsigned long long)mt_served(MPI_COMM_WORLD), (unsigned long long)expected_served);
    MT_CHECK(mt_staged(MPI_COMM_WORLD) == expected_staged, "%llu calls were staged and not %llu",
             (unsigned long long)mt_staged(MPI_COMM_WORLD), (unsigned long long)expected_staged);
    return mt_finish();
}
