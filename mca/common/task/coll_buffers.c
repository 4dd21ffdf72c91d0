/* Device memory in place of buffers that kernels cannot access. */
#include "mca/common/base/numbers.h"
#include "mca/common/task/coll_task.h"

mscclpp_status_t mscclpp_coll_ensure_stream(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;

    if (task->is_queued) {
        return MSCCLPP_OK;
    }
    status = mscclpp_runner_take_stream(&task->team->runner);
    task->stream = task->team->runner.stream;
    return status;
}

/* Queues a copy in the task's stream. */
static mscclpp_status_t copy(const mscclpp_coll_task_t *task, void *to, const void *from, size_t size)
{
    const mscclpp_gpu_ops_t *gpu = task->team->runner.gpu;

    return task->is_queued ? gpu->put(task->stream, to, from, size) : gpu->copy(task->stream, to, from, size);
}

/* Waits until the output is complete, unless the call is queued. */
static mscclpp_status_t await_output(const mscclpp_coll_task_t *task)
{
    return task->is_queued ? MSCCLPP_OK : mscclpp_runner_await_stream(&task->team->runner);
}

/* Returns true if the call is recorded in a graph, which uses the call's stand-ins at each launch. */
static bool is_recorded(const mscclpp_coll_task_t *task)
{
    return task->is_queued && task->team->runner.is_recording;
}

/*
 * Allocates device memory in stream order, which mscclpp_coll_restore_buffers frees. A recorded call takes the memory
 * that all calls in graphs share, because the graph outlives the call.
 */
static mscclpp_status_t make_stand_in(mscclpp_coll_task_t *task, bool is_input, uint64_t bytes, void **stand_in_p)
{
    mscclpp_status_t status = mscclpp_coll_ensure_stream(task);

    if (is_recorded(task)) {
        return mscclpp_runner_get_stand_in(&task->team->runner, is_input, bytes, stand_in_p);
    }
    return status == MSCCLPP_OK ? task->team->runner.gpu->temp_alloc(task->stream, bytes, stand_in_p) : status;
}

/*
 * Copies the input to a stand-in that kernels can read, and packs it if it has holes. Does not replace an empty input,
 * whose address may be invalid. After an error, mscclpp_coll_restore_buffers frees the stand-in.
 */
static mscclpp_status_t replace_input(mscclpp_coll_task_t *task)
{
    const uint64_t span = mscclpp_coll_measure_span(task, true);
    mscclpp_status_t status;

    if (span == 0) {
        return MSCCLPP_OK;
    }
    status = make_stand_in(task, true, span, &task->in_stand_in);
    if (status == MSCCLPP_OK && task->args->in_pack_count > 0) {
        status = mscclpp_coll_pack(task, task->args->in_packs, task->args->in_pack_count, task->in_stand_in, false,
                                   task->in_unreachable);
    } else if (status == MSCCLPP_OK) {
        status = copy(task, task->in_stand_in, task->in, span);
    }
    task->in = task->in_stand_in;
    return status;
}

/*
 * Replaces the first `span` bytes of the output by device memory. If `keeps_contents` is set, copies the contents of
 * the output there, because all bytes are copied back at the end, even padding that kernels do not write. After an
 * error, mscclpp_coll_restore_buffers frees the memory.
 */
static mscclpp_status_t replace_output(mscclpp_coll_task_t *task, uint64_t span, bool keeps_contents)
{
    mscclpp_status_t status;

    if (span == 0) {
        return MSCCLPP_OK;
    }
    status = make_stand_in(task, false, span, &task->out_stand_in);
    if (status == MSCCLPP_OK && keeps_contents) {
        status = copy(task, task->out_stand_in, task->out, span);
    }
    task->out = task->out_stand_in;
    return status;
}

/* Returns true if the elements have padding, which kernels do not write. */
static bool has_padding(const mscclpp_coll_task_t *task)
{
    return task->args->dtype >= MSCCLPP_DTYPE_SHORT_INT;
}

bool mscclpp_coll_needs_packing(const mscclpp_coll_task_t *task)
{
    return task->args->in_pack_count + task->args->out_pack_count > 0;
}

/*
 * Returns true if the call's kernel may write its output over its input, so that no stand-in is needed:
 * - Kernels that go through the scratch read each piece of the input before they write in its place. Kernels of queued
 *   calls do so, too.
 * - In a reduce-scatter of blocks that differ in size, a piece of the result may overlap input that has not been read.
 *   Only the kernel by packets reads all input first. It is certain to serve the call only if the call is neither
 *   queued nor between nodes.
 * - In mapped buffers, an all-to-all swaps the blocks of each two ranks.
 * - A plan may use its buffers in any order.
 */
