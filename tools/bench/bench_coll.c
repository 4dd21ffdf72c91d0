/* The collectives, and which elements belong to which rank. Nothing here communicates. */
#include "tools/bench/bench.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What a size means, as the tables say it. */
#define EACH "the buffer of each rank"
#define RESULT "the result on each rank, n blocks"
#define OPERAND "the operand of each rank, n blocks"
#define BOTH "each of the two buffers of each rank, n blocks"
#define ROOT_RESULT "the result on the root, n blocks"
#define FROM_NEIGHBORS "the result on each rank, two blocks"
#define WITH_NEIGHBORS "each of the two buffers of each rank, two blocks"
#define ROOT_OPERAND "the operand of the root, n blocks"

/* clang-format off */
const bench_coll_t bench_colls[] = {
    {.coll = MSCCLPP_COLL_LAST, .name = "allreduce", .function = "MPI_Allreduce",
     .title = "all-reduce", .sized_buffer = EACH, .blocks = BENCH_WHOLE,
     .reduces = true, .in_place = true, .bus_factor = 2},
    {.coll = MSCCLPP_COLL_ALLGATHER, .name = "allgather", .function = "MPI_Allgather",
     .title = "all-gather", .sized_buffer = RESULT, .blocks = BENCH_GATHERS,
     .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_ALLGATHERV, .name = "allgatherv", .function = "MPI_Allgatherv",
     .title = "all-gather of unequal blocks", .sized_buffer = RESULT, .blocks = BENCH_GATHERS,
     .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_REDUCE_SCATTER_BLOCK, .name = "reduce_scatter_block", .function = "MPI_Reduce_scatter_block",
     .title = "reduce-scatter", .sized_buffer = OPERAND, .blocks = BENCH_SCATTERS,
     .reduces = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_REDUCE_SCATTER, .name = "reduce_scatter", .function = "MPI_Reduce_scatter",
     .title = "reduce-scatter of unequal blocks", .sized_buffer = OPERAND, .blocks = BENCH_SCATTERS,
     .reduces = true, .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_BCAST, .name = "bcast", .function = "MPI_Bcast",
     .title = "broadcast", .sized_buffer = EACH, .blocks = BENCH_WHOLE,
     .has_root = true},
    {.coll = MSCCLPP_COLL_REDUCE, .name = "reduce", .function = "MPI_Reduce",
     .title = "reduce", .sized_buffer = EACH, .blocks = BENCH_WHOLE,
     .reduces = true, .has_root = true, .in_place = true},
    {.coll = MSCCLPP_COLL_ALLTOALL, .name = "alltoall", .function = "MPI_Alltoall",
     .title = "all-to-all", .sized_buffer = BOTH, .blocks = BENCH_EXCHANGES,
     .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_ALLTOALLV, .name = "alltoallv", .function = "MPI_Alltoallv",
     .title = "all-to-all of unequal blocks", .sized_buffer = BOTH, .blocks = BENCH_EXCHANGES,
     .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_ALLTOALLW, .name = "alltoallw", .function = "MPI_Alltoallw",
     .title = "all-to-all of unequal blocks with a type each", .sized_buffer = BOTH, .blocks = BENCH_EXCHANGES,
     .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_GATHER, .name = "gather", .function = "MPI_Gather",
     .title = "gather", .sized_buffer = ROOT_RESULT, .blocks = BENCH_GATHERS,
     .has_root = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_GATHERV, .name = "gatherv", .function = "MPI_Gatherv",
     .title = "gather of unequal blocks", .sized_buffer = ROOT_RESULT, .blocks = BENCH_GATHERS,
     .has_root = true, .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_SCATTER, .name = "scatter", .function = "MPI_Scatter",
     .title = "scatter", .sized_buffer = ROOT_OPERAND, .blocks = BENCH_SCATTERS,
     .has_root = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_SCATTERV, .name = "scatterv", .function = "MPI_Scatterv",
     .title = "scatter of unequal blocks", .sized_buffer = ROOT_OPERAND, .blocks = BENCH_SCATTERS,
     .has_root = true, .has_unequal_blocks = true, .in_place = true, .bus_factor = 1},
    {.coll = MSCCLPP_COLL_SCAN, .name = "scan", .function = "MPI_Scan",
     .title = "scan", .sized_buffer = EACH, .blocks = BENCH_WHOLE,
     .reduces = true, .in_place = true},
    {.coll = MSCCLPP_COLL_EXSCAN, .name = "exscan", .function = "MPI_Exscan",
     .title = "exclusive scan", .sized_buffer = EACH, .blocks = BENCH_WHOLE,
     .reduces = true, .in_place = true},
    {.coll = MSCCLPP_COLL_NEIGHBOR_ALLGATHER, .name = "neighbor_allgather", .function = "MPI_Neighbor_allgather",
     .title = "all-gather of neighbours", .sized_buffer = FROM_NEIGHBORS, .blocks = BENCH_GATHERS,
     .in_place = true, .is_of_neighbors = true},
    {.coll = MSCCLPP_COLL_NEIGHBOR_ALLGATHERV, .name = "neighbor_allgatherv", .function = "MPI_Neighbor_allgatherv",
     .title = "all-gather of neighbours, of unequal blocks", .sized_buffer = FROM_NEIGHBORS, .blocks = BENCH_GATHERS,
     .has_unequal_blocks = true, .in_place = true, .is_of_neighbors = true},
    {.coll = MSCCLPP_COLL_NEIGHBOR_ALLTOALL, .name = "neighbor_alltoall", .function = "MPI_Neighbor_alltoall",
     .title = "all-to-all of neighbours", .sized_buffer = WITH_NEIGHBORS, .blocks = BENCH_EXCHANGES,
     .in_place = true, .is_of_neighbors = true},
    {.coll = MSCCLPP_COLL_NEIGHBOR_ALLTOALLV, .name = "neighbor_alltoallv", .function = "MPI_Neighbor_alltoallv",
     .title = "all-to-all of neighbours, of unequal blocks", .sized_buffer = WITH_NEIGHBORS, .blocks = BENCH_EXCHANGES,
     .has_unequal_blocks = true, .in_place = true, .is_of_neighbors = true},
    {.coll = MSCCLPP_COLL_NEIGHBOR_ALLTOALLW, .name = "neighbor_alltoallw", .function = "MPI_Neighbor_alltoallw",
     .title = "all-to-all of neighbours, with a type each", .sized_buffer = WITH_NEIGHBORS, .blocks = BENCH_EXCHANGES,
     .has_unequal_blocks = true, .in_place = true, .is_of_neighbors = true},
};
/* clang-format on */
const int bench_coll_count = sizeof(bench_colls) / sizeof(bench_colls[0]);

