/*
 * Teams for queued operations: the host puts operations into streams of the application and does not wait for them, and
 * graphs may repeat them. A team for queued operations serves nothing else. All counts of its operations (packet flags,
 * barriers, operations) are in device memory, and only the device changes them. So an operation that was queued just
 * now does the same as one that a graph repeats. Both may follow one another in any order.
 *
 * The rules by which queued kernels start:
 * 1. A queued kernel may start at any time, and then waits on the device for the same operation of the other ranks,
 *    with a deadline. Other ranks may have started queued kernels of other teams first. So the kernels of all teams of
 *    a process must be able to run at the same time. Otherwise ranks could wait for one another in a circle.
 *    - A call cannot wait for free multiprocessors when it is queued, so blocks are reserved when the team is made.
 *      Each team gets a fixed number of blocks, equal on all ranks. A team that cannot reserve its blocks on some rank
 *      is not made on any rank.
 *    - All teams together get at most a quarter of the blocks that a GPU can run at once, and the first team gets half
 *      of that.
 *    - Another quarter is for early kernels (run/early.c). Those that begin after the first reservation run one at a
 *      time, beside at most one that has begun before.
 *    - Half of the GPU stays with calls that the host waits for.
 * 2. The kernels of one team run one after another on each rank, in the same order on all ranks. The application
 *    ensures this by the order of its streams or graphs. If two run at the same time, they may use the same flags; the
 *    device notices this, also if each has another scratch, and the team fails with a message.
 * 3. Teams whose ranks take turns on a GPU are not made: a kernel could wait for one that cannot run. On several nodes
 *    a thread of the proxy serves the kernels, since no host waits for them. They send no packets between nodes: the
 *    area of these is renewed by hosts only.
 * 4. Each scratch of a team has counters and flags of its own, so operations with the first scratch and with the larger
 *    one may follow one another in any order, too. A graph keeps the scratch with which it was captured.
 * 5. Calls that wait for all kernels of a device must not stand between queued kernels of several teams, unless all
 *    ranks queue these kernels in the same order. Such calls allocate and free memory without a stream, or load
 *    modules. This library makes such calls when a team is made or ends, and when its scratch grows, which the first
 *    large call makes it do. It also makes them when an execution plan gets memory for a new size, and when buffers of
 *    a request or a captured call are mapped.
 * 6. Kernels in streams that share a hardware queue run one after another, and the application's streams are not known
 *    beforehand. So an application that queues calls of several communicators in different orders on different ranks
 *    needs a hardware queue for each stream. CUDA gives a process 8, and fewer to a client of MPS, unless
 *    CUDA_DEVICE_MAX_CONNECTIONS says how many.
 */
#ifndef MCA_COMMON_TEAM_QUEUE_H
#define MCA_COMMON_TEAM_QUEUE_H

#include "mca/common/team/team.h"

/*
 * Converts a new team into a team for queued operations. Collective. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks,
 * if that is not possible. After this and any other error the caller destroys the team.
 */
mscclpp_status_t mscclpp_team_open_queue(mscclpp_team_t *team);

/*
 * Ends the queued operations of a team that will be destroyed. Waits until they have ended, up to the deadline, and
 * then makes them give up. Once a graph has repeated operations, the host cannot tell whether they have ended, so the
 * application must have waited for them. Does nothing for other teams.
 */
void mscclpp_team_close_queue(mscclpp_team_t *team);

/*
 * Finds or creates the library's stream for the application's stream `native`. The team keeps it for later calls. After
 * an error the team is broken.
 */
mscclpp_status_t mscclpp_team_find_stream(mscclpp_team_t *team, void *native, mscclpp_gpu_stream_t **stream_p);

/* Queues a barrier of the team's kernels, and does not wait. `call` is used in messages. An error breaks the team. */
mscclpp_status_t mscclpp_team_enqueue_barrier(mscclpp_team_t *team, uint64_t call, mscclpp_gpu_stream_t *stream);

/* The number of bytes that are enough for the text of any failure. */
#define MSCCLPP_TEAM_FAILURE_TEXT MSCCLPP_RUNNER_FAILURE_TEXT

/*
 * Check whether operations for which no host waits have failed, without waiting. They return MSCCLPP_OK,
 * MSCCLPP_ERR_TIMEOUT if a kernel gave up waiting for a rank, MSCCLPP_ERR_INVALID if two operations ran at the same
 * time, or MSCCLPP_ERR_PEER if another rank failed.
 *
 * - mscclpp_team_check_kernels checks only the kernels of this rank, and logs an error.
 * - mscclpp_team_find_failure also checks the peers. It writes the message into `text` and does not log it. After an
 *   error it also makes the kernels of this rank give up, and tells the other ranks.
 */
mscclpp_status_t mscclpp_team_check_kernels(mscclpp_team_t *team);
mscclpp_status_t mscclpp_team_find_failure(mscclpp_team_t *team, char *text, size_t size);

#endif
