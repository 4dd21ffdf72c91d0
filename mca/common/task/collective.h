/* One call of a collective other than all-reduce (mca/common/task/task.h), from its arguments to its end. */
#ifndef MCA_COMMON_TASK_COLLECTIVE_H
#define MCA_COMMON_TASK_COLLECTIVE_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/team.h"

/* The buffers of all ranks of repeated queued calls, mapped for kernels: see mscclpp_collective_map_buffers. */
typedef struct mscclpp_mapped mscclpp_mapped_t;

/*
 * Executes a call. Blocking: returns when the output is complete and the input may be reused. The buffers may have any
 * kind of memory, alignment and size. Only the bytes of blocks are written, never bytes between blocks. The call waits
 * for work on the buffers that synchronous calls of the GPU runtime have left in flight.
 *
 * All ranks must pass the same `coll`, `root`, `dtype`, `op`, `varied` and `is_size_known` in `args`. They must pass
 * the same `count` if all blocks have one size, and the same `largest_block` if it is known. `send[p]` on rank r must
 * have the same size as `recv[r]` on rank p.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks, with the buffers unchanged, if the call has to be staged. Every other
 * error breaks the team.
 */
mscclpp_status_t mscclpp_collective(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/*
 * Queues the call in `stream`. The team must serve queued operations only (mca/common/team/queue.h). Waits for other
 * ranks only if `may_wait` is set, as mscclpp_allreduce_enqueue does. Kernels must be able to access the buffers.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, with nothing queued, in these cases: data in several allocations; blocks that
 * differ, on several nodes; no kernel for the operation; no algorithm for queued calls. Every other error breaks the
 * team.
 *
 * In a captured stream, all calls of the team that need separate memory share it. The memory is kept as long as the
 * graphs.
 */
mscclpp_status_t mscclpp_collective_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                            mscclpp_gpu_stream_t *stream);

/*
 * Maps the buffers of all ranks for later queued calls with the arguments `args`, if a kernel would use them.
 * Collective; waits for other ranks for at most mscclpp_group_exchange_patience. *mapped_p is NULL on all ranks if
 * nothing is mapped, for example for packed data and for calls in place that need separate memory. The scratch then
 * grows if the calls need that. *mapped_p is NULL, too, after an error, which breaks the team. The caller passes
 * *mapped_p to these calls, and gives it back with mscclpp_allreduce_unmap_buffers (mca/common/task/task.h).
 */
mscclpp_status_t mscclpp_collective_map_buffers(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                                mscclpp_mapped_t **mapped_p);

/* Returns true if mscclpp_collective_enqueue can queue such a call. */
bool mscclpp_collective_can_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/*
 * Prepares the team for later calls with equal arguments, as mscclpp_allreduce_prepare does for all-reduces
 * (mca/common/task/task.h). All ranks must know the size of the largest block.
 */
mscclpp_status_t mscclpp_collective_prepare(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Returns true if the team serves calls of a collective, of any size. Equal on all ranks. */
bool mscclpp_collective_serves(const mscclpp_team_t *team, mscclpp_coll_t coll);

#endif
