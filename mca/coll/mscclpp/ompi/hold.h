/*
 * References to the types and the operation of a persistent request. MPI lets the application free its handles once the
 * request has been made. Open MPI takes such references for nonblocking calls, but not for persistent requests.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_HOLD_H
#define MCA_COLL_MSCCLPP_OMPI_HOLD_H

#include <stddef.h>

#include "mca/coll/mscclpp/ompi/compat.h"

typedef struct {
    struct ompi_op_t *op;           /* NULL: none */
    struct ompi_datatype_t **types; /* the types that are held */
    size_t count;                   /* number of types */
} mca_coll_mscclpp_held_t;

/*
 * Prepares for at most `types` types, and holds nothing yet. Returns an MPI error code; only on success,
 * mca_coll_mscclpp_hold_end has to be called.
 */
int mca_coll_mscclpp_hold_begin(mca_coll_mscclpp_held_t *held, size_t types);

/*
 * Hold a type and an operation. NULL is not held, nor are predefined types and operations, which no application frees.
 * Call mca_coll_mscclpp_hold_type for at most the number of types that was prepared for, and mca_coll_mscclpp_hold_op
 * at most once.
 */
void mca_coll_mscclpp_hold_type(mca_coll_mscclpp_held_t *held, struct ompi_datatype_t *type);
void mca_coll_mscclpp_hold_op(mca_coll_mscclpp_held_t *held, struct ompi_op_t *op);

/* Drops all references. Open MPI then destroys the types and the operation that the application has freed. */
void mca_coll_mscclpp_hold_end(mca_coll_mscclpp_held_t *held);

#endif
