/*
 * Tests whether lines of LL128 arrive whole. Every rank sends bundles to all peers as the all-reduces do, epoch by
 * epoch, and checks each line whose flag has arrived. Every word changes from each use of a line to the next, so any
 * part of a line that is late is found.
 *
 * There is only one phase, so epochs use the slots of both phases in turn. That is safe: a rank sends epoch e + 2 after
 * it has received e + 1 from all peers. Each peer sent e + 1 after it had read all of e. The hosts must meet before the
 * slots are used for anything else.
 */
#ifndef MSCCLPP_DEVICE_KERN_PROBE_LL128_H
#define MSCCLPP_DEVICE_KERN_PROBE_LL128_H

#include "device/lib/barrier.h"
#include "device/lib/packet.h"

/* An odd number with irregular bits, so that its multiples differ in many bits. */
#define MSCCLPP_DEV_LL128_MIXER 0x9e3779b1u

/*
 * Makes the closed bundle that `sender` sends in an epoch, with known contents that differ in every word from use to
 * use.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_pattern(const mscclpp_dev_ctx_t *ctx, uint32_t sender, uint32_t flag,
                                           mscclpp_dev_bundle_t *bundle)
{
    uint32_t i, word;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        MSCCLPP_DEV_UNROLL
        for (word = 0; word < 4; ++word) {
            bundle->lane[i].w[word] =
                flag * MSCCLPP_DEV_LL128_MIXER +
                ((sender << 9 | ctx->tid / MSCCLPP_DEV_WARP) << 7 | mscclpp_dev_lane(ctx, i) << 2 | word);
        }
    }
    mscclpp_dev_bundle_close(ctx, bundle, flag);
}

/* Returns true if this thread's parts of two bundles differ. */
MSCCLPP_DEV bool mscclpp_dev_ll128_differs(const mscclpp_dev_bundle_t *first, const mscclpp_dev_bundle_t *second)
{
    uint32_t different_bits = 0, i, word;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        MSCCLPP_DEV_UNROLL
        for (word = 0; word < 4; ++word) {
            different_bits |= first->lane[i].w[word] ^ second->lane[i].w[word];
        }
    }
    return different_bits != 0;
}

/*
 * Runs the kernel, on one block: exchanges known bundles with all peers. Sets `torn` in the mailbox if a line has
 * arrived with its flag but is not complete. All flags count as used, even after a failed wait.
 */
MSCCLPP_DEV void mscclpp_dev_ll128_probe(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_ll128_probe_args_t *probe)
{
    const mscclpp_dev_args_t *args = &probe->common;
    const uint64_t launches = mscclpp_dev_last_launch(ctx, args);
    const uint32_t epoch_before = mscclpp_dev_last_epoch(ctx, args), last_flag = epoch_before + probe->rounds;
    mscclpp_dev_bundle_t expected, received;
    const uint64_t bundle_index = ctx->tid / MSCCLPP_DEV_WARP, capacity = args->ll128_capacity;
    bool is_torn = false;
    uint32_t flag = epoch_before, distance;

    while (flag != last_flag && !ctx->failed) {
        const int phase = (int)(++flag & 1);

        mscclpp_dev_ll128_pattern(ctx, args->rank, flag, &expected);
        for (distance = 1; distance < args->nranks; ++distance) {
            mscclpp_dev_bundle_st(ctx,
                                  mscclpp_dev_bundle_slot(args, mscclpp_dev_peer(args, distance), args->rank, phase,
                                                          capacity, bundle_index),
                                  &expected);
        }
        for (distance = 1; distance < args->nranks; ++distance) {
            const uint32_t peer = mscclpp_dev_peer(args, distance);
            mscclpp_dev_wait_t wait = {0, 0};
            uint32_t late_rank;

            mscclpp_dev_warp_meet();
            do {
                mscclpp_dev_bundle_ld(ctx,
                                      mscclpp_dev_bundle_slot(args, args->rank, peer, phase, capacity, bundle_index),
                                      flag, &received);
                late_rank = mscclpp_dev_bundle_has(ctx, &received, flag) ? MSCCLPP_DEV_NOT_LATE : peer;
            } while (mscclpp_dev_bundle_wait(ctx, args, &wait, late_rank));
            mscclpp_dev_ll128_pattern(ctx, peer, flag, &expected);
            is_torn = is_torn || (!ctx->failed && mscclpp_dev_ll128_differs(&received, &expected));
        }
    }
    if (is_torn) {
        mscclpp_dev_st_relaxed_sys_u64(&args->mailbox->torn, 1);
    }
    mscclpp_dev_finish_packets(ctx, args, launches, last_flag);
}

#endif
