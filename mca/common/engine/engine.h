/*
 * All-reduce of large messages by copy engines, in three steps for each chunk of the message:
 *
 * - The engines of each rank put its operands into slots in the memory of the rank that owns the chunk.
 * - A kernel on few multiprocessors reduces them there (device/kern/allreduce/reduce_chunk.h).
 * - The owner's engines put the result into the output of every peer.
 *
 * While one chunk's operands are reduced, another chunk's slots are filled, which hides the reduction and the hosts'
 * work.
 *
 * The host of each rank waits for the call anyway. So it starts each copy and each kernel itself once its dependencies
 * are met, and nothing on a device ever waits. Therefore:
 *
 * - Engines do not idle in waits: copies follow one another directly.
 * - Streams that share a hardware queue cannot block each other.
 * - Kernels take multiprocessors only while they reduce.
 * - After a failure all streams become empty without help, and no data is sent that was not ready.
 *
 * Hosts report progress to one another in three words of the board (mca/common/group/board.h). This costs the engines
 * no time, unlike a copy of a flag after each copy of data. The words of a rank hold:
 *
 * - the number of operand chunks that this rank's engines have delivered to all peers, known from an event after each
 *   copy;
 * - the number of chunks of its own shard that its kernels have reduced, known from the mailbox;
 * - the number of result chunks that its engines have delivered to all peers, updated at the end of a call.
 *
 * The send buffer and the receive buffer may be the same. In a rank's buffer, the result of a peer's chunk overwrites
 * the rank's operand of that chunk. The peer sends the result after it has reduced the chunk, so the rank's engine has
 * already read the operand. Only the rank's own kernel reads and writes a chunk of the rank's own shard; the engines
 * read it after the reduction. No two chunks share a byte. If the buffers differ, the send buffer is never written.
 */
#ifndef MCA_COMMON_ENGINE_ENGINE_H
#define MCA_COMMON_ENGINE_ENGINE_H

#include "device/types/reduce.h"
#include "mca/common/algo/shape/engine_plan.h"
#include "mca/common/run/runner.h"

/* The maximum number of streams of a call. With more peers, several share a stream. */
#define MSCCLPP_ENGINE_STREAMS 16

/* A call's progress with one peer. */
typedef struct {
    uint64_t sent;     /* number of operand chunks whose copy to the peer was started */
    uint64_t landed;   /* number of operand chunks that have arrived at the peer */
    uint64_t returned; /* number of result chunks whose copy to the peer was started */
} mscclpp_engine_peer_t;

/* A team's state for copy engines. Only the thread that runs the team's current task uses it. */
typedef struct {
    mscclpp_runner_t *runner;
    mscclpp_group_t *group;              /* same as the runner's group */
    const mscclpp_protocol_t *protocol;  /* protocol of the team; outlives this struct */
    const void *process;                 /* identifies the process whose teams share the memory; NULL: not shared */
    bool is_usable;                      /* copy engines can be used; equal on all ranks */
    mscclpp_dev_engine_t *memory;        /* this rank's engine memory; NULL: none */
    char *mapped[MSCCLPP_DEV_MAX_RANKS]; /* mapped `memory` of all ranks, including this rank */
    mscclpp_gpu_handle_t handle[MSCCLPP_DEV_MAX_RANKS]; /* handles of the peers' memory */
    uint64_t earlier_chunks; /* number of chunks of a shard in all earlier calls; the words on the board include them */

    /*
     * Events for each peer; NULL for this rank itself. An event in operand_copied has passed when an operand is in that
     * slot of the peer. An event in result_copied has passed when the last result of a call is in the peer's output.
     */
    mscclpp_gpu_event_t *operand_copied[MSCCLPP_DEV_MAX_RANKS][MSCCLPP_DEV_ENGINE_DEPTH];
    mscclpp_gpu_event_t *result_copied[MSCCLPP_DEV_MAX_RANKS];

    /* The current call. */
    mscclpp_engine_plan_t plan;
    mscclpp_dev_launch_t launch;    /* launch of the kernel that reduces a chunk, with arguments for one chunk */
    const mscclpp_dev_args_t *args; /* arguments of the call, with the buffers of the whole message */
    char *const *peer_out;          /* the mapped outputs of all ranks */
    mscclpp_engine_peer_t peer[MSCCLPP_DEV_MAX_RANKS];
    uint64_t reductions_begun; /* number of chunks of this rank's shard whose reduction was started */
    uint64_t earlier_launches; /* number of the team's operations before this call */
    uint64_t kernels_launched; /* number of kernels launched in this call; an empty chunk takes no kernel */
    mscclpp_gpu_stream_t *streams[MSCCLPP_ENGINE_STREAMS];
    int stream_count;
} mscclpp_engine_t;

/*
 * Sets up the copy engines at the first call, when *engine_p is NULL: allocates their memory, maps it on all ranks and
 * tests the copies. Collective; only the first call blocks. If the status is MSCCLPP_OK, *usable_p says whether copy
 * engines can be used. All ranks agree on that once, for the lifetime of the team. An error breaks the
 * team, and *engine_p may be set even then. mscclpp_engine_close frees the engine.
 *
 * `process` identifies this process, and its teams share the memory. If `process` is NULL, this team has memory of its
 * own. Only one team of the process at a time may set up shared memory or run a call there.
 */
mscclpp_status_t mscclpp_engine_open(mscclpp_runner_t *runner, const mscclpp_protocol_t *protocol, const void *process,
                                     mscclpp_engine_t **engine_p, bool *usable_p);

/*
 * Returns false if a call of a team that shares the memory has failed. The engines must then not be used any more.
 * Other ranks may get another result, so the caller has to tell them. Returns true for NULL.
 */
bool mscclpp_engine_is_sound(const mscclpp_engine_t *engine);

/*
 * Closes the mappings of the peers' memory and frees the engine; NULL is allowed. Returns this rank's engine memory, or
 * NULL if there is none. The caller gives it back (mscclpp_engine_memory_give) once no peer maps it any more.
 */
void *mscclpp_engine_close(mscclpp_engine_t *engine);

/*
 * Executes one blocking call, and returns once all results of all ranks are delivered. `choice` must be one for copy
 * engines. `peer_out` has the mapped outputs of all ranks, from an exchange. All fields of `args` must be set. An error
 * breaks the team. After that no engine of this rank uses any buffer, unless the runner is marked as stuck.
 */
mscclpp_status_t mscclpp_engine_run(mscclpp_engine_t *engine, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out);

/*
 * Waits for the work in a stream, after a failure. If the work does not end within some seconds, or ends with an error,
 * marks the runner as stuck, so that memory that the work uses is never freed.
 */
void mscclpp_engine_settle(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream);

#endif
