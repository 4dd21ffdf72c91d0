/*
 * Creation of a fabric, in steps that all ranks take together, each with the same result on all ranks. A rank that
 * lacks something still takes part in every exchange until the vote. Ranks that own no shard vote as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"

/* The alignment of slots, unless they are smaller. */
#define SLOT_ALIGN ((uint64_t)256)

/*
 * What other ranks need to connect to a rank. The addresses of its connections to all nodes follow, each an address_t.
 * Each takes as many bytes as the longest address of all ranks, which is much less than the allowed maximum.
 */
typedef struct {
    uint64_t packets;    /* 0: its transport cannot carry packets */
    uint64_t key_length; /* key of the region that other ranks put into */
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
} contact_t;

typedef struct {
    uint64_t length;
    unsigned char bytes[];
} address_t;

/* The contacts of all ranks. */
typedef struct {
    size_t address_size; /* bytes of one address_t */
    size_t size;         /* bytes of one contact, with its addresses */
    char *all;           /* by rank */
    char *own;           /* this rank's */
} contacts_t;

/* The contact of a rank. */
static contact_t *contact_of(const contacts_t *contacts, int rank)
{
    return (contact_t *)(void *)(contacts->all + (size_t)rank * contacts->size);
}

/* The address in a contact that ranks of `node` connect to. */
static address_t *address_of(const contacts_t *contacts, const void *contact, int node)
{
    return (address_t *)(void *)((uintptr_t)contact + sizeof(contact_t) + (size_t)node * contacts->address_size);
}

/* Creates the transport `ops`, with its tokens in memory of the kind `place`. Sets *flags_p to what it can do. */
static mscclpp_status_t create_transport(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops,
                                         mscclpp_transport_place_t place, uint32_t *flags_p)
{
    const uint64_t tokens = (uint64_t)MSCCLPP_DEV_NODES_BLOCKS * (uint64_t)fabric->nodes.count;
    mscclpp_transport_params_t transport;
    mscclpp_status_t status = mscclpp_fabric_allocate(fabric, place, tokens * sizeof(uint64_t), &fabric->tokens);

    if (status != MSCCLPP_OK) {
        return status;
    }
    memset(&transport, 0, sizeof(transport));
    transport.config = &fabric->config;
    transport.gpu = fabric->gpu;
    transport.device = fabric->device;
    transport.rank = fabric->group->oob.rank;
    transport.size = fabric->group->oob.size;
    transport.one_host = fabric->nodes.one_host;
    transport.label = fabric->label;
    transport.tokens = fabric->tokens.host;
    transport.token_count = tokens;
    fabric->ops = ops;
    fabric->place = place;
    status = ops->create(&transport, flags_p, &fabric->transport);
    if (status != MSCCLPP_OK) {
        fabric->transport = NULL;
        mscclpp_fabric_close_transport(fabric);
    }
    fabric->packets = (*flags_p & MSCCLPP_WHOLE_WORDS) != 0;
    return status;
}

/*
 * Puts tokens and slots in the same kind of memory, device or host. A signal in one kind would say nothing about data
 * that take another path into the other kind. Takes device memory if the transport supports it for both, unless the CPU
 * moves the bytes. Where ranks have threads it does not, since a transport may copy device memory by the driver (see
 * calls_driver in transport.h).
 */
