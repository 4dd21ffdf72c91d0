/* What ranks agree on before a call that only some of them can judge, with a deadline. */
#ifndef MCA_COLL_MSCCLPP_OOB_AGREE_H
#define MCA_COLL_MSCCLPP_OOB_AGREE_H

#include "mca/coll/mscclpp/oob/oob.h"

/* How many numbers an agreement yields. */
#define MCA_COLL_MSCCLPP_AGREED 2

/*
 * Called in an agreement that takes long: when the wait begins, about ten times a second from then on, and when it
 * ends, with or without success. Shows the other ranks in the caller's way that this one lives. Returns an error if
 * another rank has failed in the call or before, which is logged; it ends the agreement.
 */
typedef enum {
    MCA_COLL_MSCCLPP_AGREE_BEGINS,
    MCA_COLL_MSCCLPP_AGREE_WAITS,
    MCA_COLL_MSCCLPP_AGREE_ENDS
} mca_coll_mscclpp_agree_stage_t;
typedef mscclpp_status_t mca_coll_mscclpp_agree_tend_fn_t(mca_coll_mscclpp_module_t *module,
                                                          mca_coll_mscclpp_agree_stage_t stage);

/*
 * Stores in `maxima`, on all ranks, the maximum over all ranks of each number in `own_numbers`. Collective, and waits.
 * Open MPI's own nonblocking all-reduce finds the maxima.
 *
 * `hurried`: this rank passes device memory, so it warns about late ranks and gives up at the deadline, as in any call
 * that kernels serve. The other ranks may be in a call on host memory, which has no deadline. They wait until a hurried
 * rank gives up.
 *
 * `tend` may be NULL. Returns an MPI error code. If this rank cannot begin or gives up, the other ranks fail, too, and
 * *late_p is the error, such as MSCCLPP_ERR_NO_MEMORY, MSCCLPP_ERR_TIMEOUT or MSCCLPP_ERR_PEER; else it is MSCCLPP_OK.
 */
int mca_coll_mscclpp_agree(mca_coll_mscclpp_module_t *module, const char *collective, bool hurried,
                           mca_coll_mscclpp_agree_tend_fn_t *tend, const uint64_t *own_numbers, uint64_t *maxima,
                           mscclpp_status_t *late_p);

#endif
