/*
 * The buffers of earlier exchanges, for early calls that pass them again. Such a call needs no exchange: the ranks only
 * tell one another at the meeting before the launch that all of them pass the buffers of the same exchange.
 */
#include "mca/common/run/known.h"

#include <stdlib.h>

#include "mca/common/base/log.h"
#include "mca/common/run/runner.h"

/*
 * After an exchange whose buffers could not be mapped, the next early calls do not try to map theirs: one call after
 * the first failure, and twice as many after each further failure. The number doubles at most this many times.
 */
#define DOUBLINGS_MAX 8u

/* One rank's buffers. */
typedef struct {
    mscclpp_gpu_handle_t in, out;
    bool has_in, has_out, in_place; /* as in mscclpp_board_buffers_t */
    mscclpp_dev_runs_t place;       /* of this rank's block in the output, for calls whose blocks differ in size */
} buffers_t;

struct mscclpp_known {
    uint64_t number; /* of the exchange, which is equal on all ranks */
    const void *in;  /* this rank's buffers */
    void *out;
    uint64_t in_id; /* numbers of their allocations */
    uint64_t out_id;
    buffers_t ranks[];
};

/*
 * Returns true if the allocation with number `id` still contains the address, or if the rank shares no buffer (NULL).
 */
static bool is_still_allocated(const mscclpp_runner_t *runner, const void *address, uint64_t id)
{
    return address == NULL || (id != 0 && runner->gpu->identify(address) == id);
}

/*
 * Returns the exchange in which this rank has passed these buffers. NULL: there is none, or a buffer has been freed
 * since. A freed buffer's address may belong to new memory by now, which peers have not mapped.
 */
static const mscclpp_known_t *find_known(const mscclpp_runner_t *runner, const void *in, const void *out)
{
    int i;

    for (i = 0; i < MSCCLPP_RUNNER_KNOWN; ++i) {
        const mscclpp_known_t *known = runner->known[i];

        if (known != NULL && known->in == in && known->out == out) {
            const bool are_allocated = is_still_allocated(runner, out, known->out_id) &&
                                       (in == out || is_still_allocated(runner, in, known->in_id));

            return are_allocated ? known : NULL;
        }
    }
    return NULL;
}

/*
 * Appends the mapping of a peer's buffer to `mappings` if the mapping is still open, and sets *address_p. Returns
 * false, with nothing changed, if the mapping has been closed.
 */
static bool append_open_mapping(const mscclpp_runner_t *runner, const mscclpp_gpu_handle_t *handle,
                                mscclpp_mapping_t **mappings, int *count_p, char **address_p)
{
    mscclpp_mapping_t *mapping = mscclpp_mapping_find(runner->gpu, runner->device, handle);

    if (mapping == NULL) {
        return false;
    }
    mappings[(*count_p)++] = mapping;
    *address_p = (char *)mscclpp_mapping_base(mapping) + handle->offset;
    return true;
}

/*
 * Appends the mappings of one peer's buffers to `mappings`, as append_open_mapping does, and sets the addresses.
 * Returns false if a mapping has been closed.
 */
static bool append_open_peer(const mscclpp_runner_t *runner, const buffers_t *peer, mscclpp_mapping_t **mappings,
                             int *count_p, char **in_p, char **out_p)
{
    if (peer->has_out && !append_open_mapping(runner, &peer->out, mappings, count_p, out_p)) {
        return false;
    }
    if (peer->in_place) {
        *in_p = *out_p;
        return true;
    }
    return !peer->has_in || append_open_mapping(runner, &peer->in, mappings, count_p, in_p);
}

/*
 * Appends the mappings of all peers' buffers to `mappings`, and fills in `buffers`. Returns false if any of the
 * mappings has been closed. In either case the caller has to give back the *count_p mappings in `mappings`.
 */
static bool append_open_mappings(const mscclpp_runner_t *runner, const mscclpp_known_t *known,
                                 mscclpp_mapping_t **mappings, int *count_p, mscclpp_known_buffers_t *buffers)
{
    bool are_all_open = true;
    int rank;

    for (rank = 0; rank < runner->group->size && are_all_open; ++rank) {
        const buffers_t *rank_buffers = &known->ranks[rank];
        char *in = NULL, *out = NULL;

        if (rank == runner->group->rank) {
            buffers->in[rank] = known->in;
            buffers->out[rank] = known->out;
        } else {
            are_all_open = append_open_peer(runner, rank_buffers, mappings, count_p, &in, &out);
            buffers->in[rank] = in;
            buffers->out[rank] = out;
        }
        buffers->place[rank] = rank_buffers->place;
    }
    return are_all_open;
}

/*
 * Returns true if all ranks have published the number `number`. `own_word` is this rank's word on the board; the word
 * of each other rank is at the same place of that rank's line.
 */
