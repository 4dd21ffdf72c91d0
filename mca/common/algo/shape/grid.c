/*
 * Computes the numbers of blocks and threads of a kernel from its work, the parameters, and the number of blocks that
 * the GPU can run at once.
 */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

/* Threads of a warp. A block on a GPU has a multiple of this number of threads. */
#define WARP 32u

/* Threads of a block where neither the parameters nor a small grid ask for fewer. */
#define DEFAULT_THREADS MSCCLPP_DEV_MAX_THREADS

/*
 * Sizes of small blocks. One multiprocessor fills only a part of the links, so many small blocks on many
 * multiprocessors send packets faster than few large blocks do. This holds from SMALL_UNITS units on. One block sends
 * fewer units in the time of a barrier with other blocks.
 */
#define SMALL_UNITS 256u
#define SMALL_BLOCK_THREADS 128u

/* Returns the number of threads of a small block. Each thread has one unit if the grid has `max_blocks` blocks. */
static uint64_t count_small_threads(uint64_t units, uint32_t max_blocks)
{
    uint64_t threads = SMALL_UNITS;

    if (units > SMALL_UNITS) {
        threads = mscclpp_max(mscclpp_divide_up(units, max_blocks), SMALL_BLOCK_THREADS);
    }
    return mscclpp_min(mscclpp_round_up(threads, WARP), DEFAULT_THREADS);
}

/* Returns the number of threads that a block should have. The work and the capacity may limit it further. */
static uint64_t find_wanted_threads(const mscclpp_select_input_t *input, uint64_t units, uint32_t max_blocks,
                                    mscclpp_block_size_t block_size)
{
    if (input->on_twin) {
        return input->protocol->twin_threads;
    }
    if (input->protocol->max_threads != 0) {
        return input->protocol->max_threads;
    }
    return block_size == MSCCLPP_SMALL_BLOCKS ? count_small_threads(units, max_blocks) : DEFAULT_THREADS;
}

/* Returns the number of blocks that a grid should have. The work and the limits of the GPU may reduce it further. */
static uint64_t find_wanted_blocks(const mscclpp_select_input_t *input, uint32_t max_blocks)
{
    if (input->on_twin) {
        return input->protocol->twin_blocks;
    }
    return input->protocol->max_blocks != 0 ? input->protocol->max_blocks : max_blocks;
}

/*
 * Chooses the number of threads of a block first, and then the number of blocks, so that each thread has at least one
 * unit. Without any units, the grid has one block of the smallest size. On the twin, the parameters twin_threads and
 * twin_blocks replace the built-in numbers.
 */
bool mscclpp_algo_choose_grid(const mscclpp_select_input_t *input, uint64_t units, uint32_t max_blocks,
                              uint64_t capacity, mscclpp_block_size_t block_size, mscclpp_choice_t *choice)
{
    const uint64_t thread_step = input->on_twin ? 1 : WARP; /* a block has a multiple of this number of threads */
    const uint64_t block_limit = input->block_limit != 0 ? input->block_limit : MSCCLPP_DEV_MAX_BLOCKS;
    uint64_t threads = find_wanted_threads(input, units, max_blocks, block_size);
    uint64_t blocks = find_wanted_blocks(input, max_blocks);

    if (capacity < thread_step) {
        return false;
    }
    threads = mscclpp_min(mscclpp_min(threads, capacity), DEFAULT_THREADS);
    if (!input->on_twin) {
        threads = mscclpp_min(threads, mscclpp_round_up(units, thread_step));
    }
    threads = mscclpp_max(mscclpp_round_down(threads, thread_step), thread_step);
    blocks = mscclpp_min(blocks, mscclpp_divide_up(units, threads));
    blocks = mscclpp_min(blocks, capacity / threads);
    blocks = mscclpp_min(blocks, mscclpp_min(block_limit, MSCCLPP_DEV_MAX_BLOCKS));
    choice->nthreads = (uint32_t)threads;
    choice->nblocks = (uint32_t)mscclpp_max(blocks, 1);
    return true;
}