static mscclpp_status_t open_transport(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops)
{
    const uint32_t both = MSCCLPP_DEVICE_TOKENS | MSCCLPP_DEVICE_REGIONS;
    const char *wanted = fabric->config.exchange_memory;
    const bool device = strcmp(wanted, "device") == 0;
    const bool host = strcmp(wanted, "host") == 0 || fabric->group->threads;
    uint32_t flags = 0;
    mscclpp_status_t status = create_transport(fabric, ops, ops->place, &flags);

    if (status == MSCCLPP_OK && !fabric->tokens.on_device && (flags & both) == both && !host &&
        (device || ops->place != MSCCLPP_PLACE_SHARED)) {
        mscclpp_fabric_close_transport(fabric);
        status = create_transport(fabric, ops, MSCCLPP_PLACE_DEVICE, &flags);
    }
    if (status == MSCCLPP_OK && (fabric->tokens.on_device ? host : device)) {
        mscclpp_info("%s: no transport %s: coll_mscclpp_exchange_memory is %s%s", fabric->label, ops->name, wanted,
                     fabric->group->threads ? ", and a rank runs with MPI_THREAD_MULTIPLE" : "");
        mscclpp_fabric_close_transport(fabric);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

/* Logs which rank cannot use a transport, and notes if this rank has run out of descriptors. */
static void report_failure(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob, const mscclpp_vote_t *vote,
                           const mscclpp_transport_ops_t *ops)
{
    if (vote->status != MSCCLPP_OK && vote->status != MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_info("%s: rank %d: transport %s: %s", oob->label, vote->culprit, ops->name,
                     mscclpp_status_string(vote->status));
    }
    fabric->lacks_descriptors =
        fabric->lacks_descriptors || (vote->status == MSCCLPP_ERR_NO_DESCRIPTORS && vote->culprit == oob->rank);
}

/* True if the user asks for one transport, or for a kind of memory that not all transports support. */
static bool user_asks_for_transport(const mscclpp_fabric_t *fabric)
{
    return (strcmp(fabric->config.transport, "auto") != 0 && strcmp(fabric->config.transport, "network") != 0) ||
           strcmp(fabric->config.exchange_memory, "auto") != 0;
}

/* Chooses the first transport, from number *next_p on, that all ranks can use. *next_p becomes the number after it. */
static mscclpp_status_t choose_transport(mscclpp_fabric_t *fabric, int *next_p)
{
    static bool warned;
    const mscclpp_oob_t *oob = &fabric->group->oob;
    mscclpp_vote_t vote;
    bool warn;

    while (*next_p < mscclpp_transport_count) {
        const mscclpp_transport_ops_t *ops = mscclpp_transports[(*next_p)++];
        mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;

        if (mscclpp_transport_may_take(ops, &fabric->config, fabric->nodes.one_host) &&
            !(ops->calls_driver && fabric->group->threads)) {
            status = fabric->owner ? open_transport(fabric, ops) : MSCCLPP_OK;
        }
        status = mscclpp_vote(oob, status, &vote);
        if (status != MSCCLPP_OK) {
            return status;
        }
        report_failure(fabric, oob, &vote, ops);
        if (vote.culprit < 0) {
            fabric->ops = ops;
            mscclpp_log(oob->rank == 0 ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG,
                        "%s: inter-node transport %s: %d nodes of %d to %d ranks, partial results in %s memory",
                        oob->label, ops->name, fabric->nodes.count, fabric->nodes.shards,
                        oob->size - (fabric->nodes.count - 1) * fabric->nodes.shards,
                        fabric->tokens.on_device ? "device" : "pinned host");
            return MSCCLPP_OK;
        }
        mscclpp_fabric_close_transport(fabric);
    }
    if (fabric->lacks_descriptors) {
        mscclpp_warn("%s: rank %d: a transport between nodes: %s: device buffers are staged", oob->label, oob->rank,
                     mscclpp_status_string(MSCCLPP_ERR_NO_DESCRIPTORS));
    }
    /* If the user has asked for it by name, warn, but only once per process. */
    warn = user_asks_for_transport(fabric) && oob->rank == 0 && !__atomic_exchange_n(&warned, true, __ATOMIC_RELAXED);
    mscclpp_log(warn ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                "%s: no inter-node transport that all ranks have (coll_mscclpp_transport is %s, "
                "coll_mscclpp_exchange_memory %s): device buffers are staged; coll_mscclpp_verbose 2 says why",
                oob->label, fabric->config.transport, fabric->config.exchange_memory);
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/* Creates the area of slots and this rank's ends of the connections. *longest_p: bytes of their longest address. */
static mscclpp_status_t create_area_and_conns(mscclpp_fabric_t *fabric, contact_t *contact, uint64_t *longest_p)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = mscclpp_fabric_allocate(fabric, fabric->place, fabric->area_size, &fabric->area);
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    size_t length = sizeof(contact->key);
    int node;

    contact->packets = fabric->packets;
    if (status == MSCCLPP_OK) {
        status = ops->region_create(fabric->transport, fabric->area.host, fabric->area_size, &fabric->region);
    }
    if (status == MSCCLPP_OK) {
        status = ops->region_key(fabric->region, contact->key, &length);
        contact->key_length = length;
    }
    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK; ++node) {
        if (node == fabric->nodes.node) {
            continue;
        }
        length = sizeof(address);
        status = ops->conn_create(fabric->transport, fabric->nodes.owners[node], &fabric->node[node].conn);
        if (status == MSCCLPP_OK) {
            status = ops->conn_address(fabric->node[node].conn, address, &length);
            *longest_p = length > *longest_p ? length : *longest_p;
        }
    }
    return status;
}

/* Fills in this rank's contact. `contact` is its first part. */
static mscclpp_status_t fill_contact(const mscclpp_fabric_t *fabric, const contact_t *contact, contacts_t *contacts)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int node;

    memcpy(contacts->own, contact, sizeof(*contact));
    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK && fabric->owner; ++node) {
        address_t *address = address_of(contacts, contacts->own, node);
        size_t length = contacts->address_size - sizeof(*address);

        if (node != fabric->nodes.node) {
            status = fabric->ops->conn_address(fabric->node[node].conn, address->bytes, &length);
            address->length = length;
        }
    }
    return status;
}

