/*
 * The rounds of test_sync_copies. A round says which collective is called, who has to serve it, what is done before the
 * call, and what every buffer holds before and after it. Contents depend only on the round and the rank.
 */
#ifndef TEST_MPI_SYNC_MODEL_H
#define TEST_MPI_SYNC_MODEL_H

#include "test/mpi/mpi_copies.h"
#include "test/mpi/mpi_test.h"

#define RANKS_MAX 16
#define SIZES 3

/* How many words at the end of a result each round looks at, and how many it copies beside the buffers of a call. */
#define PART 1024u

typedef enum { ALLREDUCE, BCAST, ALLGATHER, ALLTOALL, REDUCE_SCATTER } collective_t;
typedef enum { BLOCKING, NONBLOCKING, PERSISTENT } manner_t;
typedef enum { BY_KERNELS, BY_LAUNCHES, BY_LINGERING, BY_STAGING } server_t;

typedef struct {
    const char *name;
    collective_t collective;
    manner_t manner;
    server_t server;
    const char *parameter; /* the parameter that selects the path, and its value; NULL: the path is the default */
    const char *value;
    bool large;
} path_t;

/* The call uses the last part of what is copied, because a copy reads and writes that part last. */
typedef enum {
    FROM_HOST,       /* from pageable memory into the buffer */
    FROM_DEVICE,     /* from the device's memory into the buffer */
    SET,             /* all of the buffer to a byte */
    SNAPSHOT,        /* from the buffer, which the call then overwrites */
    BESIDE_BY_HOST,  /* into the part of the buffer that the call does not use, from pageable memory */
    BESIDE_BY_DEVICE /* the same from the device's memory */
} act_t;

/* The buffer of a call in place, or one of the two buffers of a call out of place. */
typedef enum { IN_PLACE, OPERAND, RESULT } target_t;

typedef struct {
    const char *name;
    act_t act;
    target_t target;
} before_t;

typedef struct {
    const path_t *path;
    const before_t *before;
    mt_kind_t kind;
    int number; /* differs between all rounds */
    int size;   /* which of the sizes */
    bool fresh; /* first call on its allocations */
    bool full;  /* all of the result is looked at */
    bool alone; /* only what the call uses is copied */
    bool again; /* the result is copied on the device before it is looked at */
    const mt_copies_t *copies;
    int count;      /* words of each rank */
    size_t words;   /* of the operand or the result, whichever has more */
    size_t results; /* of the result */
    size_t bytes;   /* of the operand, the result, the source and the snapshot */
    size_t offset;  /* of the part of these that the call uses, in bytes */
} round_t;

/* Word i of some contents is base + i * step. */
typedef struct {
    unsigned base;
    unsigned step;
} image_t;

extern const path_t sy_paths[];
extern const int sy_path_count;
extern const before_t sy_befores[];
extern const int sy_before_count;

bool sy_applies(const path_t *path, const before_t *before);

/* Fills in what follows from the path, from what is done before, from the kind, and from `index`. */
void sy_describe(round_t *round, int index, const mt_copies_t *families, int count);

/* Bytes of the buffers of these rounds, and of the largest buffers of the path. */
size_t sy_bytes(const path_t *path, const before_t *before);
size_t sy_max_bytes(const path_t *path);

/* Contents: a rank's operand, a result's buffer before the call if the call does not read it, memory beside buffers. */
image_t sy_operand(const round_t *round, int rank);
image_t sy_old(const round_t *round);
image_t sy_beside(const round_t *round);

/* What the target's buffer holds when the call begins. */
image_t sy_target(const round_t *round);

void sy_fill(void *to, image_t image, size_t words);

/* One word of the contents that are expected after the call. */
typedef unsigned (*sy_expect_fn_t)(const round_t *round, size_t index);
unsigned sy_expect_result(const round_t *round, size_t index);
unsigned sy_expect_snapshot(const round_t *round, size_t index);
unsigned sy_expect_beside(const round_t *round, size_t index);

#endif
