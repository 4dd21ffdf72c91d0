/*
 * All-reduce of large messages by copy engines. The engines of each rank put its operands, chunk by chunk, into slots
 * in the memory of the rank that owns the chunk; a kernel on few processors reduces them there
 * (device/kern/reduce_chunks.h); the owner's engines put the result into the output of every peer.
 *
 * The host of each rank, which waits for the call anyway, starts every copy when what it depends on has happened. So
 * nothing in the engines' streams ever waits: they are not held up by waits that fall due late, copies follow on copies
 * as long as there are any, streams that share a hardware queue cannot block each other, and after a failure the
 * streams run empty by themselves, with nothing sent that was not ready to be sent. Operands run ahead of results by up
 * to MSCCLPP_DEV_ENGINE_DEPTH chunks, which hides both the reduction and the hosts' part.
 *
 * Three kinds of news travel. To kernels: flags in device memory, raised by the engine that moved the data, behind them
 * (an operand or a result has arrived, a stream has done all its reading). From the kernel to its host: a word in
 * mapped memory, the chunks reduced. From host to host: the same number in the control segment, which says that slots
 * are free.
 */
#ifndef MCA_COMMON_ENGINE_H
#define MCA_COMMON_ENGINE_H

#include "device/engine_types.h"
#include "mca/common/algo.h"
#include "mca/common/gpu.h"
#include "mca/common/team.h"

/* Streams of a call at most. Beyond them peers share. */
#define MSCCLPP_ENGINE_STREAMS 16

/* How a message is cut; see mscclpp_dev_reduce_args_t. */
typedef struct {
    uint64_t shard;  /* bytes */
    uint64_t chunk;  /* bytes */
    uint64_t chunks; /* of a shard, 1 to MSCCLPP_DEV_ENGINE_VALUES */
} mscclpp_engine_plan_t;

/* Pure. False if engines cannot carry such a message. Two ranks at least. */
bool mscclpp_engine_plan(uint64_t bytes, uint32_t nranks, const mscclpp_protocol_t *protocol,
                         mscclpp_engine_plan_t *plan_p);

/* Bytes of the largest chunk that a team's slots hold; 0: there is no room for any. Pure. */
uint64_t mscclpp_engine_chunk_max(uint32_t nranks, const mscclpp_protocol_t *protocol);

/* What a team keeps for its copy engines. Used only by the thread that has the team's task in hand. */
typedef struct mscclpp_engine {
    bool usable;                                        /* agreed by all ranks */
    mscclpp_dev_engine_t *memory;                       /* this rank's; NULL: none */
    char *peer[MSCCLPP_DEV_MAX_RANKS];                  /* that of all ranks, mapped; the own one included */
    mscclpp_gpu_handle_t handle[MSCCLPP_DEV_MAX_RANKS]; /* of the peers' */
    uint64_t *reduced;                                  /* chunks reduced by the own kernel, as the host sees it */
    uint64_t *device_reduced;                           /* as the kernel sees it */
    uint64_t values_first;                              /* memory->values[0]; 0: not yet written */
    uint64_t base;                                      /* chunks of all earlier calls */

    /* Of the call in hand. */
    mscclpp_engine_plan_t plan;
    const char *in;
    const char *out;
    uint64_t bytes;
    char *const *peer_out;
    uint64_t sent[MSCCLPP_DEV_MAX_RANKS];     /* by owner: operand chunks on their way */
    uint64_t returned[MSCCLPP_DEV_MAX_RANKS]; /* by receiver: result chunks on their way */
    mscclpp_gpu_stream_t *streams[MSCCLPP_ENGINE_STREAMS];
    int stream_count;
    int streams_per_peer;
} mscclpp_engine_t;

/*
 * Makes sure that the team has its engine memory, mapped by all ranks and tried out. Collective; blocking at the first
 * call only, which allocates. *usable_p is agreed by all ranks, for the team's life.
 */
mscclpp_status_t mscclpp_engine_open(mscclpp_team_t *team, bool *usable_p);

/*
 * Closes the mappings of the peers' memory. Returns the own memory, which the peers may still map, or NULL; it is the
 * caller's to free. The team has no engines after it.
 */
void *mscclpp_engine_close(mscclpp_team_t *team);

/*
 * Performs one call, blocking, with buffers that were exchanged: `peer_out` are the mapped outputs of all ranks. `args`
 * have all fields filled in. After an error no engine of this rank works on any buffer, or the team is stuck.
 */
mscclpp_status_t mscclpp_engine_run(mscclpp_team_t *team, const mscclpp_choice_t *choice,
                                    const mscclpp_dev_args_t *args, char *const *peer_out);

/*
 * After a failure: waits for a stream's copies, which end by themselves. If they do not, the team is stuck, and nothing
 * that they use is ever freed.
 */
void mscclpp_engine_settle(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream);

#endif
