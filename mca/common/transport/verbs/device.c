/* Opens HCAs and chooses the ports that a rank uses as its rails. */
#include "mca/common/transport/verbs/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE_BYTES (1ull << 30) /* half of what the specification allows, for devices that do not report it */
#define MAX_READS 16 /* the most reads and atomics of a queue pair in progress, even if the HCA allows more */
#define PKEY_FULL_MEMBER 0x8000
#define PKEY_PARTITION 0x7fff /* 0: the entry of the table is not in use */

/* A port that could become a rail. */
typedef struct {
    mscclpp_verbs_rail_t rail; /* opened; closed again if it is not chosen */
    int distance;              /* mscclpp_verbs_path_distance to the GPU */
    int rate;                  /* Gbit/s, roughly */
    int order;                 /* index in the library's list */
} candidate_t;

/* Returns true if a list of names, separated by commas, has this name. */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);

    while ('\0' != *list) {
        size_t entry = strcspn(list, ",");
        if (entry == length && 0 == strncmp(list, name, length)) {
            return true;
        }
        list += entry + (',' == list[entry]);
    }
    return false;
}

/*
 * Returns the rate of a port in Gbit/s. The codes of the specification give width and speed. A speed that is not in the
 * table counts as the next lower one in the table; below all of them, a lane counts as 2 Gbit/s. A width that is not in
 * the table counts as one lane.
 */
static int rate_in_gbit(const struct ibv_port_attr *attr)
{
    static const int lanes_of_width[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
    static const struct {
        int code; /* a bit of active_speed */
        int rate; /* Gbit/s of a lane */
    } speeds[] = {{128, 100}, {64, 50}, {32, 25}, {16, 14}, {8, 10}, {4, 10}, {2, 5}};
    int lanes = attr->active_width < sizeof(lanes_of_width) / sizeof(lanes_of_width[0])
                    ? lanes_of_width[attr->active_width]
                    : 0;

    lanes = 0 == lanes ? 1 : lanes;
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); ++i) {
        if (attr->active_speed >= speeds[i].code) {
            return lanes * speeds[i].rate;
        }
    }
    return lanes * 2;
}

/*
 * Returns the code of the MTU to use. The parameter is "auto" or a number of bytes. The port's active MTU is the limit.
 */
static uint8_t choose_mtu(const char *parameter, enum ibv_mtu active_mtu)
{
    int mtu = IBV_MTU_256;

    if (0 == strcmp(parameter, "auto")) {
        return (uint8_t)active_mtu;
    }
    /* Each code means twice the bytes of the code before it. */
    for (long bytes = strtol(parameter, NULL, 10); bytes > 256 && mtu < IBV_MTU_4096; bytes /= 2) {
        ++mtu;
    }
    return (uint8_t)(mtu < (int)active_mtu ? mtu : (int)active_mtu);
}

/*
 * Reads the attributes of a port. Returns 0 or an errno. Zeroes the attributes first, because the library's entry point
 * fills in an older and shorter structure than that of today's header.
 */
static int query_port(mscclpp_transport_t *transport, struct ibv_context *context, int port, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    return transport->ibv.query_port(context, (uint8_t)port, (struct _compat_ibv_port_attr *)attr);
}

/*
 * Returns the number of the port to use. Takes the first active port if the parameter names none. Returns 0 if there is
 * no such port, or if it is not active.
 */
static int find_port(mscclpp_transport_t *transport, struct ibv_context *context, int port_count,
                     struct ibv_port_attr *attr)
{
    const int wanted_port = transport->params.config->verbs_port;

    for (int port = 0 != wanted_port ? wanted_port : 1; port <= (0 != wanted_port ? wanted_port : port_count); ++port) {
        if (port <= port_count && 0 == query_port(transport, context, port, attr) && IBV_PORT_ACTIVE == attr->state) {
            return port;
        }
    }
    return 0;
}

/*
 * Returns the index of the partition to use: the first one in which the port is a full member, because limited members
 * cannot communicate with one another. Returns 0 if there is none, or if the library cannot tell.
 */
static uint16_t find_pkey(mscclpp_transport_t *transport, struct ibv_context *context, int port, int table_length)
{
    __be16 pkey;

    for (int i = 0; i < table_length && transport->ibv.query_pkey != NULL; ++i) {
        if (0 == transport->ibv.query_pkey(context, (uint8_t)port, i, &pkey) && 0 != (ntohs(pkey) & PKEY_FULL_MEMBER) &&
            0 != (ntohs(pkey) & PKEY_PARTITION)) {
            return (uint16_t)i;
        }
    }
    return 0;
}

/* Returns the value, raised to 1 or lowered to the limit if it lies outside 1 .. limit. */
static int clamp_to(int value, int limit)
{
    return value < 1 ? 1 : value > limit ? limit : value;
}

