/*
 * libyajl, which is opened when the first plan is read instead of being linked. A component that is linked with a
 * library is not loaded at all on machines without that library, and most programs read no plans.
 */
#ifndef MCA_COMMON_PLAN_LIBYAJL_H
#define MCA_COMMON_PLAN_LIBYAJL_H

#include <yajl/yajl_parse.h>

/* X_(name): the functions that are used, without their prefix yajl_. */
#define MSCCLPP_YAJL_FUNCTIONS(X_)                                                                                     \
    X_(alloc)                                                                                                          \
    X_(free)                                                                                                           \
    X_(parse)                                                                                                          \
    X_(complete_parse)                                                                                                 \
    X_(get_error)                                                                                                      \
    X_(free_error)                                                                                                     \
    X_(get_bytes_consumed)

typedef struct {
#define MSCCLPP_YAJL_FIELD(name_) __typeof__(yajl_##name_) *name_;
    MSCCLPP_YAJL_FUNCTIONS(MSCCLPP_YAJL_FIELD)
#undef MSCCLPP_YAJL_FIELD
} mscclpp_yajl_t;

/*
 * Opens the library at the first call. Returns its functions. On failure returns NULL, with the reason, without a
 * newline, in `reason`. Thread-safe.
 */
const mscclpp_yajl_t *mscclpp_yajl_open(char *reason, size_t reason_size);

#endif
