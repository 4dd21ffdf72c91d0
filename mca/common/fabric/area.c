/*
 * The exchange area: how it is divided, and how it grows. A communicator begins with an area that holds packets of
 * small messages, and has room for the shortest tiles. The first call that needs more makes it grow on all ranks, as it
 * does the scratch (mca/common/team/grow.h).
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/shape/tiles.h"
#include "mca/common/base/log.h"
#include "mca/common/fabric/internal.h"
#include "mca/common/oob/pairs.h"
#include "mca/common/oob/vote.h"

#define KIB ((uint64_t)1024)

/* The area of the middle size, half of which is for packets. */
#define MIDDLE_BYTES (256 * KIB)
#define MIDDLE_PACKET_SHARE 2

/* The smallest area: bytes that it may have, units of a packet slot (1 KiB of data, and some), and bytes of a slot. */
#define SMALL_BYTES_MAX (96 * KIB)
#define SMALL_PACKET_UNITS 80
#define SMALL_SLOT_BYTES 64

/*
 * The fewest nodes whose areas have places for sparse calls. Between fewer nodes, all calls with packets go directly to
 * all nodes unless the user asks for rounds.
 */
#define SPARSE_NODES_MIN 9

/* With a coll_mscclpp_exchange_size or a coll_mscclpp_scratch_size up to this, the area has its full size at once. */
#define STARTS_FULL_BYTES_MAX (1024 * KIB)

/*
 * Returns the minimum number of bytes that an owner sends to another node: one unit of each block, and the sizes of the
 * blocks.
 */
static uint64_t shortest_message_bytes(const mscclpp_fabric_t *fabric, mscclpp_dev_pattern_t pattern)
{
    const uint64_t blocks =
        MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, (uint64_t)fabric->nodes.largest_node, (uint64_t)fabric->nodes.shards);

    return MSCCLPP_DEV_COLL_NODES_HEAD(blocks) + blocks * MSCCLPP_DEV_UNIT;
}

/*
 * Returns the bytes of the shortest slot in which any collective can exchange tiles. On few nodes the all-to-all needs
 * most, because an owner sends most to another node; MSCCLPP_DEV_COLL_NODES_ROOM is the room of a slot for that. On
 * more nodes it can go in windows, by one block of the grid, and the reduce-scatter needs most of the others.
 */
static uint64_t shortest_slot_bytes(const mscclpp_fabric_t *fabric)
{
    const uint64_t nodes = (uint64_t)fabric->nodes.count, unit = MSCCLPP_DEV_UNIT;
    const uint64_t slots = MSCCLPP_DEV_NODES_SLOTS(nodes);
    const bool in_windows = MSCCLPP_DEV_COLL_NODES_MAY_WINDOW(MSCCLPP_DEV_ALLTOALL, nodes);
    const uint64_t room =
        shortest_message_bytes(fabric, in_windows ? MSCCLPP_DEV_REDUCE_SCATTER : MSCCLPP_DEV_ALLTOALL);
    const uint64_t window_bytes =
        in_windows ? MSCCLPP_DEV_COLL_NODES_WINDOW_PLACES(1) * shortest_message_bytes(fabric, MSCCLPP_DEV_ALLTOALL) : 0;
    const uint64_t window_slot = (window_bytes / slots + unit) / unit * unit;
    const uint64_t node_slot = (2 * nodes * room / (nodes + 1) + unit) / unit * unit;
    const uint64_t slot = node_slot > window_slot ? node_slot : window_slot;

    return slot < SMALL_SLOT_BYTES ? SMALL_SLOT_BYTES : slot;
}

/*
 * Divides an area of `size` bytes: packets get 1 / `share` of it, and tiles the rest. Both parts have a least size, so
 * with many nodes the area becomes larger than `size`. Places of sparse calls come on top: as many units as a set of
 * packet slots has, so that there is room for every call in rounds.
 */
static mscclpp_fabric_division_t divide(const mscclpp_fabric_t *fabric, uint64_t size, uint64_t share)
{
    const uint64_t packet_slots = MSCCLPP_DEV_NODES_PACKET_SLOTS(fabric->nodes.count);
    const uint64_t slot_size = mscclpp_tiles_find_slot_size((uint32_t)fabric->nodes.count, size - size / share);
    const uint64_t units = size / share / packet_slots / MSCCLPP_DEV_PACKET_UNIT;

    mscclpp_fabric_division_t division = {.slot_size = slot_size, .packet_units = units == 0 ? 1 : units};

    division.sparse_units = fabric->nodes.count >= SPARSE_NODES_MIN ? packet_slots / 2 * division.packet_units : 0;
    return division;
}

