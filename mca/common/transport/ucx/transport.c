/*
 * The transport over UCX, on all that UCX supports: RDMA devices, shared memory, TCP.
 *
 * How bytes are sent:
 * - Host memory is written directly into the peer's memory (ucp_put_nbx) if an RDMA device does that.
 * - Everything else goes as numbered active messages, which the receiver's CPU executes in the order of the numbers
 *   (bounce.c, receive.c). It copies the bytes of a put to their target, unless they could go there directly. Before a
 *   signal it waits for these copies to end, and then adds to the token. A put's message may carry the signal that
 *   follows it.
 *
 * Why data is visible before its signal:
 * 1. UCX keeps no order between its puts and messages, which may use different lanes and devices. ucp_worker_fence does
 *    not help: it orders one interface, but not one lane against another, and some versions of UCX wait in it.
 * 2. So after puts, a signal or an add is sent only once a ucp_ep_flush_nbx has ended that began after them; the puts
 *    are then in the peer's memory.
 * 3. Later operations wait, so that an old put cannot overtake a new one across a signal. Puts between two signals are
 *    not ordered, so they must not overlap.
 *
 * Signals and adds are not atomic operations of UCX. Newer versions (seen with 1.16 and 1.18) refuse those on endpoints
 * that report lost peers. Without these reports, a killed peer would become a hang.
 *
 * Device memory does not go through UCX, which may have been built without support for it. Even with support, nothing
 * orders a device's write to GPU memory before a CPU's write to a token in host memory.
 *
 * The receiver must call progress for its tokens to change, and the sender for its operations to end.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

#define UCX_PROGRESS_MAX 16   /* the most calls of the worker's progress in one call of ucx_progress */
#define UCX_CLOSE_SECONDS 1.0 /* how long the end of an instance waits for endpoints to close */

/* Sets a variable of UCX. A variable that the user has set stays. A failure does no harm. */
static void set_default(const mscclpp_ucx_functions_t *ucx, ucp_config_t *config, const char *variable,
                        const char *name, const char *value)
{
    ucs_status_t status = getenv(variable) == NULL ? ucx->ucp_config_modify(config, name, value) : UCS_OK;

    if (status != UCS_OK) {
        mscclpp_debug("UCX does not take %s=%s: %s", variable, value, ucx->ucs_status_string(status));
    }
}

/*
 * Makes the instance's context of UCX. The context cannot be shared with the control messages: those avoid RDMA devices
 * and the user's settings for UCX, whereas this one needs both. Instances cannot share one either, because different
 * threads may use them, for which UCX would have to be built thread-safe. Returns false, with the reason at the info
 * level, if UCX fails.
 */
static bool init_context(mscclpp_transport_t *transport)
{
    const mscclpp_ucx_functions_t *ucx = &transport->ucx;
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_AM,
                                 .estimated_num_eps = (size_t)transport->params.size};
    ucp_config_t *config;
    bool is_made;

    if (!mscclpp_transport_ucx_succeeded(transport, "ucp_config_read", ucx->ucp_config_read(NULL, NULL, &config))) {
        return false;
    }
    /*
     * UCX finds out that a process behind shared memory has died only when it looks for it. By default it looks every
     * 20 s, which is a long wait.
     */
    set_default(ucx, config, "UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", "2s");
    /*
     * Excludes two transports. cma: if UCX is not asked to report lost peers, it aborts this process when it cannot
     * read the memory of a dead one. tcp: a connection that also has a socket does not close before the peer takes
     * part.
     */
    if (mscclpp_transport_ucx_stays_near(&transport->params)) {
        set_default(ucx, config, "UCX_TLS", "TLS", "^cma,tcp");
        /*
         * UCX assembles bytes that do not fit one piece of shared memory in its own memory, unless they are announced.
         * Announcing them saves a copy and costs a round trip, which is worth it beyond a few pieces.
         */
        set_default(ucx, config, "UCX_RNDV_THRESH", "RNDV_THRESH", "20k");
    }
    /* Asks for the oldest interface version that suffices, as the library may be older than the headers. */
    is_made = mscclpp_transport_ucx_succeeded(transport, "ucp_init",
                                              ucx->ucp_init_version(1, 13, &params, config, &transport->context));
    ucx->ucp_config_release(config);
    return is_made;
}

/*
 * Makes the instance's worker and its address. Returns false, with the reason at the info level, if UCX fails.
 * ucx_destroy then frees what was made.
 */
