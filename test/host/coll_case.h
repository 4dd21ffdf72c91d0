/*
 * One call of a collective: its arguments on every rank, drawn from a row of choices and a seed, what the buffers hold
 * before, and what the MPI standard says that they hold after.
 */
#ifndef TEST_HOST_COLL_CASE_H
#define TEST_HOST_COLL_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/algo/coll.h"
#include "test/host/rank_threads.h"
#include "test/host/user_buffer.h"

/* Every collective, and the all-reduce for calls between them. */
#define CASE_ALLREDUCE MSCCLPP_COLL_LAST

/* Bytes of the largest block of all ranks. */
typedef enum {
    SIZE_NONE,
    SIZE_ONE,     /* one element */
    SIZE_FEW,     /* 2 to 40 elements */
    SIZE_AUTO,    /* where the selector's own choice changes, and a byte to either side */
    SIZE_KIB,     /* some KiB */
    SIZE_SLOT,    /* what a slot of the packet area holds, and a few bytes less */
    SIZE_SLOT_UP, /* a few bytes more */
    SIZE_TILE,    /* about one tile of the scratch */
    SIZE_TILES,   /* several tiles */
    SIZE_ANY,     /* anything up to that */
    SIZES
} case_size_t;

/* Sizes and places of blocks, where they may differ. */
typedef enum {
    LAYOUT_EVEN,
    LAYOUT_UNEVEN,
    LAYOUT_GAPS,     /* bytes between the blocks, and in front of the first one */
    LAYOUT_SHUFFLED, /* gaps, and any order */
    LAYOUT_HOLES,    /* half of the blocks are empty */
    LAYOUT_SILENT,   /* some ranks send nothing, and get nothing but what goes to all */
    LAYOUT_LONE,     /* all blocks but one are empty */
    LAYOUTS
} case_layout_t;

typedef enum { PLACE_OUT, PLACE_IN, PLACE_SOME, PLACES } case_place_t; /* SOME: each rank that may draws its own */
typedef enum { ALIGN_UNIT, ALIGN_WORD, ALIGN_ANY, ALIGNS } case_align_t;
typedef enum { ROOT_FIRST, ROOT_MIDDLE, ROOT_LAST, ROOTS } case_root_t;
typedef enum { KIND_DEVICE, KIND_EXACT, KIND_HOST, KIND_MIXED, KINDS } case_kind_t;

/* Values of the parameter <name>_algorithm, and what then serves the call. */
#define CASE_AUTO MSCCLPP_COLL_BY_LAST
#define CASE_ALGOS (MSCCLPP_COLL_BY_LAST + 1)
/* The next three are for several nodes. On one node they are the same as CASE_AUTO. */
#define CASE_RING CASE_ALGOS          /* nodes_ring or nodes_trees */
#define CASE_HALVING (CASE_ALGOS + 1) /* nodes_halving */
#define CASE_ROUNDS (CASE_ALGOS + 2)  /* nodes_rounds */
#define CASE_LAST_ALGO CASE_ROUNDS
#define CASE_NOTHING MSCCLPP_COLL_BY_LAST /* served: there is nothing to do, or one rank does it alone */
#define CASE_BY_NODES (CASE_NOTHING + 1)  /* served: by what serves ranks on several nodes */

extern const char *const case_algos[CASE_LAST_ALGO + 1];

/* The choices. A choice that has no part in a case is -1. */
typedef struct {
    int coll;
    int algo;
    int ranks;
    int blocks; /* blocks of the twin's grid */
    int threads;
    int size;
    int dtype; /* for collectives that combine */
    int op;    /* for collectives that combine */
    int place; /* for collectives that have MPI_IN_PLACE */
    int in_align;
    int out_align;
    int root;
    int kind;
    int layout;
    int nodes; /* the parameter ranks_per_node, which imitates nodes */
} case_choice_t;

typedef struct {
    bool in_place;
    bool has_in; /* a send buffer is given */
    bool has_out;
    size_t in_bytes;
    size_t out_bytes;
    user_kind_t in_kind;
    user_kind_t out_kind;
    unsigned in_offset;
    unsigned out_offset;
    uint64_t most; /* bytes of the largest block that the rank knows of */
} case_side_t;

typedef struct {
    case_choice_t choice;
    uint64_t drawn_from; /* the seed given */
    uint64_t seed;       /* of the contents */
    mscclpp_coll_t coll;
    int ranks;
    int root;
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    bool combines;
    bool varied;
    uint64_t extent; /* bytes from one element to the next; sizes and places of data that only moves are multiples */
    uint64_t most;   /* bytes of the largest block */
    uint64_t count;  /* elements of each block, if all blocks are alike */
    case_side_t side[RANKS_MAX];
    mscclpp_dev_block_t *send; /* [sender * ranks + receiver]: in the sender's input */
    mscclpp_dev_block_t
        *recv;  /* [receiver * ranks + sender]: in the receiver's output; of results [receiver * ranks] */
    int served; /* mscclpp_coll_algo_t, or CASE_NOTHING */
} case_t;

/* True for collectives whose blocks may differ, that combine, that have a root, that know MPI_IN_PLACE. */
bool case_varies(int coll);
bool case_combines(int coll);
bool case_has_root(int coll);
bool case_knows_in_place(int coll);

/*
 * True if the case asks for a ring of nodes, or trees, and gets one. 16-bit floats that are combined would be rounded
 * there.
 */
bool case_goes_in_ring(const case_t *c);
bool case_goes_by_halving(const case_t *c);
bool case_goes_over_trees(const case_t *c);

/* True if the case is a scan whose nodes send combined operands, if it goes in rounds. */
bool case_sends_prefixes(const case_t *c);

/* A rank's blocks, sizes, and the lesser of two: what coll_case.c and coll_expect.c share. */
bool case_scatters(int coll);
bool case_reduce_scatters(int coll);
bool case_flows(const case_t *c, int sender, int receiver);
mscclpp_dev_block_t *case_send_of(const case_t *c, int sender, int receiver);
mscclpp_dev_block_t *case_recv_of(const case_t *c, int receiver, int sender);
uint64_t case_span(const case_t *c, uint64_t count);
uint64_t case_min(uint64_t a, uint64_t b);

/* `scratch_size` is that of the team. */
void case_draw(const case_choice_t *choice, uint64_t seed, size_t scratch_size, case_t *c);
void case_free(case_t *c);

/* Bytes that no buffer of a case exceeds. */
size_t case_largest(size_t scratch_size, int ranks);

/* The contents of a rank's buffers before the call. `in` or `out` NULL: not wanted. */
void coll_case_fill(const case_t *c, int rank, unsigned char *in, unsigned char *out);

/* The arguments as the rank gives them. `in` or `out` is NULL if the rank has no such buffer. */
void case_args(const case_t *c, int rank, const void *in, void *out, uint64_t call, mscclpp_coll_args_t *args);

/*
 * coll_expect.c: true if `got` is right for the rank's output. Otherwise `what` says what is wrong. `in` and `out` are
 * all ranks' buffers as they were before the call. The function changes out[rank].
 */
bool case_verify(const case_t *c, int rank, unsigned char *const *in, unsigned char *const *out,
                 const unsigned char *got, char *what, size_t size);

/* One line about a case and a rank's part in it. */
void case_describe(const case_t *c, int rank, char *text, size_t size);

/* Write and read the choices as numbers, so that a user can run a case again. */
void case_write_choice(const case_choice_t *choice, char *text, size_t size);
bool case_read_choice(const char *text, case_choice_t *choice);

#endif