/* Returns the size of the area, in bytes, that has this division. */
static uint64_t area_bytes(const mscclpp_fabric_t *fabric, const mscclpp_fabric_division_t *division)
{
    return MSCCLPP_DEV_NODES_SLOTS(fabric->nodes.count) * division->slot_size +
           (MSCCLPP_DEV_NODES_PACKET_SLOTS(fabric->nodes.count) * division->packet_units + division->sparse_units) *
               MSCCLPP_DEV_PACKET_UNIT;
}

/*
 * Divides an area of this size into its parts. Returns false if a larger size is needed: the small size is not small
 * with so many nodes, or the middle size is too small for them.
 */
static bool divide_by_size(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                           mscclpp_fabric_division_t *division)
{
    if (size == MSCCLPP_FABRIC_SMALL) {
        *division =
            (mscclpp_fabric_division_t){.slot_size = shortest_slot_bytes(fabric), .packet_units = SMALL_PACKET_UNITS};
        return area_bytes(fabric, division) <= SMALL_BYTES_MAX;
    }
    if (size == MSCCLPP_FABRIC_MIDDLE) {
        *division = divide(fabric, MIDDLE_BYTES, MIDDLE_PACKET_SHARE);
        return division->slot_size >= shortest_slot_bytes(fabric) && division->packet_units >= SMALL_PACKET_UNITS;
    }
    *division = divide(fabric, fabric->config.exchange_size, MSCCLPP_TILES_PACKET_SHARE);
    return true;
}

/*
 * Returns the smallest size, from `size` on, into which the nodes fit, and its division. With a small exchange_size or
 * scratch_size, that is the full size at once.
 */
static mscclpp_fabric_size_t find_size(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                                       mscclpp_fabric_division_t *division)
{
    if (fabric->config.exchange_size <= STARTS_FULL_BYTES_MAX || fabric->config.scratch_size <= STARTS_FULL_BYTES_MAX) {
        size = MSCCLPP_FABRIC_FULL;
    }
    while (!divide_by_size(fabric, size, division)) {
        ++size;
    }
    return size;
}

/*
 * Sets the fabric's division and what follows from it: the offset of the packets, and the size of the area. Allocates
 * nothing.
 */
static void set_division(mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                         const mscclpp_fabric_division_t *division)
{
    fabric->size = size;
    fabric->division = *division;
    fabric->packets_offset = MSCCLPP_DEV_NODES_SLOTS(fabric->nodes.count) * division->slot_size;
    fabric->area_size = area_bytes(fabric, division);
}

void mscclpp_fabric_divide_area(mscclpp_fabric_t *fabric)
{
    mscclpp_fabric_division_t division;
    const mscclpp_fabric_size_t size = find_size(fabric, MSCCLPP_FABRIC_SMALL, &division);

    set_division(fabric, size, &division);
}

uint64_t mscclpp_fabric_packet_bytes(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size)
{
    mscclpp_fabric_division_t division;

    if (find_size(fabric, size < fabric->size ? fabric->size : size, &division) == MSCCLPP_FABRIC_FULL) {
        return UINT64_MAX;
    }
    return fabric->has_packets ? division.packet_units * MSCCLPP_DEV_UNIT : 0;
}

void mscclpp_fabric_describe_grown(const mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size,
                                   mscclpp_select_input_t *input)
{
    mscclpp_fabric_division_t division;

    (void)find_size(fabric, size < fabric->size ? fabric->size : size, &division);
    input->slot_size = division.slot_size;
    input->packet_units = fabric->has_packets ? division.packet_units : 0;
}

/*
 * Maps the packet slots of the other nodes, so that kernels store into them. Returns false if the transport cannot map
 * memory, if the user does not want it, or if `mapped` has no entry for each node. All nodes must be linked, since it
 * uses the remotes. Mappings that were made before a failure are not used; they end with the remotes. Data that signals
 * order go through the proxy all the same.
 */
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

