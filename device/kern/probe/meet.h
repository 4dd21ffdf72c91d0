/*
 * A kernel that only meets its peers, and does nothing else. It tests whether the kernels of all ranks can make
 * progress together.
 */
#ifndef MSCCLPP_DEVICE_KERN_PROBE_MEET_H
#define MSCCLPP_DEVICE_KERN_PROBE_MEET_H

#include "device/lib/barrier.h"

/* Runs the kernel: each block passes one barrier. If it fails, sets ctx->failed in all threads of the block. */
MSCCLPP_DEV void mscclpp_dev_barrier_only(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args)
{
    const uint64_t barriers = mscclpp_dev_last_barrier(ctx, args) + 1;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t epoch = mscclpp_dev_last_epoch(ctx, args);

    mscclpp_dev_enter(ctx, args);
    mscclpp_dev_barrier(ctx, args, barriers);
    mscclpp_dev_finish(ctx, args, launches, epoch, barriers - 1, barriers);
}

#endif
