/* The steps of all-reduces in which nodes exchange with one partner after another; and what signals a call has. */
#include "device/lib/nodes_windows.h"
#include "mca/common/algo/schedule/schedule.h"
#include "mca/common/fabric/internal.h"

_Static_assert((int)MSCCLPP_DEV_STEP_SEND == (int)MSCCLPP_STEP_SEND &&
                   (int)MSCCLPP_DEV_STEP_STORE == (int)MSCCLPP_STEP_STORE &&
                   (int)MSCCLPP_DEV_STEP_BEFORE == (int)MSCCLPP_STEP_BEFORE &&
                   (int)MSCCLPP_DEV_STEP_AFTER == (int)MSCCLPP_STEP_AFTER,
               "kernels take the kinds of steps as the schedule has them");

const mscclpp_fabric_steps_t *mscclpp_fabric_steps(const mscclpp_fabric_t *fabric, uint32_t pattern)
{
    return pattern == MSCCLPP_DEV_NODES_DOUBLING  ? &fabric->doubling
           : pattern == MSCCLPP_DEV_NODES_HALVING ? &fabric->halving
                                                  : NULL;
}

/*
 * Numbers the messages that a node receives. For each step that receives, `number` becomes the number of messages of
 * the same sender so far, including this one. `total` becomes the number in the whole list. Both must be 0 before.
 */
static void number_messages(mscclpp_dev_step_t *step, uint32_t count)
{
    uint32_t i, j;

    for (i = 0; i < count; ++i) {
        for (j = 0; j < count; ++j) {
            const bool is_same_sender = step[i].kind != MSCCLPP_DEV_STEP_SEND &&
                                        step[j].kind != MSCCLPP_DEV_STEP_SEND && step[i].peer == step[j].peer;

            step[i].number += is_same_sender && j <= i;
            step[i].total += is_same_sender;
        }
    }
}

/*
 * Fills in this node's list of steps, from the schedule of this kind for all-reduce. `steps` must be zeroed. If there
 * are too many nodes for the schedule, the list stays empty. No schedule has more than MSCCLPP_DEV_NODES_STEPS steps
 * for a node.
 */
static void fill_list(const mscclpp_fabric_t *fabric, mscclpp_schedule_kind_t kind, mscclpp_fabric_steps_t *steps)
{
    mscclpp_dev_steps_t *kernel = &steps->kernel;
    mscclpp_schedule_t schedule;
    mscclpp_step_t step;

    if (!mscclpp_schedule_init(&schedule, kind, MSCCLPP_SCHEDULE_ALLREDUCE, (uint32_t)fabric->nodes.count, 0, 0, 0)) {
        return;
    }
    kernel->slots = schedule.slots;
    kernel->parts = schedule.blocks;
    kernel->places = schedule.places;
    while (kernel->count < MSCCLPP_DEV_NODES_STEPS &&
           mscclpp_schedule_find_step(&schedule, (uint32_t)fabric->nodes.node, kernel->count, &step)) {
        steps->step[kernel->count++] = (mscclpp_dev_step_t){.kind = (uint32_t)step.kind,
                                                            .peer = step.peer,
                                                            .slot = step.slot,
                                                            .round = step.round,
                                                            .first = step.first,
                                                            .count = step.count,
                                                            .place = step.place};
    }
    number_messages(steps->step, kernel->count);
}

void mscclpp_fabric_list_steps(mscclpp_fabric_t *fabric)
{
    fill_list(fabric, MSCCLPP_SCHEDULE_DOUBLING, &fabric->doubling);
    fill_list(fabric, MSCCLPP_SCHEDULE_HALVING, &fabric->halving);
}

size_t mscclpp_fabric_steps_size(void)
{
    return 2 * MSCCLPP_DEV_NODES_STEPS * sizeof(mscclpp_dev_step_t);
}

/* Does not wait for the copies. The host's lists are part of the fabric, so they exist until the copies have ended. */
mscclpp_status_t mscclpp_fabric_copy_steps(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream)
{
    mscclpp_dev_step_t *doubling = fabric->device_steps, *halving = doubling + MSCCLPP_DEV_NODES_STEPS;
    mscclpp_status_t status = fabric->gpu->copy(stream, doubling, fabric->doubling.step, sizeof(fabric->doubling.step));

    if (status == MSCCLPP_OK) {
        status = fabric->gpu->copy(stream, halving, fabric->halving.step, sizeof(fabric->halving.step));
    }
    fabric->doubling.kernel.step = doubling;
    fabric->halving.kernel.step = halving;
    return status;
}

uint64_t mscclpp_fabric_count_messages(const mscclpp_fabric_steps_t *steps, uint32_t node)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < steps->kernel.count; ++i) {
        sum += steps->step[i].kind != MSCCLPP_DEV_STEP_SEND && steps->step[i].peer == node;
    }
    return sum;
}

/*
 * Over trees and in windows, the signals of a block depend on its number of turns, and over trees on its tree, so they
 * are added up block by block. Tiles are assigned to the blocks in turn, so block b has the tiles whose number is b
 * modulo the number of blocks.
 */
uint64_t mscclpp_fabric_count_signals(const mscclpp_fabric_t *fabric, uint32_t node)
{
    const uint64_t tiles = fabric->coll_tiles, blocks = fabric->coll_blocks;
    const uint32_t nodes = (uint32_t)fabric->nodes.count;
    const bool in_windows = fabric->pattern == MSCCLPP_DEV_NODES_WINDOWS;
    mscclpp_dev_windows_t windows = {
        .nnodes = nodes,
        .node = (uint32_t)fabric->nodes.node,
        .sender = MSCCLPP_DEV_COLL_ONE_SENDS(fabric->rounds.pattern) ? fabric->rounds.root : MSCCLPP_DEV_TREES_NONE};
    mscclpp_dev_tree_place_t tree_place = fabric->trees;
    uint64_t sum = 0;
    uint32_t block;

    if (!in_windows && fabric->pattern != MSCCLPP_DEV_NODES_TREES) {
        return tiles * MSCCLPP_DEV_COLL_NODES_SIGNALS(fabric->pattern, (uint32_t)fabric->nodes.count,
                                                      (uint32_t)fabric->nodes.node, node);
    }
    for (block = 0; block < blocks && block < tiles; ++block) {
        tree_place.tree = block % 2;
        windows.passes = (tiles - block + blocks - 1) / blocks;
        sum += in_windows ? mscclpp_dev_windows_count_signals(&windows, node)
                          : mscclpp_dev_trees_count_signals(&tree_place, node, windows.passes);
    }
    return sum;
}
