/* Waits that end: each looks at the abort word and at the clock now and then. */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_WAIT_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_WAIT_H

#include "shim.h"

typedef struct {
    mpix_u32 turns;
    mpix_u64 since_ns; /* 0 before the first look at the clock */
} mpix_wait_state_t;

/* One turn of a wait for `peer`. 0 tells the caller to give up. */
MPIX_DEVICE int mpix_wait_turn(mpix_group_t *group, const mpix_head_t *head, mpix_wait_state_t *wait, mpix_u32 peer)
{
    mpix_u64 now;

    if (group->failed) {
        return 0;
    }
    mpix_pause(group);
    if (++wait->turns % MPIX_TURNS != 0) {
        return 1;
    }
    now = mpix_clock_ns();
    if (wait->since_ns == 0) {
        wait->since_ns = now;
    }
    if (mpix_load_relaxed(head->abort) == 0) {
        if (head->timeout_ns == 0 || now - wait->since_ns < head->timeout_ns) {
            return 1;
        }
        mpix_store_release(&head->report[MPIX_MSCCLPP_REPORT_LATE], (mpix_u64)peer + 1);
    }
    group->failed = 1;
    return 0;
}

/* Reports an access that does not fit, and fails the calling thread. */
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

/* 1 if `bytes` from `offset` on lie within `limit` bytes of a rank's memory; else fails the thread. */
MPIX_DEVICE int mpix_fits(mpix_group_t *group, const mpix_head_t *head, mpix_u32 rank, mpix_u64 offset, mpix_u64 bytes,
                          mpix_u64 limit)
{
    if (offset <= limit && bytes <= limit - offset) {
        return 1;
    }
    mpix_misuse(group, head, MPIX_MSCCLPP_MISUSE_MEMORY, rank, offset, bytes, limit);
    return 0;
}

/* Not 0 if a function that this group called has failed. The host gets the reason: MPIX_Mscclpp_get_async_error. */
MPIX_DEVICE int mpix_failed(const mpix_group_t *group)
{
    return group->failed;
}

#endif
