/* The kernels' end of a FIFO: pushes triggers, which are requests to the proxy on the CPU. */
#ifndef MSCCLPP_DEVICE_LIB_FIFO_H
#define MSCCLPP_DEVICE_LIB_FIFO_H

#include "device/types/fifo.h"
#include "device/lib/trigger.h"
#include "device/lib/wait.h"

/*
 * Pushes a trigger and returns its position. Called by one thread; any number of threads may push at the same time.
 * When the host takes the trigger, it sees what the thread wrote before. It also sees what the other threads of the
 * thread's block wrote before the block last synchronised.
 *
 * Waits while the ring is full. If this wait fails, sets ctx->failed, and reports `peer` as late. The position then
 * stays empty forever, and the host takes no trigger at a later position. A thread that has failed before pushes
 * nothing and returns 0.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_fifo_push(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                           const mscclpp_dev_fifo_t *fifo, mscclpp_dev_trigger_t trigger, uint32_t peer)
{
    mscclpp_dev_wait_t wait = {0, 0};
    mscclpp_dev_trigger_t *slot;
    uint64_t position, tail;

    if (ctx->failed) {
        return 0;
    }
    position = mscclpp_dev_atom_relaxed_gpu_add_u64(fifo->head, 1);
    slot = &fifo->ring[position & (fifo->size - 1)];

    /*
     * A read of the host's tail crosses the bus, so the tail is read only if the value that a pusher has last read
     * (`tail_seen`) is too old. Both reads acquire, because the slot's new contents must not overtake the host's read
     * of the old contents. A pusher may replace a newer value of `tail_seen` by an older one, which only costs another
     * read of the tail.
     */
    if (position >= mscclpp_dev_ld_acquire_sys_u64(fifo->tail_seen) + fifo->size) {
        for (;;) {
            tail = mscclpp_dev_ld_acquire_sys_u64(fifo->tail);
            if (position < tail + fifo->size) {
                break;
            }
            if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
                return position;
            }
        }
        mscclpp_dev_st_release_sys_u64(fifo->tail_seen, tail);
    }

    /*
     * Two stores, because a store of 16 bytes is not guaranteed to arrive as a whole. The second store makes the
     * trigger valid.
     */
    mscclpp_dev_st_relaxed_sys_u64(&slot->word[0], trigger.word[0]);
    mscclpp_dev_st_release_sys_u64(&slot->word[1], trigger.word[1] | mscclpp_dev_trigger_parity(position, fifo->size));
    mscclpp_dev_note_request(ctx);
    return position;
}

#endif
