/*
 * Packets: units whose data and flag arrive by one store, so that the receiver needs no other signal. A packet is valid
 * if its flag equals the expected epoch.
 *
 * LL16 and LL8. A unit of 16 bytes is sent as two 16-byte packets (LL16) or as four 8-byte packets (LL8). Both formats
 * put the flags into the odd words, so either may follow the other in the same memory. The two halves of a unit are
 * `half_gap` bytes apart: a row holds the first halves of all its units, then all second halves. So each store of a
 * warp fills whole sectors. A link carries twice as many full sectors per second as half-filled sectors.
 *
 * Reuse of their memory. It has two halves; the parity of the flag selects one, so a place is reused after two epochs.
 * Two rules make this safe. First, every kernel that uses packets receives at least one packet from every peer. So a
 * rank that has ended kernel k + 1 knows that all peers have completely ended kernel k. Second, in a kernel that uses
 * several epochs, each thread exchanges packets with the threads of the same number on its peers in every epoch. So the
 * same holds for each thread from epoch to epoch.
 *
 * LL128 has one flag for 120 bytes of data. It needs a link that delivers a 128-byte store as a whole. A line is 128
 * bytes at a multiple of 128. Eight lanes of a warp store it by one instruction, 16 bytes each. Its last 8 bytes are
 * the flag, which is the epoch twice. Two lines hold 15 units:
 *
 *     lane   0 .. 6    7                        8 .. 14    15
 *     has    unit      first half of the        unit       second half of the
 *            0 .. 6    15th unit, then flag     7 .. 13    15th unit, then flag
 *
 * Except for the 15th unit, which a shuffle divides, each lane loads, combines and stores its own unit. Each lane reads
 * and writes 16 bytes of both buffers and lines. A warp moves four lines at once, a bundle, and all its lanes check the
 * flags together.
 *
 * LL128 has its own memory. Its data may be any bits, and lie where the other formats have flags. In the other formats'
 * memory, a line of an old epoch could therefore pass for packets of the current one; so LL128 never writes there. In
 * LL128's own memory, the 8 bytes of a flag have only ever held flags. They are 0 at first and after each renewal, and
 * then flags of earlier epochs, none of which is the expected one. All formats share one count of epochs, and kernels
 * with LL128 also receive from every peer. So the rules above hold for the other formats whatever comes between.
 *
 * LL128 does not need two halves. Only the two phases of all-reduces use it, and both place bundle b of an epoch in the
 * same way. (The probe uses it, too; the hosts meet after it.)
 *
 *   1. Operands. A rank sends operands b of the next epoch, or kernel, after it has received results b of this one from
 *      all peers. Each peer sent those after it had read all operands b.
 *   2. Results. A rank sends result b of the next epoch after it has received operands b of that epoch from all peers.
 *      Each peer sent those after it had read all results b of this epoch. This holds because, within a kernel, the
 *      same warp handles b in each epoch, and none of its lanes stores anything before all have the data that they
 *      voted on.
 */
#ifndef MSCCLPP_DEVICE_LIB_PACKET_H
#define MSCCLPP_DEVICE_LIB_PACKET_H

#include "device/lib/unit.h"
#include "device/lib/wait.h"

/*
 * The phases of an all-reduce in two steps: operands go to the owner of their shard, and results to all ranks. Each
 * phase has its own slots.
 */
enum { MSCCLPP_DEV_PHASE_OPERANDS, MSCCLPP_DEV_PHASE_RESULTS };

/*
 * Returns the rank `i` places after this rank in cyclic order; `i` is at most the number of ranks. Loops begin with the
 * next rank, so that the ranks do not all send to the same peer at the same time.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_peer(const mscclpp_dev_args_t *args, uint32_t i)
{
    return args->rank + i < args->nranks ? args->rank + i : args->rank + i - args->nranks;
}

/*
 * Sends a unit to a slot in a peer's memory, as packets with the flag `flag`. `half_gap` is the distance of the unit's
 * two halves, in bytes. `width` is MSCCLPP_DEV_LL16 or MSCCLPP_DEV_LL8. The stores may arrive in any order, because
 * each has its own flag.
 */
MSCCLPP_DEV void mscclpp_dev_put_unit(void *slot, uint64_t half_gap, mscclpp_dev_vec_t value, uint32_t flag, int width)
{
    char *first_half = (char *)slot;

    if (width == MSCCLPP_DEV_LL8) {
        mscclpp_dev_st_packet8(first_half, value.w[0], flag);
        mscclpp_dev_st_packet8(first_half + 8, value.w[1], flag);
        mscclpp_dev_st_packet8(first_half + half_gap, value.w[2], flag);
        mscclpp_dev_st_packet8(first_half + half_gap + 8, value.w[3], flag);
    } else {
        mscclpp_dev_st_packet16(first_half, value.w[0], value.w[1], flag);
        mscclpp_dev_st_packet16(first_half + half_gap, value.w[2], value.w[3], flag);
    }
}

