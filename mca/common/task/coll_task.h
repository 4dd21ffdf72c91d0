/* Internals of a call of a collective other than all-reduce. */
#ifndef MCA_COMMON_TASK_COLL_TASK_H
#define MCA_COMMON_TASK_COLL_TASK_H

#include "mca/common/algo/coll.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/team/parts.h"

/*
 * One call. Kernels and engines use `in` and `out`: the caller's buffers, or device memory in their place. Ranks have
 * their numbers in the communicator. If all are on one node, these are also their numbers in the group.
 */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_coll_args_t *args;
    mscclpp_dev_pattern_t pattern;
    int rank;
    int ranks; /* number of ranks */
    int root;
    bool strided;    /* blocks with holes are moved without packing; equal on all ranks */
    bool in_place;   /* this rank's own block is already at its place in the output */
    bool by_plan;    /* a plan serves the call, unless it has no memory; equal on all ranks */
    bool swaps;      /* each two ranks swap their blocks where these lie; equal on all ranks */
    uint64_t bytes;  /* size of one block if all blocks have one size, bytes */
    uint64_t stride; /* from the start of one such block to the next, bytes */
    /* Bytes of the largest block of any rank; perhaps of this rank alone, until mscclpp_coll_agree_size is called. */
    uint64_t largest;
    const char *in;
    char *out;
    void *in_stand_in; /* device memory in place of the caller's buffer; NULL: the buffer itself is used */
    void *out_stand_in;
    void *early_result;            /* device memory for a result whose place peers still read; NULL: not needed */
    char *home;                    /* where the kernel copies that result in the end; NULL: nowhere */
    mscclpp_dev_release_t release; /* for kernels that write only to this rank's output */
    bool in_far;                   /* kernels cannot access the user's input */
    bool out_far;                  /* kernels cannot access the user's output */
    mscclpp_gpu_stream_t *stream;  /* the team's stream, NULL until it is needed; in a queued call, the application's */
    bool queued;                   /* the host does not wait for the call */
    bool may_map;                  /* of a queued call: its kernel may use mapped buffers; equal on all ranks */
    mscclpp_mapped_t *mapped;      /* of a queued call: the buffers of all ranks; NULL: not mapped */
    mscclpp_coll_choice_t choice;

    /* Buffers of all ranks after an exchange, at their addresses on this rank. NULL: the rank shares none. */
    char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS]; /* where in each rank's output this rank's block belongs */
} mscclpp_coll_task_t;

/* collective.c, used by coll_queued.c, too. */