/*
 * Opens a port, and fills in its candidate except for distance and order, which the caller sets. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, with the reason at the info level, if the device cannot be used. Returns
 * MSCCLPP_ERR_INVALID if it lacks the GID that verbs_gid_index names. After a failure, the caller closes what was
 * opened.
 */
static mscclpp_status_t open_port(mscclpp_transport_t *transport, struct ibv_device *device, candidate_t *candidate)
{
    const mscclpp_config_t *config = transport->params.config;
    mscclpp_verbs_rail_t *rail = &candidate->rail;
    struct ibv_device_attr device_attr;
    struct ibv_port_attr port_attr;
    mscclpp_status_t status;
    int port;

    memset(candidate, 0, sizeof(*candidate));
    strncpy(rail->name, transport->ibv.get_device_name(device), sizeof(rail->name) - 1);
    rail->context = transport->ibv.open_device(device);
    if (rail->context == NULL) {
        mscclpp_info("no verbs on %s: it cannot be opened: %s", rail->name, strerror(errno));
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(&device_attr, 0, sizeof(device_attr));
    if (0 != transport->ibv.query_device(rail->context, &device_attr)) {
        mscclpp_info("no verbs on %s: it cannot be queried: %s", rail->name, strerror(errno));
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    port = find_port(transport, rail->context, device_attr.phys_port_cnt, &port_attr);
    if (0 == port) {
        mscclpp_info("no verbs on %s: %s of its %d ports is active", rail->name,
                     0 != config->verbs_port ? "the one that verbs_port names is missing or none" : "none",
                     device_attr.phys_port_cnt);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    rail->port = (uint8_t)port;
    rail->lid = port_attr.lid;
    rail->link_layer = port_attr.link_layer;
    rail->grh_required = 0 != (port_attr.flags & IBV_QPF_GRH_REQUIRED);
    rail->pkey_index = find_pkey(transport, rail->context, port, port_attr.pkey_tbl_len);
    rail->mtu = choose_mtu(config->verbs_mtu, port_attr.active_mtu);
    rail->has_atomics = IBV_ATOMIC_NONE != device_attr.atomic_cap;
    rail->max_send = clamp_to(device_attr.max_qp_wr, INT_MAX);
    rail->max_cqe = clamp_to(device_attr.max_cqe, INT_MAX);
    rail->max_read_out = clamp_to(device_attr.max_qp_init_rd_atom, MAX_READS);
    rail->max_read_in = clamp_to(device_attr.max_qp_rd_atom, MAX_READS);
    rail->max_message_bytes = 0 != port_attr.max_msg_sz && port_attr.max_msg_sz < MAX_MESSAGE_BYTES
                                  ? port_attr.max_msg_sz
                                  : MAX_MESSAGE_BYTES;
    status = mscclpp_verbs_choose_gid(transport, rail, port_attr.gid_tbl_len, config->verbs_gid_index);
    if (MSCCLPP_OK != status) {
        return status;
    }
    rail->pd = transport->ibv.alloc_pd(rail->context);
    if (rail->pd == NULL) {
        mscclpp_info("no verbs on %s: no protection domain: %s", rail->name, strerror(errno));
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    /* Events are polled now and then, and never waited for. */
    if (rail->context->async_fd >= 0) {
        (void)fcntl(rail->context->async_fd, F_SETFL, fcntl(rail->context->async_fd, F_GETFL) | O_NONBLOCK);
    }
    candidate->rate = rate_in_gbit(&port_attr);
    return MSCCLPP_OK;
}

/*
 * Closes a rail, which may be incomplete, in the reverse order of its creation. The rail is zeroed afterwards. If a
 * step fails, warns and leaves the rest open, because it may still be in use.
 */
static void close_rail(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail)
{
    const mscclpp_verbs_functions_t *ibv = &transport->ibv;

    if ((rail->token_mr != NULL && 0 != ibv->dereg_mr(rail->token_mr)) ||
        (rail->scratch_mr != NULL && 0 != ibv->dereg_mr(rail->scratch_mr)) ||
        (rail->pd != NULL && 0 != ibv->dealloc_pd(rail->pd)) ||
        (rail->context != NULL && 0 != ibv->close_device(rail->context))) {
        mscclpp_warn("%s: %s could not be closed", transport->params.label, rail->name);
    }
    memset(rail, 0, sizeof(*rail));
}

void mscclpp_verbs_close_rails(mscclpp_transport_t *transport)
{
    for (int i = 0; i < transport->rail_count; ++i) {
        close_rail(transport, &transport->rails[i]);
    }
    transport->rail_count = 0;
}

/*
 * Compares two ports, for qsort. The nearest comes first, then the fastest, then InfiniBand before Ethernet. Equal
 * candidates keep the order of the library, so that the choice is the same each time.
 */
static int compare_candidates(const void *first, const void *second)
{
    const candidate_t *left = first;
    const candidate_t *right = second;

    if (left->distance != right->distance) {
        return left->distance < right->distance ? -1 : 1;
    }
    if (left->rate != right->rate) {
        return left->rate > right->rate ? -1 : 1;
    }
    if (left->rail.link_layer != right->rail.link_layer) {
        return left->rail.link_layer < right->rail.link_layer ? -1 : 1;
    }
    return left->order - right->order;
}

/*
 * Makes the best candidates the instance's rails, as many as verbs_rails says, and closes the others. Sorts the
 * candidates, of which there must be at least one.
 */
static void choose_rails(mscclpp_transport_t *transport, candidate_t *candidates, int candidate_count)
{
    const int wanted_rails = transport->params.config->verbs_rails;
    int first_chosen = 0;
    int equal_count = 1;

    qsort(candidates, (size_t)candidate_count, sizeof(candidates[0]), compare_candidates);
    while (equal_count < candidate_count && candidates[equal_count].distance == candidates[0].distance &&
           candidates[equal_count].rate == candidates[0].rate &&
           candidates[equal_count].rail.link_layer == candidates[0].rail.link_layer) {
        ++equal_count;
    }
    /* If each rank uses one HCA, the ranks divide the equally good ones among themselves. */
    if (1 == wanted_rails) {
        first_chosen = transport->params.rank % equal_count;
    }
    for (int i = 0; i < candidate_count; ++i) {
        if (i >= first_chosen && i < first_chosen + wanted_rails && transport->rail_count < MSCCLPP_VERBS_MAX_RAILS) {
            transport->rails[transport->rail_count++] = candidates[i].rail;
        } else {
            close_rail(transport, &candidates[i].rail);
        }
    }
}

/*
 * Writes the path of the GPU among the system's devices. The path is "" if it is not known, or does not matter because
 * the CPU reads all memory.
 */
static void find_gpu_path(const mscclpp_transport_t *transport, char *path, size_t size)
{
    mscclpp_gpu_info_t info;

    path[0] = '\0';
    if (!transport->cpu_reads_all &&
        MSCCLPP_OK == transport->params.gpu->device_info(transport->params.device, &info)) {
        mscclpp_verbs_path_of_gpu(info.pci_bus_id, path, size);
    }
}

mscclpp_status_t mscclpp_verbs_open_rails(mscclpp_transport_t *transport)
{
    const char *wanted_names = transport->params.config->verbs_devices;
    mscclpp_status_t status = MSCCLPP_OK;
    char gpu_path[PATH_MAX];
    char hca_path[PATH_MAX];
    candidate_t *candidates;
    struct ibv_device **devices;
    int device_count = 0;
    int wanted_count = 0;
    int candidate_count = 0;

    devices = transport->ibv.get_device_list(&device_count);
    if (devices == NULL || 0 == device_count) {
        mscclpp_info("no verbs: this machine has no HCA");
        if (devices != NULL) {
            transport->ibv.free_device_list(devices);
        }
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    candidates = calloc((size_t)device_count, sizeof(*candidates));
    if (candidates == NULL) {
        mscclpp_error("%s: out of memory for %d HCAs", transport->params.label, device_count);
        status = MSCCLPP_ERR_NO_MEMORY;
    }
    find_gpu_path(transport, gpu_path, sizeof(gpu_path));
    for (int i = 0; i < device_count && MSCCLPP_OK == status; ++i) {
        mscclpp_status_t open_status;
        if ('\0' != *wanted_names && !is_listed(wanted_names, transport->ibv.get_device_name(devices[i]))) {
            continue;
        }
        ++wanted_count;
        open_status = open_port(transport, devices[i], &candidates[candidate_count]);
        if (MSCCLPP_OK == open_status) {
            mscclpp_verbs_path_of_hca(devices[i], hca_path, sizeof(hca_path));
            candidates[candidate_count].distance = mscclpp_verbs_path_distance(gpu_path, hca_path);
            candidates[candidate_count].order = i;
            ++candidate_count;
        } else {
            close_rail(transport, &candidates[candidate_count].rail);
            status = MSCCLPP_ERR_NOT_SUPPORTED == open_status ? MSCCLPP_OK : open_status;
        }
    }
    if (MSCCLPP_OK == status && 0 == wanted_count) {
        mscclpp_info("no verbs: none of the HCAs that verbs_devices names (\"%s\") is here", wanted_names);
    }
    if (MSCCLPP_OK == status && candidate_count > 0) {
        choose_rails(transport, candidates, candidate_count);
    } else {
        for (int i = 0; i < candidate_count; ++i) {
            close_rail(transport, &candidates[i].rail);
        }
        status = MSCCLPP_OK == status ? MSCCLPP_ERR_NOT_SUPPORTED : status;
    }
    free(candidates);
    transport->ibv.free_device_list(devices);
    return status;
}
