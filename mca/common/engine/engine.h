/*
 * All-reduce of large messages by copy engines, in three steps for each chunk of the message:
 * - The engines of each rank put its operands into slots in the memory of the rank that owns the chunk.
 * - A kernel on few multiprocessors reduces them there (device/kern/allreduce/reduce_chunk.h).
 * - The owner's engines put the result into the output of every peer.
 *
 * While one chunk's operands are reduced, another chunk's slots are filled, which hides the reduction and the hosts'
 * work.
 *
 * The host of each rank waits for the call anyway. So it starts every copy and every kernel itself once their
 * dependencies are met, and nothing on a device ever waits. Therefore:
 * - Engines do not idle in waits: copies follow each other directly, as long as there are any.
 * - Streams that share a hardware queue cannot block each other.
 * - Kernels take multiprocessors only while they reduce.
 * - After a failure all streams run empty by themselves, and nothing is sent that was not ready.
 *
 * Hosts report progress to each other in three words of the board (mca/common/group/board.h). This costs the engines no
 * time, unlike a copy of a flag after each copy of data. The words of a rank hold:
 * - the number of operand chunks that this rank's engines have delivered to all peers, known from an event after each
 *   copy;
 * - the number of chunks of its own shard that its kernels have reduced, known from the mailbox;
 * - the number of result chunks that its engines have delivered to all peers, updated at the end of a call.
 *
 * Why send and receive buffer may be the same: in a rank's buffer, the result of a peer's chunk overwrites this rank's
 * operand for it. The peer sends the result after it has reduced the chunk, so the operand has arrived there, and this
 * rank's engine has read these bytes. A chunk of the rank's own shard is read and written by its own kernel only; the
 * engines read it after the reduction. No two chunks share a byte. If the buffers differ, the send buffer is never
 * written.
 */
#ifndef MCA_COMMON_ENGINE_ENGINE_H
#define MCA_COMMON_ENGINE_ENGINE_H

#include "device/types/reduce.h"
#include "mca/common/algo/shape/engine_plan.h"
#include "mca/common/run/runner.h"

/* The most streams of a call. With more peers, several share a stream. */
#define MSCCLPP_ENGINE_STREAMS 16

/* A call's progress with one peer. */
typedef struct {
    uint64_t sent;     /* operand chunks whose copy to the peer was started */
    uint64_t landed;   /* operand chunks that have arrived there */
    uint64_t returned; /* result chunks whose copy to the peer was started */
} mscclpp_engine_peer_t;

/* A team's state for copy engines. Only the thread that runs the team's current task uses it. */
typedef struct {
    mscclpp_runner_t *runner;
    mscclpp_group_t *group;                             /* same as the runner's group */
    const mscclpp_protocol_t *protocol;                 /* the team's; outlives this struct */
    const void *process;                                /* whose teams share the memory; NULL: it is not shared */
    bool usable;                                        /* copy engines can be used; equal on all ranks */
    mscclpp_dev_engine_t *memory;                       /* this rank's engine memory; NULL: none */
    char *mapped[MSCCLPP_DEV_MAX_RANKS];                /* `memory` of all ranks, mapped; includes this rank's */
    mscclpp_gpu_handle_t handle[MSCCLPP_DEV_MAX_RANKS]; /* handles of the peers' memory */
    uint64_t earlier_chunks; /* of a shard, in all earlier calls; the words on the board count from the first call */

    /*
     * Events for each peer; NULL for this rank itself. An event of operand_copied passes once an operand is in that
     * slot of the peer, and result_copied once the last result of a call is in the peer's output.
     */
    mscclpp_gpu_event_t *operand_copied[MSCCLPP_DEV_MAX_RANKS][MSCCLPP_DEV_ENGINE_DEPTH];
    mscclpp_gpu_event_t *result_copied[MSCCLPP_DEV_MAX_RANKS];

    /* The current call. */
    mscclpp_engine_plan_t plan;
    mscclpp_dev_launch_t launch;    /* reduces a chunk; its arguments are filled in per chunk */
    const mscclpp_dev_args_t *args; /* contains the buffers of the whole message */
    char *const *peer_out;          /* the mapped outputs of all ranks */
    mscclpp_engine_peer_t peer[MSCCLPP_DEV_MAX_RANKS];
    uint64_t begun;            /* chunks of this rank's shard whose reduction was started */
    uint64_t earlier_launches; /* number of the team's operations before this call */
    uint64_t kernels;          /* kernels launched in this call; an empty chunk takes none */
    mscclpp_gpu_stream_t *streams[MSCCLPP_ENGINE_STREAMS];
    int stream_count;
} mscclpp_engine_t;

/*
 * Sets up the copy engines at the first call, when *engine_p is NULL: allocates their memory, maps it on all ranks and
 * tests the copies. Collective; only the first call blocks. *usable_p tells whether copy engines can serve: all ranks
 * agree on that, once for the team's life. *engine_p may exist even after a failure; mscclpp_engine_close frees it.
 *
 * `process`: what stands for this process, whose teams then share the memory; NULL: this team has memory of its own. A
 * team that shares memory must have set it up, and must run its calls, while no other team of the process does.
 */
mscclpp_status_t mscclpp_engine_open(mscclpp_runner_t *runner, const mscclpp_protocol_t *protocol, const void *process,
                                     mscclpp_engine_t **engine_p, bool *usable_p);

/*
 * False if a call of a team that shares the memory has failed, so that engines must not serve here any more. This rank
 * alone knows it, and has to tell the others. True for NULL.
 */
bool mscclpp_engine_is_sound(const mscclpp_engine_t *engine);

/*
 * Closes the mappings of the peers' memory and frees the engine; NULL is allowed. Returns this rank's engine memory, or
 * NULL. Peers may still map it; the caller has to free it.
 */
void *mscclpp_engine_close(mscclpp_engine_t *engine);

/*
 * Carries out one blocking call, and returns once all results of all ranks are delivered. `peer_out` are the mapped
 * outputs of all ranks, from an exchange. All fields of `args` are filled in. If it fails, either no engine of this
 * rank uses any buffer any more, or the runner is marked as stuck.
 */
mscclpp_status_t mscclpp_engine_run(mscclpp_engine_t *engine, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out);

/*
 * After a failure, waits for the work in a stream, which should end by itself. If it does not, marks the runner as
 * stuck, so that nothing that it uses is ever freed.
 */
void mscclpp_engine_settle(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream);

#endif
