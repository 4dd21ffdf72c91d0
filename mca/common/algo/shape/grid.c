/*
 * Computes the numbers of blocks and threads of a kernel from its work, the parameters, and the number of blocks that
 * the GPU can run at once.
 */
#include "mca/common/algo/algo.h"

/* Threads of a warp. */
#define WARP 32u

/* Threads of a block where neither the parameters nor a small grid ask for fewer. */
#define DEFAULT_THREADS MSCCLPP_DEV_MAX_THREADS

/*
 * Grids of many small blocks, for packets. One multiprocessor fills only a part of the links, so many small blocks on
 * many multiprocessors are faster than few large ones. This holds once there are more units than one block sends in the
 * time of a barrier with other blocks.
 */
#define SMALL_UNITS 256u
#define SMALL_BLOCK_THREADS 128u

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Chooses the number of threads of a block, and then the number of blocks, so that each thread has at least one unit.
 * On the twin, the parameters twin_threads and twin_blocks replace the built-in numbers. Without any units, the grid
 * has one block. Returns false only if `capacity` is less than the smallest block.
 */
bool mscclpp_algo_grid(const mscclpp_select_input_t *input, uint64_t units, uint32_t wanted_blocks, uint64_t capacity,
                       bool small_blocks, mscclpp_choice_t *choice)
{
    const mscclpp_protocol_t *protocol = input->protocol;
    uint64_t threads = protocol->max_threads != 0 ? protocol->max_threads : DEFAULT_THREADS;
    uint64_t units_per_block = units <= SMALL_UNITS ? SMALL_UNITS : (units + wanted_blocks - 1) / wanted_blocks;
    uint64_t blocks = protocol->max_blocks != 0 ? protocol->max_blocks : wanted_blocks;
    uint64_t thread_step = input->on_twin ? 1 : WARP; /* blocks have a multiple of this many threads */

    if (protocol->max_threads == 0 && small_blocks) {
        threads = units_per_block > SMALL_BLOCK_THREADS || units <= SMALL_UNITS ? units_per_block : SMALL_BLOCK_THREADS;
        threads = smaller_of((threads + WARP - 1) / WARP * WARP, DEFAULT_THREADS);
    }
    if (input->on_twin) {
        threads = protocol->twin_threads;
        blocks = protocol->twin_blocks;
    }
    threads = threads < thread_step ? thread_step : threads;
    if (capacity != 0) {
        threads = smaller_of(threads, capacity);
    }
    if (threads < thread_step) {
        return false;
    }
    threads = smaller_of(threads / thread_step * thread_step, DEFAULT_THREADS);
    if (!input->on_twin) {
        /* No more threads than units. On the twin, the parameter twin_threads alone decides. */
        threads = smaller_of(threads, (units + thread_step - 1) / thread_step * thread_step);
    }
    if (threads == 0) { /* there are no units */
        threads = thread_step;
    }
    blocks = smaller_of(blocks, (units + threads - 1) / threads);
    if (capacity != 0) {
        blocks = smaller_of(blocks, capacity / threads);
    }
    if (input->block_limit != 0) {
        blocks = smaller_of(blocks, input->block_limit);
    }
    blocks = smaller_of(blocks, MSCCLPP_DEV_MAX_BLOCKS);
    choice->nthreads = (uint32_t)threads;
    choice->nblocks = blocks == 0 ? 1 : (uint32_t)blocks;
    return true;
}
