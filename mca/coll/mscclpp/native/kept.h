/*
 * What a persistent request keeps of its arguments: the description of its starts, which is made once, and all that is
 * needed to make it again. Nothing of it belongs to the application, except the buffers. So the application may change
 * or free its arrays once the request has been made, and free its types.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_KEPT_H
#define MCA_COLL_MSCCLPP_NATIVE_KEPT_H

#include <stddef.h>

#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/ompi/hold.h"

typedef struct mca_coll_mscclpp_kept {
    mca_coll_mscclpp_native_t call; /* the description */
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_describe_fn_t describe; /* makes the description from `passed` */
    mca_coll_mscclpp_passed_t passed;        /* the arguments, with copies of the arrays */
    mca_coll_mscclpp_held_t held;            /* the types that the blocks have */
    uint64_t largest_block;                  /* the size of the largest block of all ranks */
    max_align_t arrays[];                    /* the copies */
} mca_coll_mscclpp_kept_t;

/* Sets what the arguments of all starts of a persistent request have in common. */
static inline void mca_coll_mscclpp_kept_mark(mscclpp_coll_args_t *args)
{
    args->early = true;
    args->repeated = true;
    args->is_size_known = true; /* the ranks have agreed on the size of the largest block */
}

/*
 * Copies the arguments `passed` of a call of `coll`, and describes its starts. Arguments that the collective does not
 * have must be 0. `largest_block`: see mca_coll_mscclpp_lane_make. Local. Returns an MPI error code. Only on success,
 * *kept_p is set, and mca_coll_mscclpp_kept_free frees it.
 */
int mca_coll_mscclpp_kept_make(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll,
                               const mca_coll_mscclpp_passed_t *passed, mca_coll_mscclpp_describe_fn_t describe,
                               uint64_t largest_block, mca_coll_mscclpp_kept_t **kept_p);

/* Frees what a request has kept; NULL: nothing. */
void mca_coll_mscclpp_kept_free(mca_coll_mscclpp_kept_t *kept);

/*
 * Returns the description of the next start. Makes it again if that has failed before, or if a buffer that was one
 * allocation may now be several, or the other way around. The caller sets the number of the call.
 */
mca_coll_mscclpp_native_t *mca_coll_mscclpp_kept_call(mca_coll_mscclpp_kept_t *kept);

#endif
