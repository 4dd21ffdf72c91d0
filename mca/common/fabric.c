/* Life and calls of the fabric; fabric_setup.c makes it. */
#include "mca/common/fabric.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric_internal.h"
#include "mca/common/log.h"
#include "mca/common/team_internal.h"

/* All of the process. The lock is held while they are served, so none of them ends meanwhile. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_fabric_t *list_first;

void mscclpp_fabric_enlist(mscclpp_fabric_t *fabric)
{
    pthread_mutex_lock(&list_lock);
    fabric->next = list_first;
    fabric->link = &list_first;
    if (fabric->next != NULL) {
        fabric->next->link = &fabric->next;
    }
    list_first = fabric;
    pthread_mutex_unlock(&list_lock);
}

static void delist(mscclpp_fabric_t *fabric)
{
    pthread_mutex_lock(&list_lock);
    if (fabric->link != NULL) {
        *fabric->link = fabric->next;
        if (fabric->next != NULL) {
            fabric->next->link = fabric->link;
        }
        fabric->link = NULL;
    }
    pthread_mutex_unlock(&list_lock);
}

void mscclpp_fabric_progress_all(void)
{
    mscclpp_fabric_t *fabric;

    /* Another thread serves them all just as well. */
    if (__atomic_load_n(&list_first, __ATOMIC_RELAXED) == NULL || pthread_mutex_trylock(&list_lock) != 0) {
        return;
    }
    for (fabric = list_first; fabric != NULL; fabric = fabric->next) {
        /*
         * Whoever is in a call looks after it. Between calls peers may still wait for answers that only this process
         * can give. A failure is kept for the next call.
         */
        if (!__atomic_load_n(&fabric->in_call, __ATOMIC_ACQUIRE)) {
            (void)mscclpp_proxy_drain(fabric->proxy);
        }
    }
    pthread_mutex_unlock(&list_lock);
}

void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory)
{
    if (memory->host != NULL && memory->on_device) {
        fabric->gpu->device_free(fabric->device, memory->host);
    } else if (memory->host != NULL) {
        fabric->gpu->host_free(memory->host);
    }
    memory->host = NULL;
    memory->device = NULL;
}

void mscclpp_fabric_destroy(mscclpp_fabric_t *fabric)
{
    int i;

    if (fabric == NULL) {
        return;
    }
    delist(fabric);
    mscclpp_proxy_destroy(fabric->proxy);
    for (i = 0; i < fabric->nodes.count; ++i) {
        if (fabric->remotes[i] != NULL) {
            fabric->ops->remote_destroy(fabric->remotes[i]);
        }
        if (fabric->conns[i] != NULL) {
            fabric->ops->conn_destroy(fabric->conns[i]);
        }
    }
    if (fabric->region != NULL) {
        fabric->ops->region_destroy(fabric->region);
    }
    if (fabric->transport != NULL) {
        fabric->ops->destroy(fabric->transport);
    }
    mscclpp_fabric_free_memory(fabric, &fabric->area);
    mscclpp_fabric_free_memory(fabric, &fabric->tokens);
    if (fabric->state != NULL) {
        fabric->gpu->device_free(fabric->device, fabric->state);
    }
    free(fabric);
}

void mscclpp_fabric_describe(const mscclpp_fabric_t *fabric, mscclpp_select_input_t *input)
{
    input->nodes = (uint32_t)fabric->nodes.count;
    input->shards = (uint32_t)fabric->nodes.shards;
    input->slot_size = fabric->slot_size;
}

void mscclpp_fabric_stop(mscclpp_fabric_t *fabric)
{
    if (fabric->proxy != NULL) {
        mscclpp_proxy_stop(fabric->proxy);
    }
}

void mscclpp_fabric_abandon(mscclpp_fabric_t *fabric)
{
    if (fabric != NULL) {
        delist(fabric);
        mscclpp_fabric_stop(fabric);
    }
}

