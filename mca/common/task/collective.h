/* One call of a collective other than all-reduce (mca/common/task/task.h), from its arguments to its end. */
#ifndef MCA_COMMON_TASK_COLLECTIVE_H
#define MCA_COMMON_TASK_COLLECTIVE_H

#include "mca/common/algo/coll.h"
#include "mca/common/team/team.h"

/* The buffers of all ranks of repeated queued calls, mapped for kernels: see mscclpp_collective_map. */
typedef struct mscclpp_mapped mscclpp_mapped_t;

/*
 * Executes a call. Blocking: returns when the output is complete and the input may be reused. The buffers may have any
 * kind of memory, alignment and size. Only the bytes of blocks are written, never bytes between blocks. As for an
 * all-reduce, the call waits for work on the buffers that synchronous calls of the GPU runtime have left in flight.
 *
 * All ranks must pass the same `coll`, `root`, `dtype`, `op`, `varied` and `is_size_known` in `args`. They must pass
 * the same `count` if all blocks have one size, and the same `largest_block` if it is known. `send[p]` on rank r must
 * have the same size as `recv[r]` on rank p.
 *
 * MSCCLPP_ERR_NOT_SUPPORTED is returned on all ranks and leaves the buffers unchanged; the caller then takes another
 * path. Every other error breaks the team.
 */
mscclpp_status_t mscclpp_collective(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/*
 * Queues the call in `stream`, for a team that serves queued operations only (mca/common/team/queue.h). Waits only in
 * a captured call with `may_map`: for the other ranks to capture it, for some seconds at most. Kernels must be able to
 * access the buffers. Returns MSCCLPP_ERR_NOT_SUPPORTED, with nothing queued, for data in several allocations, for
 * blocks that differ on several nodes, and if no kernel does the operation or no algorithm serves queued calls. Every
 * other error breaks the team. In a captured stream, a call that needs separate memory shares it with all such calls of
 * the team, and the memory is kept as long as the graphs.
 */
mscclpp_status_t mscclpp_collective_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                            mscclpp_gpu_stream_t *stream);

/*
 * Like mscclpp_allreduce_map (mca/common/task/task.h), for a call with the arguments `args`; the calls that use the
 * result have the same arguments. Packed data, and calls in place that need separate memory, are not mapped.
 */
mscclpp_status_t mscclpp_collective_map(mscclpp_team_t *team, const mscclpp_coll_args_t *args,
                                        mscclpp_mapped_t **mapped_p);

/* Returns true if mscclpp_collective_enqueue can queue such a call. */
bool mscclpp_collective_can_enqueue(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Like mscclpp_allreduce_prepare (mca/common/task/task.h). All ranks must know the size of the largest block. */
mscclpp_status_t mscclpp_collective_prepare(mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Returns true if the team serves calls of a collective, of any size. Equal on all ranks. */
bool mscclpp_collective_serves(const mscclpp_team_t *team, mscclpp_coll_t coll);

#endif
