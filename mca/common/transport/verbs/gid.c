/* GIDs: the addresses of a port. RoCE has one for each network address and protocol version. */
#include "mca/common/transport/verbs/internal.h"

#include <stdio.h>
#include <string.h>

/* Returns true if the entry of the table is empty. */
static bool is_zero(const union ibv_gid *gid)
{
    return 0 == gid->global.subnet_prefix && 0 == gid->global.interface_id;
}

/* Returns true if the GID contains an IPv4 address: its form is ::ffff:a.b.c.d. */
static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return 0 == memcmp(gid->raw, prefix, sizeof(prefix));
}

/* Returns true if the GID is valid within its own link only: its prefix is fe80::/10. */
static bool is_link_local(const union ibv_gid *gid)
{
    return 0xfe == gid->raw[0] && 0x80 == (gid->raw[1] & 0xc0);
}

bool mscclpp_verbs_gids_match(const union ibv_gid *first, const union ibv_gid *second)
{
    return is_ipv4(first) == is_ipv4(second);
}

/*
 * Returns true if entry `index` of the port's table is of RoCE version 2, and false if it is not, or if its version is
 * unknown.
 */
static bool is_version_2(mscclpp_transport_t *transport, const mscclpp_verbs_rail_t *rail, int index)
{
    char path[IBV_SYSFS_PATH_MAX + 64];
    char text[16] = "";
    FILE *file;

    if (transport->ibv.query_gid_ex != NULL) {
        struct ibv_gid_entry entry;
        if (0 == transport->ibv.query_gid_ex(rail->context, rail->port, (uint32_t)index, &entry, 0, sizeof(entry))) {
            return IBV_GID_TYPE_ROCE_V2 == entry.gid_type;
        }
    }
    /* The library has no query_gid_ex, or the call failed. sysfs tells the version, too. */
    snprintf(path, sizeof(path), "%s/ports/%d/gid_attrs/types/%d", rail->context->device->ibdev_path, rail->port,
             index);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    if (fgets(text, sizeof(text), file) == NULL) {
        text[0] = '\0';
    }
    fclose(file);
    return 0 == strncmp(text, "RoCE v2", 7);
}

/*
 * Returns how well a GID suits. 0 is useless, higher is better. RoCE v2 counts most, because routers forward it and
 * networks are usually set up for it. Next, IPv4 is better than other routable addresses, because every network has it.
 * Link-local addresses come last.
 */
static int grade_gid(mscclpp_transport_t *transport, const mscclpp_verbs_rail_t *rail, int index,
                     const union ibv_gid *gid)
{
    int grade = is_ipv4(gid) ? 3 : is_link_local(gid) ? 1 : 2;

    return is_zero(gid) ? 0 : grade + (is_version_2(transport, rail, index) ? 3 : 0);
}

/* InfiniBand uses entry 0 of the table, if there is one, and RoCE the entry with the best grade. */
mscclpp_status_t mscclpp_verbs_choose_gid(mscclpp_transport_t *transport, mscclpp_verbs_rail_t *rail, int table_length,
                                          int wanted_index)
{
    union ibv_gid gid;
    int best_grade = 0;

    rail->gid_index = -1;
    if (wanted_index >= 0) {
        if (wanted_index >= table_length ||
            0 != transport->ibv.query_gid(rail->context, rail->port, wanted_index, &gid) || is_zero(&gid)) {
            mscclpp_error(
                "parameter verbs_gid_index: %d is not allowed; %s port %d has no GID there (its table has %d entries)",
                wanted_index, rail->name, rail->port, table_length);
            return MSCCLPP_ERR_INVALID;
        }
        rail->gid_index = wanted_index;
        rail->gid = gid;
        return MSCCLPP_OK;
    }
    if (IBV_LINK_LAYER_ETHERNET != rail->link_layer) {
        /* InfiniBand needs the GID only for peers in other subnets, and to tell which peers these are. */
        if (0 == transport->ibv.query_gid(rail->context, rail->port, 0, &gid) && !is_zero(&gid)) {
            rail->gid_index = 0;
            rail->gid = gid;
        }
        return MSCCLPP_OK;
    }
    for (int i = 0; i < table_length; ++i) {
        int grade;
        if (0 != transport->ibv.query_gid(rail->context, rail->port, i, &gid)) {
            continue;
        }
        grade = grade_gid(transport, rail, i, &gid);
        if (grade > best_grade) {
            best_grade = grade;
            rail->gid_index = i;
            rail->gid = gid;
        }
    }
    if (0 == best_grade) {
        mscclpp_info("no verbs on %s port %d: it has no GID; has its network interface an address?", rail->name,
                     rail->port);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}
