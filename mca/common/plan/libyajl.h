/*
 * libyajl, opened when the first plan is read. A component that is linked with a library which a machine lacks is not
 * loaded at all there, and most programs read no plans.
 */
#ifndef MCA_COMMON_PLAN_LIBYAJL_H
#define MCA_COMMON_PLAN_LIBYAJL_H

#include <yajl/yajl_parse.h>

/* X(name): the functions that are used. */
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

/* NULL if the library cannot be opened; `why` is then the reason, without an end of line. Any thread. */
const mscclpp_yajl_t *mscclpp_yajl_open(char *why, size_t why_size);

#endif
