/*
 * libibverbs, which is loaded when the first team wants it. Functions that its header defines inline (posting and
 * polling) use tables in the opened devices and need no symbol.
 */
#ifndef MCA_COMMON_TRANSPORT_VERBS_LOAD_H
#define MCA_COMMON_TRANSPORT_VERBS_LOAD_H

#include <infiniband/verbs.h>

#include "mca/common/base/status.h"

/* X(field, symbol). Fields have their own names because the header defines macros with the symbols' names. */
#define MSCCLPP_VERBS_FUNCTIONS(X)                                                                                     \
    X(get_device_list, ibv_get_device_list)                                                                            \
    X(free_device_list, ibv_free_device_list)                                                                          \
    X(get_device_name, ibv_get_device_name)                                                                            \
    X(open_device, ibv_open_device)                                                                                    \
    X(close_device, ibv_close_device)                                                                                  \
    X(query_device, ibv_query_device)                                                                                  \
    X(query_port, ibv_query_port)                                                                                      \
    X(query_gid, ibv_query_gid)                                                                                        \
    X(alloc_pd, ibv_alloc_pd)                                                                                          \
    X(dealloc_pd, ibv_dealloc_pd)                                                                                      \
    X(reg_mr, ibv_reg_mr)                                                                                              \
    X(dereg_mr, ibv_dereg_mr)                                                                                          \
    X(create_cq, ibv_create_cq)                                                                                        \
    X(destroy_cq, ibv_destroy_cq)                                                                                      \
    X(create_qp, ibv_create_qp)                                                                                        \
    X(modify_qp, ibv_modify_qp)                                                                                        \
    X(destroy_qp, ibv_destroy_qp)                                                                                      \
    X(get_async_event, ibv_get_async_event)                                                                            \
    X(ack_async_event, ibv_ack_async_event)                                                                            \
    X(event_type_str, ibv_event_type_str)                                                                              \
    X(wc_status_str, ibv_wc_status_str)

/* Functions that some versions of the library lack. The pointers are then NULL. */
#define MSCCLPP_VERBS_OPTIONAL_FUNCTIONS(X)                                                                            \
    X(query_gid_ex, _ibv_query_gid_ex)                                                                                 \
    X(query_pkey, ibv_query_pkey)                                                                                      \
    X(reg_mr_iova2, ibv_reg_mr_iova2)                                                                                  \
    X(reg_dmabuf_mr, ibv_reg_dmabuf_mr)

/* The functions of a loaded library, each with the type that its header declares. */
typedef struct {
#define MSCCLPP_VERBS_FIELD(field_, symbol_) __typeof__(&symbol_) field_;
    MSCCLPP_VERBS_FUNCTIONS(MSCCLPP_VERBS_FIELD)
    MSCCLPP_VERBS_OPTIONAL_FUNCTIONS(MSCCLPP_VERBS_FIELD)
#undef MSCCLPP_VERBS_FIELD
} mscclpp_verbs_functions_t;

/*
 * Opens the library `file`, as dlopen finds it, and looks up its functions. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the
 * reason at the info level and *functions_p unchanged, if that fails. The library stays loaded until the process ends,
 * even if it lacks a function. Thread-safe.
 */
mscclpp_status_t mscclpp_verbs_load(const char *file, mscclpp_verbs_functions_t *functions_p);

#endif