_Static_assert(sizeof(bench_colls) / sizeof(bench_colls[0]) == BENCH_MAX_COLLS, "a list has room for each");
_Static_assert(MSCCLPP_COLL_LAST + 1 == BENCH_MAX_COLLS, "the program measures each collective of the library");

double bench_coll_bus_factor(const bench_coll_t *coll, int size)
{
    return 0 == coll->bus_factor ? 1 : coll->bus_factor * (size - 1) / size;
}

int bench_coll_weight(int index)
{
    return 1 + index % 3;
}

/*
 * For unequal blocks of neighbours, the buffer has PARTS equal parts. The weight of a block is the number of its parts,
 * so the blocks of all edges together fit into the buffer.
 */
#define MAX_WEIGHT 3
#define PARTS (MAX_WEIGHT * BENCH_NEIGHBORS)

int bench_layout_source(const bench_layout_t *layout, int edge)
{
    return (layout->rank + (0 == edge ? layout->size - 1 : 1)) % layout->size;
}

int bench_layout_target(const bench_layout_t *layout, int edge)
{
    return bench_layout_source(layout, BENCH_NEIGHBORS - 1 - edge);
}

/*
 * Returns how many elements rank `owner` sends over an edge. In an all-gather it sends the same block over both its
 * edges, so that only the owner determines the size.
 */
