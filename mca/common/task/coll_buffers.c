/* Device memory in place of buffers that kernels cannot access. */
#include "mca/common/task/coll_task.h"

mscclpp_status_t mscclpp_coll_ensure_stream(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;

    if (task->queued) {
        return MSCCLPP_OK;
    }
    status = mscclpp_runner_take_stream(&task->team->runner);
    task->stream = task->team->runner.stream;
    return status;
}

/* Copies in the order of the task's stream. */
static mscclpp_status_t copy(const mscclpp_coll_task_t *task, void *to, const void *from, size_t size)
{
    const mscclpp_gpu_ops_t *gpu = task->team->runner.gpu;

    return task->queued ? gpu->put(task->stream, to, from, size) : gpu->copy(task->stream, to, from, size);
}

/* Waits until the output is complete. The host does not wait for a queued call. */
static mscclpp_status_t await_output(const mscclpp_coll_task_t *task)
{
    return task->queued ? MSCCLPP_OK : mscclpp_runner_await_stream(&task->team->runner);
}

/* Returns true if the call is recorded in a graph. The graph uses the stand-ins of a recorded call at each launch. */
static bool is_recorded(const mscclpp_coll_task_t *task)
{
    return task->queued && task->team->runner.is_recording;
}

/*
 * Allocates device memory in stream order; mscclpp_coll_restore_buffers frees it. A recorded call takes the memory that
 * all calls in graphs share, because the graph outlives the call.
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
 * Copies the input to a stand-in that kernels can read. The copy is packed if the input has holes. An empty input is
 * not replaced, since its address may be invalid. After an error, mscclpp_coll_restore_buffers frees the copy.
 */
static mscclpp_status_t replace_input(mscclpp_coll_task_t *task)
{
    const uint64_t span = mscclpp_coll_span(task, true);
    mscclpp_status_t status;

    if (span == 0) {
        return MSCCLPP_OK;
    }
    status = make_stand_in(task, true, span, &task->in_stand_in);
    if (status == MSCCLPP_OK && task->args->in_pack_count > 0) {
        status = mscclpp_coll_pack(task, task->args->in_packs, task->args->in_pack_count, task->in_stand_in, false,
                                   task->in_far);
    } else if (status == MSCCLPP_OK) {
        status = copy(task, task->in_stand_in, task->in, span);
    }
    task->in = task->in_stand_in;
    return status;
}

/*
 * Replaces the first `span` bytes of the output by device memory, which gets a copy of their contents if
 * `keeps_contents` is set. At the end, all bytes are copied back, including the padding that kernels do not write.
 * After an error, mscclpp_coll_restore_buffers frees the memory.
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

bool mscclpp_coll_packs(const mscclpp_coll_task_t *task)
{
    return task->args->in_pack_count + task->args->out_pack_count > 0;
}

/*
 * Returns true if the call's kernel may write its output over its input, so that no stand-in is needed:
 * - Kernels that go through the scratch, as all of queued calls do, read each piece of the input before they write in
 *   its place.
 * - In a reduce-scatter of blocks that differ in size, a piece of the result may overlap input that has not been read.
 *   Only the kernel by packets reads all of that input first. It is certain to serve the call only if the call is
 *   neither queued nor between nodes.
 * - In mapped buffers, an all-to-all swaps the blocks of each two ranks.
 * - A plan may use its buffers in any order.
 */
static bool may_overwrite(const mscclpp_coll_task_t *task)
{
    const bool by_scratch =
        !task->by_plan && (task->queued || task->choice.algo == MSCCLPP_COLL_BY_PACKETS ||
                           task->choice.algo == MSCCLPP_COLL_BY_SCRATCH || task->choice.algo == MSCCLPP_COLL_BY_PUTS);

    if (task->pattern == MSCCLPP_DEV_ALLTOALL) {
        return (by_scratch || task->swaps) && !mscclpp_coll_packs(task);
    }
    if (task->args->varied &&
        (task->choice.algo != MSCCLPP_COLL_BY_PACKETS || task->queued || task->team->fabric != NULL)) {
        return false;
    }
    return by_scratch && !mscclpp_coll_packs(task);
}

/*
 * Prepares a reduce-scatter in place on mapped buffers. The result belongs at the start of the output, where peers
 * still read blocks, unless that place is this rank's own block. So the kernel first writes the result elsewhere. If
 * all blocks have the same size, the kernel itself copies the result to its place in the end: each of its threads knows
 * when all peers have read the data there.
 */
static mscclpp_status_t prepare_reduce_scatter(mscclpp_coll_task_t *task)
{
    mscclpp_status_t status;

    task->in = task->args->out;
    if (mscclpp_coll_send_block(task, task->rank).offset == 0) {
        return MSCCLPP_OK;
    }
    if (task->args->varied) {
        return replace_output(task, mscclpp_coll_result_bytes(task), has_padding(task));
    }
    status = make_stand_in(task, false, task->bytes, &task->early_result);
    task->home = task->out;
    task->out = task->early_result;
    return status;
}

/*
 * Sets `in` and `out` to the user's buffers, or to device memory that replaces them. Replaces the output before the
 * input, because an input in the output may have to follow it. Queues copies in the task's stream. After an error, the
 * caller still calls mscclpp_coll_restore_buffers.
 */
