/* The state of a call of a collective other than all-reduce, and the functions that execute the call. */
#ifndef MCA_COMMON_TASK_COLL_TASK_H
#define MCA_COMMON_TASK_COLL_TASK_H

#include "mca/common/algo/coll.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/team/parts.h"

/*
 * One call. Kernels and engines use `in` and `out`, which are the caller's buffers or device memory that replaces them.
 * Ranks have their numbers in the communicator. If all ranks are on one node, these are also their numbers in the
 * group.
 */
typedef struct {
    mscclpp_team_t *team;
    const mscclpp_coll_args_t *args;
    mscclpp_dev_pattern_t pattern;
    int rank;
    int ranks; /* number of ranks */
    int root;
    bool strided;    /* blocks with holes are moved without packing; equal on all ranks */
    bool in_place;   /* this rank's own block is already in its place in the output */
    bool by_plan;    /* a plan serves the call, unless there is no memory for the plan; equal on all ranks */
    bool swaps;      /* each two ranks swap their blocks in place; equal on all ranks */
    uint64_t bytes;  /* size in bytes of each block, if all blocks have the same size */
    uint64_t stride; /* distance in bytes from the start of one such block to the next */
    /*
     * Size in bytes of the largest block of any rank. Until mscclpp_coll_agree_size or mscclpp_coll_choose_for_pair is
     * called, it may be the largest of this rank only.
     */
    uint64_t largest;
    bool excludes_own;  /* `largest` does not count the ranks' blocks for themselves; equal on all ranks */
    uint64_t own_bytes; /* with `excludes_own`: size of the block for itself that this rank has to copy; else 0 */
    bool knows_largest; /* in a queued call: all ranks know it; equal on all ranks */
    const char *in;
    char *out;
    void *in_stand_in; /* device memory that replaces the caller's buffer; NULL: the buffer itself is used */
    void *out_stand_in;
    void *early_result; /* device memory for a result whose place in the output peers still read; NULL: not needed */
    char *home;         /* address to which the kernel copies that result at the end; NULL: it does not */
    mscclpp_dev_release_t release; /* for kernels that write only to this rank's output */
    bool in_far;                   /* kernels cannot access the user's input */
    bool out_far;                  /* kernels cannot access the user's output */
    mscclpp_gpu_stream_t *stream;  /* stream of the team, NULL until needed; in a queued call, of the application */
    bool queued;                   /* the host does not wait for the call */
    bool may_map;             /* in a queued or early call: its kernel may use mapped buffers; equal on all ranks */
    bool has_met;             /* the ranks have met for the launch, and it must follow at once; equal on all ranks */
    mscclpp_mapped_t *mapped; /* in a queued call: the buffers of all ranks; NULL: not mapped */
    mscclpp_coll_choice_t choice;

    /*
     * Buffers of all ranks after an exchange, at their addresses on this rank. NULL: the rank shares none. Not set
     * before that.
     */
    char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS]; /* by rank: place of this rank's block in that rank's output */
} mscclpp_coll_task_t;

/* The following functions are in collective.c, and coll_queued.c also uses them. */

