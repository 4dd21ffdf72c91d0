/*
 * A task: one collective operation of a team, from its arguments to its end. One task at a time is in flight in a team;
 * tasks of different teams are independent and may run in different threads.
 */
#ifndef MCA_COMMON_TASK_TASK_H
#define MCA_COMMON_TASK_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/team/team.h"

typedef struct {
    const void *sendbuf; /* equal to recvbuf for an operation in place */
    void *recvbuf;
    uint64_t count; /* elements; equal on all ranks */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    uint64_t call; /* number of this call on the communicator, from 1, for messages and mscclpp_team_announce */
    /*
     * Equal on all ranks: nobody waits for the call yet, which runs in a fiber (mca/common/base/fiber.h). The kernel
     * starts once all ranks have come to the call; what takes no further exchange of the hosts is preferred. A team of
     * several nodes does not serve it (MSCCLPP_ERR_NOT_SUPPORTED).
     */
    bool early;
} mscclpp_allreduce_args_t;

/*
 * All-reduce of `count` elements, blocking: returns when recvbuf holds the result and sendbuf may be reused. Any kind
 * of memory for either buffer (what kernels cannot touch is copied to device memory and back), any alignment, any
 * count. What the GPU runtime's synchronous calls (cudaMemcpy, cudaMemset) have left under way on the buffers comes
 * first; the application's other work on them, in streams, must have ended, as for every MPI call.
 *
 * MSCCLPP_ERR_NOT_SUPPORTED is agreed by all ranks and leaves the buffers as they were: the caller takes another path
 * (type or operation that the device lacks, or `algorithm` = stage). Every other error breaks the team.
 */
mscclpp_status_t mscclpp_allreduce(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args);

/*
 * All that makes hosts wait for one another before calls with such arguments, once and for all of them; buffers are not
 * looked at. Collective. MSCCLPP_ERR_NOT_SUPPORTED on all ranks if those calls would end so.
 */
mscclpp_status_t mscclpp_allreduce_prepare(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args);

/*
 * The same, started in a stream and not waited for: the call returns when the work is queued. Buffers must be memory
 * that kernels can touch. Waits on the host only where buffers larger than the packet algorithms' limit are exchanged,
 * and for synchronous calls of the GPU's runtime on memory that has not been passed before.
 * All ranks enqueue a call, or none does: algorithms are chosen accordingly. All calls of a team use one stream, or the
 * caller orders its streams. Teams with enqueued calls in flight at the same
 * time have to be created with `concurrent` set; a stream under capture is not allowed. A kernel that gives up is
 * reported by the team's next call. Between nodes the proxy gets a thread with the first such call, which carries out
 * what the kernels ask for, whatever `proxy` says, and sleeps when none is in flight. On the twin a grid of one thread
 * runs in the calling thread, which waits for the peers there.
 */
mscclpp_status_t mscclpp_allreduce_enqueue(mscclpp_team_t *team, const mscclpp_allreduce_args_t *args,
                                           mscclpp_gpu_stream_t *stream);

#endif
