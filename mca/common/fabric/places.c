/*
 * Lists that have an entry for each rank of the communicator, for kernels of collectives other than all-reduce: where
 * each rank is, and the blocks of the current call if these differ. One allocation in device memory.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/base/log.h"
#include "mca/common/gpu/pool.h"

/*
 * Return where the lists begin in the allocation: the blocks sent and received, the places of ranks, the ranks by node,
 * and where each node begins among these. Blocks come first, because their alignment is the largest.
 */
static mscclpp_dev_block_t *blocks_in(void *memory)
{
    return memory;
}

static mscclpp_dev_place_t *places_in(void *memory, size_t ranks)
{
    return (mscclpp_dev_place_t *)(void *)(blocks_in(memory) + 2 * ranks);
}

static uint32_t *members_in(void *memory, size_t ranks)
{
    return (uint32_t *)(void *)(places_in(memory, ranks) + ranks);
}

static uint32_t *begin_in(void *memory, size_t ranks)
{
    return members_in(memory, ranks) + ranks;
}

/*
 * Fills in the lists that are the same in all calls: all lists except the blocks. `memory` must be zeroed. The first
 * loop visits the ranks in ascending order. So the index of a rank within its node is the number of its node's ranks so
 * far.
 *
 * Both numbers of a place fit in 16 bits, because the set-up refuses more than MSCCLPP_DEV_NODES_MAX nodes, and more
 * than MSCCLPP_DEV_MAX_RANKS ranks of a node.
 */
static void fill_fixed_part(const mscclpp_nodes_t *nodes, size_t ranks, void *memory)
{
    mscclpp_dev_place_t *places = places_in(memory, ranks);
    uint32_t *members = members_in(memory, ranks), *begin = begin_in(memory, ranks);
    size_t rank;
    int node;

    /* At first, begin[n + 1] counts the ranks of node n. */
    for (rank = 0; rank < ranks; ++rank) {
        uint32_t *size = &begin[nodes->node_of[rank] + 1];

        places[rank].node = (uint16_t)nodes->node_of[rank];
        places[rank].index = (uint16_t)(*size)++;
    }
    for (node = 0; node < nodes->count; ++node) {
        begin[node + 1] += begin[node];
    }
    for (rank = 0; rank < ranks; ++rank) {
        members[begin[places[rank].node] + places[rank].index] = (uint32_t)rank;
    }
}

/*
 * All lists are one allocation. The blocks at its start are zero until a call copies blocks there
 * (mscclpp_fabric_fill_places). mscclpp_fabric_close_places frees the memory.
 */
mscclpp_status_t mscclpp_fabric_open_places(mscclpp_fabric_t *fabric)
{
    const size_t ranks = (size_t)fabric->group->oob.size, nodes = (size_t)fabric->nodes.count;
    const size_t size = ranks * (2 * sizeof(mscclpp_dev_block_t) + sizeof(mscclpp_dev_place_t) + sizeof(uint32_t)) +
                        (nodes + 1) * sizeof(uint32_t);
    mscclpp_status_t status;
    void *memory, *lists;

    lists = calloc(1, size);
    if (lists == NULL) {
        mscclpp_error("%s: no memory for %zu bytes", fabric->label, size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    fill_fixed_part(&fabric->nodes, ranks, lists);
    status = mscclpp_runner_take_stream(fabric->runner);
    if (status == MSCCLPP_OK) {
        status = mscclpp_pool_alloc(fabric->gpu, fabric->device, fabric->runner->stream, size, &memory);
    }
    if (status == MSCCLPP_OK) {
        fabric->places = memory;
        status = fabric->gpu->copy(fabric->runner->stream, fabric->places, lists, size);
    }
    status = status == MSCCLPP_OK ? fabric->gpu->stream_sync(fabric->runner->stream) : status;
    free(lists);
    return status;
}

void mscclpp_fabric_close_places(mscclpp_fabric_t *fabric)
{
    if (fabric->places != NULL) {
        mscclpp_pool_free(fabric->gpu, fabric->device, fabric->places);
    }
    free(fabric->lists);
    fabric->places = fabric->lists = NULL;
}

/*
 * The received blocks follow the sent blocks, as in device memory, so that a single copy transfers both
 * (mscclpp_fabric_fill_places).
 */
mscclpp_status_t mscclpp_fabric_lists(mscclpp_fabric_t *fabric, mscclpp_dev_block_t **send_p,
                                      mscclpp_dev_block_t **recv_p)
{
    const size_t ranks = (size_t)fabric->group->oob.size;

    if (fabric->lists == NULL) {
        fabric->lists = calloc(2 * ranks, sizeof(mscclpp_dev_block_t));
    }
    if (fabric->lists == NULL) {
        mscclpp_error("%s: no memory for the blocks of %zu ranks", fabric->label, ranks);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *send_p = blocks_in(fabric->lists);
    *recv_p = *send_p + ranks;
    return MSCCLPP_OK;
}

/* Copies the blocks only if kernels read them, which is so if blocks differ in size. */
mscclpp_status_t mscclpp_fabric_fill_places(mscclpp_fabric_t *fabric, mscclpp_dev_coll_nodes_args_t *args)
{
    const size_t ranks = (size_t)fabric->group->oob.size;
    mscclpp_status_t status = MSCCLPP_OK;

    args->rank = (uint32_t)fabric->group->oob.rank;
    args->nranks = (uint32_t)ranks;
    args->place = places_in(fabric->places, ranks);
    args->members = members_in(fabric->places, ranks);
    args->begin = begin_in(fabric->places, ranks);
    args->send = blocks_in(fabric->places);
    args->recv = args->send + ranks;
    /*
     * The kernel is in the same stream, so it runs after the copy. The host may change the lists when the call has
     * ended.
     */
    if (args->varied != 0) {
        status = mscclpp_runner_take_stream(fabric->runner);
        if (status == MSCCLPP_OK) {
            status = fabric->gpu->copy(fabric->runner->stream, blocks_in(fabric->places), blocks_in(fabric->lists),
                                       2 * ranks * sizeof(mscclpp_dev_block_t));
        }
    }
    return status;
}
