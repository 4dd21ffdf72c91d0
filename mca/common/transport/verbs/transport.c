#include "mca/common/transport/verbs/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_BYTES 65536u /* bytes of a trial registration: one page on any GPU */
#define SCRATCH_BYTES (2 * sizeof(uint64_t))
#define PATIENCE_SECONDS                                                                                               \
    1.0 /* the most time that all good-byes together may wait; an HCA that answers takes microseconds */

/* Frees an instance. The instance may be incomplete. */
static void verbs_destroy(mscclpp_transport_t *transport)
{
    if (transport != NULL) {
        mscclpp_copier_fini(&transport->out, transport->params.gpu);
        mscclpp_copier_fini(&transport->in, transport->params.gpu);
        mscclpp_verbs_close_rails(transport);
        free(transport->scratch);
        free(transport);
    }
}

/*
 * Tries whether the HCAs can register device memory. Only a trial can tell, because neither the runtime nor the HCA
 * reports whether device memory can be registered. Returns false as well if there is no memory for the trial.
 */
static bool can_register_device_memory(mscclpp_transport_t *transport)
{
    const mscclpp_transport_params_t *params = &transport->params;
    struct ibv_mr *mr;
    void *memory;

    if (transport->cpu_reads_all) {
        return true;
    }
    if (MSCCLPP_OK != params->gpu->device_alloc(params->device, PROBE_BYTES, &memory)) {
        return false;
    }
    mr = mscclpp_verbs_register(transport, &transport->rails[0], memory, PROBE_BYTES, MSCCLPP_MEM_DEVICE,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (mr != NULL) {
        (void)transport->ibv.dereg_mr(mr);
    }
    params->gpu->device_free(params->device, memory);
    return mr != NULL;
}

/*
 * Allocates the instance's scratch words. The library may protect registered memory from fork by hiding its pages from
 * children. So the scratch words have a page of their own.
 */
static mscclpp_status_t make_scratch(mscclpp_transport_t *transport)
{
    const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    void *memory;

    if (0 != posix_memalign(&memory, page_size, page_size)) {
        mscclpp_error("%s: out of memory for the transport verbs", transport->params.label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    memset(memory, 0, page_size);
    transport->scratch = memory;
    return MSCCLPP_OK;
}

/*
 * Registers the tokens and the scratch words. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if
 * a registration fails, or if the CPU would have to add to tokens in device memory. After a failure, closing the rails
 * undoes what was registered.
 */
static mscclpp_status_t register_memory(mscclpp_transport_t *transport)
{
    const mscclpp_transport_params_t *params = &transport->params;
    const size_t token_bytes = params->token_count * sizeof(params->tokens[0]);
    const mscclpp_mem_kind_t kind = mscclpp_verbs_memory_kind(transport, params->tokens);

    if (MSCCLPP_MEM_DEVICE == kind && !transport->cpu_reads_all && !transport->atomic) {
        mscclpp_info("no verbs: without atomics of the HCA the CPU adds to tokens, and these are in device memory");
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    for (int i = 0; i < transport->rail_count; ++i) {
        mscclpp_verbs_rail_t *rail = &transport->rails[i];
        int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        if (rail->has_atomics) {
            access |= IBV_ACCESS_REMOTE_ATOMIC;
        }
        rail->scratch_mr = mscclpp_verbs_register(transport, rail, transport->scratch, SCRATCH_BYTES, MSCCLPP_MEM_HOST,
                                                  IBV_ACCESS_LOCAL_WRITE);
        if (rail->scratch_mr == NULL) {
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        if (0 == i && token_bytes > 0) {
            rail->token_mr = mscclpp_verbs_register(transport, rail, params->tokens, token_bytes, kind, access);
            if (rail->token_mr == NULL) {
                return MSCCLPP_ERR_NOT_SUPPORTED;
            }
        }
    }
    return MSCCLPP_OK;
}

/*
 * Decides whether regions of device memory are bounced, and returns the flags for device memory. They are bounced if
 * the parameter `registration` says so, or if it is "auto" and they cannot be registered. Tokens may be in device
 * memory only if the HCA or, on the twin, the CPU can add to them.
 */
static uint32_t decide_on_device_memory(mscclpp_transport_t *transport, const char *registration)
{
    if (0 == strcmp(registration, "bounce")) {
        transport->bounces = true;
    } else if (!can_register_device_memory(transport)) {
        transport->bounces = 0 == strcmp(registration, "auto");
    } else {
        return transport->atomic || transport->cpu_reads_all ? MSCCLPP_DEVICE_REGIONS | MSCCLPP_DEVICE_TOKENS
                                                             : MSCCLPP_DEVICE_REGIONS;
    }
    if (!transport->bounces) {
        return 0;
    }
    mscclpp_info("%s: verbs: device memory is bounced through pinned host memory", transport->params.label);
    return MSCCLPP_DEVICE_REGIONS;
}

/*
 * Makes an instance. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if the library or one of its
 * functions is missing, or if no HCA can be used in the way that the parameters ask for. After a failure, nothing is
 * left.
 */
static mscclpp_status_t verbs_create(const mscclpp_transport_params_t *params, uint32_t *flags_p,
                                     mscclpp_transport_t **transport_p)
{
    const char *registration = params->config->verbs_registration;
    const char *mode = params->config->verbs_mode;
    mscclpp_transport_t *transport = calloc(1, sizeof(*transport));
    mscclpp_status_t status;

    if (transport == NULL) {
        mscclpp_error("%s: out of memory for the transport verbs", params->label);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    transport->params = *params;
    transport->patience_seconds = PATIENCE_SECONDS;
    /* If the user names a way of registration, the twin's device memory is registered in that way, too, for tests. */
    transport->cpu_reads_all = params->gpu->twin && 0 == strcmp(registration, "auto");
    status = mscclpp_verbs_load(params->config->verbs_library, &transport->ibv);
    if (MSCCLPP_OK == status) {
        status = mscclpp_verbs_open_rails(transport);
    }
    if (MSCCLPP_OK == status) {
        /* Rail 0 serves tokens and adds, so only rail 0 needs atomics. */
        transport->atomic = 0 != strcmp(mode, "no_atomic") && transport->rails[0].has_atomics;
        if (!transport->atomic && 0 == strcmp(mode, "atomic")) {
            mscclpp_info("no verbs: verbs_mode is atomic, and %s has no atomics", transport->rails[0].name);
            status = MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    if (MSCCLPP_OK == status) {
        status = make_scratch(transport);
    }
    if (MSCCLPP_OK == status) {
        status = register_memory(transport);
    }
    if (MSCCLPP_OK != status) {
        verbs_destroy(transport);
        return status;
    }
    for (int i = 0; i < transport->rail_count; ++i) {
        const mscclpp_verbs_rail_t *rail = &transport->rails[i];
        mscclpp_info("%s: verbs: rail %d is %s port %d, GID index %d, signals %s", params->label, i, rail->name,
                     rail->port, rail->gid_index, transport->atomic ? "atomic" : "no_atomic");
    }
    *flags_p = MSCCLPP_REACH_NODE | MSCCLPP_REACH_NETWORK | (transport->atomic ? MSCCLPP_CAN_ADD : 0) |
               decide_on_device_memory(transport, registration);
    *transport_p = transport;
    return MSCCLPP_OK;
}

const mscclpp_transport_ops_t mscclpp_transport_verbs = {
    .name = "verbs",
    .between_nodes = true,
    .create = verbs_create,
    .destroy = verbs_destroy,
    .progress = mscclpp_verbs_progress,
    .conn_create = mscclpp_verbs_conn_create,
    .conn_address = mscclpp_verbs_conn_address,
    .conn_connect = mscclpp_verbs_conn_connect,
    .conn_destroy = mscclpp_verbs_conn_destroy,
    .conn_status = mscclpp_verbs_conn_status,
    .region_create = mscclpp_verbs_region_create,
    .region_key = mscclpp_verbs_region_key,
    .region_destroy = mscclpp_verbs_region_destroy,
    .remote_create = mscclpp_verbs_remote_create,
    .remote_destroy = mscclpp_verbs_remote_destroy,
    .put = mscclpp_verbs_put,
    .signal = mscclpp_verbs_signal,
    .add = mscclpp_verbs_add,
    .flush = mscclpp_verbs_flush,
    .test = mscclpp_verbs_test,
};
