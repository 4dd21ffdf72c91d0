/*
 * The state of a call of a collective other than all-reduce, and the functions that execute the call. Only one thread
 * at a time uses a task.
 */
#ifndef MCA_COMMON_TASK_COLL_TASK_H
#define MCA_COMMON_TASK_COLL_TASK_H

#include "mca/common/algo/coll.h"
#include "mca/common/task/by_plan.h"
#include "mca/common/team/parts.h"

/*
 * One call. Kernels and copy engines use `in` and `out`: the caller's buffers, or device memory that replaces them.
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
    bool is_strided; /* blocks with holes are moved without packing; equal on all ranks */
    bool in_place;   /* this rank's own block is already in its place in the output */
    bool has_plan;   /* a plan serves the call, unless there is no memory for the plan; equal on all ranks */
    bool swaps;      /* each two ranks swap their blocks in place; equal on all ranks */
    uint64_t bytes;  /* size in bytes of each block, if all blocks have the same size */
    uint64_t stride; /* distance in bytes from the start of one such block to the next */
    /*
     * Size in bytes of the largest block of any rank. Before mscclpp_coll_agree_size or mscclpp_coll_choose_for_pair is
     * called, it may be that of the largest block of this rank only.
     */
    uint64_t largest_block;
    bool excludes_own;  /* `largest_block` does not count the ranks' blocks for themselves; equal on all ranks */
    uint64_t own_bytes; /* with `excludes_own`: size in bytes of this rank's block for itself; otherwise 0 */
    bool knows_largest; /* in a queued call: all ranks know `largest_block`; equal on all ranks */
    const char *in;
    char *out;
    void *in_stand_in; /* device memory that replaces the caller's buffer; NULL: the buffer itself is used */
    void *out_stand_in;
    void *early_result; /* device memory for the result while peers still read its place in the output; or NULL */
    char *final_result; /* place in the output to which the kernel copies `early_result` at the end; or NULL */
    mscclpp_dev_release_t release; /* for kernels that write only to this rank's output: who can see the result */
    bool in_unreachable;           /* kernels cannot access the user's input */
    bool out_unreachable;          /* kernels cannot access the user's output */
    mscclpp_gpu_stream_t *stream;  /* stream of the team, NULL until needed; in a queued call, of the application */
    bool is_queued;                /* the host does not wait for the call */
    bool may_map;             /* in a queued or early call: its kernel may use mapped buffers; equal on all ranks */
    bool has_met;             /* the ranks have met for the launch, which must follow at once; equal on all ranks */
    mscclpp_mapped_t *mapped; /* in a queued call: the buffers of all ranks; NULL: not mapped */
    mscclpp_coll_choice_t choice;

    /* From here on, fields are set by an exchange of buffers. Addresses are those on this rank; NULL: not shared. */
    char *peer_in[MSCCLPP_DEV_MAX_RANKS];
    char *peer_out[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_dev_runs_t place[MSCCLPP_DEV_MAX_RANKS]; /* by rank: place of this rank's block in that rank's output */
} mscclpp_coll_task_t;

/* The following functions are in collective.c, and coll_queued.c also uses them. */

/* Fills in the task of a call, and the number and the name of the team's current call. */
void mscclpp_coll_init_task(mscclpp_coll_task_t *task, mscclpp_team_t *team, const mscclpp_coll_args_t *args);

/* Fills in the inputs of the choice that depend only on the team and the type. Sets all other inputs to 0. */
void mscclpp_coll_describe_team(const mscclpp_team_t *team, mscclpp_dtype_t dtype, mscclpp_select_input_t *input);

/* Describes the call for an execution plan. In the result, `plan` is NULL if no plan serves the call. */
mscclpp_by_plan_t mscclpp_coll_describe_for_plan(const mscclpp_coll_task_t *task);

/*
 * coll_launch.c: launches the chosen kernel, and waits for its end unless the call is queued. Any error breaks the
 * team.
 */
mscclpp_status_t mscclpp_coll_launch(mscclpp_coll_task_t *task);

/*
 * coll_choose.c: returns true if the host does not wait for the call yet, and the user has not chosen an algorithm that
 * may make hosts wait.
 */
bool mscclpp_coll_is_early(const mscclpp_coll_task_t *task);

/*
 * Chooses the algorithm and its grid, and stores them in task->choice. `can_map` is false if a peer's buffer could not
 * be mapped. Returns MSCCLPP_ERR_NOT_SUPPORTED as mscclpp_coll_select does.
 */