static size_t neighbor_block_size(const bench_layout_t *layout, int owner, int edge)
{
    const int index = BENCH_GATHERS == layout->coll->blocks ? owner : owner + edge;

    return layout->coll->has_unequal_blocks ? layout->count / PARTS * (size_t)bench_coll_weight(index)
                                            : layout->count / BENCH_NEIGHBORS;
}

/*
 * Returns the segment of the result that this rank receives over an edge. Segments are in the order of the edges. The
 * block that arrives over an edge is the one that its source sends over the edge of the same number. In an all-gather
 * this is the source's only block.
 */
static bench_segment_t neighbor_segment(const bench_layout_t *layout, int edge)
{
    const int source = bench_layout_source(layout, edge);
    bench_segment_t segment = {
        .count = neighbor_block_size(layout, source, edge), .first_rank = source, .end_rank = source + 1};

    for (int i = 0; i < edge; ++i) {
        segment.first += neighbor_block_size(layout, bench_layout_source(layout, i), i);
    }
    segment.operand_first = BENCH_GATHERS == layout->coll->blocks ? 0 : bench_layout_displacement(layout, source, edge);
    return segment;
}

/*
 * Fills in MPI's arguments for unequal blocks of neighbours: counts and displacements of the blocks that this rank
 * receives and sends. Values that do not fit into an int are wrong; callers use the layout only if
 * bench_layout_fits_int returns true.
 */
static void open_neighbors(bench_layout_t *layout, MPI_Datatype type, size_t type_size)
{
    for (int i = 0; i < BENCH_NEIGHBORS; ++i) {
        const bench_segment_t segment = neighbor_segment(layout, i);
        const size_t first = bench_layout_displacement(layout, layout->rank, i);

        layout->counts[i] = (int)segment.count;
        layout->displacements[i] = (int)segment.first;
        layout->recv_byte_displacements[i] = (MPI_Aint)(segment.first * type_size);
        layout->send_counts[i] = (int)neighbor_block_size(layout, layout->rank, i);
        layout->send_displacements[i] = (int)first;
        layout->send_byte_displacements[i] = (MPI_Aint)(first * type_size);
        layout->types[i] = type;
    }
}

/* Returns the sum of the weights of all blocks before `index`. */
static size_t weights_below(int index)
{
    const size_t triples = (size_t)index / 3; /* of the weights 1, 2, 3, whose sum is 6 */

    return 6 * triples + (0 == index % 3 ? 0 : 1 == index % 3 ? 1 : 3);
}

/*
 * Rounds down to a number of elements that makes all blocks equal. For neighbours, rounds down to a multiple of PARTS,
 * even if their blocks are equal. Unequal blocks of all ranks need no rounding, because share_first distributes the
 * remaining elements.
 */
size_t bench_layout_max_count(const bench_coll_t *coll, int size, size_t bytes, size_t type_size)
{
    size_t count = bytes / type_size;

    if (coll->is_of_neighbors) {
        return count / PARTS * PARTS;
    }
    return BENCH_WHOLE == coll->blocks || coll->has_unequal_blocks ? count : count / (size_t)size * (size_t)size;
}

/*
 * Returns where share `index` of the whole buffer begins, or, if `index` is `size`, where the last share ends. Unequal
 * shares cover the whole buffer, too; in a small buffer some of them may be empty. The count is divided before it is
 * multiplied, so that no product overflows.
 */
static size_t share_first(const bench_layout_t *layout, int index)
{
    if (!layout->coll->has_unequal_blocks) {
        return layout->count / (size_t)layout->size * (size_t)index;
    }
    const size_t all_weights = weights_below(layout->size), weights = weights_below(index);

    return layout->count / all_weights * weights + layout->count % all_weights * weights / all_weights;
}