static bool may_overwrite(const mscclpp_coll_task_t *task)
{
    const bool by_scratch =
        !task->has_plan && (task->is_queued || task->choice.algo == MSCCLPP_COLL_BY_PACKETS ||
                            task->choice.algo == MSCCLPP_COLL_BY_SCRATCH || task->choice.algo == MSCCLPP_COLL_BY_PUTS);

    if (task->pattern == MSCCLPP_DEV_ALLTOALL) {
        return (by_scratch || task->swaps) && !mscclpp_coll_needs_packing(task);
    }
    if (task->args->varied &&
        (task->choice.algo != MSCCLPP_COLL_BY_PACKETS || task->is_queued || task->team->fabric != NULL)) {
        return false;
    }
    return by_scratch && !mscclpp_coll_needs_packing(task);
}

/*
 * Prepares a reduce-scatter in place on mapped buffers. The result belongs at the start of the output, where peers
 * still read blocks, unless this rank's own block is there. So the kernel first writes the result to other memory. If
 * all blocks have the same size, the kernel itself copies the result to its place at the end: each of its threads knows
 * when all peers have read the data there.
 */
static mscclpp_status_t prepare_reduce_scatter(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;

    task->in = task->args->out;
    if (mscclpp_coll_find_send_block(task, task->rank).offset == 0) {
        return MSCCLPP_OK;
    }
    if (task->args->varied) {
        return replace_output(task, mscclpp_coll_result_bytes(task), has_padding(task));
    }
    status = make_stand_in(task, false, task->bytes, &task->early_result);
    task->final_result = task->out;
    task->out = task->early_result;
    return status;
}

/* Returns true if the caller passed MPI_IN_PLACE, and the input is in the output. */
static bool is_input_in_output(const mscclpp_coll_task_t *task)
{
    return task->args->in_place && task->args->in == NULL;
}

/* Returns the offset in bytes of an input in the output: that of this rank's own block, if the input is only a block.
 */
static uint64_t find_own_offset(const mscclpp_coll_task_t *task)
{
    const bool is_own_block =
        !task->args->varied && (task->pattern == MSCCLPP_DEV_ALLGATHER || task->pattern == MSCCLPP_DEV_GATHER);

    return is_own_block ? (uint64_t)task->rank * task->stride : 0;
}

/*
 * Returns true if a stand-in for the output needs the contents of the output. Packed data has no padding. A
 * reduce-scatter with a stand-in (`replaces_output`) writes all of its result but the padding.
 */
static bool keeps_output(const mscclpp_coll_task_t *task, bool replaces_output)
{
    return task->args->out_pack_count == 0 && (!replaces_output || has_padding(task));
}

/* Prepares the buffers of a call whose input is not in the output. `replaces_output` is that of keeps_output. */
static mscclpp_status_t prepare_separate(mscclpp_coll_task_t *task, bool replaces_output)
{
    const mscclpp_coll_args_t *args = task->args;
    mscclpp_status_t status = MSCCLPP_OK;

    if (task->out != NULL && (task->out_unreachable || args->out_pack_count > 0)) {
        status = replace_output(task, mscclpp_coll_measure_span(task, false), keeps_output(task, replaces_output));
    }
    task->in = args->in;
    if (status == MSCCLPP_OK && task->in != NULL && (task->in_unreachable || args->in_pack_count > 0)) {
        status = replace_input(task);
    }
    return status;
}

/*
 * Prepares the buffers of a call whose input is in the output. Replaces the output before the input, because an input
 * that stays in the output moves with it. `copies_input` says that the input needs a copy, and `replaces_output` that
 * the output needs a stand-in; then the input is read from the user's buffer.
 */
static mscclpp_status_t prepare_in_place(mscclpp_coll_task_t *task, bool copies_input, bool replaces_output)
{
    const mscclpp_coll_args_t *args = task->args;
    const bool stays_in_output = !copies_input && !replaces_output;
    const uint64_t own_offset = find_own_offset(task);
    uint64_t span = mscclpp_coll_measure_span(task, false);
    mscclpp_status_t status = MSCCLPP_OK;

    if (stays_in_output) {
        span = mscclpp_max(span, own_offset + mscclpp_coll_measure_span(task, true));
    }
    if (task->out != NULL && (task->out_unreachable || args->out_pack_count > 0 || replaces_output)) {
        status = replace_output(task, span, keeps_output(task, replaces_output));
    }
    task->in = stays_in_output ? task->out + own_offset : args->out;
    if (status == MSCCLPP_OK && task->in != NULL && (copies_input || (replaces_output && task->out_unreachable))) {
        status = replace_input(task);
    }
    return status;
}

