/* Queued calls: carried out in the order of a stream of the application, on the communicator's queue (team/queue.h). */
#ifndef MCA_COLL_MSCCLPP_NATIVE_QUEUED_H
#define MCA_COLL_MSCCLPP_NATIVE_QUEUED_H

#include "mca/coll/mscclpp/native/native.h"

#define MCA_COLL_MSCCLPP_DESCRIBE_DECLARE(name_)                                                                       \
    extern const mca_coll_mscclpp_describe_fn_t mca_coll_mscclpp_native_describe_##name_;
MCA_COLL_MSCCLPP_NATIVE(MCA_COLL_MSCCLPP_DESCRIBE_DECLARE)
#undef MCA_COLL_MSCCLPP_DESCRIBE_DECLARE

#endif
