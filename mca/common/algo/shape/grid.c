#include "mca/common/algo/algo.h"

#define WARP 32u
#define DEFAULT_THREADS MSCCLPP_DEV_MAX_THREADS

/*
 * Fine grids, for packets. One multiprocessor fills only a part of the links, so many small blocks on many
 * multiprocessors are faster. This holds once there are more units than one block sends in the time of a barrier with
 * other blocks.
 */
#define SMALL_UNITS 256u
#define FINE_THREADS 128u

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool mscclpp_algo_grid(const mscclpp_select_input_t *input, uint64_t units, uint32_t wanted, uint64_t capacity,
                       bool fine, mscclpp_choice_t *choice)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    uint64_t threads = protocol->max_threads != 0 ? protocol->max_threads : DEFAULT_THREADS;
    uint64_t spread = units <= SMALL_UNITS ? SMALL_UNITS : (units + wanted - 1) / wanted;
    uint64_t blocks = protocol->max_blocks != 0 ? protocol->max_blocks : wanted;
    uint64_t grain = input->on_twin ? 1 : WARP;

    if (protocol->max_threads == 0 && fine) {
        threads = spread > FINE_THREADS || units <= SMALL_UNITS ? spread : FINE_THREADS;
        threads = at_most((threads + WARP - 1) / WARP * WARP, DEFAULT_THREADS);
    }
    if (input->on_twin) {
        threads = protocol->twin_threads;
        blocks = protocol->twin_blocks;
    }
    threads = threads < grain ? grain : threads;
    if (capacity != 0) {
        threads = at_most(threads, capacity);
    }
    if (threads < grain) {
        return false;
    }
    threads = at_most(threads / grain * grain, DEFAULT_THREADS);
    if (!input->on_twin) {
        threads = at_most(threads, (units + grain - 1) / grain * grain);
    }
    if (threads == 0) {
        threads = grain;
    }
    blocks = at_most(blocks, (units + threads - 1) / threads);
    if (capacity != 0) {
        blocks = at_most(blocks, capacity / threads);
    }
    if (input->block_limit != 0) {
        blocks = at_most(blocks, input->block_limit);
    }
    blocks = at_most(blocks, MSCCLPP_DEV_MAX_BLOCKS);
    choice->nthreads = (uint32_t)threads;
    choice->nblocks = blocks == 0 ? 1 : (uint32_t)blocks;
    return true;
}