/*
 * Reads a unit that mscclpp_dev_put_unit sends into *value. Returns true if the whole unit has arrived. Otherwise
 * returns false, and *value is undefined. Never waits. The arguments are those of mscclpp_dev_put_unit.
 */
MSCCLPP_DEV bool mscclpp_dev_poll_unit(const void *slot, uint64_t half_gap, mscclpp_dev_vec_t *value, uint32_t flag,
                                       int width)
{
    const char *first_half = (const char *)slot;
    bool has_0, has_1, has_2, has_3;

    if (width == MSCCLPP_DEV_LL8) {
        has_0 = mscclpp_dev_ld_packet8(first_half, flag, &value->w[0]);
        has_1 = mscclpp_dev_ld_packet8(first_half + 8, flag, &value->w[1]);
        has_2 = mscclpp_dev_ld_packet8(first_half + half_gap, flag, &value->w[2]);
        has_3 = mscclpp_dev_ld_packet8(first_half + half_gap + 8, flag, &value->w[3]);
        return has_0 && has_1 && has_2 && has_3;
    }
    has_0 = mscclpp_dev_ld_packet16(first_half, flag, &value->w[0], &value->w[1]);
    has_1 = mscclpp_dev_ld_packet16(first_half + half_gap, flag, &value->w[2], &value->w[3]);
    return has_0 && has_1;
}

/*
 * Waits for a unit from `peer` and reads it into *value. The other arguments are those of mscclpp_dev_poll_unit. If the
 * thread gives up, sets ctx->failed, and *value is undefined.
 */
MSCCLPP_DEV void mscclpp_dev_get_unit(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, const void *slot,
                                      uint64_t half_gap, mscclpp_dev_vec_t *value, uint32_t flag, int width,
                                      uint32_t peer)
{
    mscclpp_dev_wait_t wait = {0, 0};

    while (!mscclpp_dev_poll_unit(slot, half_gap, value, flag, width)) {
        if (!mscclpp_dev_wait_turn(ctx, args, &wait, peer)) {
            return;
        }
    }
}

/*
 * Sets *unit to the number of the unit that a lane holds in its bundle, and returns true. Returns false for the last
 * lane of each second line, which holds no unit.
 */
MSCCLPP_DEV bool mscclpp_dev_bundle_unit(uint32_t lane, uint32_t *unit)
{
    const uint32_t lane_of_pair = lane % 16;

    *unit = lane / 16 * 15 + (lane_of_pair < 7 ? lane_of_pair : lane_of_pair == 7 ? 14 : lane_of_pair - 1);
    return lane_of_pair != 15;
}

/* No peer is late. This value is no rank. */
#define MSCCLPP_DEV_NOT_LATE 0xffffffffu

/*
 * Takes one turn of a warp's wait for bundles. Called by all lanes together, after they have polled. `late_rank` is a
 * peer whose data this thread still misses, or MSCCLPP_DEV_NOT_LATE. Returns true if the warp has to poll again.
 * Returns false if all data have arrived, or if the warp gives up; after giving up, ctx->failed is set in all threads
 * of the warp.
 */
MSCCLPP_DEV bool mscclpp_dev_bundle_wait(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                         mscclpp_dev_wait_t *wait, uint32_t late_rank)
{
    if (!mscclpp_dev_warp_or(late_rank != MSCCLPP_DEV_NOT_LATE)) {
        return false;
    }
    if (mscclpp_dev_warp_or(late_rank != MSCCLPP_DEV_NOT_LATE && !mscclpp_dev_wait_turn(ctx, args, wait, late_rank))) {
        ctx->failed = true;
        return false;
    }
    return true;
}

/*
 * Returns the address at which `sender` puts bundle number `index` of a phase in the memory of `receiver`. A phase has
 * `capacity` bundles. A receiver has no slot for itself.
 */
MSCCLPP_DEV char *mscclpp_dev_bundle_slot(const mscclpp_dev_args_t *args, uint32_t receiver, uint32_t sender, int phase,
                                          uint64_t capacity, uint64_t index)
{
    const uint64_t slot = (uint64_t)phase * (args->nranks - 1) + (sender < receiver ? sender : sender - 1);

    return args->scratch[receiver] + MSCCLPP_DEV_LL128_OFFSET(args->packet_half) +
           (slot * capacity + index) * MSCCLPP_DEV_BUNDLE_BYTES;
}

#endif