/* Returns the elements of share `index`, for collectives with blocks. Equal shares divide the whole buffer. */
static size_t share_size(const bench_layout_t *layout, int index)
{
    return share_first(layout, index + 1) - share_first(layout, index);
}

/*
 * Returns how many elements a block has. In an exchange, the sum of two ranks determines the size of the blocks that
 * they send each other. So both send the same number of elements, and one array of counts serves for sending and
 * receiving. A rank's blocks are all shares, in another order, so that together they fill its buffer.
 */
size_t bench_layout_block_size(const bench_layout_t *layout, int owner, int index)
{
    if (layout->coll->is_of_neighbors) {
        return neighbor_block_size(layout, owner, index);
    }
    return share_size(layout, BENCH_EXCHANGES == layout->coll->blocks ? (owner + index) % layout->size : index);
}

/* Returns 0 in an all-gather of neighbours: there the owner's send buffer has one block for both edges. */
size_t bench_layout_displacement(const bench_layout_t *layout, int owner, int index)
{
    size_t first = 0;

    if (BENCH_EXCHANGES != layout->coll->blocks) {
        return layout->coll->is_of_neighbors ? 0 : share_first(layout, index);
    }
    for (int i = 0; i < index; ++i) {
        first += bench_layout_block_size(layout, owner, i);
    }
    return first;
}

size_t bench_layout_largest_block(const bench_layout_t *layout)
{
    size_t largest = 0;

    if (layout->coll->is_of_neighbors) {
        return layout->coll->has_unequal_blocks ? layout->count / PARTS * MAX_WEIGHT : layout->count / BENCH_NEIGHBORS;
    }
    for (int i = 0; i < layout->size && BENCH_WHOLE != layout->coll->blocks; ++i) {
        largest = share_size(layout, i) > largest ? share_size(layout, i) : largest;
    }
    return BENCH_WHOLE == layout->coll->blocks ? layout->count : largest;
}

bench_layout_t bench_layout_allreduce(int rank, int size, size_t count)
{
    bench_layout_t layout = {.coll = &bench_colls[0], .rank = rank, .size = size, .count = count};

    return layout;
}

/*
 * Fills in a layout. Collectives of equal blocks need no arrays, so their layouts own no memory. Counts and
 * displacements that do not fit into an int are wrong; bench_layout_fits_int tells callers whether they fit. Only
 * MPI_Alltoallw uses `byte_displacements`. If there is no memory, prints a line and returns false, with nothing to
 * close.
 */
bool bench_layout_open(bench_layout_t *layout, const bench_coll_t *coll, int rank, int size, int root, size_t count,
                       MPI_Datatype type, size_t type_size)
{
    const size_t blocks = coll->is_of_neighbors ? BENCH_NEIGHBORS : (size_t)size;

    *layout = (bench_layout_t){.coll = coll, .rank = rank, .size = size, .root = root, .count = count};
    if (!coll->has_unequal_blocks) {
        return true;
    }
    layout->counts = calloc(blocks, sizeof(layout->counts[0]));
    layout->displacements = calloc(blocks, sizeof(layout->displacements[0]));
    layout->byte_displacements = calloc(blocks, sizeof(layout->byte_displacements[0]));
    layout->types = calloc(blocks, sizeof(layout->types[0]));
    if (layout->counts == NULL || layout->displacements == NULL || layout->byte_displacements == NULL ||
        layout->types == NULL) {
        bench_layout_close(layout);
        fprintf(stderr, "%s: out of memory\n", bench_program);
        return false;
    }
    if (coll->is_of_neighbors) {
        open_neighbors(layout, type, type_size);
        return true;
    }
    for (int i = 0; i < size; ++i) {
        layout->counts[i] = (int)bench_layout_block_size(layout, rank, i);
        layout->displacements[i] = (int)bench_layout_displacement(layout, rank, i);
        layout->byte_displacements[i] = (int)(bench_layout_displacement(layout, rank, i) * type_size);
        layout->types[i] = type;
    }
    return true;
}

