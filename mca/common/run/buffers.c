/* Exchanges and maps the user buffers of all ranks, for kernels that read and write peers' buffers directly. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/base/mailbox.h"
#include "mca/common/run/runner.h"

/*
 * Writes the handles of this rank's buffers on its line of the board; NULL: no peer uses the buffer. If `is_willing` is
 * false, or a buffer cannot be exported, marks the line as not exportable, and no rank maps any buffer in this
 * exchange.
 */
static void fill_entry(const mscclpp_runner_t *runner, mscclpp_board_buffers_t *own_buffers, const void *in, void *out,
                       bool is_willing)
{
    own_buffers->call_args = runner->group->call_args;
    own_buffers->in_place = in == out;
    own_buffers->has_in = in != NULL;
    own_buffers->has_out = out != NULL;
    own_buffers->exportable =
        is_willing && (out == NULL || runner->gpu->export_memory(out, &own_buffers->out) == MSCCLPP_OK) &&
        (in == NULL || in == out || runner->gpu->export_memory(in, &own_buffers->in) == MSCCLPP_OK);
    if (own_buffers->in_place) {
        own_buffers->in = own_buffers->out;
    }
}

mscclpp_status_t mscclpp_runner_map_buffer(const mscclpp_runner_t *runner, const mscclpp_gpu_handle_t *handle,
                                           mscclpp_mapping_t **mappings, int *count_p, char **address_p)
{
    mscclpp_mapping_t *mapping = mscclpp_mapping_find(runner->gpu, runner->device, handle);
    mscclpp_status_t status = MSCCLPP_OK;

    if (mapping == NULL) {
        mscclpp_fiber_close();
        status = mscclpp_mapping_get(runner->gpu, runner->device, handle, runner->mapping_limit, &mapping);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    mappings[(*count_p)++] = mapping;
    *address_p = (char *)mscclpp_mapping_base(mapping) + handle->offset;
    return MSCCLPP_OK;
}

/* Gives the mappings back. They stay open for other users, and for later calls. */
static void drop_mappings(mscclpp_mapping_t **mappings, int count)
{
    while (count > 0) {
        mscclpp_mapping_put(mappings[--count]);
    }
}

/*
 * Maps the buffers that a peer shares, as mscclpp_runner_map_buffer does, and sets *in_p and *out_p for them. Returns
 * the first error; mappings made before the error stay in `mappings`.
 */
static mscclpp_status_t map_peer(const mscclpp_runner_t *runner, const mscclpp_board_buffers_t *peer,
                                 mscclpp_mapping_t **mappings, int *count_p, const char **in_p, char **out_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    char *in_address;

    if (peer->has_out != 0) {
        status = mscclpp_runner_map_buffer(runner, &peer->out, mappings, count_p, out_p);
    }
    if (status == MSCCLPP_OK && peer->in_place != 0) {
        *in_p = *out_p;
    } else if (status == MSCCLPP_OK && peer->has_in != 0) {
        status = mscclpp_runner_map_buffer(runner, &peer->in, mappings, count_p, &in_address);
        *in_p = status == MSCCLPP_OK ? in_address : NULL;
    }
    return status;
}

/*
 * Maps the buffers of all peers, and fills in `peer_in` and `peer_out` by rank. Returns false if a peer's buffer cannot
 * be mapped here, or if the buffers of any rank cannot be exported. In the second case nothing is mapped. In any case
 * the caller has to give back the *count_p mappings in `mappings`. Does not return the reason, because the ranks then
 * use another algorithm, whatever the reason is.
 */
static bool map_all(mscclpp_runner_t *runner, const void *in, void *out, mscclpp_mapping_t **mappings, int *count_p,
                    const char **peer_in, char **peer_out)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    for (rank = 0; rank < runner->group->size; ++rank) {
        if (mscclpp_group_exchanged(runner->group, rank)->exportable == 0) {
            return false;
        }
    }
    for (rank = 0; rank < runner->group->size && status == MSCCLPP_OK; ++rank) {
        const mscclpp_board_buffers_t *rank_buffers = mscclpp_group_exchanged(runner->group, rank);

        if (rank == runner->group->rank) {
            peer_in[rank] = in;
            peer_out[rank] = out;
        } else {
            status = map_peer(runner, rank_buffers, mappings, count_p, &peer_in[rank], &peer_out[rank]);
        }
    }
    return status == MSCCLPP_OK;
}

