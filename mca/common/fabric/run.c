/* Calls, progress and end of the fabric. fabric/setup.c creates it. */
#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/fabric/fabric.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/gpu/clear.h"
#include "mca/common/base/log.h"
#include "mca/common/algo/coll.h"
#include "mca/common/algo/select.h"

_Static_assert(MSCCLPP_COLL_RADIX_MAX < MSCCLPP_FABRIC_RING && MSCCLPP_FABRIC_RING < 64,
               "each kind of links, radices among them, is a bit of its own");

/* The most seconds that data in flight get to arrive when a communicator ends. */
#define DELIVERY_SECONDS 1.0

/* All fabrics of the process. Progress holds the lock, so that no fabric ends meanwhile. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_fabric_t *first_fabric;

void mscclpp_fabric_enlist(mscclpp_fabric_t *fabric)
{
    pthread_mutex_lock(&list_lock);
    fabric->next = first_fabric;
    fabric->link_in_list = &first_fabric;
    if (fabric->next != NULL) {
        fabric->next->link_in_list = &fabric->next;
    }
    first_fabric = fabric;
    pthread_mutex_unlock(&list_lock);
}

/*
 * Removes the fabric from the list of those that progress visits. After this, no other thread makes progress on the
 * fabric.
 */
static void delist(mscclpp_fabric_t *fabric)
{
    pthread_mutex_lock(&list_lock);
    if (fabric->link_in_list != NULL) {
        *fabric->link_in_list = fabric->next;
        if (fabric->next != NULL) {
            fabric->next->link_in_list = fabric->link_in_list;
        }
        fabric->link_in_list = NULL;
    }
    pthread_mutex_unlock(&list_lock);
}

/*
 * Makes progress on the notices of a failure that are not sent yet. Over UCX they are sent only while messages are
 * polled, and the failed team makes no more calls that poll. Peers may come to the failed call much later. Messages
 * over the embedding runtime need no help here: they progress with the runtime. What peers have sent is kept, because
 * another thread may still wait for it (mscclpp_group_name_lost).
 */
static void send_notices(mscclpp_fabric_t *fabric)
{
    if (fabric->ctrl != NULL && mscclpp_ctrl_is_independent(fabric->ctrl)) {
        mscclpp_group_tend_notices(fabric->group);
    }
}

void mscclpp_fabric_progress_all(void)
{
    mscclpp_fabric_t *fabric;

    /*
     * If another thread holds the lock, it serves all fabrics. The check of the list without the lock only saves time:
     * a fabric that is just being added is served next time.
     */
    if (__atomic_load_n(&first_fabric, __ATOMIC_RELAXED) == NULL || pthread_mutex_trylock(&list_lock) != 0) {
        return;
    }
    for (fabric = first_fabric; fabric != NULL; fabric = fabric->next) {
        /*
         * A thread in a call makes progress on its own fabric. If such a call begins just now, both threads do, which
         * the proxy's lock allows. Between calls, peers may still wait for answers that only this process can give. A
         * failure of the proxy is reported by the next call.
         */
        if (__atomic_load_n(&fabric->failed, __ATOMIC_ACQUIRE)) {
            send_notices(fabric);
        } else if (fabric->proxy != NULL && !__atomic_load_n(&fabric->in_call, __ATOMIC_ACQUIRE)) {
            /* If peers need no answers, a proxy without work costs only a comparison, even with many communicators. */
            (void)(fabric->ops->at_once ? mscclpp_proxy_progress(fabric->proxy) : mscclpp_proxy_drain(fabric->proxy));
        }
    }
    pthread_mutex_unlock(&list_lock);
}

void mscclpp_fabric_await_delivery(mscclpp_fabric_t *fabric)
{
    const double deadline = mscclpp_now() + DELIVERY_SECONDS;

    while (fabric->proxy != NULL && mscclpp_proxy_drain(fabric->proxy) == MSCCLPP_IN_PROGRESS &&
           mscclpp_now() < deadline) {
        sched_yield();
    }
}