void mscclpp_fabric_choose_packet_mover(mscclpp_fabric_t *fabric, bool at_info)
{
    fabric->is_mapped = fabric->has_packets && map_packets(fabric);
    if (fabric->has_packets) {
        mscclpp_log(at_info ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG, "%s: %s packets for other nodes", fabric->label,
                    fabric->is_mapped ? "kernels store" : "the proxy puts");
    }
}

/* An area that is to replace a smaller one, and the nodes that this rank is connected with. */
typedef struct {
    mscclpp_fabric_size_t size;
    mscclpp_fabric_division_t division;
    uint64_t bytes;
    mscclpp_fabric_memory_t area;
    mscclpp_region_t *region;
    mscclpp_fabric_partners_t partners;
    mscclpp_remote_t **remotes; /* by partner: its larger area */
} larger_t;

/*
 * Fills in the partners, which are all nodes that this rank is connected with. Allocates their zeroed cards, and room
 * for the remotes. Logs an error. mscclpp_fabric_grow frees all of it, also after an error.
 */
static mscclpp_status_t list_partners(const mscclpp_fabric_t *fabric, larger_t *larger)
{
    mscclpp_fabric_partners_t *partners = &larger->partners;
    const size_t nodes = (size_t)fabric->nodes.count;
    int node;

    partners->nodes = calloc(2 * nodes, sizeof(*partners->nodes));
    partners->lengths = calloc(nodes, sizeof(*partners->lengths));
    partners->sent = calloc(2 * nodes, sizeof(*partners->sent));
    larger->remotes = calloc(nodes, sizeof(*larger->remotes)); /* NOLINT(bugprone-sizeof-expression) */
    if (partners->nodes == NULL || partners->lengths == NULL || partners->sent == NULL || larger->remotes == NULL) {
        mscclpp_error("%s: no memory to exchange larger areas of %d nodes", fabric->label, fabric->nodes.count);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    partners->peers = partners->nodes + nodes;
    partners->received = partners->sent + nodes;
    for (node = 0; node < fabric->nodes.count; ++node) {
        if (fabric->node[node].conn != NULL) {
            partners->nodes[partners->count] = node;
            partners->peers[partners->count++] = fabric->nodes.owners[node];
        }
    }
    return MSCCLPP_OK;
}

/*
 * Makes this rank's larger area, and the cards with its key for the partners. Before that, waits until all that this
 * rank has sent has arrived, because the peers' smaller areas are not used afterwards. If data is still under way after
 * a second, returns MSCCLPP_ERR_TIMEOUT, unlogged. After an error, drop_larger takes what was made.
 */
static mscclpp_status_t make_larger(mscclpp_fabric_t *fabric, larger_t *larger)
{
    mscclpp_fabric_card_t card = {.address_length = 0};
    size_t key_length = MSCCLPP_TRANSPORT_KEY_MAX;
    mscclpp_status_t status;
    int i;

    mscclpp_fabric_await_delivery(fabric);
    status = mscclpp_proxy_drain(fabric->proxy);
    if (status != MSCCLPP_OK) {
        return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_ERR_TIMEOUT : status;
    }
    status = list_partners(fabric, larger);
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_allocate(fabric, fabric->place, larger->bytes, &larger->area);
    }
    if (status == MSCCLPP_OK) {
        status = fabric->ops->region_create(fabric->transport, larger->area.host, larger->bytes, &larger->region);
    }
    if (status == MSCCLPP_OK) {
        status = fabric->ops->region_key(larger->region, card.bytes, &key_length);
    }
    card.key_length = (uint32_t)key_length;
    for (i = 0; i < larger->partners.count && status == MSCCLPP_OK; ++i) {
        larger->partners.sent[i] = card;
        larger->partners.lengths[i] = offsetof(mscclpp_fabric_card_t, bytes) + key_length;
    }
    return status;
}

/*
 * Exchanges the cards with the partners, and attaches their larger areas. A rank that owns no shard has no partners.
 * The card of a partner that has failed is zeroed: MSCCLPP_ERR_PEER, unlogged. After an error, drop_larger detaches the
 * areas.
 */
