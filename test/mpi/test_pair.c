/*
 * Calls of two ranks whose block sizes only the two ends know: what the ranks send one another is small, and what they
 * have for themselves is anything. Types have holes on no rank or on one. In the component's log, each call but the
 * first of a communicator has to be one by packets, of blocks that count only what the ranks exchange.
 */
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

#define RANKS 2
#define EXCHANGED 6 /* integers */
#define LARGE 100003
#define MARK 0x5a5a5a5a
#define NO_RANK RANKS

typedef enum { ALLTOALLV, ALLTOALLW, GATHERV, SCATTERV, NEIGHBOR_ALLTOALLV, COLLS } coll_t;

static const char *const names[COLLS] = {"alltoallv", "alltoallw", "gatherv", "scatterv", "neighbor_alltoallv"};

static MPI_Datatype spread; /* an integer, and a hole of the same size behind it */
static MPI_Comm neighbors;  /* each rank is its own neighbour, and the other one's */

typedef struct {
    coll_t coll;
    int root;
    int own[RANKS];  /* integers that each rank has for itself */
    int spread_rank; /* the rank whose types have holes, or NO_RANK */
    bool in_place;   /* the root of a gather or a scatter leaves its block where it is */
} call_t;

/* One rank's buffer: the number of elements of each block, and where it begins. */
typedef struct {
    int counts[RANKS];
    int displs[RANKS]; /* in elements */
    size_t ints;       /* size of the buffer, in integers */
} layout_t;

static int value_of(int from, int to, int i)
{
    return (int)(mt_mix((uint64_t)from, (uint64_t)to, (uint64_t)i) & 0xffffff);
}

static bool flows(const call_t *call, int from, int to)
{
    return GATHERV == call->coll ? to == call->root : SCATTERV == call->coll ? from == call->root : true;
}

static int step_of(const call_t *call)
{
    return call->spread_rank == mt_rank ? 2 : 1;
}

/* Lays out the blocks that this rank sends, or receives if `is_output`. */
static layout_t lay_out(const call_t *call, bool is_output)
{
    layout_t layout = {.ints = 0};
    int next = 0;

    for (int peer = 0; peer < RANKS; ++peer) {
        const int from = is_output ? peer : mt_rank, to = is_output ? mt_rank : peer;

        layout.counts[peer] = !flows(call, from, to) ? 0 : from == to ? call->own[from] : EXCHANGED;
        layout.displs[peer] = next;
        next += layout.counts[peer];
    }
    layout.ints = (size_t)next * (size_t)step_of(call);
    return layout;
}

static void make_call(const call_t *call, const layout_t *sent, const layout_t *received, void *in, void *out)
{
    const MPI_Datatype type = 1 == step_of(call) ? MPI_INT : spread;
    const MPI_Datatype types[RANKS] = {type, type};
    const bool in_place = call->in_place && mt_rank == call->root;
    const int size = step_of(call) * (int)sizeof(int);
    const int from[RANKS] = {sent->displs[0] * size, sent->displs[1] * size};
    const int to[RANKS] = {received->displs[0] * size, received->displs[1] * size};

    switch (call->coll) {
    case ALLTOALLV:
        MT_MPI(MPI_Alltoallv(in, sent->counts, sent->displs, type, out, received->counts, received->displs, type,
                             MPI_COMM_WORLD));
        break;
    case ALLTOALLW:
        MT_MPI(MPI_Alltoallw(in, sent->counts, from, types, out, received->counts, to, types, MPI_COMM_WORLD));
        break;
    case GATHERV:
        MT_MPI(MPI_Gatherv(in_place ? MPI_IN_PLACE : in, sent->counts[call->root], type, out, received->counts,
                           received->displs, type, call->root, MPI_COMM_WORLD));
        break;
    case SCATTERV:
        MT_MPI(MPI_Scatterv(in, sent->counts, sent->displs, type, in_place ? MPI_IN_PLACE : out,
                            received->counts[call->root], type, call->root, MPI_COMM_WORLD));
        break;
    default:
        MT_MPI(MPI_Neighbor_alltoallv(in, sent->counts, sent->displs, type, out, received->counts, received->displs,
                                      type, neighbors));
        break;
    }
}

