/* Buffers of repeated queued calls that kernels of all ranks may use. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_MAPPED_H
#define MCA_COLL_MSCCLPP_NATIVE_MAPPED_H

#include "mca/coll/mscclpp/native/api.h"

/* Carry out `map` and `unmap` of api.h. */
int mca_coll_mscclpp_map(const mca_coll_mscclpp_queue_call_t *call, void **mapped_p);
void mca_coll_mscclpp_unmap(void *mapped);

#endif
