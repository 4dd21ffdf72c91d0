/*
 * How a fabric comes about, in steps that all ranks take together and that all of them end alike: whatever a rank
 * lacks, it goes on exchanging until the vote. Ranks that own no shard vote as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mca/common/fabric_internal.h"
#include "mca/common/log.h"
#include "mca/common/team_internal.h"
#include "mca/common/tool.h"
#include "mca/common/vote.h"

/* Changes with every change of what ranks of different nodes exchange. */
#define PROTOCOL_VERSION 7u

/* Where slots begin, if they are not smaller than that. */
#define SLOT_ALIGN ((uint64_t)256)

/* What has to be equal on all nodes, or is until then known to one node only. */
typedef struct {
    uint32_t version;
    uint32_t on_host;
    uint32_t meet_first;
    uint32_t block_limit;
    uint32_t threaded; /* other threads launch kernels on the same GPU */
    uint32_t blocking; /* launches wait for kernels to end */
    uint32_t users;    /* processes on the same GPU that the sender knows of */
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t team_id;
    uint64_t exchange_size;
    mscclpp_protocol_t protocol;
    uint64_t address_length;
    unsigned char address[MSCCLPP_CTRL_ADDRESS_MAX];
} card_t;

/* How to reach a rank; addresses of all nodes' connections follow. */
typedef struct {
    uint64_t packets; /* 0: its transport cannot carry them */
    uint64_t key_length;
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
} reach_t;

typedef struct {
    uint64_t length;
    unsigned char bytes[MSCCLPP_TRANSPORT_ADDRESS_MAX];
} address_t;

static bool check_cards(const mscclpp_oob_t *oob, const card_t *cards)
{
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        const card_t *card = &cards[rank];

        if (card->version != PROTOCOL_VERSION || card->on_host != cards[0].on_host) {
            mscclpp_info("%s: rank %d runs protocol %u on the %s, rank 0 protocol %u on the %s: device buffers are "
                         "staged",
                         oob->label, rank, card->version, card->on_host ? "host twin" : "GPU", cards[0].version,
                         cards[0].on_host ? "host twin" : "GPU");
            return false;
        }
        if (card->protocol.scratch_size != cards[0].protocol.scratch_size) {
            mscclpp_warn("%s: coll_mscclpp_scratch_size is %llu on rank %d and %llu on rank 0; it must be equal on all "
                         "ranks: device buffers are staged",
                         oob->label, (unsigned long long)card->protocol.scratch_size, rank,
                         (unsigned long long)cards[0].protocol.scratch_size);
            return false;
        }
    }
    return true;
}

/*
 * Ranks of different nodes that share a GPU, as only imitated nodes do: the blocks of all their kernels have to run at
 * once, and the nodes have reckoned with their own ranks alone. *shared_p: processes share a GPU.
 */
