/*
 * UCX, opened when it is prepared or when the first team wants it for control messages or as a transport, so that a
 * program which never needs it does not even load it.
 */
#ifndef MCA_COMMON_BASE_LIBUCP_H
#define MCA_COMMON_BASE_LIBUCP_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

#include "mca/common/base/status.h"

#define MSCCLPP_UCX_FUNCTIONS(X)                                                                                       \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_release)                                                                                              \
    X(ucp_init_version)                                                                                                \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_mem_map)                                                                                                     \
    X(ucp_mem_unmap)                                                                                                   \
    X(ucp_rkey_pack)                                                                                                   \
    X(ucp_rkey_buffer_release)                                                                                         \
    X(ucp_rkey_destroy)                                                                                                \
    X(ucp_ep_rkey_unpack)                                                                                              \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_release_address)                                                                                      \
    X(ucp_worker_set_am_recv_handler)                                                                                  \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_ep_flush_nbx)                                                                                                \
    X(ucp_put_nbx)                                                                                                     \
    X(ucp_am_send_nbx)                                                                                                 \
    X(ucp_am_recv_data_nbx)                                                                                            \
    X(ucp_request_check_status)                                                                                        \
    X(ucp_request_free)                                                                                                \
    X(ucs_status_string)

typedef struct {
#define MSCCLPP_UCX_FIELD(function_) __typeof__(&function_) function_;
    MSCCLPP_UCX_FUNCTIONS(MSCCLPP_UCX_FIELD)
#undef MSCCLPP_UCX_FIELD
} mscclpp_ucx_functions_t;

/* Whether it may be loaded from now on; at first it may. What is loaded stays, but no more users get it. Thread-safe.
 */
void mscclpp_ucx_allow(bool allowed);

/*
 * MSCCLPP_ERR_NOT_SUPPORTED where UCX is not installed or not allowed. Where the first call finds too little room for
 * it, each one ends as mscclpp_ucx_check_limits did then: later the process may have threads, beside which it is not
 * loaded. The library stays loaded to the end of the process. Its handlers for the signals of crashes, which are the
 * application's business, are taken back. Thread-safe.
 */
mscclpp_status_t mscclpp_ucx_load(mscclpp_ucx_functions_t *functions_p);

/*
 * To be asked before a context, a worker or an endpoint is made, since UCX aborts the process where some of what these
 * take is refused. `what`, for messages, is wanted for so many peers. MSCCLPP_ERR_NO_DESCRIPTORS or
 * MSCCLPP_ERR_NO_MEMORY, and a line at the info level, where the system grants too little.
 */
mscclpp_status_t mscclpp_ucx_check_limits(const char *what, size_t peers);

/*
 * A context for short and rare messages, which stays away from RDMA devices and from what the user sets for UCX; for
 * active messages only. NULL, and a line at the info level, if there can be none.
 */
ucp_context_h mscclpp_ucx_open_quiet(const mscclpp_ucx_functions_t *ucx);

#endif