/* If any rank could not map a buffer, all ranks give their mappings back. */
mscclpp_status_t mscclpp_runner_exchange(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                         bool is_willing, const char **peer_in, char **peer_out, bool *mapped_p)
{
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    bool has_mapped_all, have_all_mapped = false;
    mscclpp_status_t status;
    int count = 0;

    fill_entry(runner, mscclpp_group_begin_exchange(runner->group), in, out, is_willing);
    status = mscclpp_group_meet_exchange(runner->group, "exchange of buffers", bytes);
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_compare_call_args(runner->group);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    has_mapped_all =
        map_all(runner, in, out, mappings, &count, peer_in, peer_out) && mscclpp_runner_reserve_holds(runner, count);
    /* All ranks vote, even if they could not map a buffer, so that all of them use the same algorithm. */
    status =
        mscclpp_group_end_exchange(runner->group, "vote on mapped buffers", bytes, has_mapped_all, &have_all_mapped);
    if (status == MSCCLPP_OK && have_all_mapped) {
        mscclpp_runner_hold_mappings(runner, mappings, count);
        *mapped_p = true;
        return MSCCLPP_OK;
    }
    drop_mappings(mappings, count);
    if (status == MSCCLPP_OK) {
        *mapped_p = false;
    }
    return status;
}

bool mscclpp_runner_reserve_holds(mscclpp_runner_t *runner, int count)
{
    if (runner->hold_count + count > runner->hold_capacity) {
        int capacity = 2 * (runner->hold_count + count);
        mscclpp_runner_hold_t *holds = realloc(runner->holds, (size_t)capacity * sizeof(*holds));

        if (holds == NULL) {
            mscclpp_warn("%s: no memory to keep count of %d mappings; the call goes without mapped buffers",
                         runner->group->oob.label, count);
            return false;
        }
        runner->holds = holds;
        runner->hold_capacity = capacity;
    }
    return true;
}

/* The mappings are held until the next operation, which has the number `launches` + 1, has ended. */
void mscclpp_runner_hold_mappings(mscclpp_runner_t *runner, mscclpp_mapping_t **mappings, int count)
{
    int i;

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

void mscclpp_runner_report_gave_up(const mscclpp_runner_t *runner)
{
    mscclpp_info("%s: the ranks did not come to a captured call within %g s; such calls go through scratch",
                 runner->group->oob.label, mscclpp_group_exchange_patience(runner->group));
}

/*
 * Returns the list that a rank publishes in the current exchange: for each rank, the place of its block in the output
 * of the rank that publishes.
 */
static mscclpp_dev_runs_t *get_places(const mscclpp_group_t *group, int rank)
{
    return mscclpp_board_places(group->board, group->size, group->exchanges, rank);
}

/* Stores the places of this rank's block in all ranks' outputs, which the ranks have published, in mapped->place. */
static void read_places(const mscclpp_group_t *group, mscclpp_mapped_t *mapped)
{
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        mapped->place[rank] = get_places(group, rank)[group->rank];
    }
}

/* Adds the buffers to the runner's list. The list and the caller then use them. */
static void add_mapped(mscclpp_runner_t *runner, mscclpp_mapped_t *mapped, const void *in, void *out)
{
    mapped->in = in;
    mapped->out = out;
    mapped->runner = runner;
    mapped->users = 2;
    mapped->next = runner->mapped;
    runner->mapped = mapped;
}

/*
 * Waits only until a deadline, because the other ranks may capture no such call. Without memory for the result, this
 * rank still takes part in the exchange, because the other ranks wait for it.
 */
