#include "mca/common/base/clock.h"
#include "mca/common/task/links.h"

#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/parts.h"

#define THREADS MSCCLPP_DEV_MAX_THREADS

uint64_t mscclpp_links_max(const mscclpp_team_t *team)
{
    return mscclpp_team_layout(team)->bulk_size / 2;
}

mscclpp_status_t mscclpp_links_try(mscclpp_team_t *team, const void *in, void *out, uint64_t bytes, uint32_t rounds,
                                   bool by_get, double *seconds_p)
{
    mscclpp_dev_ring_args_t args;
    mscclpp_dev_launch_t launch;
    mscclpp_status_t status;
    /* One thread for each unit, up to the largest number of blocks. */
    uint64_t blocks = (bytes + (uint64_t)THREADS * MSCCLPP_DEV_UNIT - 1) / ((uint64_t)THREADS * MSCCLPP_DEV_UNIT);
    double started;

    if (team->group.broken) {
        return MSCCLPP_ERR_PEER;
    }
    /* The ring uses the scratch, which first grows to its full size, in the same way on all ranks. */
    status = mscclpp_team_enter(team);
    if (status == MSCCLPP_OK && bytes > mscclpp_links_max(team) && team->full_size != 0) {
        status = mscclpp_team_grow(team, bytes, true);
        mscclpp_runner_give_stream(&team->runner);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_team_reclaim(team, bytes);
    }
    if (status != MSCCLPP_OK) {
        return mscclpp_team_fail(team, status);
    }
    if (bytes > mscclpp_links_max(team)) {
        mscclpp_error("%s: ring of %llu bytes; at most %llu fit the scratch", team->group.oob.label,
                      (unsigned long long)bytes, (unsigned long long)mscclpp_links_max(team));
        mscclpp_team_leave(team);
        return MSCCLPP_ERR_INVALID;
    }
    memset(&args, 0, sizeof(args));
    mscclpp_runner_fill_args(&team->runner, &args.common);
    args.common.in = in;
    args.common.out = out;
    args.common.bytes = bytes;
    args.rounds = rounds;
    args.get = by_get;
    /* All blocks must run at the same time, because each waits for the block with the same number on a neighbour. */
    blocks = blocks == 0 ? 1 : blocks;
    blocks = blocks > MSCCLPP_DEV_CHANNEL_BLOCKS ? MSCCLPP_DEV_CHANNEL_BLOCKS : blocks;
    blocks = team->runner.block_limit != 0 && blocks > team->runner.block_limit ? team->runner.block_limit : blocks;
    launch.kernel = MSCCLPP_KERNEL_CHANNEL_RING;
    launch.nblocks = team->group.on_twin ? team->protocol.twin_blocks : (uint32_t)blocks;
    launch.nthreads = team->group.on_twin ? team->protocol.twin_threads : THREADS;
    launch.args = &args;
    if (launch.nblocks > MSCCLPP_DEV_CHANNEL_BLOCKS) {
        launch.nblocks = MSCCLPP_DEV_CHANNEL_BLOCKS;
    }
    started = mscclpp_now();
    status = mscclpp_group_meet(&team->group, bytes, false);
    if (status == MSCCLPP_OK) {
        status = mscclpp_runner_launch(&team->runner, NULL, &launch, "ring");
    }
    mscclpp_group_give_slot(&team->group);
    mscclpp_team_leave(team);
    mscclpp_runner_give_stream(&team->runner);
    if (status == MSCCLPP_OK) {
        *seconds_p = mscclpp_now() - started;
        return MSCCLPP_OK;
    }
    return mscclpp_team_fail(team, status);
}
