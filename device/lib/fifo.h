/* The pushing end of a FIFO. */
#ifndef MSCCLPP_DEVICE_LIB_FIFO_H
#define MSCCLPP_DEVICE_LIB_FIFO_H

#include "device/types/fifo.h"
#include "device/lib/trigger.h"
#include "device/lib/wait.h"

/*
 * Pushes a trigger and returns its position. Called by one thread; any number may push at once. What the thread wrote
 * before, and what the other threads of its block wrote before the block last synchronised, is visible to the host when
 * it takes the trigger. Waits while the ring is full. A thread that has failed, or fails in this wait (`peer` is whom
 * it names then), pushes nothing; in the latter case its position stays empty for ever and the FIFO ends there.
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
     * The host's tail lies behind the bus: it is read only when the value that some pusher read last does not suffice.
     * Both are acquired, as the new contents must not overtake the host's reading of the old ones. Pushers may store
     * older values over newer ones; that costs a reading of the tail and no more.
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

    /* Two stores, since a vector of 16 bytes is not promised to arrive whole. The second one commits. */
    mscclpp_dev_st_relaxed_sys_u64(&slot->word[0], trigger.word[0]);
    mscclpp_dev_st_release_sys_u64(&slot->word[1], trigger.word[1] | mscclpp_dev_trigger_parity(position, fifo->size));
    return position;
}

#endif
