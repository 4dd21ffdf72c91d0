/* Signals and waits of a semaphore. */
#ifndef MSCCLPP_DEVICE_LIB_SEMAPHORE_H
#define MSCCLPP_DEVICE_LIB_SEMAPHORE_H

#include "device/types/semaphore.h"
#include "device/lib/wait.h"

/*
 * Signals the peer. Called by one thread. A peer that has waited for the signal sees what this thread wrote before. The
 * peer also sees what the other threads of this thread's block wrote before the block last synchronised. The signal is
 * an atomic addition, not a store, because signals of several kernels may be in progress at once.
 */
MSCCLPP_DEV void mscclpp_dev_semaphore_signal(const mscclpp_dev_semaphore_t *semaphore)
{
    mscclpp_dev_red_release_sys_add_u64(semaphore->remote_inbound, 1);
}

/*
 * Waits for one more signal from `peer`, and counts the signal as taken. If the wait fails, sets ctx->failed and counts
 * nothing. Called by one thread; the block must then synchronise, so that its other threads see the peer's data, too.
 */
MSCCLPP_DEV void mscclpp_dev_semaphore_wait(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                            const mscclpp_dev_semaphore_t *semaphore, uint32_t peer)
{
    const uint64_t target = *semaphore->expected + 1;
    mscclpp_dev_wait_t wait = {0, 0};

    while (mscclpp_dev_ld_acquire_sys_u64(semaphore->inbound) < target) {
        if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
            return;
        }
    }
    *semaphore->expected = target;
}

/*
 * Returns true if a signal has arrived, and counts the signal as taken. The caller then sees what it would see after a
 * wait. Otherwise returns false at once. Called by one thread.
 */
MSCCLPP_DEV bool mscclpp_dev_semaphore_poll(const mscclpp_dev_semaphore_t *semaphore)
{
    if (mscclpp_dev_ld_acquire_sys_u64(semaphore->inbound) <= *semaphore->expected) {
        return false;
    }
    *semaphore->expected += 1;
    return true;
}

#endif