static bool start_worker(mscclpp_transport_t *transport)
{
    const mscclpp_ucx_functions_t *ucx = &transport->ucx;
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {.field_mask =
                                                UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                                UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                            .id = UCX_MESSAGE_ID,
                                            .flags = UCP_AM_FLAG_WHOLE_MSG,
                                            .cb = mscclpp_transport_ucx_on_message,
                                            .arg = transport};

    if (!mscclpp_transport_ucx_succeeded(transport, "ucp_worker_create",
                                         ucx->ucp_worker_create(transport->context, &params, &transport->worker))) {
        transport->worker = NULL;
        return false;
    }
    return mscclpp_transport_ucx_succeeded(transport, "ucp_worker_set_am_recv_handler",
                                           ucx->ucp_worker_set_am_recv_handler(transport->worker, &handler)) &&
           mscclpp_transport_ucx_succeeded(
               transport, "ucp_worker_get_address",
               ucx->ucp_worker_get_address(transport->worker, &transport->address, &transport->address_length));
}

/*
 * Closes all endpoints and connections. Good-byes get some time to leave, and the closing of endpoints and connections
 * at most UCX_CLOSE_SECONDS. The caller has destroyed all connections; those that still exist could not be freed,
 * because UCX held requests of theirs.
 *
 * Returns false if UCX is still closing an endpoint or has not ended all requests. Then its worker and context must be
 * kept, because UCX cannot handle their end in this state.
 */
static bool close_all(mscclpp_transport_t *transport)
{
    double deadline;

    mscclpp_transport_ucx_endpoint_close_all(transport);
    deadline = mscclpp_now() + UCX_CLOSE_SECONDS;
    do {
        mscclpp_transport_ucx_clean_up_conns(transport);
        if (transport->endpoints == NULL && transport->conns == NULL) {
            return true;
        }
        (void)mscclpp_transport_ucx_progress_worker(transport);
    } while (mscclpp_now() < deadline);
    /* The connections that remain have requests that UCX has not ended. UCX 1.16 aborts if a context goes first. */
    return false;
}

/*
 * Frees an instance. The instance may be incomplete. Ends the copies first, because they use the connections' bounce
 * memory. If UCX does not release something, UCX's worker and the instance's memory are leaked, because UCX may still
 * use them.
 */
static void ucx_destroy(mscclpp_transport_t *transport)
{
    const mscclpp_ucx_functions_t *ucx;

    if (transport == NULL) {
        return;
    }
    ucx = &transport->ucx;
    if (transport->pid != getpid()) {
        return; /* the threads of UCX and of streams do not exist in a child, and their resources are the parent's */
    }
    mscclpp_copier_fini(&transport->out, transport->params.gpu);
    mscclpp_copier_fini(&transport->in, transport->params.gpu);
    if (transport->worker != NULL && (transport->stranded || !close_all(transport))) {
        mscclpp_info("%s: UCX does not close a connection or end an operation; its memory is not freed",
                     transport->params.label);
        return;
    }
    if (transport->address != NULL) {
        ucx->ucp_worker_release_address(transport->worker, transport->address);
    }
    if (transport->worker != NULL) {
        ucx->ucp_worker_destroy(transport->worker);
    }
    if (transport->context != NULL) {
        ucx->ucp_cleanup(transport->context);
    }
    mscclpp_transport_ucx_endpoint_drop(transport);
    mscclpp_transport_ucx_drop_conns(transport);
    free(transport->conn_ids.entries);
    free(transport->region_ids.entries);
    free(transport);
}

/*
 * Returns true if puts should go directly, and not by messages. Without an RDMA device, UCX would execute puts in the
 * peer's worker. That saves no CPU work on either side, and costs a round trip before each signal. Unlike a device, it
 * could also write to memory that is no longer a region.
 */
static bool wants_direct_puts(const mscclpp_transport_params_t *params)
{
    bool is_wanted = strcmp(params->config->ucx_bounce, "device") == 0;

    if (strcmp(params->config->ucx_bounce, "auto") == 0) {
        DIR *devices = opendir("/sys/class/infiniband");
        const struct dirent *entry;
        while (devices != NULL && !is_wanted && (entry = readdir(devices)) != NULL) {
            is_wanted = entry->d_name[0] != '.';
        }
        if (devices != NULL) {
            closedir(devices);
        }
    }
    return is_wanted;
}