static mscclpp_status_t share_gpus(mscclpp_team_t *team, const mscclpp_oob_t *oob, const card_t *cards, bool *shared_p)
{
    uint32_t most = 1, known = 1;
    int a, b;

    for (a = 0; a < oob->size && !team->on_host; ++a) {
        uint32_t users = 0;

        for (b = 0; b < oob->size; ++b) {
            users += memcmp(cards[a].uuid, cards[b].uuid, sizeof(cards[a].uuid)) == 0;
        }
        most = users > most ? users : most;
        known = cards[a].users > known ? cards[a].users : known;
    }
    if (most > 1 && team->protocol.shared_gpu != MSCCLPP_SHARED_GPU_KERNELS) {
        mscclpp_info("%s: %u ranks share a GPU and coll_mscclpp_shared_gpu is not kernels: device buffers of imitated "
                     "nodes are staged",
                     oob->label, most);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *shared_p = most > 1 || known > 1;
    team->block_limit = team->block_limit / (known > most ? known : most);
    team->block_limit = team->block_limit == 0 && !team->on_host ? 1 : team->block_limit;
    return MSCCLPP_OK;
}

/*
 * A kernel that waits for another node holds up what other threads do with its GPU, such as an allocation. Within a
 * node all ranks meet before they launch; between nodes they do not. And it waits for what this process's proxy does.
 */
static mscclpp_status_t refuse_waits(const mscclpp_oob_t *oob, const card_t *cards)
{
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        if (cards[rank].threaded) {
            mscclpp_info("%s: rank %d runs with MPI_THREAD_MULTIPLE and the ranks are on several nodes: device buffers "
                         "are staged",
                         oob->label, rank);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        if (cards[rank].blocking) {
            mscclpp_info(
                "%s: launches of rank %d wait for the end of kernels (CUDA_LAUNCH_BLOCKING, or a profiler) and "
                "the ranks are on several nodes: device buffers are staged",
                oob->label, rank);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    return MSCCLPP_OK;
}

/*
 * Without control messages other nodes see by their deadlines that this one has failed. That ranks have no way in
 * common is no error, and equal on all.
 */
static mscclpp_status_t connect_ctrl(mscclpp_team_t *team, const card_t *cards)
{
    mscclpp_status_t status =
        team->ctrl == NULL ? MSCCLPP_OK
                           : mscclpp_ctrl_connect(team->ctrl, cards[0].team_id, cards[0].address, sizeof(*cards));

    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_ctrl_destroy(team->ctrl);
        team->ctrl = NULL;
        status = MSCCLPP_OK;
    }
    return status;
}

/* Makes all nodes' settings rank 0's, and limits the tightest. `cards`: room for one more than there are ranks. */
static mscclpp_status_t align_nodes(mscclpp_fabric_t *fabric, mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                    card_t *cards)
{
    const mscclpp_oob_t *oob = &params->oob;
    card_t *own = &cards[oob->size];
    mscclpp_status_t status, mine;
    size_t length = MSCCLPP_CTRL_ADDRESS_MAX;
    bool shared = false;
    int rank;

    own->version = PROTOCOL_VERSION;
    own->on_host = team->on_host;
    own->meet_first = team->meet_first;
    own->block_limit = team->block_limit;
    own->threaded = params->concurrent && !team->on_host;
    own->blocking = !team->on_host && mscclpp_tool_blocks_launches();
    own->users = team->gpu_users;
    memcpy(own->uuid, team->uuid, sizeof(own->uuid));
    own->exchange_size = fabric->config.exchange_size;
    own->protocol = team->protocol;
    if (getrandom(&own->team_id, sizeof(own->team_id), 0) != (ssize_t)sizeof(own->team_id)) {
        own->team_id = (uint64_t)(uintptr_t)fabric;
    }
    mine = mscclpp_ctrl_create(fabric->config.ucx, oob, &team->ctrl);
    if (mine == MSCCLPP_OK && mscclpp_ctrl_address(team->ctrl, own->address, &length) == MSCCLPP_OK) {
        own->address_length = length;
    }
    status = oob->allgather(oob->context, own, cards, sizeof(*own));
    if (status == MSCCLPP_OK && !check_cards(oob, cards)) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK) {
        mine = mine == MSCCLPP_OK || mine == MSCCLPP_ERR_NOT_SUPPORTED ? connect_ctrl(team, cards) : mine;
        status = mscclpp_agree(oob, NULL, mine, "control messages between nodes");
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    team->protocol = cards[0].protocol;
    fabric->config.exchange_size = cards[0].exchange_size;
    for (rank = 0; rank < oob->size; ++rank) {
        team->meet_first = team->meet_first || cards[rank].meet_first;
        team->block_limit = cards[rank].block_limit < team->block_limit ? cards[rank].block_limit : team->block_limit;
    }
    status = refuse_waits(oob, cards);
    if (status == MSCCLPP_OK) {
        status = share_gpus(team, oob, cards, &shared);
    }
    if (status == MSCCLPP_OK) {
        mscclpp_linger_init(team, params->config, shared, true);
    }
    return status;
}

static mscclpp_status_t open_with(mscclpp_fabric_t *fabric, const mscclpp_team_params_t *params,
                                  const mscclpp_transport_ops_t *ops, mscclpp_transport_place_t place,
                                  uint32_t *flags_p)
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
    transport.rank = params->oob.rank;
    transport.size = params->oob.size;
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
 * Tokens and slots lie together, both in device memory or both in the host's: a signal in one kind of memory would say
 * nothing of data that takes another way into the other kind. Device memory where the transport can do both, unless it
 * is the CPU that moves bytes.
 */
static mscclpp_status_t open_transport(mscclpp_fabric_t *fabric, const mscclpp_team_params_t *params,
                                       const mscclpp_transport_ops_t *ops)
{
    const uint32_t both = MSCCLPP_DEVICE_TOKENS | MSCCLPP_DEVICE_REGIONS;
    const char *wanted = fabric->config.exchange_memory;
    const bool host = strcmp(wanted, "host") == 0, device = strcmp(wanted, "device") == 0;
    uint32_t flags = 0;
    mscclpp_status_t status = open_with(fabric, params, ops, ops->place, &flags);

    if (status == MSCCLPP_OK && !fabric->tokens.on_device && (flags & both) == both && !host &&
        (device || ops->place != MSCCLPP_PLACE_SHARED)) {
        mscclpp_fabric_close_transport(fabric);
        status = open_with(fabric, params, ops, MSCCLPP_PLACE_DEVICE, &flags);
    }
    if (status == MSCCLPP_OK && (fabric->tokens.on_device ? host : device)) {
        mscclpp_info("%s: no transport %s: coll_mscclpp_exchange_memory is %s", fabric->label, ops->name, wanted);
        mscclpp_fabric_close_transport(fabric);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

static bool may_take(const mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops)
{
    const char *wanted = fabric->config.transport;

    if (!ops->between_nodes && !fabric->nodes.one_host) {
        return false;
    }
    if (strcmp(wanted, "auto") == 0) {
        return ops->between_nodes || ops->within_host;
    }
    return strcmp(wanted, "network") == 0 ? ops->between_nodes : strcmp(wanted, ops->name) == 0;
}

static void note_failure(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob, const mscclpp_vote_t *vote,
                         const mscclpp_transport_ops_t *ops)
{
    if (vote->status != MSCCLPP_OK && vote->status != MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_info("%s: rank %d: transport %s: %s", oob->label, vote->culprit, ops->name,
                     mscclpp_status_string(vote->status));
    }
    fabric->lacks_descriptors =
        fabric->lacks_descriptors || (vote->status == MSCCLPP_ERR_NO_DESCRIPTORS && vote->culprit == oob->rank);
}

/* The first one from number *next_p on; *next_p: the one behind it. */
static mscclpp_status_t choose_transport(mscclpp_fabric_t *fabric, const mscclpp_team_params_t *params, int *next_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    mscclpp_vote_t vote;

    while (*next_p < mscclpp_transport_count) {
        const mscclpp_transport_ops_t *ops = mscclpp_transports[(*next_p)++];
        mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;

        if (may_take(fabric, ops)) {
            status = fabric->owner ? open_transport(fabric, params, ops) : MSCCLPP_OK;
        }
        status = mscclpp_vote(oob, status, &vote);
        if (status != MSCCLPP_OK) {
            return status;
        }
        note_failure(fabric, oob, &vote, ops);
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
    mscclpp_info("%s: no inter-node transport that all ranks have (coll_mscclpp_transport is %s on rank %d): device "
                 "buffers are staged",
                 oob->label, fabric->config.transport, oob->rank);
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/* The area of slots, and this rank's halves of the connections. */
static mscclpp_status_t prepare(mscclpp_fabric_t *fabric, reach_t *reach, address_t *addresses)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = mscclpp_fabric_allocate(fabric, fabric->place, fabric->area_size, &fabric->area);
    size_t length = sizeof(reach->key);
    int node;

    if (status == MSCCLPP_OK) {
        status = ops->region_create(fabric->transport, fabric->area.host, fabric->area_size, &fabric->region);
    }
    if (status == MSCCLPP_OK) {
        status = ops->region_key(fabric->region, reach->key, &length);
        reach->key_length = length;
    }
    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK; ++node) {
        if (node == fabric->nodes.node) {
            continue;
        }
        length = sizeof(addresses[node].bytes);
        status = ops->conn_create(fabric->transport, fabric->nodes.owners[node], &fabric->conns[node]);
        if (status == MSCCLPP_OK) {
            status = ops->conn_address(fabric->conns[node], addresses[node].bytes, &length);
            addresses[node].length = length;
        }
    }
    return status;
}

/* Ranks that own no shard have no say in it. */
static bool all_take_packets(const char *all, int ranks, size_t size)
{
    bool good = true;
    int rank;

    for (rank = 0; rank < ranks; ++rank) {
        good = good && ((const reach_t *)(const void *)(all + (size_t)rank * size))->packets != 0;
    }
    return good;
}

/* `all` holds, for each rank, its reach and its addresses, `size` bytes together. */
static mscclpp_status_t attach(mscclpp_fabric_t *fabric, const char *all, size_t size)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = MSCCLPP_OK;
    int node;

    for (node = 0; node < fabric->nodes.count && status == MSCCLPP_OK; ++node) {
        const char *card = all + (size_t)fabric->nodes.owners[node] * size;
        const reach_t *reach = (const reach_t *)(const void *)card;
        const address_t *address = (const address_t *)(const void *)(card + sizeof(*reach)) + fabric->nodes.node;

        if (node == fabric->nodes.node) {
            continue;
        }
        status = ops->conn_connect(fabric->conns[node], address->bytes, address->length);
        if (status == MSCCLPP_OK) {
            status = ops->remote_create(fabric->conns[node], reach->key, reach->key_length, &fabric->remotes[node]);
        }
    }
    return status;
}

/* True if kernels reach the slots for packets of all other nodes; what signals order is left to the proxy. */
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
            status = fabric->ops->remote_map(fabric->remotes[node], fabric->packets_offset, length, &packets);
        }
        fabric->mapped[node] = packets;
    }
    return status == MSCCLPP_OK;
}

