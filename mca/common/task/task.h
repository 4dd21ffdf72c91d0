/*
 * A task: one collective operation of a team, from its arguments to its end. A team has at most one task in flight.
 * Tasks of different teams are independent and may run in different threads.
 */
#ifndef MCA_COMMON_TASK_TASK_H
#define MCA_COMMON_TASK_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/team/team.h"

/* The buffers of all ranks of repeated queued calls, mapped for kernels: see mscclpp_allreduce_map_buffers. */
typedef struct mscclpp_mapped mscclpp_mapped_t;

typedef struct {
    const void *sendbuf; /* equal to recvbuf if the operation is in place */
    void *recvbuf;
    uint64_t count; /* number of elements; equal on all ranks */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    uint64_t call; /* the number of this call on the communicator, from 1; for messages and mscclpp_team_announce */
    uint64_t recv_allocation; /* of recvbuf, as `reach` in mca/common/gpu/gpu.h takes it; 0: not known */
    /*
     * The host does not wait for the call yet, and the call runs in a fiber (mca/common/base/fiber.h). Equal on all
     * ranks. The kernel starts once all ranks have come to the call. The hosts exchange buffers only if these are not
     * known from an earlier call (mca/common/run/known.h). A team that spans nodes returns MSCCLPP_ERR_NOT_SUPPORTED if
     * its hosts have no control messages.
     */
    bool early;
    /*
     * For queued calls: the mapped buffers of all ranks, which contain both buffers of this call. NULL: none are
     * mapped.
     */
    mscclpp_mapped_t *mapped;
    /*
     * For queued calls: the call may wait for the other ranks, for some seconds at most: to map the buffers if it is
     * captured, and for a larger scratch. Equal on all ranks.
     */
    bool may_wait;
} mscclpp_allreduce_args_t;

/*
 * Executes an all-reduce of `count` elements. Blocking: returns when recvbuf has the result and sendbuf may be reused.
 * The buffers may have any kind of memory and any alignment. Memory that kernels cannot access is copied to device
 * memory and back. The call waits for work on the buffers that synchronous calls of the GPU runtime (cudaMemcpy,
 * cudaMemset) have left in flight. Other work of the application on the buffers, in streams, must have ended, as for
 * every MPI call.
 *
 * If the device lacks the type or operation, or `algorithm` is stage, returns MSCCLPP_ERR_NOT_SUPPORTED on all ranks
 * and leaves the buffers unchanged; the caller then takes another path. Every other error breaks the team.
 */
mscclpp_status_t mscclpp_allreduce(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args);

/*
 * Prepares the team for later calls with such arguments. Grows the scratch, and allocates the memory of the plan that
 * serves the calls, if there is one. In both steps hosts wait for one another, so later calls need not. Does not use
 * the buffers. Collective. If the calls would return MSCCLPP_ERR_NOT_SUPPORTED, returns it on all ranks, with nothing
 * done. After any other error peers may still be waiting: the team is not marked as broken, and the caller must destroy
 * it.
 */
mscclpp_status_t mscclpp_allreduce_prepare(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args);

/*
 * Maps the buffers of all ranks for queued calls with such arguments, if a kernel would use them. The calls may be for
 * parts of the buffers, of args->count elements each, at equal places on all ranks. Collective; waits for other ranks
 * for some seconds at most. *mapped_p is NULL on all ranks if nothing is mapped. The scratch then grows if the calls
 * need that. After an error the team is broken.
 *
 * The caller passes *mapped_p with each call, and returns it by mscclpp_allreduce_unmap_buffers when no call that uses
 * it is in progress. Calls in graphs keep the mapping as long as the graphs. The buffers must stay allocated as long as
 * calls may use them. mscclpp_allreduce_unmap_buffers never waits, accepts NULL, and may be called after the end of the
 * team.
 */
mscclpp_status_t mscclpp_allreduce_map_buffers(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                                               mscclpp_mapped_t **mapped_p);
void mscclpp_allreduce_unmap_buffers(mscclpp_mapped_t *mapped);

/*
 * Queues an all-reduce in a stream of the application. Returns when the work is queued.
 *
 * Kernels must be able to access the buffers. The host waits only in these cases:
 *
 * - The scratch grows.
 * - Packet flags begin again (mscclpp_team_reserve_epochs).
 * - Buffers larger than the packet algorithms' limit are exchanged.
 * - Synchronous calls of the GPU runtime have used memory that has not been passed before.
 *
 * Either all ranks enqueue a call or none does, since this affects the choice of algorithm. All calls of a team must
 * use one stream, or the caller must order its streams. Teams with enqueued calls in flight at the same time must be
 * created with `concurrent` set. A stream under capture is not allowed. If a kernel gives up, the team's next call
 * reports it.
 *
 * A team that serves queued operations only (mca/common/team/queue.h) has none of these limits. Several teams need no
 * `concurrent`, the stream may be under capture, and the host does not wait, with two exceptions, both of which need
 * `may_wait`: a captured call that maps buffers, and the first large call that does not. They wait until the other
 * ranks make the call, too, but at most for some seconds.
 *
 * Between nodes, the first such call starts a thread for the proxy, whatever `proxy` says. The thread executes the
 * kernels' requests and sleeps when no call is in flight. On the twin, a grid of one thread runs in the calling thread,
 * which then waits for the peers.
 */
mscclpp_status_t mscclpp_allreduce_enqueue(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                                           mscclpp_gpu_stream_t *stream);

#endif
