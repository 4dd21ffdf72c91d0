/*
 * Every predefined type that MPI reduces, with operands, results and comparisons. These are independent of any library
 * under test.
 */
#ifndef TEST_MPI_MPI_TYPES_H
#define TEST_MPI_MPI_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "test/mpi/mpi_test.h"

typedef enum {
    MT_OP_MAX,
    MT_OP_MIN,
    MT_OP_SUM,
    MT_OP_PROD,
    MT_OP_LAND,
    MT_OP_BAND,
    MT_OP_LOR,
    MT_OP_BOR,
    MT_OP_LXOR,
    MT_OP_BXOR,
    MT_OP_MAXLOC,
    MT_OP_MINLOC,
    MT_OP_COUNT
} mt_op_t;

/* How elements of a type look in C. */
typedef struct {
    size_t extent;
    bool on_gpu;  /* kernels of a GPU can combine it; the other types are staged there */
    bool on_twin; /* the same for the twin's kernels */

    /* Makes an operand. The operands of 64 ranks combine exactly in any order. */
    void (*make)(mt_op_t op, uint64_t random, void *element);
    void (*combine)(mt_op_t op, void *accumulator, const void *operand);
    bool (*equal)(const void *a, const void *b);
} mt_layout_t;

typedef struct {
    const char *name;
    MPI_Datatype type;
    const mt_layout_t *layout;
    unsigned ops; /* bit 1 << op: MPI allows the operation for this class of types */
} mt_type_t;

/* All types that this Open MPI has. Returns their number. The table belongs to the function. */
int mt_types(const mt_type_t **types_p);

/* The entry of a type that every MPI has. */
const mt_type_t *mt_type(MPI_Datatype type);

const char *mt_op_name(mt_op_t op);
MPI_Op mt_op_mpi(mt_op_t op);

/* Write the operands of a rank, and the result of `size` ranks' operands in rank order. */
void mt_fill(const mt_type_t *type, mt_op_t op, int count, int rank, int seed, void *to);
void mt_compute(const mt_type_t *type, mt_op_t op, int count, int size, int seed, void *result);

/* The first element in which a differs from b, or -1. */
int mt_difference(const mt_type_t *type, int count, const void *a, const void *b);

/* One all-reduce on an intra-communicator, with everything that can be checked about it. */
typedef struct {
    MPI_Comm comm;
    const mt_type_t *type;
    mt_op_t op;
    int count;
    bool in_place;
    mt_kind_t send_kind;
    mt_kind_t recv_kind;
    size_t send_misalign; /* bytes */
    size_t recv_misalign;
    int seed;
} mt_call_t;

/* An int32 sum on aligned device buffers, out of place. */
mt_call_t mt_call(MPI_Comm comm, int count, int seed);

/* Checks the result, the guard bytes, and that the send buffer is unchanged. */
void mt_verify(const mt_call_t *call);

#endif
