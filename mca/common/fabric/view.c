/* Finds which nodes have sent nothing yet, for messages of a waiting rank. */
#include "device/types/coll_nodes.h"
#include "mca/common/base/clock.h"
#include "mca/common/fabric/internal.h"

/* Seconds from one copy of the tokens in device memory to the next. */
#define VIEW_SECONDS 0.25

/* Returns the number of bytes of the tokens of all nodes and blocks. */
static uint64_t tokens_size(const mscclpp_fabric_t *fabric)
{
    return (uint64_t)MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count) * (uint64_t)fabric->nodes.count *
           sizeof(uint64_t);
}

/*
 * Makes a first copy now, before there are kernels. So later copies do nothing that is slow or that waits for kernels.
 * Tokens in host memory need no view.
 */
mscclpp_status_t mscclpp_fabric_open_view(mscclpp_fabric_t *fabric)
{
    mscclpp_status_t status;
    void *host, *device;

    if (!fabric->tokens.on_device) {
        return MSCCLPP_OK;
    }
    status = fabric->gpu->host_alloc(tokens_size(fabric), &host, &device);
    if (status != MSCCLPP_OK) {
        return status;
    }
    fabric->view = host;
    status = mscclpp_copier_add(&fabric->viewer, fabric->gpu, fabric->device, fabric->view, fabric->tokens.device,
                                tokens_size(fabric));
    if (status == MSCCLPP_OK) {
        status = fabric->gpu->stream_sync(fabric->viewer.stream);
    }
    return status == MSCCLPP_OK ? mscclpp_copier_test(&fabric->viewer, fabric->gpu) : status;
}

void mscclpp_fabric_close_view(mscclpp_fabric_t *fabric)
{
    mscclpp_copier_fini(&fabric->viewer, fabric->gpu);
    if (fabric->view != NULL) {
        fabric->gpu->host_free(fabric->view);
        fabric->view = NULL;
    }
}

/*
 * Returns the tokens. If they are in device memory, returns the last copy of them that was made in this call. Starts a
 * new copy every VIEW_SECONDS; the first one starts VIEW_SECONDS after the first call of this function. A copy that an
 * earlier call has started is ignored, even if it ends only now.
 *
 * Returns NULL if there is no copy yet, or if `may_ask` is false, because then the GPU runtime must not be called.
 * Never waits.
 */
static const uint64_t *look_at_tokens(mscclpp_fabric_t *fabric, bool may_ask)
{
    const double now = mscclpp_now();

    if (!fabric->tokens.on_device) {
        return fabric->tokens.host;
    }
    if (!may_ask) {
        return NULL;
    }
    if (fabric->viewed_call != fabric->calls) {
        fabric->viewed_call = fabric->calls;
        fabric->viewed_at = now;
        fabric->has_view = fabric->is_copying = false;
    }
    if (mscclpp_copier_test(&fabric->viewer, fabric->gpu) == MSCCLPP_OK) {
        fabric->has_view = fabric->has_view || fabric->is_copying;
        fabric->is_copying = false;
    }
    if (!fabric->is_copying && now - fabric->viewed_at >= VIEW_SECONDS) {
        fabric->viewed_at = now;
        fabric->is_copying = mscclpp_copier_add(&fabric->viewer, fabric->gpu, fabric->device, fabric->view,
                                                fabric->tokens.device, tokens_size(fabric)) == MSCCLPP_OK;
    }
    return fabric->has_view ? fabric->view : NULL;
}

/*
 * Returns the number of signals that have come from the node in all calls, through all blocks. Loads without order,
 * because the count only goes into messages.
 */
static uint64_t count_arrived(const mscclpp_fabric_t *fabric, const uint64_t *tokens, int node)
{
    uint64_t sum = 0;
    uint32_t block;

    for (block = 0; block < MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count); ++block) {
        sum += __atomic_load_n(&tokens[MSCCLPP_DEV_NODES_TOKEN((uint32_t)fabric->nodes.count, block, (uint32_t)node)],
                               __ATOMIC_RELAXED);
    }
    return sum;
}