/*
 * Closes in the reverse order of use: a remote needs its connection, a connection its transport, and all of them need
 * the memory. Any part may be missing.
 */
void mscclpp_fabric_close_transport(mscclpp_fabric_t *fabric)
{
    int i;

    mscclpp_fabric_unequip(fabric);
    fabric->linked = 0;
    for (i = 0; i < fabric->nodes.count; ++i) {
        if (fabric->node[i].remote != NULL) {
            fabric->ops->remote_destroy(fabric->node[i].remote);
        }
        if (fabric->node[i].conn != NULL) {
            fabric->ops->conn_destroy(fabric->node[i].conn);
        }
        fabric->node[i].remote = NULL;
        fabric->node[i].conn = NULL;
    }
    if (fabric->region != NULL) {
        fabric->ops->region_destroy(fabric->region);
        fabric->region = NULL;
    }
    for (i = 0; i < fabric->retired_count; ++i) {
        if (fabric->retired[i].region != NULL) {
            fabric->ops->region_destroy(fabric->retired[i].region);
        }
    }
    if (fabric->transport != NULL) {
        fabric->ops->destroy(fabric->transport);
        fabric->transport = NULL;
    }
    while (fabric->retired_count > 0) {
        mscclpp_fabric_free_memory(fabric, &fabric->retired[--fabric->retired_count].area);
    }
    mscclpp_fabric_free_memory(fabric, &fabric->area);
    mscclpp_fabric_free_memory(fabric, &fabric->tokens);
}

/* Any part of the fabric may be missing. */
void mscclpp_fabric_destroy(mscclpp_fabric_t *fabric)
{
    if (fabric == NULL) {
        return;
    }
    /* Delisted first, so that no other thread's progress uses the memory that is freed below. */
    delist(fabric);
    fabric->group->find_absent = NULL;
    mscclpp_fabric_free_partners(&fabric->ahead);
    mscclpp_fabric_await_delivery(fabric);
    mscclpp_fabric_close_transport(fabric);
    mscclpp_fabric_close_places(fabric);
    mscclpp_nodes_fini(&fabric->nodes);
    free(fabric);
}

void mscclpp_fabric_describe(const mscclpp_fabric_t *fabric, mscclpp_select_input_t *input)
{
    input->nodes = (uint32_t)fabric->nodes.count;
    input->shards = (uint32_t)fabric->nodes.shards;
    input->max_node_ranks = (uint32_t)fabric->nodes.largest_node;
    input->are_nodes_in_order = fabric->nodes.in_order;
    input->hosts_can_meet = fabric->group->ctrl != NULL;
    input->is_one_host = fabric->ops != NULL && fabric->ops->within_host;
    input->transport = fabric->ops != NULL ? fabric->ops->name : NULL;
    input->slot_size = fabric->division.slot_size;
    input->packet_units = fabric->has_packets ? fabric->division.packet_units : 0;
}

void mscclpp_fabric_stop(mscclpp_fabric_t *fabric)
{
    if (fabric->proxy != NULL) {
        mscclpp_proxy_stop(fabric->proxy);
    }
    __atomic_store_n(&fabric->failed, true, __ATOMIC_RELEASE);
}

const mscclpp_loss_t *mscclpp_fabric_loss(const mscclpp_fabric_t *fabric)
{
    return &fabric->loss;
}

void mscclpp_fabric_abandon(mscclpp_fabric_t *fabric)
{
    if (fabric != NULL) {
        delist(fabric);
        mscclpp_fabric_stop(fabric);
    }
}

void mscclpp_fabric_retire(mscclpp_fabric_t *fabric)
{
    mscclpp_fabric_await_delivery(fabric);
    mscclpp_fabric_abandon(fabric);
}

/*
 * Carries out what the kernel has asked the proxy for. The runner calls this function while the kernel runs. If the
 * proxy fails, it tells the kernel to give up, and the call fails with the status returned here. MSCCLPP_IN_PROGRESS
 * says that there is more to do, and is no failure.
 */