/* Each rank decides for itself, as receivers do not see the difference. */
static void choose_stores(mscclpp_fabric_t *fabric, bool tell)
{
    fabric->maps = fabric->packets && map_packets(fabric);
    if (fabric->packets) {
        mscclpp_log(tell ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG, "%s: %s packets for other nodes", fabric->label,
                    fabric->maps ? "kernels store" : "the proxy puts");
    }
}

/* Other transports may be left if this one fails. */
static mscclpp_status_t agree_on_connection(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob, mscclpp_status_t mine)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(oob, mine, &vote);

    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        note_failure(fabric, oob, &vote, fabric->ops);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

static mscclpp_status_t connect_nodes(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob)
{
    const size_t size = sizeof(reach_t) + (size_t)fabric->nodes.count * sizeof(address_t);
    char *all = calloc((size_t)oob->size + 1, size), *own;
    mscclpp_status_t mine = MSCCLPP_OK, status;

    own = all != NULL ? all + (size_t)oob->size * size : NULL;
    if (all == NULL) {
        mscclpp_error("%s: no memory for the addresses of %d ranks", oob->label, oob->size);
        mine = MSCCLPP_ERR_NO_MEMORY;
    } else {
        ((reach_t *)(void *)own)->packets = !fabric->owner || fabric->packets;
    }
    if (all != NULL && fabric->owner) {
        mine = prepare(fabric, (reach_t *)(void *)own, (address_t *)(void *)(own + sizeof(reach_t)));
    }
    status = agree_on_connection(fabric, oob, mine);
    if (status == MSCCLPP_OK) {
        status = oob->allgather(oob->context, own, all, size);
    }
    if (status == MSCCLPP_OK) {
        fabric->packets = all_take_packets(all, oob->size, size);
        status = agree_on_connection(fabric, oob, fabric->owner ? attach(fabric, all, size) : MSCCLPP_OK);
    }
    if (status == MSCCLPP_OK && fabric->owner) {
        mscclpp_fabric_hide_memory(&fabric->tokens);
        mscclpp_fabric_hide_memory(&fabric->area);
        choose_stores(fabric, oob->rank == 0);
    }
    free(all);
    return status;
}

