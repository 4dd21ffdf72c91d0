/*
 * Early calls (mca/common/task/task.h) with mapped buffers. An early call that passes the same buffers as an earlier
 * early call needs no exchange, only the meeting that precedes every early launch.
 */
#ifndef MCA_COMMON_RUN_KNOWN_H
#define MCA_COMMON_RUN_KNOWN_H

#include "device/types/coll.h"
#include "mca/common/run/runner.h"

/* The buffers of all ranks, by rank, at the addresses for this rank's kernels. NULL: the rank shares no buffer. */
typedef struct {
    const char *in[MSCCLPP_DEV_MAX_RANKS];
    char *out[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS]; /* as they were passed to mscclpp_runner_note_exchange */
} mscclpp_known_buffers_t;

/*
 * Meets the other ranks before an early call: by mscclpp_group_meet if the call launches a kernel (`launches_kernel`,
 * equal on all ranks), and otherwise by mscclpp_group_arrive. `in` and `out` are the buffers that this rank shares, or
 * NULL. Returns the error of the meeting.
 *
 * *found_p, equal on all ranks, is true if all ranks pass the buffers that they passed in one earlier exchange, no such
 * buffer has been freed since, and all mappings are still open. Then *buffers has the buffers of all ranks, the buffers
 * stay mapped as after an exchange (mscclpp_runner_hold_mappings), and the launch must follow at once. Otherwise the
 * ranks have to exchange their buffers, and to meet again. Does not call the GPU runtime except to ask for the numbers
 * of this rank's allocations.
 */
mscclpp_status_t mscclpp_runner_meet_known(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                           bool launches_kernel, mscclpp_known_buffers_t *buffers, bool *found_p);

/*
 * Notes the result of the last exchange, in which this rank has shared `in` and `out`. All ranks call it after each
 * exchange for an early call. If the buffers could be mapped (`has_mapped`, equal on all ranks), the handles are kept
 * for later calls that pass the same buffers. `places` has for each rank the place of this rank's block in that rank's
 * output; NULL: there are no places to keep.
 */
void mscclpp_runner_note_exchange(mscclpp_runner_t *runner, bool has_mapped, const void *in, void *out,
                                  const mscclpp_dev_runs_t *places);

/*
 * Returns true if the next early call must not try to map its buffers, because earlier calls could not map theirs.
 * Called once for each call that would map buffers. Equal on all ranks.
 */
bool mscclpp_runner_pauses_mapping(mscclpp_runner_t *runner);

/*
 * Frees what is kept of earlier exchanges, and forgets the exchanges that have failed. All ranks of a team call it
 * before the same collective call, when a team is taken over: the next request may have its blocks at other places in
 * the same buffers.
 */
void mscclpp_runner_forget_known(mscclpp_runner_t *runner);

#endif