mscclpp_status_t mscclpp_runner_map_buffers(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                            const mscclpp_dev_runs_t *places, bool is_willing,
                                            mscclpp_mapped_t **mapped_p)
{
    const double deadline = mscclpp_now() + mscclpp_group_exchange_patience(runner->group);
    mscclpp_mapped_t *mapped = calloc(1, sizeof(*mapped));
    bool have_all_met = false, have_all_mapped = false, has_mapped_all = false;
    mscclpp_status_t status;

    *mapped_p = NULL;
    fill_entry(runner, mscclpp_group_begin_exchange(runner->group), in, out, is_willing && mapped != NULL);
    if (places != NULL) {
        memcpy(get_places(runner->group, runner->group->rank), places, (size_t)runner->group->size * sizeof(*places));
    }
    status =
        mscclpp_group_meet_exchange_by_deadline(runner->group, "exchange of buffers", bytes, deadline, &have_all_met);
    if (status == MSCCLPP_OK && have_all_met) {
        /*
         * Ranks may capture different calls. This need not be an error, because each graph may be replayed in its turn.
         */
        has_mapped_all = mapped != NULL && mscclpp_group_all_pass_args(runner->group, runner->group->call_args) &&
                         map_all(runner, in, out, mapped->mappings, &mapped->count, mapped->peer_in, mapped->peer_out);
        if (has_mapped_all && places != NULL) {
            read_places(runner->group, mapped);
        }
        status = mscclpp_group_end_exchange_by_deadline(runner->group, "vote on mapped buffers", bytes, deadline,
                                                        has_mapped_all, &have_all_mapped);
    }
    if (status == MSCCLPP_OK && have_all_mapped) {
        add_mapped(runner, mapped, in, out);
        *mapped_p = mapped;
        return MSCCLPP_OK;
    }
    if (runner->group->gave_up) {
        mscclpp_runner_report_gave_up(runner);
    }
    if (mapped != NULL) {
        drop_mappings(mapped->mappings, mapped->count);
    }
    free(mapped);
    return status;
}

void mscclpp_mapped_drop(mscclpp_mapped_t *mapped)
{
    if (mapped != NULL && __atomic_sub_fetch(&mapped->users, 1, __ATOMIC_ACQ_REL) == 0) {
        free(mapped);
    }
}

/*
 * Gives back the buffers of queued operations that only the runner's list still uses, unless kernels may still run. A
 * broken team does not know which kernels have ended, so its mappings stay until the end of the team. With `all`, gives
 * back all buffers.
 */
static void release_mapped(mscclpp_runner_t *runner, bool all)
{
    const bool is_idle = all || (!runner->group->broken && mscclpp_runner_has_ended(runner));
    mscclpp_mapped_t **link = &runner->mapped, *mapped;

    while ((mapped = *link) != NULL) {
        if (!is_idle || (!all && __atomic_load_n(&mapped->users, __ATOMIC_ACQUIRE) > 1)) {
            link = &mapped->next;
            continue;
        }
        *link = mapped->next;
        drop_mappings(mapped->mappings, mapped->count);
        mscclpp_mapped_drop(mapped);
    }
}

/*
 * Returns the number of the last launch that is known to have ended on all blocks. Block 0 reports the last operation
 * that it has ended. Other blocks may still work on this operation, but they have ended the previous one.
 */
static uint64_t find_last_ended(const mscclpp_runner_t *runner)
{
    const uint64_t ended_by_first = mscclpp_mailbox_ended_by(runner->mailbox, 0);

    if (mscclpp_runner_has_ended(runner)) {
        return runner->launches;
    }
    return ended_by_first > 0 ? ended_by_first - 1 : 0;
}

void mscclpp_runner_release_mappings(mscclpp_runner_t *runner, bool all)
{
    uint64_t last_ended;
    int i, kept = 0;

    if (runner->mapped != NULL) {
        release_mapped(runner, all);
    }
    if (runner->hold_count == 0) {
        return;
    }
    last_ended = find_last_ended(runner);
    for (i = 0; i < runner->hold_count; ++i) {
        if (all || runner->holds[i].launch <= last_ended) {
            mscclpp_mapping_put(runner->holds[i].mapping);
        } else {
            runner->holds[kept++] = runner->holds[i];
        }
    }
    runner->hold_count = kept;
}
