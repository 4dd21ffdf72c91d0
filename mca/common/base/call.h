/* What a rank passes to a call. */
#ifndef MCA_COMMON_BASE_CALL_H
#define MCA_COMMON_BASE_CALL_H

typedef enum {
    MSCCLPP_CALL_NONE = 0,
    MSCCLPP_CALL_DEVICE = 1,
    MSCCLPP_CALL_HOST = 2,
    MSCCLPP_CALL_EITHER = 3 /* the rank passes nothing, and does what the others do */
} mscclpp_call_kind_t;

#endif