void bench_layout_close(bench_layout_t *layout)
{
    free(layout->counts);
    free(layout->displacements);
    free(layout->byte_displacements);
    free(layout->types);
    memset(layout, 0, sizeof(*layout));
}

/*
 * Returns true if MPI's ints can hold the counts and displacements. MPI_Alltoallw has displacements in bytes. Other
 * collectives of unequal blocks have displacements in elements, which are at most the whole count. Equal blocks of all
 * ranks have no displacements, so only the count of one block matters.
 */
bool bench_layout_fits_int(const bench_layout_t *layout, size_t type_size)
{
    if (MSCCLPP_COLL_ALLTOALLW == layout->coll->coll) {
        return layout->count * type_size <= INT_MAX;
    }
    if (BENCH_WHOLE == layout->coll->blocks || layout->coll->has_unequal_blocks || layout->coll->is_of_neighbors) {
        return layout->count <= INT_MAX;
    }
    return layout->count / (size_t)layout->size <= INT_MAX;
}

/*
 * Returns where this rank's operands are: in the receive buffer if the call is in place, and otherwise in the send
 * buffer. A broadcast has only a receive buffer. In collectives with a root, only the root passes MPI_IN_PLACE. So in a
 * reduction or a gather the other ranks use their send buffers, and a root that scatters always has its operands in its
 * send buffer. In a gather in place, the operand is the rank's own block of the result.
 */
bench_piece_t bench_layout_input(const bench_layout_t *layout, bool in_place)
{
    const bool is_root = layout->rank == layout->root;
    bench_piece_t piece = {.in_recv = in_place, .count = layout->count};

    switch (layout->coll->coll) {
    case MSCCLPP_COLL_BCAST:
        piece.in_recv = true;
        piece.count = is_root ? layout->count : 0;
        break;
    case MSCCLPP_COLL_SCATTER:
    case MSCCLPP_COLL_SCATTERV:
        piece.in_recv = false;
        piece.count = is_root ? layout->count : 0;
        break;
    case MSCCLPP_COLL_REDUCE:
        piece.in_recv = in_place && is_root;
        break;
    default:
        if (BENCH_GATHERS == layout->coll->blocks) {
            piece.in_recv = in_place && (is_root || !layout->coll->has_root);
            piece.first = piece.in_recv ? bench_layout_displacement(layout, layout->rank, layout->rank) : 0;
            piece.count = bench_layout_block_size(layout, layout->rank, layout->rank);
        }
        break;
    }
    return piece;
}

/*
 * Returns the number of segments of the result, which are verified. A reduction or gather has none on ranks other than
 * the root, and an exclusive scan has none on rank 0. A scatter in place has none on the root, whose own block stays in
 * the send buffer. Data that is in the receive buffer from the start counts as a part of the result. This is the own
 * block of a gather in place, and the operand of a broadcast's root.
 */
int bench_layout_segments(const bench_layout_t *layout, bool in_place)
{
    const bool is_root = layout->rank == layout->root;

    if (layout->coll->is_of_neighbors) {
        return BENCH_NEIGHBORS;
    }
    switch (layout->coll->coll) {
    case MSCCLPP_COLL_REDUCE:
        return is_root ? 1 : 0;
    case MSCCLPP_COLL_EXSCAN:
        return 0 == layout->rank ? 0 : 1;
    case MSCCLPP_COLL_SCATTER:
    case MSCCLPP_COLL_SCATTERV:
        return in_place && is_root ? 0 : 1;
    case MSCCLPP_COLL_GATHER:
    case MSCCLPP_COLL_GATHERV:
        return is_root ? layout->size : 0;
    default:
        return BENCH_GATHERS == layout->coll->blocks || BENCH_EXCHANGES == layout->coll->blocks ? layout->size : 1;
    }
}

/*
 * Returns a segment of the result: a block of one rank, or the combined operands of all ranks. In a scan it combines
 * the operands up to and including this rank's; in an exclusive scan, without this rank's. In a broadcast and a scatter
 * only the root has operands, so the segment comes from the root.
 */