mscclpp_status_t mscclpp_coll_choose(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool can_map);

/* Does what mscclpp_coll_choose does, but stores the choice in *choice_p. */
mscclpp_status_t mscclpp_coll_try_choice(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input,
                                         bool can_map, mscclpp_coll_choice_t *choice_p);

/*
 * Chooses the algorithm of a call of two ranks that know the sizes of their own blocks only, without an exchange.
 * Returns true, with `excludes_own` set, if that is possible. Returns false, with only the choice changed, if the ranks
 * have to agree on the size. Equal on all ranks.
 */
bool mscclpp_coll_choose_for_pair(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input);

/*
 * Sets `own_bytes` of a call with `excludes_own`, and widens the grid for this block. Ranks may get different grids.
 * The buffers must have been prepared.
 */
void mscclpp_coll_add_own_block(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input);

/* Returns true if the algorithm accesses the buffers of peers. */
static inline bool mscclpp_coll_maps_buffers(const mscclpp_coll_choice_t *choice)
{
    return choice->algo == MSCCLPP_COLL_BY_ZEROCOPY || choice->algo == MSCCLPP_COLL_BY_ENGINES;
}

/* Returns true if the algorithm that was chosen for the task accesses the buffers of peers. */
static inline bool mscclpp_coll_needs_mapping(const mscclpp_coll_task_t *task)
{
    return mscclpp_coll_maps_buffers(&task->choice);
}

/*
 * Grows the scratch if the call is worth a larger one. Collective. *has_grown_p says whether the scratch has grown. If
 * it has, *input describes the larger scratch, and the caller has to choose the algorithm again.
 */
mscclpp_status_t mscclpp_coll_grow(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input, bool *has_grown_p);

/*
 * coll_blocks.c: returns the place in the input of the block that this rank sends to a peer. Kernels compute the same
 * (device/kern/coll/blocks.h).
 */
mscclpp_dev_block_t mscclpp_coll_find_send_block(const mscclpp_coll_task_t *task, int peer);

/* Returns the place in the output of the block that this rank receives from a peer. */
mscclpp_dev_block_t mscclpp_coll_find_recv_block(const mscclpp_coll_task_t *task, int peer);

/* Returns the size in bytes of the combined result on this rank; 0: this rank gets no result. */
uint64_t mscclpp_coll_result_bytes(const mscclpp_coll_task_t *task);

/* Returns the size in bytes of the largest block that this rank sends to another rank, or receives from one. */
uint64_t mscclpp_coll_exchanged_bytes(const mscclpp_coll_task_t *task);

/*
 * Returns true if there are two ranks, on one node, and each knows the sizes of its own blocks only. Both know the
 * sizes of the blocks that they exchange, so mscclpp_coll_exchanged_bytes is equal on both.
 */
bool mscclpp_coll_is_unsized_pair(const mscclpp_coll_task_t *task);

/* Returns the size in bytes that must be equal on all ranks, for a check of arguments; 0: sizes may differ. */
uint64_t mscclpp_coll_common_bytes(const mscclpp_coll_task_t *task);

/*
 * Returns the number of bytes from the start of the input, or of the output if `of_input` is false, to the end of its
 * last block; 0: the buffer is not used.
 */
uint64_t mscclpp_coll_measure_span(const mscclpp_coll_task_t *task, bool of_input);

/* Returns part `index` of `bytes` bytes that are divided into `count` parts. All parts but the last have whole units.
 */
mscclpp_dev_block_t mscclpp_coll_find_part(uint64_t bytes, int index, int count);

/*
 * coll_exchange.c: sets `largest_block` to the size of the largest block of any rank, and `is_strided` if all ranks can
 * move blocks with holes without packing. For calls of which each rank knows only its own blocks. Collective; all ranks
 * get the same values.
 */
mscclpp_status_t mscclpp_coll_agree_size(mscclpp_coll_task_t *task);

/*
 * Sets `largest_block` and `knows_largest` of a call that all ranks capture. Waits for the other ranks. Sets the fields
 * on no rank if the ranks capture different calls, if all blocks are empty, or if a rank does not come within
 * mscclpp_group_exchange_patience; group->gave_up is then true. The status is an error only if a rank has failed.
 */
mscclpp_status_t mscclpp_coll_agree_size_by_deadline(mscclpp_coll_task_t *task);