/*
 * Returns true if the packet at `unit` units after the start of the packet slots belongs to the current call. Flags
 * only increase until all packets are cleared, so a packet of an earlier call has a lower flag. The area must be in
 * host memory.
 */
static bool has_packet_at(const mscclpp_fabric_t *fabric, uint64_t unit)
{
    const char *packets = (const char *)fabric->area.host + fabric->packets_offset;
    const uint64_t *first_word = (const uint64_t *)(const void *)(packets + unit * MSCCLPP_DEV_PACKET_UNIT);

    return (uint32_t)(__atomic_load_n(first_word, __ATOMIC_RELAXED) >> 32) >= fabric->first_flag;
}

/*
 * Returns true if there is such a packet at `unit` units after the start of a set of slots. The call uses one of the
 * two sets, so both are checked.
 */
static bool has_packet(const mscclpp_fabric_t *fabric, uint64_t unit)
{
    return has_packet_at(fabric, unit) ||
           has_packet_at(fabric, ((uint64_t)fabric->nodes.count + 1) * fabric->division.packet_units + unit);
}

/* Returns true if packets of the node have arrived. The first packets of a node are at the start of its slot. */
static bool has_packet_from(const mscclpp_fabric_t *fabric, int node)
{
    return has_packet(fabric, (1 + (uint64_t)node) * fabric->division.packet_units);
}

/*
 * Returns the node of the first step of a call in steps for which nothing has arrived. Without `tokens`, this is a step
 * whose packets are missing. With `tokens`, it is a step whose sender has signalled nothing in this call, because a
 * signal does not say which step it belongs to. That node may itself be waiting for another node. Returns 0 if
 * something has arrived for all steps.
 */
static uint64_t find_absent_in_steps(const mscclpp_fabric_t *fabric, const mscclpp_fabric_steps_t *steps,
                                     const uint64_t *tokens)
{
    const uint64_t units = MSCCLPP_DEV_NODES_PACKET_UNITS(MSCCLPP_DEV_NODES_DOUBLING, (uint32_t)fabric->nodes.count,
                                                          fabric->division.packet_units, steps->kernel.slots);
    uint32_t i;

    for (i = 0; i < steps->kernel.count; ++i) {
        const mscclpp_dev_step_t *step = &steps->step[i];

        if (step->kind != MSCCLPP_DEV_STEP_SEND &&
            !(tokens == NULL ? has_packet(fabric, step->slot * units)
                             : count_arrived(fabric, tokens, (int)step->peer) > fabric->node[step->peer].exchanges)) {
            return mscclpp_board_add_absent(0, fabric->nodes.owners[step->peer]);
        }
    }
    return 0;
}

/*
 * Returns true if message `j` of a round has begun to arrive from its sender, or if the sender sends none. A message
 * with data begins at the first of its places. An empty message has a packet of its own, behind all places; in a sparse
 * call there are none.
 */
static bool has_message(const mscclpp_fabric_t *fabric, uint32_t sender, uint32_t round, uint32_t j)
{
    const mscclpp_dev_rounds_t *rounds = &fabric->rounds;
    const mscclpp_dev_rounds_message_t message = mscclpp_dev_rounds_message(rounds, sender, round, j);
    const bool is_empty = !fabric->carries || message.count == 0;
    const uint64_t unit =
        is_empty ? mscclpp_dev_rounds_count_places(rounds) * fabric->pitch + (uint64_t)round * (rounds->radix - 1) + j
                 : mscclpp_dev_rounds_arrival_place(rounds, message, round, j) * fabric->pitch;

    return fabric->is_sparse ? is_empty || has_packet_at(fabric, fabric->first_place + unit) : has_packet(fabric, unit);
}

/*
 * Returns the sender of the first message of a call in rounds that has not arrived. That sender may itself be waiting
 * for another node. Returns 0 if all messages have arrived.
 */