/* True if the transports of all ranks carry packets. Ranks that own no shard do not prevent it. */
static bool all_take_packets(const contacts_t *contacts, int ranks)
{
    bool all_carry = true;
    int rank;

    for (rank = 0; rank < ranks; ++rank) {
        all_carry = all_carry && contact_of(contacts, rank)->packets != 0;
    }
    return all_carry;
}

/* Connects this rank's connections to the contacts of its peers. */
static mscclpp_status_t connect_to_peers(mscclpp_fabric_t *fabric, const contacts_t *contacts)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = MSCCLPP_OK;
    int node;

    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK; ++node) {
        if (node != fabric->nodes.node) {
            const contact_t *contact = contact_of(contacts, fabric->nodes.owners[node]);
            const address_t *address = address_of(contacts, contact, fabric->nodes.node);

            status = ops->conn_connect(fabric->node[node].conn, address->bytes, address->length);
            if (status == MSCCLPP_OK) {
                status = ops->remote_create(fabric->node[node].conn, contact->key, contact->key_length,
                                            &fabric->node[node].remote);
            }
        }
    }
    return status;
}

/* True if kernels reach the packet slots of all other nodes. Data ordered by signals still go through the proxy. */
static bool map_packets(mscclpp_fabric_t *fabric)
{
    const uint64_t length = fabric->area_size - fabric->packets_offset;
    mscclpp_status_t status = MSCCLPP_OK;
    int node;

    if (!fabric->config.exchange_stores || fabric->ops->remote_map == NULL ||
        (uint32_t)fabric->nodes.count > MSCCLPP_DEV_NODES_MAPPED) {
        return false;
    }
    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK; ++node) {
        void *packets = NULL;

        if (node != fabric->nodes.node) {
            status = fabric->ops->remote_map(fabric->node[node].remote, fabric->packets_offset, length, &packets);
        }
        fabric->mapped[node] = packets;
    }
    return status == MSCCLPP_OK;
}

/*
 * Chooses who moves packets: kernels by stores, or the proxy. Each rank chooses by itself: receivers see no
 * difference.
 */