/* Fills a buffer with marks and the blocks of this rank's input, or of its output after the call. */
static void fill(const call_t *call, const layout_t *layout, bool is_output, int *values)
{
    const bool moves_own = !call->in_place || mt_rank != call->root;

    for (size_t i = 0; i < layout->ints; ++i) {
        values[i] = MARK;
    }
    for (int peer = 0; peer < RANKS; ++peer) {
        for (int i = 0; i < layout->counts[peer] && (peer != mt_rank || !is_output || moves_own); ++i) {
            values[(layout->displs[peer] + i) * step_of(call)] =
                is_output ? value_of(peer, mt_rank, i) : value_of(mt_rank, peer, i);
        }
    }
}

static void try_call(const call_t *call)
{
    const layout_t sent = lay_out(call, false), received = lay_out(call, true);
    const size_t in_size = sent.ints * sizeof(int), out_size = received.ints * sizeof(int);
    mt_buffer_t in = mt_buffer_alloc(MT_DEVICE, in_size, 0), out = mt_buffer_alloc(MT_DEVICE, out_size, 4);
    int *from = mt_host_alloc(in_size), *wanted = mt_host_alloc(out_size), *got = mt_host_alloc(out_size);
    const uint64_t served = mt_served(MPI_COMM_WORLD);

    fill(call, &sent, false, from);
    fill(call, &received, true, wanted);
    for (size_t i = 0; i < received.ints; ++i) {
        got[i] = MARK;
    }
    mt_buffer_put(&in, from, in_size);
    mt_buffer_put(&out, got, out_size);
    make_call(call, &sent, &received, in.data, out.data);
    mt_buffer_get(&out, got, out_size);
    MT_CHECK(0 == memcmp(wanted, got, out_size), "%s, root %d, %d and %d for themselves, holes on %d: wrong result",
             names[call->coll], call->root, call->own[0], call->own[1], call->spread_rank);
    MT_CHECK(1 == mt_served(MPI_COMM_WORLD) - served, "%s was not served by kernels", names[call->coll]);
    free(from);
    free(wanted);
    free(got);
    mt_buffer_free(&in, names[call->coll]);
    mt_buffer_free(&out, names[call->coll]);
}

int main(int argc, char **argv)
{
    static const int own[] = {0, 3, LARGE};
    static const int ranks[RANKS] = {0, 1};
    enum { SIZES = sizeof(own) / sizeof(own[0]) };
    mt_call_t first;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (RANKS != mt_size) {
        MT_CHECK(false, "%d ranks are not allowed; use %d", mt_size, RANKS);
        return mt_finish();
    }
    MT_MPI(MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &spread));
    MT_MPI(MPI_Type_commit(&spread));
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, RANKS, ranks, MPI_UNWEIGHTED, RANKS, ranks, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &neighbors));
    /* A communicator's first calls agree on all sizes. */
    first = mt_call(MPI_COMM_WORLD, 1, 1);
    mt_verify(&first);
    first = mt_call(neighbors, 1, 1);
    mt_verify(&first);
    for (int i = 0; i < COLLS * SIZES * SIZES * (RANKS + 1); ++i) {
        const int sizes = i / COLLS;
        const coll_t coll = (coll_t)(i % COLLS);
        const call_t call = {.coll = coll,
                             .root = sizes % RANKS,
                             .own = {own[sizes % SIZES], own[sizes / SIZES % SIZES]},
                             .spread_rank = sizes / SIZES / SIZES,
                             .in_place = (GATHERV == coll || SCATTERV == coll) && i % 3 == 0};

        try_call(&call);
    }
    MT_CHECK(0 == mt_staged(MPI_COMM_WORLD), "%d calls were staged", (int)mt_staged(MPI_COMM_WORLD));
    MT_MPI(MPI_Comm_free(&neighbors));
    MT_MPI(MPI_Type_free(&spread));
    return mt_finish();
}