static uint64_t find_absent_in_rounds(const mscclpp_fabric_t *fabric)
{
    const mscclpp_dev_rounds_t *rounds = &fabric->rounds;
    uint32_t round, j;

    for (round = 0; round < rounds->rounds; ++round) {
        for (j = 1; j < rounds->radix; ++j) {
            const uint32_t distance = mscclpp_dev_rounds_message(rounds, rounds->node, round, j).distance;
            const uint32_t sender = mscclpp_dev_rounds_before(rounds, distance);

            if (distance != 0 && !has_message(fabric, sender, round, j)) {
                return mscclpp_board_add_absent(0, fabric->nodes.owners[sender]);
            }
        }
    }
    return 0;
}

/* Returns true if some signals of the current call, which is not an all-reduce, have not arrived from a node. */
static bool owes_signals(const mscclpp_fabric_t *fabric, const uint64_t *tokens, uint32_t node)
{
    return count_arrived(fabric, tokens, (int)node) <
           fabric->node[node].exchanges + mscclpp_fabric_count_signals(fabric, node);
}

/*
 * Returns the first node that has not come to the meeting at the start of a call over trees or in windows, as far as
 * this node can tell. That node may itself be waiting for another one. Returns 0 if all have come.
 */
static uint64_t find_absent_in_meeting(const mscclpp_fabric_t *fabric, const uint64_t *tokens)
{
    const uint32_t count = (uint32_t)fabric->nodes.count, own_node = (uint32_t)fabric->nodes.node;
    uint32_t distance;

    for (distance = 1; distance < count; distance *= 2) {
        const uint32_t node = MSCCLPP_DEV_NODES_BEHIND(count, own_node, distance);

        if (count_arrived(fabric, tokens, (int)node) == fabric->node[node].exchanges) {
            return mscclpp_board_add_absent(0, fabric->nodes.owners[node]);
        }
    }
    return 0;
}

/*
 * Returns the nodes that a call over two trees waits for: the first node that has not come to the meeting at the start,
 * as far as this node can tell; after that meeting, the nodes whose signals have not all arrived. Any of these nodes
 * may itself be waiting for another one.
 */
static uint64_t find_absent_in_trees(const mscclpp_fabric_t *fabric, const uint64_t *tokens)
{
    const uint32_t count = (uint32_t)fabric->nodes.count;
    uint64_t absent = find_absent_in_meeting(fabric, tokens);
    uint32_t node;

    if (absent != 0) {
        return absent;
    }
    for (node = 0; node < count; ++node) {
        if (owes_signals(fabric, tokens, node)) {
            absent = mscclpp_board_add_absent(absent, fabric->nodes.owners[node]);
        }
    }
    return absent;
}

/*
 * Returns the previous node of the ring, for a call other than an all-reduce, if it has not sent all of its signals
 * yet. That node may itself be waiting for the node before it. Returns 0 if it has sent all of them.
 */
static uint64_t find_absent_in_ring(const mscclpp_fabric_t *fabric, const uint64_t *tokens)
{
    const uint32_t count = (uint32_t)fabric->nodes.count, own_node = (uint32_t)fabric->nodes.node;
    const uint32_t previous = MSCCLPP_DEV_NODES_BEHIND(count, own_node, 1);

    return owes_signals(fabric, tokens, previous) ? mscclpp_board_add_absent(0, fabric->nodes.owners[previous]) : 0;
}

/*
 * Returns the sender of the first round whose signals have not all arrived, for a call by halving other than an
 * all-reduce. That node may itself be waiting for another one. Returns 0 if all signals have arrived.
 */
static uint64_t find_absent_in_halving(const mscclpp_fabric_t *fabric, const uint64_t *tokens)
{
    const mscclpp_dev_rounds_t rounds = {.nnodes = (uint32_t)fabric->nodes.count,
                                         .radix = 2,
                                         .node = (uint32_t)fabric->nodes.node,
                                         .pattern = fabric->rounds.pattern,
                                         .rounds = mscclpp_dev_rounds_count((uint32_t)fabric->nodes.count, 2)};
    uint32_t round, sender;

    for (round = 0; round < rounds.rounds; ++round) {
        sender = mscclpp_dev_rounds_before(&rounds, mscclpp_dev_rounds_digit_value(&rounds, round));
        if (owes_signals(fabric, tokens, sender)) {
            return mscclpp_board_add_absent(0, fabric->nodes.owners[sender]);
        }
    }
    return 0;
}