static void choose_stores(mscclpp_fabric_t *fabric, bool is_info)
{
    fabric->maps = fabric->packets && map_packets(fabric);
    if (fabric->packets) {
        mscclpp_log(is_info ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG, "%s: %s packets for other nodes", fabric->label,
                    fabric->maps ? "kernels store" : "the proxy puts");
    }
}

/* Votes on a step of connecting. MSCCLPP_ERR_NOT_SUPPORTED if it failed on a rank: then another transport is tried. */
static mscclpp_status_t agree_on_connection(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob,
                                            mscclpp_status_t own_status)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(oob, own_status, &vote);

    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        report_failure(fabric, oob, &vote, fabric->ops);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

/* Finds the length of the longest address of all ranks. `own_length` is this rank's longest. */
static mscclpp_status_t agree_on_length(const mscclpp_oob_t *oob, uint64_t own_length, uint64_t *longest_p)
{
    uint64_t *lengths = malloc((size_t)oob->size * sizeof(*lengths));
    const mscclpp_status_t status = oob->allgather(oob->context, &own_length, lengths, sizeof(own_length));
    int rank;

    *longest_p = 0;
    for (rank = 0; rank < oob->size && status == MSCCLPP_OK && lengths != NULL; ++rank) {
        *longest_p = lengths[rank] > *longest_p ? lengths[rank] : *longest_p;
    }
    free(lengths);
    return status;
}

/* Exchanges contacts with all ranks, and connects the connections that were created before. */
static mscclpp_status_t exchange_contacts(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob, const contact_t *contact,
                                          contacts_t *contacts)
{
    mscclpp_status_t own_status = MSCCLPP_OK, status;

    if (contacts->own != NULL) {
        own_status = fill_contact(fabric, contact, contacts);
    }
    status = oob->allgather(oob->context, contacts->own, contacts->all, contacts->size);
    if (status == MSCCLPP_OK) {
        fabric->packets = all_take_packets(contacts, oob->size);
        own_status = own_status == MSCCLPP_OK && fabric->owner ? connect_to_peers(fabric, contacts) : own_status;
        status = agree_on_connection(fabric, oob, own_status);
    }
    return status;
}

