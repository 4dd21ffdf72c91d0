/* What ranks agree on before a call that only some of them can judge, with a deadline. */
#ifndef MCA_COLL_MSCCLPP_OOB_AGREE_H
#define MCA_COLL_MSCCLPP_OOB_AGREE_H

#include "mca/coll/mscclpp/oob/oob.h"

#define MCA_COLL_MSCCLPP_AGREED 2

/*
 * Yields the maximum of each number over all ranks, on all ranks; collective. Open MPI's own nonblocking all-reduce
 * does it. `hurried`: this rank passes device memory, so it warns about late ranks and gives up at the deadline, as in
 * any call that kernels serve. The other ranks may be in a call on host memory, which has no deadline. They wait until
 * a hurried rank gives up.
 *
 * Returns an MPI error code; after a failure that was reported, *late_p is MSCCLPP_ERR_TIMEOUT or MSCCLPP_ERR_PEER.
 */
int mca_coll_mscclpp_agree(mca_coll_mscclpp_module_t *module, const char *collective, bool hurried,
                           const uint64_t *mine, uint64_t *all, mscclpp_status_t *late_p);

#endif