static mscclpp_status_t pump(void *context)
{
    const mscclpp_fabric_t *fabric = context;
    mscclpp_status_t status = mscclpp_proxy_progress(fabric->proxy);

    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/*
 * Waits, up to the call's deadline, until the network has taken all pushed data. Peers wait for this data, and this
 * rank may not call the library again for a long time.
 *
 * The data need not have arrived: the protocol of the kernels determines when the source may be overwritten, and a loss
 * breaks the connection, which the next call reports. `bytes` is the size of the message, for log lines about late
 * ranks. Returns the failure of the proxy, or the reason why the wait ended: the deadline, or another rank's failure.
 */
static mscclpp_status_t hand_over(mscclpp_fabric_t *fabric, uint64_t bytes)
{
    mscclpp_group_wait_t wait;
    mscclpp_status_t status;

    mscclpp_group_wait_init(&wait, fabric->group, "delivery to other nodes", bytes);
    while ((status = mscclpp_proxy_hand_over(fabric->proxy)) == MSCCLPP_IN_PROGRESS) {
        status = mscclpp_group_wait_turn(&wait);
        if (status != MSCCLPP_OK) {
            return status;
        }
    }
    mscclpp_group_wait_end(&wait);
    return status;
}

/*
 * Fills in the arguments of kernels between nodes, except for the pattern. `args` are the arguments that all kernels
 * have.
 */
static void fill_args(const mscclpp_fabric_t *fabric, const mscclpp_dev_args_t *args,
                      mscclpp_dev_nodes_args_t *kernel_args)
{
    kernel_args->common = *args;
    kernel_args->channels = fabric->channels;
    kernel_args->node_channels = MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count);
    kernel_args->exchange = fabric->area.device;
    kernel_args->exchanged = fabric->exchanged;
    kernel_args->sparse = fabric->sparse;
    kernel_args->slot_size = fabric->division.slot_size;
    kernel_args->packets_offset = fabric->packets_offset;
    kernel_args->packet_units = fabric->division.packet_units;
    kernel_args->node = (uint32_t)fabric->nodes.node;
    kernel_args->nnodes = (uint32_t)fabric->nodes.count;
    kernel_args->shards = (uint32_t)fabric->nodes.shards;
    kernel_args->largest_node = (uint32_t)fabric->nodes.largest_node;
    kernel_args->fanout = (uint32_t)fabric->config.nodes_fanout;
    kernel_args->doubling = fabric->doubling.kernel;
    kernel_args->halving = fabric->halving.kernel;
    kernel_args->is_mapped = fabric->is_mapped;
    memcpy(kernel_args->mapped, fabric->mapped, sizeof(kernel_args->mapped));
}

