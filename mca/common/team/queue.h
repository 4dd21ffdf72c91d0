/*
 * Teams for queued operations: the host puts them into streams of the application and waits for nothing, and graphs may
 * repeat them. Such a team serves nothing else. All that its operations count lies in device memory and is advanced by
 * the device alone: packet flags, barriers, operations. So an operation means the same whether it was queued just now
 * or is repeated by a graph, and both may follow one another in any order.
 *
 * The law by which queued kernels start:
 *
 * 1. A queued kernel may start at any time, and then waits on the device for the same operation of the other ranks,
 *    with a deadline. Other ranks may have started queued kernels of other teams first. So that ranks never wait for
 *    one another in a circle, the kernels of all teams of a process must be able to run at once. Nobody can wait for
 *    room when a call is queued. So the room is reserved when the team is made: a fixed number of blocks for each team,
 *    equal on all ranks, a quarter of those that a GPU can run at once for all teams together. A team that finds no
 *    room on some rank is not made on any rank. Early kernels (run/early.c) that begin from then on run one at a time,
 *    with another quarter, beside at most one that has begun before. Half of the GPU stays with calls that the host
 *    waits for.
 * 2. The kernels of one team run one after another on each rank, in the same order on all ranks. The application sees
 *    to that by the order of its streams or graphs. Two at once are found out, on the device, and fail the team with a
 *    message: they have used the same flags.
 * 3. Teams whose ranks take turns on a GPU are not made: a kernel could wait for one that cannot run.
 * 4. What waits for all kernels of a device must not stand between queued kernels of several teams, unless all ranks
 *    queue them in the same order: allocating and freeing memory without a stream, loading modules. This library does
 *    so where teams are made and where they end, where a team's scratch grows, and where an execution plan gets memory
 *    for a new size.
 */
#ifndef MCA_COMMON_TEAM_QUEUE_H
#define MCA_COMMON_TEAM_QUEUE_H

#include "mca/common/team/team.h"

/*
 * Makes a new team one for queued operations. Collective. MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if it cannot be one;
 * the caller destroys the team then.
 */
mscclpp_status_t mscclpp_team_open_queue(mscclpp_team_t *team);

/*
 * For the end of any team. Waits until the operations that were queued have ended, up to the deadline, then makes them
 * give up. Once a graph has repeated operations, the host cannot tell whether they have ended, and the application must
 * have waited for them.
 */
void mscclpp_team_close_queue(mscclpp_team_t *team);

/* The application's stream `native`. The team keeps it, for later calls. After an error the team is broken. */
mscclpp_status_t mscclpp_team_find_stream(mscclpp_team_t *team, void *native, mscclpp_gpu_stream_t **stream_p);

/* Queues a barrier of the team's kernels. `call` is for messages. */
mscclpp_status_t mscclpp_team_enqueue_barrier(mscclpp_team_t *team, uint64_t call, mscclpp_gpu_stream_t *stream);

/*
 * What the kernels of operations that nobody waits for have reported, and what peers have said: MSCCLPP_OK,
 * MSCCLPP_ERR_TIMEOUT if a kernel gave up waiting for a rank, MSCCLPP_ERR_INVALID if two operations ran at once,
 * MSCCLPP_ERR_PEER if another rank failed. `check_kernels` looks at the kernels of this rank alone, and logs an error.
 * `look` logs nothing and writes the message into `text`. After an error it makes the kernels of this rank give up, and
 * tells the other ranks. Neither waits.
 */
mscclpp_status_t mscclpp_team_check_kernels(mscclpp_team_t *team);
mscclpp_status_t mscclpp_team_look(mscclpp_team_t *team, char *text, size_t size);

#endif
