/* The launch of the kernel of a collective other than all-reduce, and its arguments. */
#include <string.h>

#include "mca/common/base/numbers.h"
#include "mca/common/run/bell.h"
#include "mca/common/task/coll_task.h"

/* Returns the way in which a kernel on one node finds the sizes of blocks. */
static uint32_t find_block_sizes(const mscclpp_coll_task_t *task)
{
    if (!task->args->varied) {
        return MSCCLPP_DEV_SAME;
    }
    return task->choice.kernel == MSCCLPP_KERNEL_COLL_MOVE_UNSIZED ? MSCCLPP_DEV_UNSIZED : MSCCLPP_DEV_VARIED;
}

/* Fills in the arguments that all kernels of collectives have, but for what depends on how the call is made. */
static void fill_operands(const mscclpp_coll_task_t *task, mscclpp_dev_args_t *common)
{
    mscclpp_runner_fill_args(&task->team->runner, common);
    common->in = task->in;
    common->out = task->out;
    common->bytes = task->bytes;
    common->dtype = (uint32_t)task->args->dtype;
    common->op = (uint32_t)task->args->op;
}

/*
 * Fills in the arguments of kernels on one node that find the blocks themselves: they compute the places of blocks of
 * one size, and read the places of other blocks from lists.
 */
static void fill_blocks(const mscclpp_coll_task_t *task, mscclpp_dev_blocks_args_t *blocks)
{
    mscclpp_dev_args_t *common = &blocks->coll.common;
    int peer;

    fill_operands(task, common);
    blocks->coll.stride = task->stride;
    if (task->choice.algo == MSCCLPP_COLL_BY_PACKETS || task->choice.algo == MSCCLPP_COLL_BY_PUTS) {
        common->release = (uint32_t)task->release;
    }
    if (task->is_queued) {
        common->release = mscclpp_runner_queued_release(&task->team->runner);
        common->epochs = (uint32_t)task->choice.epochs;
        common->epoch_limit = (uint32_t)task->team->protocol.epoch_limit;
    }
    blocks->coll.pattern = (uint32_t)task->pattern;
    blocks->coll.root = (uint32_t)task->root;
    blocks->coll.in_place = task->in_place;
    blocks->largest_block = task->own_bytes > task->largest_block ? task->own_bytes : task->largest_block;
    blocks->packets_max = task->choice.packets_max;
    blocks->varied = find_block_sizes(task);
    for (peer = 0; peer < task->team->group.size && task->args->varied; ++peer) {
        blocks->send[peer] = mscclpp_coll_find_send_block(task, peer);
        blocks->recv[peer] = mscclpp_coll_find_recv_block(task, peer);
    }
    if (blocks->varied == MSCCLPP_DEV_UNSIZED) {
        blocks->largest_block = mscclpp_coll_exchanged_bytes(task);
    }
}

/* Writes the blocks of a call between nodes into the fabric's lists, which the kernel reads. */
static mscclpp_status_t write_lists(const mscclpp_coll_task_t *task)
{
    mscclpp_dev_block_t *send, *recv;
    const mscclpp_status_t status = mscclpp_fabric_lists(task->team->fabric, &send, &recv);
    int peer;

    for (peer = 0; peer < task->ranks && status == MSCCLPP_OK; ++peer) {
        send[peer] = mscclpp_coll_find_send_block(task, peer);
        recv[peer] = mscclpp_coll_find_recv_block(task, peer);
    }
    return status;
}

/*
 * Runs the kernel of a call between nodes. The fabric fills in the arguments that only it knows. Any error breaks the
 * team.
 */
static mscclpp_status_t launch_on_nodes(mscclpp_coll_task_t *task)
{
    const uint64_t tile = task->choice.tile;
    const uint64_t tiles = tile == 0 ? 0 : mscclpp_divide_up(task->largest_block, tile); /* 0: packets serve the call */
    mscclpp_dev_coll_nodes_args_t args;
    mscclpp_dev_args_t *common = &args.nodes.common;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status = MSCCLPP_OK;

    memset(&args, 0, sizeof(args));
    if (task->args->varied) {
        status = write_lists(task);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    fill_operands(task, common);
    common->epoch_limit = task->is_queued ? (uint32_t)task->team->protocol.epoch_limit : 0;
    args.stride = task->stride;
    args.largest_block = task->largest_block;
    args.tile = tile;
    args.radix = task->choice.radix;
    args.prefixes = task->choice.prefixes;
    args.nodes.pattern = task->choice.exchange;
    args.pattern = (uint32_t)task->pattern;
    args.root = (uint32_t)task->root;
    args.in_place = task->in_place;
    args.varied = task->args->varied;
    launch.kernel = task->choice.kernel;
    launch.nblocks = task->choice.nblocks;
    launch.nthreads = task->choice.nthreads;
    return mscclpp_fabric_run_coll(task->team->fabric, task->is_queued ? task->stream : NULL, &launch, &args, tiles,
                                   mscclpp_coll_algo_name(task->choice.algo));
}

/* Starts the kernel and waits for its end or, in a queued call, only puts it into the application's stream. */
static mscclpp_status_t start_kernel(mscclpp_coll_task_t *task, const mscclpp_dev_launch_t *launch)
{
    if (task->is_queued) {
        return mscclpp_runner_launch_mapped(&task->team->runner, task->stream, launch,
                                            mscclpp_coll_needs_mapping(task) ? task->mapped : NULL);
    }
    return mscclpp_runner_launch(&task->team->runner, NULL, launch, mscclpp_coll_algo_name(task->choice.algo));
}

mscclpp_status_t mscclpp_coll_launch(mscclpp_coll_task_t *task)
{
    union {
        mscclpp_dev_blocks_args_t blocks;
        mscclpp_dev_direct_args_t direct;
        mscclpp_dev_strided_args_t strided;
    } args;
    mscclpp_dev_launch_t launch;

    if (task->choice.algo >= MSCCLPP_COLL_BY_NODES) {
        return launch_on_nodes(task);
    }
    /* A separate kernel moves blocks with holes. */
    launch.kernel = task->is_strided ? MSCCLPP_KERNEL_COLL_MOVE_STRIDED : task->choice.kernel;
    launch.nblocks = task->choice.nblocks;
    launch.nthreads = task->choice.nthreads;
    launch.args = &args;
    if (mscclpp_bell_has_lists(&launch)) {
        fill_blocks(task, &task->team->blocks_args);
        launch.args = &task->team->blocks_args;
        return start_kernel(task, &launch);
    }
    /* All bytes that the kernel gets are set, even padding, so that equal launches have equal arguments. */
    memset(&args, 0, mscclpp_dev_args_size(launch.kernel));
    if (task->is_strided) {
        mscclpp_runner_fill_args(&task->team->runner, &args.strided.common);
        mscclpp_coll_fill_strided(task, &args.strided);
    } else if (task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY) {
        mscclpp_runner_fill_args(&task->team->runner, &args.direct.common);
        args.direct.common.dtype = (uint32_t)task->args->dtype;
        args.direct.common.op = (uint32_t)task->args->op;
        args.direct.common.epoch_limit = task->is_queued ? (uint32_t)task->team->protocol.epoch_limit : 0;
        mscclpp_coll_fill_direct(task, &args.direct);
    } else {
        fill_blocks(task, &args.blocks);
    }
    return start_kernel(task, &launch);
}