static mscclpp_status_t attach_larger(mscclpp_fabric_t *fabric, larger_t *larger)
{
    const mscclpp_fabric_partners_t *partners = &larger->partners;
    mscclpp_status_t status =
        mscclpp_oob_exchange(&fabric->group->oob, partners->peers, partners->count, partners->sent, partners->lengths,
                             partners->received, sizeof(mscclpp_fabric_card_t));
    int i;

    for (i = 0; i < partners->count && status == MSCCLPP_OK; ++i) {
        const mscclpp_fabric_card_t *card = &partners->received[i];

        if (card->key_length == 0) {
            return MSCCLPP_ERR_PEER;
        }
        status = mscclpp_transport_card_fits(fabric->label, partners->peers[i], card->key_length, 0, 0)
                     ? fabric->ops->remote_create(fabric->node[partners->nodes[i]].conn, card->bytes, card->key_length,
                                                  &larger->remotes[i])
                     : MSCCLPP_ERR_INVALID;
    }
    return status;
}

/*
 * Gives the growth up, because some rank has failed: detaches the peers' larger areas. This rank's own larger area
 * stays until the transport is closed, because peers that have attached it detach it only after the vote. They put
 * nothing there. `retired` has an entry for it, because the team tries each size only once.
 */
static void drop_larger(mscclpp_fabric_t *fabric, larger_t *larger)
{
    int i;

    for (i = 0; i < larger->partners.count; ++i) {
        if (larger->remotes[i] != NULL) {
            fabric->ops->remote_destroy(larger->remotes[i]);
        }
    }
    mscclpp_fabric_hide_memory(&larger->area);
    fabric->retired[fabric->retired_count++] =
        (mscclpp_fabric_retired_t){.area = larger->area, .region = larger->region};
}

/*
 * Makes the larger area the one in use. Called once all ranks have attached the areas of their partners. The old area
 * stays, since peers may detach it later.
 */
static void use_larger(mscclpp_fabric_t *fabric, larger_t *larger)
{
    int i;

    for (i = 0; i < larger->partners.count; ++i) {
        mscclpp_fabric_node_t *node = &fabric->node[larger->partners.nodes[i]];

        mscclpp_proxy_replace_memory(fabric->proxy, node->conn, larger->region, larger->remotes[i], larger->bytes);
        fabric->ops->remote_destroy(node->remote);
        node->remote = larger->remotes[i];
    }
    mscclpp_fabric_hide_memory(&fabric->area);
    fabric->retired[fabric->retired_count++] =
        (mscclpp_fabric_retired_t){.area = fabric->area, .region = fabric->region};
    fabric->area = larger->area;
    fabric->region = larger->region;
    if ((fabric->linked >> MSCCLPP_FABRIC_ALL & 1) != 0) {
        mscclpp_fabric_hide_memory(&fabric->area); /* no other rank will attach it */
    }
}

mscclpp_status_t mscclpp_fabric_grow(mscclpp_fabric_t *fabric, mscclpp_fabric_size_t size)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;
    mscclpp_status_t status, own_status = MSCCLPP_OK;
    larger_t larger;
    mscclpp_vote_t vote;

    memset(&larger, 0, sizeof(larger));
    larger.size = find_size(fabric, size, &larger.division);
    if (larger.size <= fabric->size) {
        return MSCCLPP_OK;
    }
    larger.bytes = area_bytes(fabric, &larger.division);
    if (fabric->is_owner) {
        own_status = make_larger(fabric, &larger);
    }
    status = mscclpp_vote(oob, own_status, &vote);
    if (status == MSCCLPP_OK && vote.culprit < 0) {
        own_status = attach_larger(fabric, &larger);
        status = mscclpp_vote(oob, own_status, &vote);
    }
    if (status == MSCCLPP_OK && vote.culprit < 0) {
        if (fabric->is_owner) {
            use_larger(fabric, &larger);
        }
        set_division(fabric, larger.size, &larger.division);
        if (fabric->is_owner) {
            mscclpp_fabric_choose_packet_mover(fabric, false);
        }
    } else {
        drop_larger(fabric, &larger);
        mscclpp_log(own_status != MSCCLPP_OK && mscclpp_status_is_shortage(own_status) ? MSCCLPP_LOG_WARN
                                                                                       : MSCCLPP_LOG_INFO,
                    "%s: rank %d: %llu bytes for what travels between nodes: %s: large messages take many steps",
                    oob->label, oob->rank, (unsigned long long)larger.bytes,
                    own_status != MSCCLPP_OK ? mscclpp_status_string(own_status) : "a peer has none");
    }
    free(larger.remotes);
    mscclpp_fabric_free_partners(&larger.partners);
    return status;
}
