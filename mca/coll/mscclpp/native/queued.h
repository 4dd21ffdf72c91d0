/* Queued calls: carried out in the order of a stream of the application, on the communicator's queue (team/queue.h). */
#ifndef MCA_COLL_MSCCLPP_NATIVE_QUEUED_H
#define MCA_COLL_MSCCLPP_NATIVE_QUEUED_H

#include "mca/coll/mscclpp/native/native.h"

/*
 * Describes a call for kernels from its kept arguments, as the blocking function does (define.h). Returns false if
 * there is nothing to do. The caller ends the description in any case.
 */
typedef bool (*mca_coll_mscclpp_describe_fn_t)(mca_coll_mscclpp_native_t *call, mca_coll_mscclpp_module_t *module,
                                               const mca_coll_mscclpp_passed_t *passed);

#define MCA_COLL_MSCCLPP_DESCRIBE_DECLARE(name_)                                                                       \
    extern const mca_coll_mscclpp_describe_fn_t mca_coll_mscclpp_native_describe_##name_;
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_DESCRIBE_DECLARE)
#undef MCA_COLL_MSCCLPP_DESCRIBE_DECLARE

#endif
