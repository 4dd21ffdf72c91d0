/* The runner: common kernel arguments, the task's stream, and checks of how kernels ended. */
#include "mca/common/run/runner.h"

#include <stdio.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/gpu/streams.h"

/*
 * Seconds from the host's deadline to the kernel's. The host gives up first and names the late rank. Between nodes the
 * host first asks the other hosts, which takes longer. Kernels need a deadline of their own in case the host is
 * stopped, or does not wait, as for queued calls.
 */
#define LATER_SECONDS 1.0
#define LATER_SECONDS_BETWEEN_NODES 8.0

/*
 * Returns how many units fit into the areas of the scratch. Keeps the result until the layout changes, because the
 * divisions would slow each call.
 */
static const mscclpp_runner_capacities_t *get_capacities(mscclpp_runner_t *runner)
{
    const uint64_t packet_half = runner->layout.packet_half, put_size = runner->layout.put_size;
    const uint32_t nranks = (uint32_t)runner->group->size;
    mscclpp_runner_capacities_t *kept = &runner->capacities;

    if (kept->packet_half != packet_half || kept->put_size != put_size) {
        kept->packet_half = packet_half;
        kept->put_size = put_size;
        kept->oneshot = (uint32_t)MSCCLPP_DEV_ONESHOT_CAPACITY(packet_half, nranks);
        kept->twophase = (uint32_t)MSCCLPP_DEV_TWOPHASE_CAPACITY(packet_half, nranks);
        kept->ll128 = (uint32_t)MSCCLPP_DEV_LL128_CAPACITY(packet_half, nranks);
        kept->put = (uint32_t)MSCCLPP_DEV_PUT_CAPACITY(put_size, nranks);
    }
    return kept;
}

/* If the host has no deadline, the kernel has none either (0). */
void mscclpp_runner_fill_args(mscclpp_runner_t *runner, mscclpp_dev_args_t *args)
{
    const double later_seconds =
        runner->group->spans && !runner->serves_queue ? LATER_SECONDS_BETWEEN_NODES : LATER_SECONDS;
    const mscclpp_runner_capacities_t *capacities = get_capacities(runner);

    args->rank = (uint32_t)runner->group->rank;
    args->nranks = (uint32_t)runner->group->size;
    args->timeout_ns = runner->group->timeout > 0 ? (uint64_t)((runner->group->timeout + later_seconds) * 1e9) : 0;
    args->packet_half = capacities->packet_half;
    args->oneshot_capacity = capacities->oneshot;
    args->twophase_capacity = capacities->twophase;
    args->ll128_capacity = capacities->ll128;
    args->put_capacity = capacities->put;
    /* The widest release, and no epochs that the device counts. Callers that need something else set it afterwards. */
    args->release = MSCCLPP_DEV_RELEASE_SYSTEM;
    args->epochs = 0;
    args->epoch_limit = 0;
    args->bulk_offset = runner->layout.bulk_offset;
    args->bulk_size = runner->layout.bulk_size;
    args->put_offset = runner->layout.put_offset;
    args->state = (mscclpp_dev_state_t *)(runner->scratch + runner->layout.state_offset);
    args->running = runner->running != NULL ? runner->running : args->state->running;
    args->mailbox = runner->device_mailbox;
    memcpy(args->scratch, runner->peer_scratch, sizeof(args->scratch[0]) * (size_t)runner->group->size);
}

/*
 * The next kernel of the stream or graph may start early only if this rank has the GPU for itself, so that there are
 * multiprocessors for both kernels.
 */
mscclpp_dev_release_t mscclpp_runner_queued_release(const mscclpp_runner_t *runner)
{
    return runner->group->meet_first || runner->shares_gpu ? MSCCLPP_DEV_RELEASE_DEVICE : MSCCLPP_DEV_RELEASE_STREAM;
}

bool mscclpp_runner_has_ended(const mscclpp_runner_t *runner)
{
    return mscclpp_mailbox_all_ended(runner->mailbox, runner->reporting_blocks, runner->launches);
}

