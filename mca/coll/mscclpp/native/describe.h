/* Descriptions of queued calls, whose arguments come from the MPIX functions. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_DESCRIBE_H
#define MCA_COLL_MSCCLPP_NATIVE_DESCRIBE_H

#include "mca/coll/mscclpp/native/api.h"
#include "mca/coll/mscclpp/native/native.h"

/*
 * Returns true if this component knows the collective of the call. The library of the MPIX functions may be newer than
 * the component, and may know more collectives.
 */
bool mca_coll_mscclpp_queued_is_known(const mca_coll_mscclpp_queue_call_t *call);

/*
 * Describes a queued call of a known collective other than all-reduce and barrier. Returns false, on all ranks, if
 * there is nothing to do. After an error, such as a lack of memory, native->rc is the error code and the result is
 * true. In all cases, the caller ends the description with mca_coll_mscclpp_native_end.
 */
bool mca_coll_mscclpp_queued_describe(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_queue_call_t *call,
                                      mca_coll_mscclpp_native_t *native);

/* Returns true if only the sender and the receiver of a block know its size. */
static inline bool mca_coll_mscclpp_has_unknown_sizes(const mca_coll_mscclpp_native_t *native)
{
    return native->args.varied && !native->args.is_size_known;
}

#endif
