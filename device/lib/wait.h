/*
 * Waits of kernels. Every loop that waits for a peer calls mscclpp_dev_wait_turn. From time to time this function
 * checks the abort word and a clock. It ends the wait if the host asks for it, or if the deadline has passed.
 */
#ifndef MSCCLPP_DEVICE_LIB_WAIT_H
#define MSCCLPP_DEVICE_LIB_WAIT_H

#include "device/types/launch.h"
#include "device/shim/shim.h"

/*
 * The number of turns of a wait before the first check, and between two checks. Checks are rare because the abort word
 * is in host memory, where reads of one cache line wait for one another. If all warps of all blocks checked whenever a
 * peer is some hundred microseconds late, the checks would take as long again, and this rank would be late in turn. So
 * the first check comes only after milliseconds, and warps check at different times.
 */
#ifdef __CUDACC__
#define MSCCLPP_DEV_WAIT_TURNS 16384u
#else
#define MSCCLPP_DEV_WAIT_TURNS 256u
#endif

/*
 * Returns the turn, in each period of MSCCLPP_DEV_WAIT_TURNS, in which the thread's warp checks. 256 successive warps
 * check in different turns, evenly spread over the period.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_wait_check_turn(const mscclpp_dev_ctx_t *ctx)
{
    const uint32_t warp = (ctx->block * ctx->nthreads + ctx->tid) / MSCCLPP_DEV_WARP;

    return warp * (MSCCLPP_DEV_WAIT_TURNS / 256) % MSCCLPP_DEV_WAIT_TURNS;
}

/* The progress of one wait. A wait begins with zeros. */
typedef struct {
    uint32_t turns;    /* turns so far */
    uint64_t since_ns; /* time of the first check, from which the deadline counts; 0 until then */
} mscclpp_dev_wait_t;

/*
 * Returns true if a wait for `peer` may continue. Returns false, and reports `peer` in the mailbox as the awaited rank,
 * if the abort word is set or the wait has lasted too long. `waited_ns` is the time since the wait's first check.
 */
MSCCLPP_DEV bool mscclpp_dev_wait_check(const mscclpp_dev_args_t *args, uint64_t waited_ns, uint32_t peer)
{
    if (mscclpp_dev_ld_relaxed_sys_u64(&args->mailbox->abort) == 0 &&
        (args->timeout_ns == 0 || waited_ns < args->timeout_ns)) {
        return true;
    }
    /*
     * Stores the value twice. The second store waits for the first one, so the host sees the first store when the
     * kernel has ended, whichever block reports the end.
     */
    mscclpp_dev_st_relaxed_sys_u64(&args->mailbox->failed, (uint64_t)peer + 1);
    mscclpp_dev_st_release_sys_u64(&args->mailbox->failed, (uint64_t)peer + 1);
    return false;
}

/*
 * Returns the result of mscclpp_dev_wait_check. This function is not inlined, so that the check takes none of the
 * caller's registers.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_wait_check_outlined(const mscclpp_dev_args_t *args, uint64_t waited_ns,
                                                         uint32_t peer)
{
    return mscclpp_dev_wait_check(args, waited_ns, peer);
}

/*
 * Takes one turn of a wait for `peer`. Returns true if the wait continues. Returns false if the caller has to give up,
 * because the host asks for it, the deadline has passed, or the thread has failed before. Then ctx->failed is set, the
 * mailbox names the awaited peer, and every later wait of this thread ends at once. `is_outlined` is a constant; true:
 * the check is not inlined, for callers that need registers.
 */
MSCCLPP_DEV bool mscclpp_dev_wait_turn_by(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                          mscclpp_dev_wait_t *wait, uint32_t peer, bool is_outlined)
{
    uint64_t now_ns;

    if (ctx->failed) {
        return false;
    }
    mscclpp_dev_pause(ctx);
    ++wait->turns;
    if (wait->turns < MSCCLPP_DEV_WAIT_TURNS ||
        wait->turns % MSCCLPP_DEV_WAIT_TURNS != mscclpp_dev_wait_check_turn(ctx)) {
        return true;
    }
    now_ns = mscclpp_dev_now_ns();
    if (wait->since_ns == 0) {
        wait->since_ns = now_ns;
    }
    ctx->failed = is_outlined ? !mscclpp_dev_wait_check_outlined(args, now_ns - wait->since_ns, peer)
                              : !mscclpp_dev_wait_check(args, now_ns - wait->since_ns, peer);
    return !ctx->failed;
}

/* Takes one turn of a wait for `peer`, as mscclpp_dev_wait_turn_by does, with a check that is not inlined. */
MSCCLPP_DEV bool mscclpp_dev_wait_turn(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, mscclpp_dev_wait_t *wait,
                                       uint32_t peer)
{
    return mscclpp_dev_wait_turn_by(ctx, args, wait, peer, true);
}

#endif