/* Whether ranks reach one another is known only once they have tried; if not, there may be another way. */
static mscclpp_status_t open_and_connect(mscclpp_fabric_t *fabric, const mscclpp_team_params_t *params)
{
    mscclpp_status_t status;
    int next = 0;

    while ((status = choose_transport(fabric, params, &next)) == MSCCLPP_OK) {
        status = connect_nodes(fabric, &params->oob);
        if (status != MSCCLPP_ERR_NOT_SUPPORTED) {
            break;
        }
        mscclpp_info("%s: transport %s does not connect all nodes; others are tried", fabric->label, fabric->ops->name);
        mscclpp_fabric_close_transport(fabric);
    }
    return status;
}

/* Of what the user gives an eighth is for packets; they are for small messages. */
static void cut_area(mscclpp_fabric_t *fabric)
{
    const uint64_t packets = fabric->config.exchange_size / 8, rest = fabric->config.exchange_size - packets;
    const uint64_t slots = MSCCLPP_DEV_NODES_SLOTS(fabric->nodes.count);
    const uint64_t packet_slots = MSCCLPP_DEV_NODES_PACKET_SLOTS(fabric->nodes.count);
    const uint64_t grain = rest / slots < SLOT_ALIGN ? MSCCLPP_DEV_UNIT : SLOT_ALIGN;
    const uint64_t size = rest / slots / grain * grain, units = packets / packet_slots / MSCCLPP_DEV_PACKET_UNIT;

    /* So many nodes that not even a unit is left for each: a unit is what it takes. */
    fabric->slot_size = size < MSCCLPP_DEV_UNIT ? MSCCLPP_DEV_UNIT : size;
    fabric->packets_offset = slots * fabric->slot_size;
    fabric->packet_units = units == 0 ? 1 : units;
    fabric->area_size = fabric->packets_offset + packet_slots * fabric->packet_units * MSCCLPP_DEV_PACKET_UNIT;
}