/* Counts the tiles of all blocks, for an all-reduce without packets. Must agree with the kernel (count_exchanges). */
static uint64_t count_tiles(const mscclpp_fabric_t *fabric, const mscclpp_choice_t *choice,
                            const mscclpp_dev_args_t *args)
{
    const uint32_t pattern = choice->algo->pattern, nodes = (uint32_t)fabric->nodes.count;
    const uint64_t shards = (uint64_t)fabric->nodes.shards;
    const uint64_t message_units = (args->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    const uint64_t shard_units = (message_units + shards - 1) / shards;
    const uint64_t largest_tile =
        MSCCLPP_DEV_NODES_TILE(args->bulk_size, choice->nblocks, shards,
                               MSCCLPP_DEV_NODES_ROOM(pattern, nodes, fabric->division.slot_size,
                                                      fabric->halving.kernel.parts, fabric->halving.kernel.places));
    const uint64_t tile_units = MSCCLPP_DEV_NODES_EVEN_TILE(shard_units, choice->nblocks, largest_tile);

    return (shard_units + tile_units - 1) / tile_units;
}

/*
 * Notes the blocks and tiles of an all-reduce over trees, as mscclpp_fabric_run_coll does for other collectives: the
 * number of signals from a node depends on them. Does nothing for other patterns.
 */
static void note_trees(mscclpp_fabric_t *fabric, const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args)
{
    if (choice->algo->pattern == MSCCLPP_DEV_NODES_TREES) {
        fabric->pattern = MSCCLPP_DEV_NODES_TREES;
        fabric->coll_tiles = count_tiles(fabric, choice, args);
        fabric->coll_blocks = choice->nblocks;
        fabric->trees =
            (mscclpp_dev_tree_place_t){.nnodes = (uint32_t)fabric->nodes.count, .node = (uint32_t)fabric->nodes.node};
    }
}

/*
 * Adds the signals that this all-reduce receives from each node to the signals of earlier calls. An all-reduce by
 * packets receives none. The numbers of tiles and signals must be those that the kernel has used: a later long wait
 * assumes that every further signal belongs to its own call (view.c).
 */
static void count_exchanges(mscclpp_fabric_t *fabric, const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args)
{
    const uint32_t pattern = choice->algo->pattern, nodes = (uint32_t)fabric->nodes.count;
    const mscclpp_fabric_steps_t *steps = mscclpp_fabric_steps(fabric, pattern);
    const uint64_t tiles = choice->epochs == 0 ? count_tiles(fabric, choice, args) : 0;
    uint32_t node;

    for (node = 0; node < nodes && choice->epochs == 0; ++node) {
        fabric->node[node].exchanges +=
            pattern == MSCCLPP_DEV_NODES_TREES ? mscclpp_fabric_count_signals(fabric, node)
            : steps != NULL                    ? tiles * mscclpp_fabric_count_messages(steps, node)
                            : MSCCLPP_DEV_NODES_SIGNALS(pattern, nodes, (uint32_t)fabric->nodes.node, node, tiles, 1);
    }
}

/*
 * Queues a kernel that no host waits for. The proxy's thread serves it until it ends. The proxy is told first, with the
 * number that the kernel will get as the runner's next launch. Once a graph may repeat a kernel, the host does not know
 * any more when one begins, and the thread has to look for itself. After an error of the proxy nothing is queued.
 */
static mscclpp_status_t enqueue(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                const mscclpp_dev_launch_t *launch, const char *operation_name)
{
    mscclpp_status_t status =
        fabric->runner->is_recording
            ? mscclpp_proxy_watch(fabric->proxy)
            : mscclpp_proxy_begin_launch(fabric->proxy, fabric->runner->launches + 1, launch->nblocks);

    return status == MSCCLPP_OK ? mscclpp_runner_launch(fabric->runner, stream, launch, operation_name) : status;
}

/*
 * Waits until the kernel has ended and the network has taken its data. `operation_name` and `bytes`, the size of the
 * call, are for log lines about late ranks. Sets `in_call`, which the caller must clear, also after an error. After an
 * error, the caller also stops the proxy, which drops the data that has not been sent.
 *
 * A call in a fiber gets the proxy's thread, because the application may make no progress for a long time. It may also
 * free memory meanwhile, which waits for the kernel, while the kernel would wait for this very thread.
 */
static mscclpp_status_t run_with_proxy(mscclpp_fabric_t *fabric, const mscclpp_dev_launch_t *launch,
                                       const char *operation_name, uint64_t bytes)
{
    mscclpp_status_t status = mscclpp_fiber_inside() ? mscclpp_proxy_start(fabric->proxy) : MSCCLPP_OK;

    if (status != MSCCLPP_OK) {
        return status;
    }
    __atomic_store_n(&fabric->in_call, true, __ATOMIC_RELEASE);
    mscclpp_proxy_begin(fabric->proxy);
    fabric->runner->pump = pump;
    fabric->runner->pump_context = fabric;
    status = mscclpp_runner_launch(fabric->runner, NULL, launch, operation_name);
    fabric->runner->pump = NULL;
    if (status == MSCCLPP_OK) {
        status = hand_over(fabric, bytes);
    }
    mscclpp_proxy_end(fabric->proxy);
    return status;
}

/*
 * Runs a call's kernel, and the proxy that serves it. A rank that owns no shard exchanges nothing with other nodes, so
 * it needs no proxy. The facts about the call that are stored in the fabric are only for long waits: by them, the nodes
 * that have sent nothing are found (view.c). An error breaks the team.
 */
mscclpp_status_t mscclpp_fabric_run(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                    const mscclpp_choice_t *choice, const mscclpp_dev_args_t *args)
{
    /*
     * A kernel that stores packets itself needs no proxy. mscclpp_fabric_progress_all completes the data of earlier
     * calls.
     */
    const bool stores_packets = fabric->is_mapped && choice->epochs != 0;
    mscclpp_dev_nodes_args_t kernel_args;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status;

    status = mscclpp_fabric_link_for_call(fabric, mscclpp_fabric_links_of(choice->algo));
    if (status != MSCCLPP_OK) {
        return status;
    }
    memset(&kernel_args, 0, sizeof(kernel_args));
    fill_args(fabric, args, &kernel_args);
    kernel_args.pattern = choice->algo->pattern;
    fabric->sparse_used = choice->epochs != 0 ? 0 : fabric->sparse_used;
    launch.kernel = choice->kernel;
    launch.nblocks = choice->nblocks;
    launch.nthreads = choice->nthreads;
    launch.args = &kernel_args;
    if (!fabric->is_owner || (stream != NULL && stores_packets)) {
        return mscclpp_runner_launch(fabric->runner, stream, &launch, choice->algo->name);
    }
    note_trees(fabric, choice, args);
    if (stream != NULL) {
        status = enqueue(fabric, stream, &launch, choice->algo->name);
        count_exchanges(fabric, choice, args);
        fabric->coll_tiles = 0;
        return status;
    }
    ++fabric->calls;
    fabric->first_flag = choice->epochs == 0 ? 0 : (uint32_t)(fabric->runner->epochs - choice->epochs) + 1;
    fabric->pattern = choice->algo->pattern;
    fabric->rounds.radix = 0;
    if (stores_packets) {
        status = mscclpp_runner_launch(fabric->runner, NULL, &launch, choice->algo->name);
    } else {
        status = run_with_proxy(fabric, &launch, choice->algo->name, args->bytes);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_proxy_stop(fabric->proxy);
    }
    /* No rank of another node is late any more. */
    mscclpp_board_store(&fabric->group->board[fabric->group->rank].absent, 0);
    count_exchanges(fabric, choice, args);
    fabric->coll_tiles = 0; /* only now: the count above needs it */
    __atomic_store_n(&fabric->in_call, false, __ATOMIC_RELEASE);
    return status;
}

/*
 * Stores in which rounds the call's packets are sent, if they are. Kernels find out the same. With many nodes, a call
 * with a root is sparse if there are places for it, and then takes them: device/kern/coll/nodes_rounds.h says when they
 * are free again. All ranks decide in the same way, since all take part in all calls.
 */
static void note_rounds(mscclpp_fabric_t *fabric, mscclpp_dev_coll_nodes_args_t *args)
{
    const uint64_t units = (args->nodes.common.bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    const uint32_t shards = (uint32_t)fabric->nodes.shards;
    const bool prefixes = args->prefixes != 0;
    uint64_t needed;

    fabric->rounds = (mscclpp_dev_rounds_t){
        .nnodes = (uint32_t)fabric->nodes.count,
        .radix = args->radix,
        .node = (uint32_t)fabric->nodes.node,
        .root = MSCCLPP_DEV_COLL_ROOTED(args->pattern) ? (uint32_t)fabric->nodes.node_of[args->root] : 0,
        .pattern = MSCCLPP_DEV_COLL_ROUNDS_PATTERN(args->pattern, prefixes),
        .rounds = args->radix != 0 ? mscclpp_dev_rounds_count((uint32_t)fabric->nodes.count, args->radix) : 0};
    fabric->pitch =
        units * MSCCLPP_DEV_COLL_ROUNDS_BLOCKS(args->pattern, prefixes, (uint32_t)fabric->nodes.largest_node, shards);
    needed = mscclpp_dev_rounds_count_places(&fabric->rounds) * fabric->pitch;
    fabric->is_sparse = args->radix != 0 && MSCCLPP_DEV_COLL_ROOTED(args->pattern) &&
                        fabric->sparse_used + needed <= fabric->division.sparse_units;
    args->sparse = fabric->is_sparse;
    fabric->first_place =
        MSCCLPP_DEV_NODES_PACKET_SLOTS(fabric->nodes.count) * fabric->division.packet_units + fabric->sparse_used;
    if (args->tile == 0) {
        fabric->sparse_used = fabric->is_sparse ? fabric->sparse_used + needed : 0;
    }
}

/* Ranks that own no shard exchange nothing with other nodes, so they only run the kernel. An error breaks the team. */
mscclpp_status_t mscclpp_fabric_run_coll(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                         mscclpp_dev_launch_t *launch, mscclpp_dev_coll_nodes_args_t *args,
                                         uint64_t tiles, const char *operation_name)
{
    const mscclpp_dev_args_t common = args->nodes.common;
    /*
     * Kinds of links are also numbered by the radix of rounds. The radix is 0 for calls without rounds of packets.
     * Neighbours in the trees and partners in halving are powers of 2 apart, as partners in rounds with radix 2 are.
     */
    const mscclpp_fabric_links_t links = args->nodes.pattern == MSCCLPP_DEV_NODES_RING      ? MSCCLPP_FABRIC_RING
                                         : args->nodes.pattern == MSCCLPP_DEV_NODES_TREES   ? 2
                                         : args->nodes.pattern == MSCCLPP_DEV_NODES_HALVING ? 2
                                         : args->radix != 0                                 ? args->radix
                                                                                            : MSCCLPP_FABRIC_ALL;
    mscclpp_status_t status = mscclpp_fabric_link_for_call(fabric, links);
    uint32_t node;

    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_fill_places(fabric, args);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    fill_args(fabric, &common, &args->nodes);
    note_rounds(fabric, args);
    launch->args = args;
    if (!fabric->is_owner) {
        return mscclpp_runner_launch(fabric->runner, stream, launch, operation_name);
    }
    if (stream != NULL) {
        return enqueue(fabric, stream, launch, operation_name);
    }
    ++fabric->calls;
    fabric->first_flag = tiles == 0 ? (uint32_t)fabric->runner->epochs : 0;
    fabric->pattern = args->nodes.pattern;
    fabric->coll_tiles = tiles;
    fabric->coll_blocks = launch->nblocks;
    fabric->trees = (mscclpp_dev_tree_place_t){.nnodes = (uint32_t)fabric->nodes.count,
                                               .node = (uint32_t)fabric->nodes.node,
                                               .root = (uint32_t)fabric->nodes.node_of[args->root]};
    /* If the owners take turns to send, the flag determines whose turn it is. */
    fabric->carries = !MSCCLPP_DEV_COLL_ROUNDS_BY_ONE(args->pattern, args->prefixes != 0) ||
                      fabric->first_flag % (uint32_t)fabric->nodes.shards == (uint32_t)fabric->nodes.rank;
    status = run_with_proxy(fabric, launch, operation_name, args->largest_block);
    if (status != MSCCLPP_OK) {
        mscclpp_proxy_stop(fabric->proxy);
    }
    mscclpp_board_store(&fabric->group->board[fabric->group->rank].absent, 0);
    for (node = 0; node < (uint32_t)fabric->nodes.count && tiles > 0; ++node) { /* packets bring no signals */
        fabric->node[node].exchanges += mscclpp_fabric_count_signals(fabric, node);
    }
    fabric->coll_tiles = 0; /* only now: the count above needs it */
    __atomic_store_n(&fabric->in_call, false, __ATOMIC_RELEASE);
    return status;
}

/*
 * Runs a kernel that uses channels of its own. The fabric's tokens do not count the signals of such a call. So while
 * is_joined is set, mscclpp_fabric_absent names no ranks. An error breaks the team.
 */
mscclpp_status_t mscclpp_fabric_run_joined(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream,
                                           const mscclpp_dev_launch_t *launch, uint64_t bytes,
                                           const char *operation_name)
{
    mscclpp_status_t status;

    if (stream != NULL) {
        return enqueue(fabric, stream, launch, operation_name);
    }
    ++fabric->calls;
    fabric->is_joined = true;
    status = run_with_proxy(fabric, launch, operation_name, bytes);
    if (status != MSCCLPP_OK) {
        mscclpp_proxy_stop(fabric->proxy);
    }
    fabric->is_joined = false;
    mscclpp_board_store(&fabric->group->board[fabric->group->rank].absent, 0);
    __atomic_store_n(&fabric->in_call, false, __ATOMIC_RELEASE);
    return status;
}

/*
 * Makes the ranks meet by a small all-reduce, in place on the packet area of the scratch. When flags are renewed, this
 * area is zero, so the sum of zeros does not change it. Queued kernels over several nodes do not use the area. An error
 * breaks the team.
 */
mscclpp_status_t mscclpp_fabric_meet(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                     mscclpp_gpu_stream_t *stream)
{
    mscclpp_select_input_t input;
    mscclpp_dev_args_t args;
    mscclpp_choice_t choice;
    mscclpp_status_t status;

    memset(&input, 0, sizeof(input));
    mscclpp_fabric_describe(fabric, &input);
    mscclpp_runner_fill_args(fabric->runner, &args);
    args.in = args.out = args.scratch[args.rank] + MSCCLPP_DEV_PACKET_OFFSET;
    args.bytes = sizeof(uint32_t);
    args.dtype = MSCCLPP_DTYPE_UINT32;
    args.op = MSCCLPP_OP_SUM;
    args.epoch_limit = fabric->runner->serves_queue ? (uint32_t)protocol->epoch_limit : 0;
    input.bytes = args.bytes;
    input.dtype = MSCCLPP_DTYPE_UINT32;
    input.nranks = args.nranks;
    input.on_twin = fabric->group->on_twin;
    input.block_limit = fabric->runner->serves_queue ? fabric->runner->queue_blocks : fabric->runner->block_limit;
    input.protocol = protocol;
    input.layout = &fabric->runner->layout;
    status = mscclpp_select_meeting(&input, &choice);
    return status == MSCCLPP_OK ? mscclpp_fabric_run(fabric, stream, &choice, &args) : status;
}

/* Ranks that own no shard have no packets to clear, but take part in both meetings. An error breaks the team. */
mscclpp_status_t mscclpp_fabric_renew(mscclpp_fabric_t *fabric, const mscclpp_protocol_t *protocol,
                                      mscclpp_gpu_stream_t *stream)
{
    /* Packets are not ordered with other data. Only a signal after them shows that no put of packets is in flight. */
    mscclpp_status_t status = mscclpp_fabric_meet(fabric, protocol, NULL);

    if (status == MSCCLPP_OK && fabric->is_owner) {
        status = mscclpp_gpu_clear(fabric->gpu, stream, (char *)fabric->area.host + fabric->packets_offset,
                                   fabric->area_size - fabric->packets_offset);
        status = status == MSCCLPP_OK ? fabric->gpu->stream_sync(stream) : status;
    }
    /* No rank may send packets with new flags before all have cleared the old ones. */
    return status == MSCCLPP_OK ? mscclpp_fabric_meet(fabric, protocol, NULL) : status;
}
