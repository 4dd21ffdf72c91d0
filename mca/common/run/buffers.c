/* Exchanges and maps the user buffers of all ranks, for kernels that read and write peers' buffers directly. */
#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/run/runner.h"

/* Fills in this rank's entry of the exchange: the handles of its buffers, or that they cannot be exported. */
static void fill_entry(const mscclpp_runner_t *runner, mscclpp_board_buffers_t *mine, const void *in, void *out,
                       bool willing)
{
    mine->asked = runner->group->asked;
    mine->in_place = in == out;
    mine->exportable = willing && runner->gpu->export_memory(out, &mine->out) == MSCCLPP_OK &&
                       (in == out || runner->gpu->export_memory(in, &mine->in) == MSCCLPP_OK);
    if (mine->in_place) {
        mine->in = mine->out;
    }
}

/*
 * Maps one buffer of a peer: sets *address_p to its address here, and appends the mapping to the *count ones in
 * `mappings`. The caller has to give them back. After an error both are as before.
 */
static mscclpp_status_t map_buffer(mscclpp_runner_t *runner, const mscclpp_gpu_handle_t *handle,
                                   mscclpp_mapping_t **mappings, int *count, char **address_p)
{
    mscclpp_mapping_t *mapping;
    mscclpp_status_t status = mscclpp_mapping_get(runner->gpu, runner->device, handle, runner->mapping_limit, &mapping);

    if (status != MSCCLPP_OK) {
        return status;
    }
    mappings[(*count)++] = mapping;
    *address_p = (char *)mscclpp_mapping_base(mapping) + handle->offset;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_runner_exchange(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                         bool willing, const char **peer_in, char **peer_out, bool *mapped_p)
{
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status, map_status = MSCCLPP_OK;
    bool all_exportable = true, all_mapped = false;
    int rank, count = 0;

    fill_entry(runner, mscclpp_group_begin_exchange(runner->group), in, out, willing);
    status = mscclpp_group_meet_exchange(runner->group, "exchange of buffers", bytes);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_compare_asked(runner->group);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    /* If some rank's buffers cannot be exported, nobody maps anything. */
    for (rank = 0; rank < runner->group->size; ++rank) {
        all_exportable = all_exportable && mscclpp_group_exchanged(runner->group, rank)->exportable != 0;
    }
    for (rank = 0; rank < runner->group->size && all_exportable && map_status == MSCCLPP_OK; ++rank) {
        const mscclpp_board_buffers_t *theirs = mscclpp_group_exchanged(runner->group, rank);
        char *in_address = in == out ? out : (char *)(uintptr_t)in;

        if (rank == runner->group->rank) {
            peer_in[rank] = in_address;
            peer_out[rank] = out;
            continue;
        }
        map_status = map_buffer(runner, &theirs->out, mappings, &count, &peer_out[rank]);
        if (map_status == MSCCLPP_OK && theirs->in_place != 0) {
            peer_in[rank] = peer_out[rank];
        } else if (map_status == MSCCLPP_OK) {
            map_status = map_buffer(runner, &theirs->in, mappings, &count, &in_address);
            peer_in[rank] = in_address;
        }
    }
    /* All ranks vote, also those that could not map a buffer, so that all use the same algorithm. */
    status = mscclpp_group_end_exchange(runner->group, "vote on mapped buffers", bytes,
                                        all_exportable && map_status == MSCCLPP_OK, &all_mapped);
    if (status == MSCCLPP_OK && all_mapped) {
        mscclpp_runner_hold_mappings(runner, mappings, count);
        *mapped_p = true;
        return MSCCLPP_OK;
    }
    /* No kernel will use the mappings. */
    while (count > 0) {
        mscclpp_mapping_put(mappings[--count]);
    }
    if (status == MSCCLPP_OK) {
        *mapped_p = false;
    }
    return status;
}

void mscclpp_runner_hold_mappings(mscclpp_runner_t *runner, mscclpp_mapping_t **mappings, int count)
{
    int i;

    if (runner->hold_count + count > runner->hold_capacity) {
        int capacity = 2 * (runner->hold_count + count);
        mscclpp_runner_hold_t *holds = realloc(runner->holds, (size_t)capacity * sizeof(*holds));

        if (holds == NULL) {
            /* The mappings are then never released. That is safe: they stay valid. */
            mscclpp_warn("%s: no memory to keep count of %d mappings", runner->group->oob.label, count);
            runner->hold_last_exchange = runner->hold_count;
            return;
        }
        runner->holds = holds;
        runner->hold_capacity = capacity;
    }
    runner->hold_last_exchange = runner->hold_count;
    for (i = 0; i < count; ++i) {
        runner->holds[runner->hold_count].mapping = mappings[i];
        runner->holds[runner->hold_count++].launch = runner->launches + 1;
    }
}

void mscclpp_runner_keep_mappings(mscclpp_runner_t *runner, bool in_use)
{
    int i;

    for (i = runner->hold_last_exchange; i < runner->hold_count; ++i) {
        runner->holds[i].launch = in_use ? UINT64_MAX : 0;
    }
}

void mscclpp_runner_release_mappings(mscclpp_runner_t *runner, bool all)
{
    uint64_t last_ended;
    int i, kept = 0;

    if (runner->hold_count == 0) {
        return;
    }
    last_ended = mscclpp_mailbox_ended_by(runner->mailbox, 0);
    /*
     * The last operation that block 0 has ended counts as ended only if all blocks have ended theirs: others may still
     * be working on it.
     */
    last_ended = mscclpp_runner_has_ended(runner) ? runner->launches : last_ended > 0 ? last_ended - 1 : 0;
    for (i = 0; i < runner->hold_count; ++i) {
        if (all || runner->holds[i].launch <= last_ended) {
            mscclpp_mapping_put(runner->holds[i].mapping);
        } else {
            runner->holds[kept++] = runner->holds[i];
        }
    }
    runner->hold_count = kept;
}