mscclpp_status_t mscclpp_fabric_create(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                       const mscclpp_nodes_t *nodes, mscclpp_fabric_t **fabric_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    mscclpp_fabric_t *fabric = calloc(1, sizeof(*fabric));
    card_t *cards = calloc((size_t)oob->size + 1, sizeof(*cards));
    mscclpp_status_t status = fabric != NULL && cards != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;

    if (status != MSCCLPP_OK) {
        mscclpp_error("%s: no memory to join the nodes of %d ranks", oob->label, oob->size);
    }
    status = mscclpp_agree(oob, NULL, status, "memory to join nodes");
    if (status != MSCCLPP_OK) {
        free(cards);
        free(fabric);
        return status;
    }
    fabric->nodes = *nodes;
    fabric->config = *params->config;
    fabric->gpu = params->gpu;
    fabric->device = params->device;
    fabric->label = oob->label;
    fabric->owner = nodes->rank < nodes->shards;
    status = align_nodes(fabric, team, params, cards);
    free(cards);
    if (status == MSCCLPP_OK) {
        cut_area(fabric);
        status = open_and_connect(fabric, params);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_agree(oob, NULL, fabric->owner ? mscclpp_fabric_equip(fabric, team) : MSCCLPP_OK,
                               "setting port channels up");
    }
    if (status != MSCCLPP_OK) {
        mscclpp_fabric_destroy(fabric);
        return status;
    }
    fabric->ctrl = team->ctrl;
    mscclpp_fabric_enlist(fabric);
    *fabric_p = fabric;
    return MSCCLPP_OK;
}
