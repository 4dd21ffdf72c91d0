/*
 * Partitions of a request, which kernels mark ready (mpix_mscclpp_requests.h). All threads of the group call a
 * function, with the same arguments.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_PARTITIONS_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_PARTITIONS_H

#include "wait.h"

/*
 * Marks a partition ready, after the group's threads have stored its data. Each partition has to be marked once for
 * each start, by one group of one kernel. No other thread changes the mark at the same time, so a load and a store are
 * enough to add 1. If the request does not have the partition, the group fails (mpix_failed), and the host finds the
 * error (mpix_mscclpp_requests.h). A group that has failed before marks nothing, because the data may be incomplete.
 * The function waits only for the group's own threads.
 */
MPIX_DEVICE void mpix_pready(mpix_group_t *group, const mpix_partitions_t *request, mpix_u32 partition)
{
    mpix_sync(group);
    if (group->failed) {
        return;
    }
    if (partition >= request->partitions) {
        mpix_misuse(group, &request->head, MPIX_MSCCLPP_MISUSE_MEMORY, request->head.rank, partition, 1,
                    request->partitions);
    } else if (group->index == 0) {
        mpix_u64 *mark = &request->marks[partition];

        mpix_store_release(mark, mpix_load_relaxed(mark) + 1);
    }
}

/* Releases a request without partitions, as mpix_pready does. */
MPIX_DEVICE void mpix_trigger(mpix_group_t *group, const mpix_partitions_t *request)
{
    mpix_pready(group, request, 0);
}

/*
 * Returns 1 if the last execution for which the partition was marked has ended, and 0 otherwise. The group sees the
 * result if it has ended. The function does not wait for the execution. A partition that the request does not have
 * never arrives.
 */
MPIX_DEVICE int mpix_parrived(mpix_group_t *group, const mpix_partitions_t *request, mpix_u32 partition)
{
    int arrived = 0;

    if (group->index == 0 && partition < request->partitions) {
        arrived = mpix_load_acquire(&request->done[partition]) >= mpix_load_relaxed(&request->marks[partition]);
    }
    return mpix_any(group, arrived);
}

/*
 * Waits for the last execution for which the partition was marked. Returns 0, or 1 if the wait failed or the request
 * was abandoned. The function does not wait for a partition that the request does not have. All blocks that wait must
 * leave room on the GPU for the request's own kernels.
 */
MPIX_DEVICE int mpix_await(mpix_group_t *group, const mpix_partitions_t *request, mpix_u32 partition)
{
    mpix_wait_state_t wait = {0, 0};

    if (group->index == 0 && partition < request->partitions) {
        const mpix_u64 mark = mpix_load_relaxed(&request->marks[partition]);

        while (mpix_load_acquire(&request->done[partition]) < mark &&
               mpix_wait_turn(group, &request->head, &wait, request->head.rank)) {
        }
    }
    group->failed = mpix_any(group, group->failed);
    return group->failed;
}

#endif