/* How many signals have come from a node, where the CPU can tell. */
static uint64_t count_signals(const mscclpp_fabric_t *fabric, int node)
{
    const uint64_t *tokens = fabric->tokens.host;
    uint64_t sum = 0;
    uint32_t block;

    for (block = 0; block < MSCCLPP_DEV_NODES_BLOCKS; ++block) {
        sum += __atomic_load_n(&tokens[MSCCLPP_DEV_NODES_NUMBER((uint32_t)fabric->nodes.count, block, (uint32_t)node)],
                               __ATOMIC_RELAXED);
    }
    return sum;
}

uint64_t mscclpp_fabric_absent(const mscclpp_fabric_t *fabric)
{
    uint64_t absent = 0;
    int node;

    for (node = 0; node < fabric->nodes.count && fabric->owner && !fabric->tokens.on_device; ++node) {
        if (node != fabric->nodes.node && count_signals(fabric, node) <= fabric->exchanges) {
            absent |= (uint64_t)1 << fabric->nodes.owners[node];
        }
    }
    return absent;
}

/* The proxy's own failure tells the kernel; here it becomes that of the call. */
static mscclpp_status_t pump(mscclpp_team_t *team)
{
    mscclpp_status_t status = mscclpp_proxy_progress(team->fabric->proxy);

    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/*
 * The peers wait for what has been pushed, and this rank may not come back to the library for a long time. Transports
 * that answer by the receiver's CPU get their answers while the receivers are in this call, or in another one of the
 * runtime.
 */
static mscclpp_status_t drain(mscclpp_team_t *team, uint64_t bytes)
{
    mscclpp_team_wait_t wait;
    mscclpp_status_t status;

    mscclpp_team_wait_init(&wait, team, "delivery to other nodes", bytes);
    while ((status = mscclpp_proxy_drain(team->fabric->proxy)) == MSCCLPP_IN_PROGRESS) {
        status = mscclpp_team_wait_turn(&wait);
        if (status != MSCCLPP_OK) {
            return status;
        }
    }
    return status;
}

mscclpp_status_t mscclpp_fabric_run(mscclpp_team_t *team, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args)
{
    mscclpp_fabric_t *fabric = team->fabric;
    mscclpp_dev_nodes_args_t kernel_args;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status;
    uint64_t shard, tile;

    kernel_args.common = *args;
    kernel_args.channels = fabric->channels;
    kernel_args.exchange = fabric->area.device;
    kernel_args.exchanged = fabric->exchanged;
    kernel_args.slot_size = fabric->slot_size;
    kernel_args.node = (uint32_t)fabric->nodes.node;
    kernel_args.nnodes = (uint32_t)fabric->nodes.count;
    kernel_args.shards = (uint32_t)fabric->nodes.shards;
    launch.kernel = choice->kernel;
    launch.nblocks = choice->nblocks;
    launch.nthreads = choice->nthreads;
    launch.args = &kernel_args;
    if (!fabric->owner) {
        return mscclpp_team_launch(team, NULL, &launch, choice->algo->name);
    }
    __atomic_store_n(&fabric->in_call, true, __ATOMIC_RELEASE);
    mscclpp_proxy_begin(fabric->proxy);
    team->pump = pump;
    status = mscclpp_team_launch(team, NULL, &launch, choice->algo->name);
    team->pump = NULL;
    if (status == MSCCLPP_OK) {
        status = drain(team, args->bytes);
    } else {
        mscclpp_proxy_stop(fabric->proxy);
    }
    mscclpp_proxy_end(fabric->proxy);
    mscclpp_control_store(&team->control[team->rank].absent, 0);
    shard = ((args->bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT + kernel_args.shards - 1) / kernel_args.shards;
    tile = MSCCLPP_DEV_NODES_TILE(args->bulk_size, launch.nblocks, kernel_args.shards, fabric->slot_size);
    fabric->exchanges += (shard + tile - 1) / tile;
    __atomic_store_n(&fabric->in_call, false, __ATOMIC_RELEASE);
    return status;
}
