/*
 * Random collective calls, whose results are compared with a plain computation.
 *
 * All choices follow from one seed, so each rank knows what every other rank passes. Each byte of a buffer follows from
 * its call, its rank and its place. So any rank can compute what any other sends, also where blocks of one buffer
 * overlap.
 */
#ifndef TEST_MPI_RANDOM_CALL_H
#define TEST_MPI_RANDOM_CALL_H

#include "test/mpi/mpi_test.h"

#define RANDOM_RANKS 8 /* the most ranks */

typedef struct {
    uint64_t state;
} random_source_t;

uint64_t random_draw(random_source_t *source);
int random_below(random_source_t *source, int limit);
bool random_chance(random_source_t *source, int percent);

/* Fills `order` with the numbers below `count`, in any order. */
void random_order(random_source_t *source, int *order, int count);

typedef enum {
    RANDOM_BCAST,
    RANDOM_ALLGATHER,
    RANDOM_GATHER,
    RANDOM_SCATTER,
    RANDOM_ALLTOALL,
    RANDOM_ALLGATHERV, /* from here to ALLTOALLW: blocks of different sizes */
    RANDOM_GATHERV,
    RANDOM_SCATTERV,
    RANDOM_ALLTOALLV,
    RANDOM_ALLTOALLW,
    RANDOM_ALLREDUCE, /* from here: reductions */
    RANDOM_REDUCE,
    RANDOM_SCAN,
    RANDOM_EXSCAN,
    RANDOM_REDUCE_SCATTER_BLOCK,
    RANDOM_REDUCE_SCATTER,
    RANDOM_COLLS
} random_coll_t;

typedef enum { RANDOM_BLOCKING, RANDOM_NONBLOCKING, RANDOM_PERSISTENT } random_how_t;

/* The ranks of a communicator, by their numbers in MPI_COMM_WORLD. */
typedef struct {
    int members[RANDOM_RANKS];
    int size;
    int rank; /* this rank's number */
} random_ranks_t;

/* A block of a buffer: elements of a type whose basics are integers of one size. Places are in basics. */
typedef struct {
    long place;
    int count; /* elements */
    int shape; /* the type (random_layout.c) */
} random_block_t;

/* What a rank sends or receives. */
typedef struct {
    random_block_t blocks[RANDOM_RANKS];
    int count;     /* number of blocks; 0: the buffer is not used */
    long length;   /* of the buffer, in basics */
    int misalign;  /* bytes */
    uint64_t seed; /* of what is in the buffer at first */
} random_side_t;

typedef struct {
    random_coll_t coll;
    random_how_t how;
    uint64_t seed;
    int turn;  /* of a persistent request */
    int count; /* elements of a reduction's block; basics of a block; where blocks differ, about so many */
    int basic; /* bytes of a basic */
    int type;  /* of a reduction (random_sums.c) */
    int op;
    int root;
    bool in_place;
    bool dense; /* no rank has a type with holes */
    random_ranks_t ranks;
    random_side_t send, recv; /* of this rank */
    mt_buffer_t send_buffer, recv_buffer;
    char *wanted; /* of blocks: what the receive buffer has to hold in the end */
    MPI_Request request;
    int send_counts[RANDOM_RANKS], send_displs[RANDOM_RANKS]; /* MPI's lists */
    int recv_counts[RANDOM_RANKS], recv_displs[RANDOM_RANKS];
    MPI_Datatype send_types[RANDOM_RANKS], recv_types[RANDOM_RANKS];
} random_call_t;

static inline bool random_reduces(const random_call_t *call)
{
    return call->coll >= RANDOM_ALLREDUCE;
}

/* Makes and frees the types that all calls use. */
void random_types_make(void);
void random_types_free(void);

/*
 * Chooses a call on a communicator with the source that all ranks share. All ranks call random_choose, and those of the
 * communicator then random_make, which allocates the buffers, and random_free in the end.
 */
void random_choose(random_call_t *call, random_source_t *shared, random_how_t how);
void random_make(random_call_t *call, const random_ranks_t *ranks);
void random_free(random_call_t *call);

/* Fills the buffers, differently in each turn. */
void random_fill(random_call_t *call);

/* Makes the MPI call, or its persistent request. */
void random_issue(random_call_t *call, MPI_Comm comm);

/* Compares the result, and what must not have changed. */
void random_check(const random_call_t *call);

/* random_layout.c: the sides of a rank, and the result of a call that moves blocks. */
void random_lay_out(random_call_t *call);
void random_expect_blocks(const random_call_t *call, char *wanted);
uint8_t random_byte(uint64_t seed, int rank, long place);

/* True if this rank's input lies in its receive buffer. */
bool random_input_in_output(const random_call_t *call);

/* random_sums.c: reductions. Sizes are in elements; the result begins at the receive buffer's beginning. */
MPI_Datatype random_sum_type(const random_call_t *call);
MPI_Op random_sum_op(const random_call_t *call);
int random_sum_size(const random_call_t *call); /* bytes of an element */
int random_sum_count(const random_call_t *call, int rank);
int random_sum_total(const random_call_t *call); /* of the operand */
void random_sum_fill(const random_call_t *call, char *operand);
int random_sum_expect(const random_call_t *call, char *wanted); /* returns the number of elements of the result */
bool random_sum_equal(const random_call_t *call, const char *some, const char *others, int index);

#endif
