/*
 * The meaning of each collective, for test_stage: where a rank's data lies in its buffers, and what the buffers have to
 * hold after the call. Data are integers that depend on sender and receiver, so ranks know them without communication.
 */
#ifndef TEST_MPI_STAGE_MODEL_H
#define TEST_MPI_STAGE_MODEL_H

#include "test/mpi/mpi_test.h"

#define RANKS_MAX 16
#define MARGIN 1024
#define ARENA ((size_t)1 << 20)

typedef enum { BLOCKING, NONBLOCKING, PERSISTENT, VARIANTS } variant_t;

typedef enum {
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    SCAN,
    SCATTER,
    SCATTERV,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    COLLECTIVES
} collective_t;

typedef struct {
    const char *name;
    int ints;
    int first;
    int step;
    int extent;
    MPI_Datatype handle;
} type_t;

enum { PLAIN, GAPPED, SHIFTED, NEGATIVE_LB, FINE, TYPES };
/* The ranks that a call connects. Ranks are named by their number in MPI_COMM_WORLD. */
typedef struct {
    const char *name;
    MPI_Comm comm;
    bool inter;
    bool topology;
    bool spans_nodes;
    int rank; /* in the own group */
    int own_size;
    int own[RANKS_MAX];
    int peers; /* size of the group that data comes from: on an inter-communicator, the remote group */
    int peer[RANKS_MAX];
    int in, out; /* degrees */
    int sources[RANKS_MAX];
    int destinations[RANKS_MAX];
} group_t;

/* One of the two buffers of a call: blocks of integers, each block in elements of a type. */
typedef struct {
    const type_t *type; /* of all blocks but those of the w variants */
    int blocks;
    const type_t *block_type[RANKS_MAX];
    int ints[RANKS_MAX];
    long at[RANKS_MAX]; /* bytes from the address */
    int counts[RANKS_MAX];
    int displs[RANKS_MAX];
    int byte_displs[RANKS_MAX];
    MPI_Aint offsets[RANKS_MAX];
    MPI_Datatype handles[RANKS_MAX];
    size_t used; /* bytes of the buffer that are set and compared */
    mt_buffer_t *buffer;
    char *image; /* what the buffer is set to, and then what it has to hold */
} side_t;

typedef struct {
    collective_t collective;
    variant_t variant;
    const group_t *group;
    int root; /* in the own group, or in the remote one */
    bool is_root;
    bool in_place;
    int unit; /* block lengths are multiples of it */
    const type_t *send_type;
    const type_t *recv_type;
    bool mixed; /* types of the w variants change from block to block */
    side_t send;
    side_t recv;
} call_t;

extern const char *const sm_collective_names[COLLECTIVES];
extern type_t sm_types[TYPES];
extern MPI_Op sm_sum_op;
extern MPI_Op sm_affine_op; /* not commutative; for types of two integers */

void sm_open(void);
void sm_close(void);

/* Makes an operation that is like sm_sum_op, or like sm_affine_op if it does not commute. */
void sm_make_op(bool commutes, MPI_Op *op);

bool is_w(collective_t collective);
bool is_v(collective_t collective);
bool is_reduction(collective_t collective);
bool is_rooted(collective_t collective);
bool is_neighbor(collective_t collective);
bool is_gather(collective_t collective);

/* The type that sm_sum_op and sm_affine_op are applied to next. */
void sm_set_op_type(const type_t *type);

/* Lays out both sides of a call. Everything else of the call is given. */
void sm_describe(call_t *call);

/* Sets both images to what the buffers hold before the call, and then the receive image to what it holds after it. */
void sm_fill(call_t *call, int round);
void sm_expect(call_t *call, int round);

char *sm_address(const side_t *side);

/*
 * Returns copies of both sides of a call, from which a persistent request is then made. `frees`: the types of these
 * copies are duplicates, and so is *op, unless MPI has predefined it.
 */
const side_t *sm_lend(const call_t *call, bool frees, MPI_Op *op);

/* Frees all duplicates, and puts the copies out of reach: whoever reads them from now on crashes. */
void sm_take_back(const call_t *call);

/* Checks, when the request has been freed, that the duplicates of its types have ended. */
void sm_check_ended(const call_t *call);

/* The number of integers in all blocks. */
int sm_ints(const side_t *side);

#endif
