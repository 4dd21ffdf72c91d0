/*
 * Collectives in place that kernels let overwrite their input: small and large ones, with types that have holes on no,
 * some or all ranks. Bytes that no block has must stay as they are.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

#define RANKS_MAX 16
#define MARK 0x5a5a5a5a

/* Which ranks have a type with holes. */
typedef enum { NO_RANK, FIRST_RANK, OTHER_RANKS, ALL_RANKS, HOLES } holes_t;

typedef enum { ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, COLLS } coll_t;

static const char *const names[COLLS] = {"alltoall", "alltoallv", "alltoallw", "reduce_scatter_block",
                                         "reduce_scatter"};

static MPI_Datatype spread; /* an integer, and a hole of the same size behind it */

typedef struct {
    coll_t coll;
    int step;              /* integers from one element to the next */
    MPI_Datatype type;     /* of this rank */
    int counts[RANKS_MAX]; /* elements of each block */
    int displs[RANKS_MAX]; /* where each block begins, in elements */
    size_t ints;           /* size of the buffer, in integers */
} call_t;

static bool moves(const call_t *call)
{
    return call->coll < REDUCE_SCATTER_BLOCK;
}

/* Element `i` of the block that rank `from` has for rank `to`. */
static int value_of(int from, int to, int i)
{
    return (int)(mt_mix((uint64_t)from, (uint64_t)to, (uint64_t)i) & 0xffffff);
}

/* Lays out a call of blocks with about `count` elements. Those of two ranks for one another have the same number. */
static call_t lay_out(coll_t coll, int count, holes_t holes)
{
    const bool has_holes = ALL_RANKS == holes || (NO_RANK != holes && (0 == mt_rank) == (FIRST_RANK == holes));
    const bool differ = ALLTOALL != coll && REDUCE_SCATTER_BLOCK != coll;
    call_t call = {.coll = coll, .step = has_holes ? 2 : 1, .type = has_holes ? spread : MPI_INT};
    int next = 0;

    for (int peer = 0; peer < mt_size; ++peer) {
        call.counts[peer] = !differ        ? count
                            : moves(&call) ? count + (mt_rank + peer) % 3 * (count / 2)
                                           : count + peer % 3 * (count / 2);
        next += moves(&call) && differ ? 1 + mt_rank : 0;
        call.displs[peer] = next;
        next += call.counts[peer];
    }
    call.ints = (size_t)next * (size_t)call.step;
    return call;
}

/* Fills the buffer with marks and this rank's blocks. */
static void fill(const call_t *call, int *values)
{
    for (size_t i = 0; i < call->ints; ++i) {
        values[i] = MARK;
    }
    for (int peer = 0; peer < mt_size; ++peer) {
        for (int i = 0; i < call->counts[peer]; ++i) {
            values[(call->displs[peer] + i) * call->step] = value_of(mt_rank, peer, i);
        }
    }
}

/* Changes the buffer as fill has left it to what it has to hold after the call. */
static void expect(const call_t *call, int *values)
{
    for (int peer = 0; peer < mt_size && moves(call); ++peer) {
        for (int i = 0; i < call->counts[peer]; ++i) {
            values[(call->displs[peer] + i) * call->step] = value_of(peer, mt_rank, i);
        }
    }
    for (int i = 0; i < call->counts[mt_rank] && !moves(call); ++i) {
        values[i] = 0;
        for (int rank = 0; rank < mt_size; ++rank) {
            values[i] += value_of(rank, mt_rank, i);
        }
    }
}

static void make_call(const call_t *call, void *data)
{
    MPI_Datatype types[RANKS_MAX];
    int bytes[RANKS_MAX];

    for (int peer = 0; peer < mt_size; ++peer) {
        types[peer] = call->type;
        bytes[peer] = call->displs[peer] * call->step * (int)sizeof(int);
    }
    switch (call->coll) {
    case ALLTOALL:
        MT_MPI(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, call->counts[0], call->type, MPI_COMM_WORLD));
        break;
    case ALLTOALLV:
        MT_MPI(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, data, call->counts, call->displs, call->type,
                             MPI_COMM_WORLD));
        break;
    case ALLTOALLW:
        MT_MPI(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, data, call->counts, bytes, types, MPI_COMM_WORLD));
        break;
    case REDUCE_SCATTER_BLOCK:
        MT_MPI(MPI_Reduce_scatter_block(MPI_IN_PLACE, data, call->counts[0], MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    default:
        MT_MPI(MPI_Reduce_scatter(MPI_IN_PLACE, data, call->counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    }
}

static void try_call(coll_t coll, int count, holes_t holes, size_t misalign)
{
    const call_t call = lay_out(coll, count, holes);
    const size_t size = call.ints * sizeof(int);
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, size, misalign);
    int *wanted = mt_host_alloc(size), *got = mt_host_alloc(size);

    fill(&call, wanted);
    mt_buffer_put(&buffer, wanted, size);
    make_call(&call, buffer.data);
    expect(&call, wanted);
    mt_buffer_get(&buffer, got, size);
    for (size_t i = 0; i < call.ints; ++i) {
        if (wanted[i] != got[i]) {
            mt_fail(__FILE__, __LINE__, "%s of %d elements, holes %d: integer %zu is %d and not %d", names[coll], count,
                    (int)holes, i, got[i], wanted[i]);
            break;
        }
    }
    free(wanted);
    free(got);
    mt_buffer_free(&buffer, names[coll]);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 30, 3000, 40003};

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_size > RANKS_MAX) {
        MT_CHECK(false, "%d ranks are not allowed; use up to %d", mt_size, RANKS_MAX);
        return mt_finish();
    }
    MT_MPI(MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &spread));
    MT_MPI(MPI_Type_commit(&spread));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        for (int coll = 0; coll < COLLS; ++coll) {
            for (int holes = 0; holes < (coll < REDUCE_SCATTER_BLOCK ? (int)HOLES : 1); ++holes) {
                try_call((coll_t)coll, counts[i], (holes_t)holes, 0);
                try_call((coll_t)coll, counts[i], (holes_t)holes, mt_rank % 2 == 0 ? 4 : 8);
            }
        }
    }
    MT_CHECK(0 == mt_staged(MPI_COMM_WORLD), "%d calls were staged", (int)mt_staged(MPI_COMM_WORLD));
    MT_MPI(MPI_Type_free(&spread));
    return mt_finish();
}