/* A reduce-scatter in place on mapped buffers has a preparation of its own, unless kernels cannot access the output. */
mscclpp_status_t mscclpp_coll_prepare_buffers(mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const bool is_alltoall = task->pattern == MSCCLPP_DEV_ALLTOALL;
    const bool is_reduce_scatter = task->pattern == MSCCLPP_DEV_REDUCE_SCATTER;
    const bool maps_in_kernel = task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY && !task->has_plan;
    bool copies_input, replaces_output;

    task->out = args->out;
    if (task->is_strided) {
        task->in = args->in;
        return MSCCLPP_OK;
    }
    task->swaps = args->passed_in_place && is_alltoall && maps_in_kernel;
    if (is_input_in_output(task) && is_reduce_scatter && maps_in_kernel && !task->out_unreachable) {
        return prepare_reduce_scatter(task);
    }
    copies_input = is_alltoall && !may_overwrite(task);
    replaces_output = is_reduce_scatter && !may_overwrite(task);
    task->in_place = args->in_place && !copies_input;
    return is_input_in_output(task) ? prepare_in_place(task, copies_input, replaces_output)
                                    : prepare_separate(task, replaces_output);
}

/*
 * A reduce-scatter then writes its result directly to the output. Blocks with holes were not packed before, so their
 * buffers are prepared again, with stand-ins for packed data.
 */
mscclpp_status_t mscclpp_coll_stop_mapping(mscclpp_coll_task_t *task)
{
    task->swaps = false;
    if (task->final_result != NULL) {
        task->out = task->final_result;
        task->final_result = NULL;
    }
    if (!task->is_strided) {
        return MSCCLPP_OK;
    }
    task->is_strided = false;
    return mscclpp_coll_prepare_buffers(task);
}

/*
 * Queues the copies of the blocks from the output's stand-in to the user's output. The bytes between the blocks must
 * not change, so the copies leave them out.
 */
static mscclpp_status_t copy_blocks_back(const mscclpp_coll_task_t *task)
{
    char *user_output = task->args->out;
    mscclpp_status_t status = MSCCLPP_OK;
    int peer;

    for (peer = 0; peer < task->ranks && status == MSCCLPP_OK; ++peer) {
        const mscclpp_dev_block_t block = mscclpp_coll_find_recv_block(task, peer);

        if (block.bytes > 0 && !(peer == task->rank && task->in_place)) {
            status = copy(task, user_output + block.offset, (char *)task->out_stand_in + block.offset, block.bytes);
        }
    }
    return status;
}

/* Copies the result from its stand-in to the user's output, and waits for the copies unless the call is queued. */
static mscclpp_status_t copy_back(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (task->args->out_pack_count > 0) {
        status = mscclpp_coll_pack(task, task->args->out_packs, task->args->out_pack_count, task->out_stand_in, true,
                                   task->out_unreachable);
    } else if (!MSCCLPP_DEV_COMBINES(task->pattern)) {
        status = copy_blocks_back(task);
    } else if (mscclpp_coll_result_bytes(task) > 0) {
        status = copy(task, task->args->out, task->out_stand_in, mscclpp_coll_result_bytes(task));
    }
    return status == MSCCLPP_OK ? await_output(task) : status;
}

/* Frees a stand-in, unless the call is recorded: the graph's next launch uses the stand-in again. */
static void free_stand_in(const mscclpp_coll_task_t *task, void *stand_in)
{
    if (!is_recorded(task)) {
        task->team->runner.gpu->temp_free(task->stream, stand_in);
    }
}

mscclpp_status_t mscclpp_coll_restore_buffers(mscclpp_coll_task_t *task, mscclpp_status_t status)
{
    mscclpp_team_t *team = task->team;

    if (team->runner.stuck) {
        return status; /* the kernel may still use the stand-ins */
    }
    if (task->out_stand_in != NULL) {
        if (status == MSCCLPP_OK) {
            status = copy_back(task);
        }
        free_stand_in(task, task->out_stand_in);
    }
    if (task->in_stand_in != NULL) {
        free_stand_in(task, task->in_stand_in);
    }
    if (task->early_result != NULL) {
        free_stand_in(task, task->early_result);
    }
    return status;
}