/*
 * Makes an instance. Returns MSCCLPP_ERR_NOT_SUPPORTED, so that another transport may be tried, if UCX is missing,
 * refuses the context or the worker, or has too long an address. If the system grants too few resources for UCX,
 * returns the status of mscclpp_ucx_check_limits.
 */
static mscclpp_status_t ucx_create(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                                   mscclpp_transport_t **transport_p)
{
    mscclpp_transport_t *transport;
    mscclpp_ucx_functions_t ucx;
    mscclpp_status_t status = mscclpp_ucx_load(&ucx);
    size_t length;

    if (status == MSCCLPP_OK) {
        status = mscclpp_ucx_check_limits(params->label, (size_t)params->size);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        mscclpp_error("%s: out of memory for the transport ucx", params->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    transport->params = *params;
    transport->ucx = ucx;
    transport->pid = getpid();
    transport->registers_host = wants_direct_puts(params);
    /* Device memory of the host twin needs no copies. Tests ask for them by `ucx_bounce` = always. */
    transport->copies = !params->gpu->twin || strcmp(params->config->ucx_bounce, "always") == 0;
    if (!init_context(transport) || !start_worker(transport)) {
        ucx_destroy(transport);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    length = sizeof(ucx_address_t) + transport->address_length;
    if (length > MSCCLPP_TRANSPORT_ADDRESS_MAX) {
        mscclpp_info("%s: no transport ucx: its address takes %zu bytes, and there is room for %d; fewer devices in "
                     "UCX_NET_DEVICES make it shorter",
                     params->label, length, MSCCLPP_TRANSPORT_ADDRESS_MAX);
        ucx_destroy(transport);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *flags_p = MSCCLPP_REACH_NODE | MSCCLPP_REACH_NETWORK | MSCCLPP_CAN_ADD | MSCCLPP_DEVICE_REGIONS;
    /* The receiver's CPU writes whole words; UCX does not promise that for its own puts. */
    *flags_p |= transport->registers_host ? 0 : MSCCLPP_WHOLE_WORDS;
    *transport_p = transport;
    return MSCCLPP_OK;
}

/*
 * Makes progress on all connections: receives messages first, then executes those that have arrived, then begins this
 * side's operations. So acknowledgements that have come free their room at once. Returns the failure of one connection
 * at a time; further failures wait for the next call. Failures of destroyed connections are not returned.
 */
static mscclpp_status_t ucx_progress(mscclpp_transport_t *transport)
{
    mscclpp_status_t status = MSCCLPP_OK;

    for (int i = 0; i < UCX_PROGRESS_MAX && mscclpp_transport_ucx_progress_worker(transport) != 0; ++i) {
    }
    mscclpp_transport_ucx_execute(transport);
    mscclpp_transport_ucx_note_copied_out(transport);
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        mscclpp_transport_ucx_advance(conn);
    }
    mscclpp_transport_ucx_clean_up_conns(transport);
    for (mscclpp_conn_t *conn = transport->conns; conn != NULL; conn = conn->next) {
        if (conn->status != MSCCLPP_OK && !conn->failure_reported && !conn->destroyed && status == MSCCLPP_OK) {
            conn->failure_reported = true;
            status = conn->status;
        }
    }
    return status;
}

extern const mscclpp_transport_ops_t mscclpp_transport_ucx;
const mscclpp_transport_ops_t mscclpp_transport_ucx = {
    .name = "ucx",
    .between_nodes = true,
    .create = ucx_create,
    .destroy = ucx_destroy,
    .progress = ucx_progress,
    .conn_create = mscclpp_transport_ucx_conn_create,
    .conn_address = mscclpp_transport_ucx_conn_address,
    .conn_connect = mscclpp_transport_ucx_conn_connect,
    .conn_destroy = mscclpp_transport_ucx_conn_destroy,
    .conn_status = mscclpp_transport_ucx_conn_status,
    .region_create = mscclpp_transport_ucx_region_create,
    .region_key = mscclpp_transport_ucx_region_key,
    .region_destroy = mscclpp_transport_ucx_region_destroy,
    .remote_create = mscclpp_transport_ucx_remote_create,
    .remote_destroy = mscclpp_transport_ucx_remote_destroy,
    .put = mscclpp_transport_ucx_put,
    .signal = mscclpp_transport_ucx_signal,
    .put_signal = mscclpp_transport_ucx_put_signal,
    .add = mscclpp_transport_ucx_add,
    .flush = mscclpp_transport_ucx_flush,
    .test = mscclpp_transport_ucx_test,
    .has_left = mscclpp_transport_ucx_has_left,
};