/*
 * Maps the peers' buffers and sets `peer_in`, `peer_out` and `place`. Collective. *mapped_p is equal on all ranks, and
 * is false if any buffer cannot be mapped. An early call needs no exchange if all ranks pass the buffers of an earlier
 * call again (mca/common/run/known.h); the function then sets `has_met`. Otherwise, if *mapped_p is true, a fiber may
 * be open (mscclpp_group_open_fiber).
 */
mscclpp_status_t mscclpp_coll_exchange(mscclpp_coll_task_t *task, bool *mapped_p);

/*
 * Exchanges the buffers of a request before its first start, so that the starts find them in the list of known buffers.
 * Nothing is added to the list if a rank is not willing, or cannot map a buffer, which is not an error. Collective.
 */
mscclpp_status_t mscclpp_coll_exchange_ahead(mscclpp_coll_task_t *task, bool is_willing);

/*
 * Maps the peers' buffers for a captured call or a request, and sets `mapped`, which the caller drops with
 * mscclpp_mapped_drop. Waits for the other ranks. `mapped` stays NULL on all ranks if not all buffers can be mapped, or
 * if a rank does not come in time (mscclpp_runner_map_buffers).
 */
mscclpp_status_t mscclpp_coll_map_buffers(mscclpp_coll_task_t *task);

/* Sets `peer_in`, `peer_out` and `place` from `mapped`, which must not be NULL. */
void mscclpp_coll_use_mapped(mscclpp_coll_task_t *task);

/* Waits until all ranks have come to this point. Fails if a rank has failed. `event_name` is the point's name in logs.
 */
mscclpp_status_t mscclpp_coll_meet(mscclpp_coll_task_t *task, const char *event_name);

/*
 * coll_buffers.c: sets `in` and `out` to the user's buffers, or to device memory if kernels cannot access these. The
 * caller calls mscclpp_coll_restore_buffers, even after an error. Two operations in place also need device memory:
 *
 * - An all-to-all by copy engines or between nodes reads from a copy, because peers overwrite the input.
 * - A reduce-scatter first writes its result to other memory, because the result may overlap blocks that peers read.
 */
mscclpp_status_t mscclpp_coll_prepare_buffers(mscclpp_coll_task_t *task);

/* Returns true if the input or the output of this rank has holes, so that its data has to be packed. */
bool mscclpp_coll_needs_packing(const mscclpp_coll_task_t *task);

/*
 * Prepares the buffers for an algorithm that uses the scratch, after they were prepared for an algorithm that maps
 * them.
 */
mscclpp_status_t mscclpp_coll_stop_mapping(mscclpp_coll_task_t *task);

/*
 * Frees the device memory that replaces buffers. Copies the result back before that if `status` is MSCCLPP_OK. Returns
 * `status` or, if that is MSCCLPP_OK, the status of the copies. If a kernel may still run, leaks the memory.
 */
mscclpp_status_t mscclpp_coll_restore_buffers(mscclpp_coll_task_t *task, mscclpp_status_t status);

/* Sets `stream` to the team's stream, for work other than the kernel. A queued call has a stream already. */
mscclpp_status_t mscclpp_coll_ensure_stream(mscclpp_coll_task_t *task);

/*
 * coll_pack.c: queues the packing of data with holes in the task's stream or, if `unpack` is set, the unpacking.
 * `is_unreachable` says that kernels cannot access the user's buffer; the data is then copied without a kernel.
 */
mscclpp_status_t mscclpp_coll_pack(mscclpp_coll_task_t *task, const mscclpp_coll_pack_t *packs, size_t count,
                                   char *packed, bool unpack, bool is_unreachable);

/*
 * coll_direct.c: fills in the addresses that this rank's kernel or engines read and write. *direct must be zeroed, and
 * the buffers must have been exchanged.
 */
void mscclpp_coll_fill_direct(const mscclpp_coll_task_t *task, mscclpp_dev_direct_args_t *direct);

/* Fills in the arguments of the kernel that moves blocks with holes directly. */
void mscclpp_coll_fill_strided(const mscclpp_coll_task_t *task, mscclpp_dev_strided_args_t *strided);

/*
 * coll_engines.c: moves the blocks by copy engines, and waits until the copies of all ranks have ended. The buffers
 * must have been exchanged. An error breaks the team.
 */
mscclpp_status_t mscclpp_coll_run_engines(mscclpp_coll_task_t *task);

#endif