void mscclpp_coll_init_task(mscclpp_coll_task_t *task, mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Fills in the inputs of the choice that depend only on the team and the type. */
void mscclpp_coll_describe_team(const mscclpp_team_t *team, mscclpp_dtype_t dtype, mscclpp_select_input_t *input);

/* Describes the call for an execution plan. In the result, `plan` is NULL if no plan serves the call. */
mscclpp_by_plan_t mscclpp_coll_by_plan(const mscclpp_coll_task_t *task);

/* Launches the kernel that was chosen, and waits for its end unless the call is queued. Any error breaks the team. */
mscclpp_status_t mscclpp_coll_launch(mscclpp_coll_task_t *task);

/*
 * coll_choose.c: returns true if the host does not wait for the call yet, and the user has not chosen an algorithm that
 * may make hosts wait.
 */
bool mscclpp_coll_is_early(const mscclpp_coll_task_t *task);

/*
 * Choose the algorithm and its grid. `can_map`: as far as the peers are concerned. mscclpp_coll_try_choice leaves the
 * task as it is.
 */
mscclpp_status_t mscclpp_coll_choose(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool can_map);
mscclpp_status_t mscclpp_coll_try_choice(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input,
                                         bool can_map, mscclpp_coll_choice_t *choice_p);

/*
 * Chooses the algorithm of a call whose sizes not all ranks know, without asking the other rank, and returns true. Then
 * `excludes_own` is set. Returns false if the ranks have to agree on the size, and then only the choice may have
 * changed. Equal on all ranks.
 */
bool mscclpp_coll_choose_for_pair(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input);

/*
 * Sets `own_bytes` of a call with `excludes_own`, and widens the grid so that it copies this block in good time. Called
 * when the buffers are prepared. Local: ranks may get different grids.
 */
void mscclpp_coll_add_own_block(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input);

/* Return true if the algorithm, or the chosen one, accesses the buffers of peers. */
static inline bool mscclpp_coll_maps_buffers(const mscclpp_coll_choice_t *choice)
{
    return choice->algo == MSCCLPP_COLL_BY_ZEROCOPY || choice->algo == MSCCLPP_COLL_BY_ENGINES;
}

static inline bool mscclpp_coll_needs_mapping(const mscclpp_coll_task_t *task)
{
    return mscclpp_coll_maps_buffers(&task->choice);
}

/*
 * Makes the scratch larger, if the call needs that, which *has_grown_p tells. Collective. After a growth, *input
 * describes what the team has then, and the algorithm has to be chosen again.
 */
mscclpp_status_t mscclpp_coll_grow(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input, bool *has_grown_p);

/*
 * coll_blocks.c: return the block that this rank sends to a peer, and the place of the block that it receives from a
 * peer. Kernels compute the same (device/kern/coll/blocks.h).
 */
mscclpp_dev_block_t mscclpp_coll_send_block(const mscclpp_coll_task_t *task, int peer);
mscclpp_dev_block_t mscclpp_coll_recv_block(const mscclpp_coll_task_t *task, int peer);

/* Returns the size in bytes of the combined result on this rank; 0: this rank gets no result. */
uint64_t mscclpp_coll_result_bytes(const mscclpp_coll_task_t *task);

/* Returns the size in bytes of the largest block that this rank sends to another rank, or receives from one. */
uint64_t mscclpp_coll_exchanged_bytes(const mscclpp_coll_task_t *task);

/*
 * Returns true if there are two ranks, on one node, and each knows the sizes of its own blocks only. Both know all that
 * they exchange: mscclpp_coll_exchanged_bytes is equal on them.
 */
bool mscclpp_coll_is_unsized_pair(const mscclpp_coll_task_t *task);

/* Returns the size in bytes that all ranks must pass alike, for comparisons; 0: their sizes may differ. */
uint64_t mscclpp_coll_common_bytes(const mscclpp_coll_task_t *task);

/*
 * Returns the number of bytes from the start of the input, or of the output if `input` is false, to the end of its last
 * block; 0: the buffer is not used.
 */
uint64_t mscclpp_coll_span(const mscclpp_coll_task_t *task, bool of_input);

/* Returns part `index` of `count` parts of `bytes` bytes. All parts but the last one consist of whole units. */
mscclpp_dev_block_t mscclpp_coll_part(uint64_t bytes, int index, int count);

/*
 * coll_exchange.c: sets `largest`, the size of the largest block of any rank, and `strided`, whether all ranks can move
 * blocks with holes without packing. Called if each rank knows only its own blocks. Collective; all ranks get the same
 * values.
 */
mscclpp_status_t mscclpp_coll_agree_size(mscclpp_coll_task_t *task);

/*
 * Sets `largest` and `knows_largest` of a call that all ranks capture. Does not set them, equally on all ranks, if the
 * ranks capture different calls, or if one does not come within some seconds. After that group->gave_up is set. The
 * status is an error only if a rank has failed.
 */
mscclpp_status_t mscclpp_coll_agree_size_by_deadline(mscclpp_coll_task_t *task);

/*
 * Maps the peers' buffers and sets `peer_in`, `peer_out` and `place`. Collective. *mapped_p is equal on all ranks. It
 * is false if any buffer cannot be mapped. An early call needs no exchange if all ranks pass the buffers of an earlier
 * one again (mca/common/run/known.h). The function then sets `has_met`. Otherwise a fiber may be open if *mapped_p is
 * true.
 */
mscclpp_status_t mscclpp_coll_exchange(mscclpp_coll_task_t *task, bool *mapped_p);

/*
 * Exchanges the buffers of a request before its first start, so that the starts find them in the list of known ones.
 * They do not if a rank is not willing, or cannot map a buffer, which is not an error. Collective.
 */
mscclpp_status_t mscclpp_coll_exchange_ahead(mscclpp_coll_task_t *task, bool is_willing);

/*
 * Map the peers' buffers for a captured call or a request. mscclpp_coll_map_buffers sets `mapped`, which stays NULL on
 * all ranks if not all buffers can be mapped, or if a rank does not come in time (mscclpp_runner_map_buffers).
 * mscclpp_coll_use_mapped then sets `peer_in`, `peer_out` and `place`.
 */
mscclpp_status_t mscclpp_coll_map_buffers(mscclpp_coll_task_t *task);
void mscclpp_coll_use_mapped(mscclpp_coll_task_t *task);

/* Waits until all ranks have come to this point, or a rank has failed. `event_name` names the point in messages. */
mscclpp_status_t mscclpp_coll_meet(mscclpp_coll_task_t *task, const char *event_name);

/*
 * coll_buffers.c: replaces buffers that kernels cannot access by device memory. Two operations may also need device
 * memory if they are in place. An all-to-all by copy engines or between nodes would read data that peers overwrite, so
 * it reads from a copy. The result of a reduce-scatter may overlap blocks that peers read, so it is first written to
 * other memory.
 */
mscclpp_status_t mscclpp_coll_prepare_buffers(mscclpp_coll_task_t *task);

/* Returns true if data with holes is packed on this rank. */
bool mscclpp_coll_packs(const mscclpp_coll_task_t *task);

/*
 * Prepares the buffers for an algorithm that uses the scratch, after they were prepared for an algorithm that maps
 * them.
 */
mscclpp_status_t mscclpp_coll_stop_mapping(mscclpp_coll_task_t *task);

/*
 * Copies the result back if `status` is MSCCLPP_OK, and frees the device memory. Returns `status`, or the first error.
 * If a kernel may still run, the memory is leaked with the failed team.
 */
mscclpp_status_t mscclpp_coll_restore_buffers(mscclpp_coll_task_t *task, mscclpp_status_t status);

/* Takes the team's stream for work other than the kernel. A queued call has a stream already. */
mscclpp_status_t mscclpp_coll_ensure_stream(mscclpp_coll_task_t *task);

/*
 * coll_pack.c: packs data with holes in the task's stream, or unpacks it if `unpack` is set. `is_far` says that kernels
 * cannot access the user's buffer; the bytes are then copied without a kernel.
 */
mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool is_far);

/*
 * coll_direct.c: fills in the data that this rank's kernel or engines read and write. *direct must be zeroed, and the
 * buffers must have been exchanged.
 */
void mscclpp_coll_fill_direct(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct);

/* Fills in the arguments of the kernel that moves blocks with holes directly. */
void mscclpp_coll_fill_strided(const mscclpp_coll_task_t *task, mscclpp_dev_strided_args_t *strided);

/*
 * coll_engines.c: moves the blocks by copy engines, and waits until all ranks' copies are done. The buffers must have
 * been exchanged.
 */
mscclpp_status_t mscclpp_coll_run_engines(mscclpp_coll_task_t *task);

#endif