/*
 * Returns the node that a call in windows waits for, as far as this node can tell: in the meeting at the start, the
 * first one that has not come; after it, the nearest node before this one that has sent nothing yet. Nodes of later
 * windows have sent nothing either, but nobody waits for them yet. Returns 0 if all have sent something.
 */
static uint64_t find_absent_in_windows(const mscclpp_fabric_t *fabric, const uint64_t *tokens)
{
    const uint32_t count = (uint32_t)fabric->nodes.count, own_node = (uint32_t)fabric->nodes.node;
    const uint64_t meetings = fabric->coll_tiles < fabric->coll_blocks ? fabric->coll_tiles : fabric->coll_blocks;
    uint64_t absent = find_absent_in_meeting(fabric, tokens);
    uint32_t distance;

    for (distance = 1; distance < count && absent == 0; ++distance) {
        const uint32_t node = MSCCLPP_DEV_NODES_BEHIND(count, own_node, distance);
        const uint64_t meeting_signals = mscclpp_dev_trees_signals_at_meeting(count, node, own_node) ? meetings : 0;

        if (owes_signals(fabric, tokens, node) &&
            count_arrived(fabric, tokens, (int)node) <= fabric->node[node].exchanges + meeting_signals) {
            absent = mscclpp_board_add_absent(0, fabric->nodes.owners[node]);
        }
    }
    return absent;
}

/*
 * Returns 0 if no node is known. The pattern of the call determines which nodes this node receives from, so each
 * pattern has its own search.
 */
uint64_t mscclpp_fabric_absent(mscclpp_fabric_t *fabric, bool may_ask)
{
    const bool uses_packets = fabric->first_flag != 0;
    const mscclpp_fabric_steps_t *steps = mscclpp_fabric_steps(fabric, fabric->pattern);
    const uint64_t *tokens;
    uint64_t absent = 0;
    int node;

    if (!fabric->is_owner || fabric->is_joined) {
        return 0;
    }
    tokens = uses_packets ? NULL : look_at_tokens(fabric, may_ask);
    /* The host cannot look at packets in device memory, or at tokens that are not copied yet. */
    if (uses_packets ? fabric->area.on_device : tokens == NULL) {
        return 0;
    }
    if (uses_packets && fabric->rounds.radix != 0) {
        return find_absent_in_rounds(fabric);
    }
    if (fabric->coll_tiles > 0 && fabric->pattern == MSCCLPP_DEV_NODES_RING) {
        return find_absent_in_ring(fabric, tokens);
    }
    if (fabric->coll_tiles > 0 && fabric->pattern == MSCCLPP_DEV_NODES_HALVING) {
        return find_absent_in_halving(fabric, tokens);
    }
    if (fabric->pattern == MSCCLPP_DEV_NODES_TREES) {
        return find_absent_in_trees(fabric, tokens);
    }
    if (fabric->coll_tiles > 0 && fabric->pattern == MSCCLPP_DEV_NODES_WINDOWS) {
        return find_absent_in_windows(fabric, tokens);
    }
    if (steps != NULL) {
        return find_absent_in_steps(fabric, steps, tokens);
    }
    /* With all other patterns, each node hears from every other one in each call, if only by a signal. */
    for (node = 0; node < fabric->nodes.count; ++node) {
        if (node != fabric->nodes.node &&
            !(uses_packets ? has_packet_from(fabric, node)
                           : count_arrived(fabric, tokens, node) > fabric->node[node].exchanges)) {
            absent = mscclpp_board_add_absent(absent, fabric->nodes.owners[node]);
        }
    }
    return absent;
}
