/*
 * The collectives that mscclpp_bench measures: their names, which blocks of a buffer go where, and what has to arrive.
 * A size always means the whole buffer, the largest that a rank has. If the collective has blocks, that is n blocks.
 */
#ifndef TOOLS_BENCH_BENCH_COLL_H
#define TOOLS_BENCH_BENCH_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <mpi.h>

#include "mca/common/base/colls.h"

typedef enum {
    BENCH_WHOLE,     /* the collective has no blocks */
    BENCH_GATHERS,   /* each rank has one block, for all ranks or for the root */
    BENCH_SCATTERS,  /* each rank, or the root, has a block for each rank */
    BENCH_EXCHANGES, /* each rank has a block for each rank, and gets one from each */
} bench_blocks_t;

typedef struct {
    mscclpp_coll_t coll;      /* the library's number; MSCCLPP_COLL_LAST: all-reduce */
    const char *name;         /* the name as in --coll, such as "allgather" */
    const char *title;        /* the name for titles, such as "all-gather" */
    const char *function;     /* MPI's function, such as "MPI_Allgather" */
    const char *sized_buffer; /* name of the buffer that a size means */
    bench_blocks_t blocks;
    bool reduces; /* it combines elements; otherwise it only moves them */
    bool has_root;
    bool has_unequal_blocks; /* their sizes differ by bench_coll_weight */
    bool in_place;           /* it has two buffers, and unless is_of_neighbors is set, MPI also has it in place */
    double bus_factor;       /* busbw = algbw * bus_factor * (n - 1) / n; 0: busbw = algbw */
    bool is_of_neighbors;    /* blocks go to and from the two neighbours in a ring of the ranks, not all ranks */
} bench_coll_t;

extern const bench_coll_t bench_colls[]; /* all collectives, all-reduce first */
extern const int bench_coll_count;

#define BENCH_MAX_COLLS 21

/* Edges of each rank in each direction, where blocks go to and from neighbours: one to the rank before, one after. */
#define BENCH_NEIGHBORS 2

/*
 * Adds the collective of this name to a list with room for BENCH_MAX_COLLS. For "all", adds all but those of
 * neighbours, and for "neighbors" these. One that is in the list already is not added again. If there is none of this
 * name, prints one line and returns false.
 */
bool bench_coll_add(const char *name, const bench_coll_t **colls, int *coll_count_p);

/* Returns busbw / algbw with `size` ranks. */
double bench_coll_bus_factor(const bench_coll_t *coll, int size);

/* Returns the weight of a block where blocks are unequal: 1, 2, 3, 1, 2, 3 and so on. */
int bench_coll_weight(int index);

/* Which elements of the whole buffer belong to which rank, seen from one rank. */
typedef struct {
    const bench_coll_t *coll;
    int rank;
    int size;
    int root;
    size_t count; /* elements of the whole buffer */
    /* MPI's arguments for the unequal blocks that this rank has or gets; NULL if blocks are equal. */
    int *counts;             /* elements of each block */
    int *displacements;      /* where each block begins in the buffer, elements */
    int *byte_displacements; /* where each block begins, bytes */
    /* Of neighbours, the arrays above are for the blocks that this rank gets, by edge; these are for those it sends. */
    int send_counts[BENCH_NEIGHBORS];
    int send_displacements[BENCH_NEIGHBORS];
    MPI_Aint send_byte_displacements[BENCH_NEIGHBORS];
    MPI_Aint recv_byte_displacements[BENCH_NEIGHBORS];
    MPI_Datatype *types;
} bench_layout_t;

/*
 * Returns how many elements of a whole buffer of at most `bytes` bytes can be measured. Equal blocks, or blocks of
 * neighbours, must fill the buffer. Returns 0 if there are too few bytes for this collective.
 */
size_t bench_layout_max_count(const bench_coll_t *coll, int size, size_t bytes, size_t type_size);

/* Returns the layout of an all-reduce, which need not be closed. */
bench_layout_t bench_layout_allreduce(int rank, int size, size_t count);

/* Fills in a layout, which the caller closes. If memory runs out, prints one line and returns false. */
bool bench_layout_open(bench_layout_t *layout, const bench_coll_t *coll, int rank, int size, int root, size_t count,
                       MPI_Datatype type, size_t type_size);
void bench_layout_close(bench_layout_t *layout);

/* Returns true if all counts and displacements fit into MPI's ints. */
bool bench_layout_fits_int(const bench_layout_t *layout, size_t type_size);

/* Returns the rank that block `edge` comes from, or the rank that block `edge` goes to: the one on the other side. */
int bench_layout_source(const bench_layout_t *layout, int edge);
int bench_layout_target(const bench_layout_t *layout, int edge);

/*
 * Return the size of block `index` in rank `owner`'s buffer, and where it begins there, in elements. For collectives
 * with blocks. In collectives of neighbours `index` is an edge, and the buffer is the one that `owner` sends from.
 */
size_t bench_layout_block_size(const bench_layout_t *layout, int owner, int index);
size_t bench_layout_displacement(const bench_layout_t *layout, int owner, int index);

/*
 * Returns the elements of the largest block that any rank has, or of the whole buffer if the collective has no blocks.
 * Sizes in rules files mean this.
 */
size_t bench_layout_largest_block(const bench_layout_t *layout);

/* Elements of one of this rank's two buffers. */
typedef struct {
    bool in_recv; /* in the receive buffer, not in the send buffer */
    size_t first;
    size_t count;
} bench_piece_t;

/* Returns the places of this rank's operands. If it has none, `count` is 0. */
bench_piece_t bench_layout_input(const bench_layout_t *layout, bool in_place);

/*
 * A part of the result: elements `first` to `first` + `count` - 1 of this rank's buffer. They are the operands of ranks
 * `first_rank` to `end_rank` - 1, from index `operand_first` on, combined.
 */
typedef struct {
    size_t first;
    size_t count;
    int first_rank;
    int end_rank;
    size_t operand_first;
} bench_segment_t;

/*
 * Returns how many segments this rank's result has, or one of them. They follow one another without gaps, from the
 * beginning of the buffer on.
 */
int bench_layout_segments(const bench_layout_t *layout, bool in_place);
bench_segment_t bench_layout_segment(const bench_layout_t *layout, int index);

/* Returns true if the elements behind the result must not change. */
bool bench_layout_keeps_rest(const bench_layout_t *layout, bool in_place);

/* Yields the fewest elements that `rank` has to read from memory, and to write. */
void bench_layout_traffic(const bench_layout_t *layout, int rank, bool in_place, size_t *reads_p, size_t *writes_p);

#endif
