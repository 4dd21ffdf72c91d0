/*
 * UCX, loaded at run time: when it is prepared, or when the first team wants it for control messages or as a transport.
 * A program that never needs UCX does not load it.
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

/*
 * Sets whether mscclpp_ucx_load may succeed from now on. Initially it may. `allowed` = false does not unload UCX, and
 * does not affect code that already has UCX's functions. Thread-safe.
 */
void mscclpp_ucx_allow(bool allowed);

/*
 * Loads UCX if it is not loaded, and stores its functions in *functions_p. Thread-safe. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if UCX is not installed or not allowed. If the system grants too few resources at the first
 * call, every later call returns the same error, even if the system grants more by then: the process may have started
 * threads, and UCX must not be loaded while other threads run.
 *
 * The library stays loaded until the process ends. Its signal handlers for crashes are removed again, because the
 * application handles crashes.
 */
mscclpp_status_t mscclpp_ucx_load(mscclpp_ucx_functions_t *functions_p);

/*
 * Checks that the system grants enough resources for UCX. Must be called before a context, a worker or an endpoint is
 * created: if the system refuses some of the resources that these need, UCX aborts the process. `purpose` is used in
 * messages, and `peers` is the number of peers. Returns MSCCLPP_ERR_NO_DESCRIPTORS or MSCCLPP_ERR_NO_MEMORY, with a
 * line at the info level, if the system grants too few.
 */
mscclpp_status_t mscclpp_ucx_check_limits(const char *purpose, size_t peers);

/*
 * Creates a context for short and rare active messages. It uses no RDMA devices and ignores the user's settings for
 * UCX. Returns NULL, with a line at the info level, if the context cannot be created.
 */
ucp_context_h mscclpp_ucx_open_quiet(const mscclpp_ucx_functions_t *ucx);

#endif