void mscclpp_runner_note_launch(mscclpp_runner_t *runner, uint32_t blocks)
{
    ++runner->launches;
    runner->reporting_blocks = blocks;
}

mscclpp_status_t mscclpp_runner_take_stream(mscclpp_runner_t *runner)
{
    return runner->stream != NULL ? MSCCLPP_OK : mscclpp_stream_get(runner->gpu, runner->device, &runner->stream);
}

/*
 * Returns the error of the device if the device has failed, or if no stream can be taken from the pool; otherwise
 * MSCCLPP_OK. Logs nothing. Asks through a stream of the pool, because a kernel that was rung may run in a stream that
 * another team uses by now. A failed device reports its failure in every stream.
 */
static mscclpp_status_t check_device(const mscclpp_runner_t *runner)
{
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status = mscclpp_stream_get(runner->gpu, runner->device, &stream);

    if (status == MSCCLPP_OK) {
        status = runner->gpu->stream_query(stream);
        mscclpp_stream_put(runner->gpu, runner->device, stream, status == MSCCLPP_IN_PROGRESS);
    }
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

/* If the task has no stream, a lingering kernel serves the operation, so only the device as a whole can be checked. */
mscclpp_status_t mscclpp_runner_check_kernel(const mscclpp_runner_t *runner, const char *operation_name)
{
    mscclpp_status_t status;

    if (runner->stream == NULL) {
        return check_device(runner);
    }
    status = runner->gpu->stream_query(runner->stream);
    /*
     * The mailbox is read after the query. A kernel reports before it ends, so a kernel that the query found ended must
     * have reported.
     */
    if (status == MSCCLPP_OK && !mscclpp_runner_has_ended(runner)) {
        mscclpp_error("%s: %s call %llu (%s): the kernel of rank %d ended without a report", runner->group->oob.label,
                      runner->group->collective, (unsigned long long)runner->group->call, operation_name,
                      runner->group->members[runner->group->rank]);
        return MSCCLPP_ERR_DEVICE;
    }
    return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
}

int mscclpp_runner_find_awaited(const mscclpp_runner_t *runner)
{
    const uint64_t failed = __atomic_load_n(&runner->mailbox->failed, __ATOMIC_RELAXED);

    if (failed == 0) {
        return -1;
    }
    /*
     * Up to MSCCLPP_DEV_MAX_RANKS, the word is 1 + a rank of the node. Above, a rank of the communicator is added to 1
     * + MSCCLPP_DEV_MAX_RANKS.
     */
    return failed <= MSCCLPP_DEV_MAX_RANKS ? runner->group->members[failed - 1]
                                           : (int)(failed - 1 - MSCCLPP_DEV_MAX_RANKS);
}

/* Logs nothing; the caller may log the text. */
mscclpp_status_t mscclpp_runner_read_failure(const mscclpp_runner_t *runner, const char *operation_name, char *text,
                                             size_t size)
{
    const mscclpp_group_t *group = runner->group;
    const int awaited = mscclpp_runner_find_awaited(runner);

    if (awaited < 0) {
        return MSCCLPP_OK;
    }
    snprintf(text, size, "%s: %s call %llu (%s): the kernel of rank %d gave up waiting for rank %d", group->oob.label,
             group->collective, (unsigned long long)group->call, operation_name, group->members[group->rank], awaited);
    return MSCCLPP_ERR_TIMEOUT;
}

mscclpp_status_t mscclpp_runner_check_mailbox(const mscclpp_runner_t *runner, const char *operation_name)
{
    char text[MSCCLPP_RUNNER_FAILURE_TEXT];
    const mscclpp_status_t status = mscclpp_runner_read_failure(runner, operation_name, text, sizeof(text));

    if (status != MSCCLPP_OK) {
        mscclpp_error("%s", text);
    }
    return status;
}

void mscclpp_runner_close_peers(mscclpp_runner_t *runner)
{
    int rank;

    for (rank = 0; rank < runner->group->size; ++rank) {
        mscclpp_mapping_put(runner->peer_mapping[rank]);
        runner->peer_mapping[rank] = NULL;
        runner->peer_scratch[rank] = NULL;
    }
}