static bool have_all_published(const mscclpp_group_t *group, const uint64_t *own_word, uint64_t number)
{
    bool all_equal = true;
    int rank;

    for (rank = 0; rank < group->size; ++rank) {
        all_equal = all_equal && mscclpp_board_load(mscclpp_group_word_of(group, own_word, rank)) == number;
    }
    return all_equal;
}

/*
 * Publishes the number of the exchange before the arrival, so that a rank that has seen all arrivals sees all numbers.
 * Consecutive meetings use two words in turn, because a rank publishes a number for meeting k + 2 only after all ranks
 * have arrived at meeting k + 1, and so have read the numbers of meeting k.
 */
mscclpp_status_t mscclpp_runner_meet_known(mscclpp_runner_t *runner, const void *in, void *out, uint64_t bytes,
                                           bool launches_kernel, mscclpp_known_buffers_t *buffers, bool *found_p)
{
    mscclpp_group_t *group = runner->group;
    uint64_t *own_word = &group->board[group->rank].known[(group->arrivals + 1) % 2];
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    const mscclpp_known_t *known = find_known(runner, in, out);
    int count = 0;
    const bool has_all_mappings = known != NULL && append_open_mappings(runner, known, mappings, &count, buffers) &&
                                  mscclpp_runner_reserve_holds(runner, count);
    const uint64_t number = has_all_mappings ? known->number : 0;
    mscclpp_status_t status;

    mscclpp_board_store(own_word, number);
    status = launches_kernel ? mscclpp_group_meet(group, bytes, true) : mscclpp_group_arrive(group, bytes);
    *found_p = status == MSCCLPP_OK && number != 0 && have_all_published(group, own_word, number);
    if (*found_p) {
        mscclpp_runner_hold_mappings(runner, mappings, count);
        return MSCCLPP_OK;
    }
    while (count > 0) {
        mscclpp_mapping_put(mappings[--count]);
    }
    if (status == MSCCLPP_OK) {
        mscclpp_group_give_slot(group); /* this rank must not hold the slot during the exchange that follows */
    }
    return status;
}

/*
 * Returns the address of the entry for the buffers of an exchange: the entry with the same addresses, or else the one
 * that was filled the longest time ago.
 */
static mscclpp_known_t **find_entry(mscclpp_runner_t *runner, const void *in, const void *out)
{
    int i;

    for (i = 0; i < MSCCLPP_RUNNER_KNOWN; ++i) {
        if (runner->known[i] != NULL && runner->known[i]->in == in && runner->known[i]->out == out) {
            return &runner->known[i];
        }
    }
    return &runner->known[runner->next_known++ % MSCCLPP_RUNNER_KNOWN];
}

/*
 * Keeps the handles of the last exchange, and `places` if it is not NULL. If there is no memory, keeps nothing, and
 * later calls exchange the buffers again.
 */
static void remember(mscclpp_runner_t *runner, const void *in, void *out, const mscclpp_dev_runs_t *places)
{
    const mscclpp_group_t *group = runner->group;
    mscclpp_known_t **entry_p = find_entry(runner, in, out), *known;
    int rank;

    free(*entry_p);
    *entry_p = known = calloc(1, sizeof(*known) + (size_t)group->size * sizeof(known->ranks[0]));
    if (known == NULL) {
        return;
    }
    known->number = group->exchanges;
    known->in = in;
    known->out = out;
    for (rank = 0; rank < group->size; ++rank) {
        const mscclpp_board_buffers_t *theirs = mscclpp_group_exchanged(group, rank);
        buffers_t *buffers = &known->ranks[rank];

        buffers->has_in = theirs->has_in != 0;
        buffers->has_out = theirs->has_out != 0;
        buffers->in_place = theirs->in_place != 0;
        buffers->in = theirs->in;
        buffers->out = theirs->out;
        if (places != NULL) {
            buffers->place = places[rank];
        }
    }
    known->in_id = known->ranks[group->rank].in.buffer_id;
    known->out_id = known->ranks[group->rank].out.buffer_id;
}

void mscclpp_runner_note_exchange(mscclpp_runner_t *runner, bool has_mapped, const void *in, void *out,
                                  const mscclpp_dev_runs_t *places)
{
    if (has_mapped) {
        runner->map_failures = 0;
        remember(runner, in, out, places);
        return;
    }
    runner->map_pause = 1u << runner->map_failures;
    if (runner->map_failures < DOUBLINGS_MAX) {
        ++runner->map_failures;
    }
    mscclpp_debug("%s: the buffers of a call cannot be mapped; the next %u such calls go through scratch",
                  runner->group->oob.label, runner->map_pause);
}

bool mscclpp_runner_pauses_mapping(mscclpp_runner_t *runner)
{
    if (runner->map_pause == 0) {
        return false;
    }
    --runner->map_pause;
    return true;
}

void mscclpp_runner_forget_known(mscclpp_runner_t *runner)
{
    int i;

    for (i = 0; i < MSCCLPP_RUNNER_KNOWN; ++i) {
        free(runner->known[i]);
        runner->known[i] = NULL;
    }
    runner->map_pause = 0;
    runner->map_failures = 0;
}