/* Initializes the fields that depend only on the arguments. Also notes the call in the group, for messages. */
void mscclpp_coll_init_task(mscclpp_coll_task_t *task, mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Fills in what the choice needs to know of the team. */
void mscclpp_coll_describe_team(const mscclpp_team_t *team, mscclpp_dtype_t dtype, mscclpp_select_input_t *input);

/* Chooses the algorithm and its grid. `can_map`: as far as the peers are concerned. */
mscclpp_status_t mscclpp_coll_choose(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool can_map);

/* Describes the call for an execution plan. In the result, `plan` is NULL if no plan serves the call. */
mscclpp_by_plan_t mscclpp_coll_by_plan(const mscclpp_coll_task_t *task);

/* Launches the kernel that was chosen, and waits for its end unless the call is queued. Any error breaks the team. */
mscclpp_status_t mscclpp_coll_launch(mscclpp_coll_task_t *task);

/*
 * coll_blocks.c: the block that this rank sends to a peer, and the place of the block that it receives from a peer, as
 * on the device (device/kern/coll/blocks.h).
 */
mscclpp_dev_block_t mscclpp_coll_send_block(const mscclpp_coll_task_t *task, int peer);
mscclpp_dev_block_t mscclpp_coll_recv_block(const mscclpp_coll_task_t *task, int peer);

/* Returns the bytes of the combined result on this rank; 0: it gets none. */
uint64_t mscclpp_coll_result_bytes(const mscclpp_coll_task_t *task);

/* Returns the bytes from the start of the input (else the output) to the end of its last block; 0: it is not used. */
uint64_t mscclpp_coll_span(const mscclpp_coll_task_t *task, bool input);

/* Returns part `index` of `count` parts of `bytes` bytes. All but the last of them consist of whole units. */
mscclpp_dev_block_t mscclpp_coll_part(uint64_t bytes, int index, int count);

/*
 * coll_exchange.c: sets `largest` and `strided` of a call of which each rank knows only its own blocks: the size of the
 * largest block of any rank, and whether all ranks can move blocks with holes without packing. Collective; all ranks
 * get the same.
 */
mscclpp_status_t mscclpp_coll_agree_size(mscclpp_coll_task_t *task);

/*
 * Maps the peers' buffers and sets `peer_in`, `peer_out` and `place`. Collective. *mapped_p is equal on all ranks: it
 * is false if any buffer cannot be mapped.
 */
mscclpp_status_t mscclpp_coll_exchange(mscclpp_coll_task_t *task, bool *mapped_p);

/*
 * The same for a queued call that is captured, or for a request: sets `mapped`, which stays NULL on all ranks if not
 * all buffers can be mapped, or if a rank does not come in time (mscclpp_runner_map). `use_mapped` then sets `peer_in`,
 * `peer_out` and `place`.
 */
mscclpp_status_t mscclpp_coll_map(mscclpp_coll_task_t *task);
void mscclpp_coll_use_mapped(mscclpp_coll_task_t *task);

/* Waits until all ranks have come to this point, or one has failed. `what` names the point in messages. */
mscclpp_status_t mscclpp_coll_meet(mscclpp_coll_task_t *task, const char *what);

/*
 * coll_buffers.c: replaces buffers that kernels cannot access by device memory. Two operations may need some if they
 * are in place. An all-to-all by copy engines or between nodes would read what peers write, so it reads from a copy.
 * The result of a reduce-scatter may lie over blocks that peers read, so it is written elsewhere first.
 */
mscclpp_status_t mscclpp_coll_prepare_buffers(mscclpp_coll_task_t *task);

/* True if data with holes is packed on this rank. */
bool mscclpp_coll_packs(const mscclpp_coll_task_t *task);

/* Makes the buffers fit the choice, an algorithm through the scratch, after they were prepared for one that maps them.
 */
mscclpp_status_t mscclpp_coll_stop_mapping(mscclpp_coll_task_t *task);

/*
 * Frees the memory, after it has copied the result back if `status` is MSCCLPP_OK. Returns `status`, or the first
 * error. If a kernel may still run, the memory is leaked with the failed team.
 */
mscclpp_status_t mscclpp_coll_restore_buffers(mscclpp_coll_task_t *task, mscclpp_status_t status);

/* Takes the team's stream for work other than the kernel. A queued call has a stream already. */
mscclpp_status_t mscclpp_coll_ensure_stream(mscclpp_coll_task_t *task);

/*
 * coll_pack.c: packs data with holes in the task's stream, or unpacks it if `unpack` is set. `is_far`: kernels cannot
 * access the user's buffer, so the bytes are copied without a kernel.
 */
mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool is_far);

/* coll_direct.c: fills in what this rank's kernel or engines read and write. The buffers must have been exchanged. */
void mscclpp_coll_fill_direct(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct);

/* Like mscclpp_coll_fill_direct, for blocks with holes. */
void mscclpp_coll_fill_strided(const mscclpp_coll_task_t *task, mscclpp_dev_strided_args_t *strided);

/*
 * coll_engines.c: moves the blocks by copy engines, and waits until all ranks' copies are done. The buffers must have
 * been exchanged.
 */
mscclpp_status_t mscclpp_coll_run_engines(mscclpp_coll_task_t *task);

#endif