mscclpp_status_t mscclpp_coll_prepare_buffers(mscclpp_coll_task_t *task)
{
    const mscclpp_coll_args_t *args = task->args;
    const bool input_is_in_output = args->in_place && args->in == NULL;
    bool overwrites, copies_input, replaces_output;
    uint64_t own_offset, span = mscclpp_coll_span(task, false);
    mscclpp_status_t status = MSCCLPP_OK;

    task->out = args->out;
    if (task->strided) {
        task->in = args->in;
        return MSCCLPP_OK;
    }
    task->swaps = args->passed_in_place && task->pattern == MSCCLPP_DEV_ALLTOALL &&
                  task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY && !task->by_plan;
    if (input_is_in_output && !task->by_plan && task->pattern == MSCCLPP_DEV_REDUCE_SCATTER && !task->out_far &&
        task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY) {
        return prepare_reduce_scatter(task);
    }
    overwrites = may_overwrite(task);
    /* If the operation is in place: whether it needs a copy of its input, or a stand-in for its output. */
    copies_input = task->pattern == MSCCLPP_DEV_ALLTOALL && !overwrites;
    replaces_output = task->pattern == MSCCLPP_DEV_REDUCE_SCATTER && !overwrites;
    /* The offset of this rank's input in the output, if the input is in the output: the rank's own block. */
    own_offset = input_is_in_output && !args->varied &&
                         (task->pattern == MSCCLPP_DEV_ALLGATHER || task->pattern == MSCCLPP_DEV_GATHER)
                     ? (uint64_t)task->rank * task->stride
                     : 0;
    task->in_place = args->in_place && !copies_input;
    /* If the input stays in the output, a stand-in for the output has to contain the whole input, too. */
    if (input_is_in_output && !copies_input && !replaces_output && own_offset + mscclpp_coll_span(task, true) > span) {
        span = own_offset + mscclpp_coll_span(task, true);
    }
    if (task->out != NULL && (task->out_far || args->out_pack_count > 0 || (input_is_in_output && replaces_output))) {
        /* Packed data has no padding. The output of a reduce-scatter is read only if it is also the input. */
        status = replace_output(task, span, args->out_pack_count == 0 && (!replaces_output || has_padding(task)));
    }
    /*
     * An input in the output is read from the user's buffer if it is copied, or if the result is written elsewhere.
     * Otherwise it is read from the output, which may be a stand-in.
     */
    if (!input_is_in_output) {
        task->in = args->in;
    } else {
        task->in = copies_input || replaces_output ? args->out : task->out + own_offset;
    }
    if (status == MSCCLPP_OK && task->in != NULL &&
        (input_is_in_output ? copies_input || (replaces_output && task->out_far)
                            : task->in_far || args->in_pack_count > 0)) {
        status = replace_input(task);
    }
    return status;
}

/*
 * Undoes the preparations for mapped buffers. A reduce-scatter then writes its result directly to the output. Blocks
 * with holes were not packed before, so their buffers are prepared again, with stand-ins for packed data.
 */
mscclpp_status_t mscclpp_coll_stop_mapping(mscclpp_coll_task_t *task)
{
    task->swaps = false;
    if (task->home != NULL) {
        task->out = task->home;
        task->home = NULL;
    }
    if (!task->strided) {
        return MSCCLPP_OK;
    }
    task->strided = false;
    return mscclpp_coll_prepare_buffers(task);
}

/*
 * Copies the result from its stand-in to the user's output, and waits for the copies unless the call is queued. Copies
 * only the blocks, because the bytes between them must not change.
 */
static mscclpp_status_t copy_back(mscclpp_coll_task_t *task)
{
    char *user_output = task->args->out;
    mscclpp_status_t status = MSCCLPP_OK;
    int peer;

    if (task->args->out_pack_count > 0) {
        status = mscclpp_coll_pack(task, task->args->out_packs, task->args->out_pack_count, task->out_stand_in, true,
                                   task->out_far);
        return status == MSCCLPP_OK ? await_output(task) : status;
    }
    if (MSCCLPP_DEV_COMBINES(task->pattern)) {
        const uint64_t bytes = mscclpp_coll_result_bytes(task);

        status = bytes > 0 ? copy(task, user_output, task->out_stand_in, bytes) : MSCCLPP_OK;
    }
    for (peer = 0; peer < task->ranks && status == MSCCLPP_OK && !MSCCLPP_DEV_COMBINES(task->pattern); ++peer) {
        const mscclpp_dev_block_t block = mscclpp_coll_recv_block(task, peer);

        if (block.bytes > 0 && !(peer == task->rank && task->in_place)) {
            status = copy(task, user_output + block.offset, (char *)task->out_stand_in + block.offset, block.bytes);
        }
    }
    return status == MSCCLPP_OK ? await_output(task) : status;
}

/* Frees a stand-in. Memory of calls in graphs stays for the graph's next launch. */
static void free_stand_in(const mscclpp_coll_task_t *task, void *stand_in)
{
    if (!is_recorded(task)) {
        task->team->runner.gpu->temp_free(task->stream, stand_in);
    }
}

/*
 * Copies the result home only if `status` is MSCCLPP_OK. Frees all stand-ins after an error as well, unless a kernel
 * may still use them.
 */
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