bench_segment_t bench_layout_segment(const bench_layout_t *layout, int index)
{
    const int rank = layout->rank;
    bench_segment_t segment = {.count = layout->count, .first_rank = 0, .end_rank = layout->size};

    if (layout->coll->is_of_neighbors) {
        return neighbor_segment(layout, index);
    }
    switch (layout->coll->blocks) {
    case BENCH_GATHERS:
    case BENCH_EXCHANGES:
        segment.first = bench_layout_displacement(layout, rank, index);
        segment.count = bench_layout_block_size(layout, rank, index);
        segment.first_rank = index;
        segment.end_rank = index + 1;
        segment.operand_first =
            BENCH_GATHERS == layout->coll->blocks ? 0 : bench_layout_displacement(layout, index, rank);
        break;
    case BENCH_SCATTERS:
        segment.count = bench_layout_block_size(layout, rank, rank);
        segment.operand_first = bench_layout_displacement(layout, rank, rank);
        break;
    default:
        segment.end_rank = MSCCLPP_COLL_SCAN == layout->coll->coll     ? rank + 1
                           : MSCCLPP_COLL_EXSCAN == layout->coll->coll ? rank
                                                                       : layout->size;
        break;
    }
    if (MSCCLPP_COLL_BCAST == layout->coll->coll ||
        (BENCH_SCATTERS == layout->coll->blocks && !layout->coll->reduces)) {
        segment.first_rank = layout->root;
        segment.end_rank = layout->root + 1;
    }
    return segment;
}

/*
 * Returns false for a reduce-scatter in place: the elements behind the result are operands, which an implementation may
 * use as temporary memory.
 */
bool bench_layout_keeps_rest(const bench_layout_t *layout, bool in_place)
{
    if (MSCCLPP_COLL_EXSCAN == layout->coll->coll) {
        return 0 != layout->rank; /* MPI leaves the buffer of rank 0 undefined */
    }
    return !in_place || BENCH_SCATTERS != layout->coll->blocks || !layout->coll->reduces;
}

/*
 * Yields the number of elements that `rank` must read at least once, and write at least once, whatever the algorithm
 * is. In place, a rank's own block is not written if the collective only moves data. It is not read either, except in
 * an all-gather, where other ranks get it. With a root this holds for the root only, because the other ranks are never
 * in place. Must not be called for collectives of neighbours.
 */
void bench_layout_traffic(const bench_layout_t *layout, int rank, bool in_place, size_t *reads_p, size_t *writes_p)
{
    const bench_coll_t *coll = layout->coll;
    const bool is_root = rank == layout->root;
    const size_t own_block = BENCH_WHOLE == coll->blocks ? 0 : bench_layout_block_size(layout, rank, rank);
    const size_t kept = in_place ? own_block : 0; /* elements that stay where they are */

    *reads_p = *writes_p = layout->count;
    switch (coll->blocks) {
    case BENCH_WHOLE:
        if (MSCCLPP_COLL_BCAST == coll->coll) {
            *reads_p = is_root ? layout->count : 0;
            *writes_p = is_root ? 0 : layout->count;
        } else if (MSCCLPP_COLL_REDUCE == coll->coll) {
            *writes_p = is_root ? layout->count : 0;
        } else if (MSCCLPP_COLL_EXSCAN == coll->coll) {
            *reads_p = rank == layout->size - 1 ? 0 : layout->count;
            *writes_p = 0 == rank ? 0 : layout->count;
        }
        break;
    case BENCH_GATHERS:
        *reads_p = coll->has_root && is_root ? own_block - kept : own_block;
        *writes_p = coll->has_root && !is_root ? 0 : layout->count - kept;
        break;
    case BENCH_SCATTERS:
        if (coll->reduces) {
            *writes_p = own_block;
        } else {
            *reads_p = is_root ? layout->count - kept : 0;
            *writes_p = is_root ? own_block - kept : own_block;
        }
        break;
    default:
        *reads_p = *writes_p = layout->count - kept;
        break;
    }
}
