/*
 * Waits of kernels. Each wait regularly checks the clock and the abort word, so it ends at the latest after the
 * deadline, or when the host gives up.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_WAIT_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_WAIT_H

#include "shim.h"

/* The state of one wait, which begins with zeros. */
typedef struct {
    mpix_u32 turns;    /* number of turns so far */
    mpix_u64 since_ns; /* time of the first check of the clock; 0: not checked yet */
} mpix_wait_state_t;

/*
 * Does one turn of a wait for `peer`, after the condition of the wait was found false. Returns 1 if the caller has to
 * check the condition again. Returns 0 and sets group->failed if the wait has failed. This is so if the host has stored
 * the abort word, or if the deadline has passed, and then the peer is reported as late. Each thread that waits calls
 * this function.
 */
MPIX_DEVICE int mpix_wait_turn(mpix_group_t *group, const mpix_head_t *head, mpix_wait_state_t *wait, mpix_u32 peer)
{
    mpix_u64 now_ns;

    if (group->failed) {
        return 0;
    }
    mpix_pause(group);
    if (++wait->turns % MPIX_TURNS != 0) {
        return 1;
    }
    now_ns = mpix_clock_ns();
    if (wait->since_ns == 0) {
        wait->since_ns = now_ns;
    }
    if (mpix_load_relaxed(head->abort) == 0) {
        if (head->timeout_ns == 0 || now_ns - wait->since_ns < head->timeout_ns) {
            return 1;
        }
        mpix_store_release(&head->report[MPIX_MSCCLPP_REPORT_LATE], (mpix_u64)peer + 1);
    }
    group->failed = 1;
    return 0;
}

/*
 * Reports a misuse, MPIX_MSCCLPP_MISUSE_..., unless one was already reported, and sets group->failed of this thread.
 * All threads of the group call this function; the first thread reports. `offset`, `bytes` and `limit` are words of the
 * report (types.h).
 */
MPIX_DEVICE void mpix_misuse(mpix_group_t *group, const mpix_head_t *head, int what, mpix_u32 rank, mpix_u64 offset,
                             mpix_u64 bytes, mpix_u64 limit)
{
    if (group->index == 0 && mpix_load_relaxed(&head->report[MPIX_MSCCLPP_REPORT_MISUSE]) == 0) {
        mpix_store_relaxed(&head->report[MPIX_MSCCLPP_REPORT_RANK], rank);
        mpix_store_relaxed(&head->report[MPIX_MSCCLPP_REPORT_OFFSET], offset);
        mpix_store_relaxed(&head->report[MPIX_MSCCLPP_REPORT_BYTES], bytes);
        mpix_store_relaxed(&head->report[MPIX_MSCCLPP_REPORT_LIMIT], limit);
        mpix_store_release(&head->report[MPIX_MSCCLPP_REPORT_MISUSE], (mpix_u64)what);
    }
    group->failed = 1;
}

/*
 * Returns 1 if `bytes` bytes at `offset` are within a rank's memory of `limit` bytes. Otherwise reports the misuse,
 * sets group->failed, and returns 0.
 */
MPIX_DEVICE int mpix_fits(mpix_group_t *group, const mpix_head_t *head, mpix_u32 rank, mpix_u64 offset, mpix_u64 bytes,
                          mpix_u64 limit)
{
    if (offset <= limit && bytes <= limit - offset) {
        return 1;
    }
    mpix_misuse(group, head, MPIX_MSCCLPP_MISUSE_MEMORY, rank, offset, bytes, limit);
    return 0;
}

/*
 * Returns a value other than 0 if a function that this group called has failed. MPIX_Mscclpp_get_async_error has the
 * reason; for functions on partitions, MPIX_Mscclpp_test and MPIX_Mscclpp_wait return it.
 */
MPIX_DEVICE int mpix_failed(const mpix_group_t *group)
{
    return group->failed;
}

#endif
