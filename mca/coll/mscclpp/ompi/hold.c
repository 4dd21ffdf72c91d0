/* Takes and drops references to types and operations. */
#include "mca/coll/mscclpp/ompi/hold.h"

#include <stdlib.h>

#include "mca/common/base/log.h"

int mca_coll_mscclpp_hold_begin(mca_coll_mscclpp_held_t *held, size_t types)
{
    *held = (mca_coll_mscclpp_held_t){.types = types > 0 ? malloc(types * sizeof(held->types[0])) : NULL};
    if (types > 0 && held->types == NULL) {
        mscclpp_error("out of memory for the %zu types of a persistent request", types);
        return MPI_ERR_NO_MEM;
    }
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_hold_type(mca_coll_mscclpp_held_t *held, struct ompi_datatype_t *type)
{
    if (type != NULL && !ompi_datatype_is_predefined(type)) {
        OBJ_RETAIN(type);
        held->types[held->count++] = type;
    }
}

void mca_coll_mscclpp_hold_op(mca_coll_mscclpp_held_t *held, struct ompi_op_t *op)
{
    if (op != NULL && !ompi_op_is_intrinsic(op)) {
        OBJ_RETAIN(op);
        held->op = op;
    }
}

void mca_coll_mscclpp_hold_end(mca_coll_mscclpp_held_t *held)
{
    for (size_t i = 0; i < held->count; ++i) {
        OBJ_RELEASE(held->types[i]);
    }
    if (held->op != NULL) {
        OBJ_RELEASE(held->op);
    }
    free(held->types);
    *held = (mca_coll_mscclpp_held_t){0};
}
