/*
 * All-reduce of large messages by copy engines. The engines of each rank put its operands, chunk by chunk, into slots
 * in the memory of the rank that owns the chunk; a kernel on few processors reduces them there
 * (device/kern/allreduce/reduce_chunk.h); the owner's engines put the result into the output of every peer.
 *
 * The host of each rank, which waits for the call anyway, starts every copy and every kernel when what it depends on
 * has happened. So nothing on a device ever waits: the engines are not held up by waits that fall due late, copies
 * follow on copies as long as there are any, streams that share a hardware queue cannot block each other, kernels take
 * processors only while they reduce, and after a failure all streams run empty by themselves, with nothing sent that
 * was not ready to be sent. The slots of one chunk are filled while the other's operands are reduced, which hides both
 * the reduction and the hosts' part.
 *
 * Hosts tell each other what has happened in three words of the board (group/board.h): how many chunks of
 * operands their engines have brought to all peers, which an event behind each of these copies says; how many chunks
 * of their shards their kernels have reduced, which the mailbox says; and that their engines have brought all results
 * of a call. An engine that finishes a copy needs no time for that, as it would for a flag of its own behind the copy.
 *
 * Send and receive buffer may be the same on any ranks. Of a rank's buffer, chunk k of the shard of a peer is
 * overwritten by that peer's result, which was sent after the peer had reduced the chunk, for which the rank's operand
 * had to arrive: the engine had read these very bytes by then. Chunk k of the own shard is read and written by the own
 * kernel alone; the engines read it once it is reduced. No two chunks share a byte. Where the buffers are different the
 * send buffer is never written.
 */
#ifndef MCA_COMMON_ENGINE_ENGINE_H
#define MCA_COMMON_ENGINE_ENGINE_H

#include "device/types/reduce.h"
#include "mca/common/algo/shape/engine_plan.h"
#include "mca/common/run/runner.h"

/* Streams of a call at most. Beyond them peers share. */
#define MSCCLPP_ENGINE_STREAMS 16

/* What one call needs to know of a peer. */
typedef struct {
    uint64_t sent;     /* operand chunks on their way to it */
    uint64_t landed;   /* of these, arrived */
    uint64_t returned; /* result chunks on their way to it */
} mscclpp_engine_peer_t;

/* What a team keeps for its copy engines. Used only by the thread that has the team's task in hand. */
typedef struct {
    mscclpp_runner_t *runner;
    mscclpp_group_t *group;                             /* the runner's */
    const mscclpp_protocol_t *protocol;                 /* the team's, which outlives this */
    bool usable;                                        /* agreed by all ranks */
    mscclpp_dev_engine_t *memory;                       /* this rank's; NULL: none */
    char *mapped[MSCCLPP_DEV_MAX_RANKS];                /* that of all ranks, mapped; the own one included */
    mscclpp_gpu_handle_t handle[MSCCLPP_DEV_MAX_RANKS]; /* of the peers' */
    uint64_t base;                                      /* chunks of all earlier calls */

    /* By peer: behind the operand in each slot, and behind the last result of a call. */
    mscclpp_gpu_event_t *operand[MSCCLPP_DEV_MAX_RANKS][MSCCLPP_DEV_ENGINE_DEPTH];
    mscclpp_gpu_event_t *result[MSCCLPP_DEV_MAX_RANKS];

    /* Of the call in hand. */
    mscclpp_engine_plan_t plan;
    mscclpp_dev_launch_t launch;    /* of a chunk's reduction, but for its arguments */
    const mscclpp_dev_args_t *args; /* with the buffers of the message */
    char *const *peer_out;
    mscclpp_engine_peer_t peer[MSCCLPP_DEV_MAX_RANKS];
    uint64_t begun;    /* own chunks whose reduction is over or under way */
    uint64_t launches; /* of the team, before the call */
    uint64_t kernels;  /* launched in the call: none for an empty chunk */
    mscclpp_gpu_stream_t *streams[MSCCLPP_ENGINE_STREAMS];
    int stream_count;
} mscclpp_engine_t;

/*
 * Makes sure that the team has its engine memory, mapped by all ranks and tried out. Collective; blocking at the first
 * call only, which allocates: *engine_p is NULL before it. *usable_p is agreed by all ranks, for the team's life.
 */
mscclpp_status_t mscclpp_engine_open(mscclpp_runner_t *runner, const mscclpp_protocol_t *protocol,
                                     mscclpp_engine_t **engine_p, bool *usable_p);

/*
 * Closes the mappings of the peers' memory and frees the engine; NULL is allowed. Returns the own memory, which the
 * peers may still map, or NULL; it is the caller's to free.
 */
void *mscclpp_engine_close(mscclpp_engine_t *engine);

/*
 * Performs one call, blocking, with buffers that were exchanged: `peer_out` are the mapped outputs of all ranks. `args`
 * have all fields filled in. After an error no engine of this rank works on any buffer, or the runner is stuck.
 */
mscclpp_status_t mscclpp_engine_run(mscclpp_engine_t *engine, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out);

/*
 * After a failure: waits for what is in a stream, which ends by itself. If it does not, the runner is stuck, and
 * nothing that it uses is ever freed.
 */
void mscclpp_engine_settle(const mscclpp_engine_t *engine, mscclpp_gpu_stream_t *stream);

#endif