/* Creates connections to all other nodes with the chosen transport. All ranks return the same status. */
static mscclpp_status_t connect_nodes(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob)
{
    contact_t contact = {.packets = 1};
    contacts_t contacts;
    uint64_t longest = 0;
    mscclpp_status_t status;

    status = agree_on_connection(fabric, oob,
                                 fabric->owner ? create_area_and_conns(fabric, &contact, &longest) : MSCCLPP_OK);
    if (status == MSCCLPP_OK) {
        status = agree_on_length(oob, longest, &longest);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    contacts.address_size = (sizeof(address_t) + longest + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    contacts.size = sizeof(contact_t) + (size_t)fabric->nodes.count * contacts.address_size;
    contacts.all = calloc((size_t)oob->size + 1, contacts.size);
    contacts.own = contacts.all != NULL ? contacts.all + (size_t)oob->size * contacts.size : NULL;
    status = exchange_contacts(fabric, oob, &contact, &contacts);
    free(contacts.all);
    if (status == MSCCLPP_OK && fabric->owner) {
        mscclpp_fabric_hide_memory(&fabric->tokens);
        mscclpp_fabric_hide_memory(&fabric->area);
        choose_stores(fabric, oob->rank == 0);
    }
    return status;
}

/* Chooses a transport and connects. Ranks that cannot reach one another try the next transport. */
static mscclpp_status_t open_and_connect(mscclpp_fabric_t *fabric)
{
    mscclpp_status_t status;
    int next = 0;

    while ((status = choose_transport(fabric, &next)) == MSCCLPP_OK) {
        status = connect_nodes(fabric, &fabric->group->oob);
        if (status != MSCCLPP_ERR_NOT_SUPPORTED) {
            break;
        }
        mscclpp_info("%s: transport %s does not connect all nodes; others are tried", fabric->label, fabric->ops->name);
        mscclpp_fabric_close_transport(fabric);
    }
    return status;
}

/* Divides the area. Packets get an eighth of coll_mscclpp_exchange_size, since they are for small messages. */
static void divide_area(mscclpp_fabric_t *fabric)
{
    const uint64_t packets = fabric->config.exchange_size / 8, rest = fabric->config.exchange_size - packets;
    const uint64_t slots = MSCCLPP_DEV_NODES_SLOTS(fabric->nodes.count);
    const uint64_t packet_slots = MSCCLPP_DEV_NODES_PACKET_SLOTS(fabric->nodes.count);
    const uint64_t grain = rest / slots < SLOT_ALIGN ? MSCCLPP_DEV_UNIT : SLOT_ALIGN;
    const uint64_t size = rest / slots / grain * grain, units = packets / packet_slots / MSCCLPP_DEV_PACKET_UNIT;

    /* With so many nodes that a slot would get less than a unit, the area becomes larger than the user asked for. */
    fabric->slot_size = size < MSCCLPP_DEV_UNIT ? MSCCLPP_DEV_UNIT : size;
    fabric->packets_offset = slots * fabric->slot_size;
    fabric->packet_units = units == 0 ? 1 : units;
    fabric->area_size = fabric->packets_offset + packet_slots * fabric->packet_units * MSCCLPP_DEV_PACKET_UNIT;
}

/* The function that waits call to learn which ranks of other nodes have not sent anything yet. */
static uint64_t find_absent(void *context, bool may_ask)
{
    return mscclpp_fabric_absent(context, may_ask);
}

mscclpp_status_t mscclpp_fabric_create(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                       mscclpp_fabric_t **fabric_p)
{
    mscclpp_group_t *group = runner->group;
    const mscclpp_oob_t *oob = &group->oob;
    mscclpp_fabric_t *fabric = calloc(1, sizeof(*fabric) + (size_t)nodes->count * sizeof(*fabric->node));
    mscclpp_status_t status = fabric != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;

    if (status != MSCCLPP_OK) {
        mscclpp_error("%s: no memory to join the nodes of %d ranks", oob->label, oob->size);
    }
    status = mscclpp_agree(oob, NULL, status, "memory to join nodes");
    if (status != MSCCLPP_OK) {
        free(fabric);
        return status;
    }
    if ((uint64_t)MSCCLPP_DEV_NODES_BLOCKS * (uint64_t)(nodes->count - 1) > MSCCLPP_DEV_PORT_CHANNELS) {
        mscclpp_info("%s: %d nodes: device buffers are staged (port channels reach %u nodes)", oob->label, nodes->count,
                     MSCCLPP_DEV_PORT_CHANNELS / MSCCLPP_DEV_NODES_BLOCKS + 1);
        free(fabric);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    fabric->node = (mscclpp_fabric_node_t *)(void *)(fabric + 1);
    fabric->runner = runner;
    fabric->group = group;
    fabric->owner = nodes->rank < nodes->shards;
    fabric->nodes = *nodes;
    memset(nodes, 0, sizeof(*nodes));
    fabric->config = *config;
    fabric->gpu = runner->gpu;
    fabric->device = runner->device;
    fabric->label = oob->label;
    divide_area(fabric);
    mscclpp_fabric_list_steps(fabric);
    status = open_and_connect(fabric);
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_open_places(fabric);
        if (status == MSCCLPP_OK && fabric->owner) {
            status = mscclpp_fabric_equip(fabric);
        }
        status = mscclpp_agree(oob, NULL, status, "setting port channels up");
    }
    if (status != MSCCLPP_OK) {
        mscclpp_fabric_destroy(fabric);
        return status;
    }
    fabric->ctrl = group->ctrl;
    mscclpp_fabric_enlist(fabric);
    group->spans = true;
    group->find_absent = find_absent;
    group->absent_context = fabric;
    *fabric_p = fabric;
    return MSCCLPP_OK;
}
