/* Checks ranks, channels and chunk counts of a plan, and runs all checks in their order. */
#include "mca/common/plan/check.h"

#include <stdlib.h>

#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

/* The plan that is checked and the report, for all checks of this file. */
typedef struct {
    mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
} frame_t;

/* Returns the place of a rank as a whole, for findings. */
static mscclpp_plan_place_t make_rank_place(uint32_t rank)
{
    return (mscclpp_plan_place_t){.rank = (int)rank, .block = -1, .op = -1, .inner = -1};
}

/*
 * Checks the values at the head of the plan. A block must consist of whole warps of 32 threads. The reader has already
 * refused more than 1024 threads.
 */
static void check_head(const frame_t *frame)
{
    const mscclpp_plan_t *plan = frame->plan;

    if (plan->threads == 0 || plan->threads % 32 != 0) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "threads", mscclpp_plan_nowhere,
                                 "\"num_threads_per_block\" is %u; allowed are multiples of 32 up to 1024",
                                 plan->threads);
    }
    if (plan->alignment == 0 || plan->alignment % 4 != 0) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "alignment", mscclpp_plan_nowhere,
                                 "\"buffer_alignment\" is %u; allowed are multiples of 4", plan->alignment);
    }
    if (plan->min_bytes > plan->max_bytes) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "range", mscclpp_plan_nowhere,
                                 "no message has at least %llu (\"min_message_size\") and at most %llu bytes "
                                 "(\"max_message_size\")",
                                 (unsigned long long)plan->min_bytes, (unsigned long long)plan->max_bytes);
    }
}

/*
 * Returns the number of chunks of a buffer on the first rank that uses the buffer; 0: no rank uses it. Reports each
 * further rank that uses the buffer with another number of chunks.
 */
static uint32_t find_common_count(const frame_t *frame, mscclpp_plan_buffer_t type)
{
    const mscclpp_plan_t *plan = frame->plan;
    uint32_t count = 0, first = 0;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        if (plan->ranks[rank_number].chunks[type] == 0) {
            continue;
        }
        if (count == 0) {
            count = plan->ranks[rank_number].chunks[type];
            first = rank_number;
        } else if (plan->ranks[rank_number].chunks[type] != count) {
            mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "chunks", make_rank_place(rank_number),
                                     "%u %s chunks, but rank %u has %u: chunks have one size on all ranks",
                                     plan->ranks[rank_number].chunks[type], mscclpp_plan_buffer_name(type), first,
                                     count);
        }
    }
    return count;
}

/*
 * Returns what the collective needs of the numbers of chunks, for a message, or NULL if it has what it needs. `in` and
 * `out` are the numbers of input and output chunks of a rank. One of them may be 0. Then the other buffer alone must
 * fit: in collectives where it has a part for each rank, its chunks must divide evenly among the ranks.
 */
static const char *find_unmet_shape(mscclpp_plan_collective_t collective, uint64_t ranks, uint64_t in, uint64_t out)
{
    const bool has_both = in > 0 && out > 0;

    switch (collective) {
    case MSCCLPP_PLAN_ALLGATHER:
        return (has_both && out != ranks * in) || (in == 0 && out % ranks != 0)
                   ? "as many output chunks as all ranks have input chunks"
                   : NULL;
    case MSCCLPP_PLAN_REDUCESCATTER:
        return (has_both && in != ranks * out) || (out == 0 && in % ranks != 0)
                   ? "as many input chunks as all ranks have output chunks"
                   : NULL;
    case MSCCLPP_PLAN_ALLTOALL:
        return (has_both && in != out) || in % ranks != 0 || out % ranks != 0
                   ? "as many input as output chunks, a multiple of the number of ranks"
                   : NULL;
    case MSCCLPP_PLAN_ALLREDUCE:
    case MSCCLPP_PLAN_SENDRECV:
        return has_both && in != out ? "as many input as output chunks" : NULL;
    case MSCCLPP_PLAN_TEST:
    case MSCCLPP_PLAN_CUSTOM:
    case MSCCLPP_PLAN_COLLECTIVES:
        break;
    }
    return NULL;
}

/*
 * Checks that the sizes of input and output fit the collective. Input or output may be unused on all ranks. The
 * collectives "test" and "custom" may have any numbers of chunks.
 */
static void check_shape(const frame_t *frame)
{
    const mscclpp_plan_t *plan = frame->plan;
    uint64_t in_chunks, out_chunks;
    const char *requirement;

    if (plan->collective == MSCCLPP_PLAN_TEST || plan->collective == MSCCLPP_PLAN_CUSTOM) {
        return;
    }
    in_chunks = find_common_count(frame, MSCCLPP_PLAN_INPUT);
    out_chunks = find_common_count(frame, MSCCLPP_PLAN_OUTPUT);
    requirement = find_unmet_shape(plan->collective, plan->rank_count, in_chunks, out_chunks);
    if (requirement != NULL) {
        mscclpp_plan_add_finding(
            frame->report, MSCCLPP_PLAN_WRONG, "shape", mscclpp_plan_nowhere,
            "it says \"%s\", for which %u ranks need %s; it has %llu input and %llu output chunks a rank",
            mscclpp_plan_collective_name(plan->collective), plan->rank_count, requirement,
            (unsigned long long)in_chunks, (unsigned long long)out_chunks);
    }
}

/*
 * The channels of one type, sorted by rank and peer. `starts` and `counts` have an entry for each rank and peer, at
 * rank * ranks + peer: where the channels from that rank to that peer start in `channels`, and how many they are.
 * `channels` holds positions in the rank's list.
 */
typedef struct {
    size_t ranks;
    uint32_t *counts, *starts, *channels;
} by_peer_t;

/* Fills in the lists of `by_peer`, whose memory is zeroed, with the plan's channels of a type. */
static void sort_channels(const mscclpp_plan_t *plan, int type, by_peer_t *by_peer)
{
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        for (uint32_t i = 0; i < plan->ranks[rank_number].channel_count[type]; ++i) {
            ++by_peer->starts[rank_number * by_peer->ranks + plan->ranks[rank_number].channels[type][i].peer + 1];
        }
    }
    for (size_t entry = 0; entry < by_peer->ranks * by_peer->ranks; ++entry) {
        by_peer->starts[entry + 1] += by_peer->starts[entry];
    }
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        for (uint32_t i = 0; i < plan->ranks[rank_number].channel_count[type]; ++i) {
            const size_t entry = rank_number * by_peer->ranks + plan->ranks[rank_number].channels[type][i].peer;

            by_peer->channels[by_peer->starts[entry] + by_peer->counts[entry]++] = i;
        }
    }
}

/* Sets the pair of each channel from `rank` to `peer`: the position of the peer's end in the peer's list. */
static void set_pairs(mscclpp_plan_t *plan, int type, const by_peer_t *by_peer, size_t rank, size_t peer)
{
    const size_t entry = rank * by_peer->ranks + peer, peer_entry = peer * by_peer->ranks + rank;
    const uint32_t *channels = by_peer->channels + by_peer->starts[entry];
    const uint32_t *peer_channels = by_peer->channels + by_peer->starts[peer_entry];

    for (uint32_t i = 0; i < by_peer->counts[entry]; ++i) {
        plan->ranks[rank].channels[type][channels[i]].pair =
            i < by_peer->counts[peer_entry] ? (int64_t)peer_channels[i] : -1;
    }
}

/*
 * Finds the peer's end of each channel. The n-th channel of a rank to a peer belongs to the n-th channel of that peer
 * to the rank, because files do not name pairs. A channel that is left over gets the pair -1. check_peers must have
 * found no fault, because the peers are used as indices. Returns false if there is no memory; then no channel is
 * paired, and the caller has to note it.
 */
static bool pair_channels(const frame_t *frame, int type)
{
    mscclpp_plan_t *plan = frame->plan;
    const size_t ranks = plan->rank_count;
    by_peer_t by_peer = {.ranks = ranks};
    size_t total = 0;
    bool has_memory;

    for (size_t rank = 0; rank < ranks; ++rank) {
        total += plan->ranks[rank].channel_count[type];
    }
    by_peer.counts = calloc(ranks * ranks, sizeof(*by_peer.counts));
    by_peer.starts = calloc(ranks * ranks + 1, sizeof(*by_peer.starts));
    by_peer.channels = calloc(total + 1, sizeof(*by_peer.channels));
    has_memory = by_peer.counts != NULL && by_peer.starts != NULL && by_peer.channels != NULL;
    if (has_memory) {
        sort_channels(plan, type, &by_peer);
    }
    for (size_t rank = 0; rank < ranks && has_memory; ++rank) {
        for (size_t peer = 0; peer < ranks; ++peer) {
            set_pairs(plan, type, &by_peer, rank, peer);
        }
    }
    free(by_peer.counts);
    free(by_peer.starts);
    free(by_peer.channels);
    return has_memory;
}

/* Reports a memory or port channel whose peer is not another rank of the plan. */
static void check_channel_peer(const frame_t *frame, uint32_t rank_number, mscclpp_plan_channel_type_t type,
                               uint32_t channel)
{
    uint32_t peer = frame->plan->ranks[rank_number].channels[type][channel].peer;

    if (peer >= frame->plan->rank_count) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "peer", make_rank_place(rank_number),
                                 "%s channel %u is connected to rank %u, but there are %u ranks",
                                 mscclpp_plan_channel_name(type), channel, peer, frame->plan->rank_count);
    } else if (peer == rank_number) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "self-channel", make_rank_place(rank_number),
                                 "%s channel %u is connected to the rank itself", mscclpp_plan_channel_name(type),
                                 channel);
    }
}

/* Reports a remote buffer whose owner is not another rank of the plan. */
static void check_remote_owner(const frame_t *frame, uint32_t rank_number, uint32_t remote)
{
    uint32_t owner = frame->plan->ranks[rank_number].remotes[remote].rank;

    if (owner >= frame->plan->rank_count) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "peer", make_rank_place(rank_number),
                                 "remote buffer %u is on rank %u, but there are %u ranks", remote, owner,
                                 frame->plan->rank_count);
    } else if (owner == rank_number) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "self-remote", make_rank_place(rank_number),
                                 "remote buffer %u is on the rank itself", remote);
    }
}

/*
 * Checks the ranks that channels and remote buffers name. Reports all faults. Returns false if there is a fault; the
 * ranks must then not be used as indices.
 */
static bool check_peers(const frame_t *frame)
{
    const mscclpp_plan_t *plan = frame->plan;
    int faults_before = frame->report->faults;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        const mscclpp_plan_rank_t *rank = &plan->ranks[rank_number];

        for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
            for (uint32_t i = 0; i < rank->channel_count[type]; ++i) {
                check_channel_peer(frame, rank_number, (mscclpp_plan_channel_type_t)type, i);
            }
        }
        for (uint32_t i = 0; i < rank->remote_count; ++i) {
            check_remote_owner(frame, rank_number, i);
        }
    }
    return frame->report->faults == faults_before;
}

/* Returns true if two switch channels connect the same ranks and access the same buffer. */
static bool is_same_group(const mscclpp_plan_group_t *first, const mscclpp_plan_group_t *second)
{
    if (first->count != second->count || first->type != second->type) {
        return false;
    }
    for (uint32_t i = 0; i < first->count; ++i) {
        if (first->ranks[i] != second->ranks[i]) {
            return false;
        }
    }
    return true;
}

/*
 * Checks one switch channel. The ranks of the switch channel must exist and ascend. The rank itself must be among them,
 * and all of them must have the same switch channel at the same position. The first loop checks all rank numbers before
 * the second loop uses them as indices. Reports the first fault only.
 */
static void check_group(const frame_t *frame, uint32_t rank_number, uint32_t position)
{
    const mscclpp_plan_t *plan = frame->plan;
    const mscclpp_plan_group_t *group = &plan->ranks[rank_number].groups[position];
    bool has_own = false;

    for (uint32_t i = 0; i < group->count; ++i) {
        has_own = has_own || group->ranks[i] == rank_number;
        if (group->ranks[i] >= plan->rank_count || (i > 0 && group->ranks[i] <= group->ranks[i - 1])) {
            mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "switch-group", make_rank_place(rank_number),
                                     "switch channel %u names rank %u; its ranks have to ascend, and to be below %u",
                                     position, group->ranks[i], plan->rank_count);
            return;
        }
    }
    if (!has_own) {
        mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "switch-group", make_rank_place(rank_number),
                                 "switch channel %u leaves out the rank itself", position);
        return;
    }
    for (uint32_t i = 0; i < group->count; ++i) {
        const mscclpp_plan_rank_t *member = &plan->ranks[group->ranks[i]];

        if (position >= member->group_count || !is_same_group(group, &member->groups[position])) {
            mscclpp_plan_add_finding(frame->report, MSCCLPP_PLAN_INVALID, "switch-group", make_rank_place(rank_number),
                                     "switch channel %u is not the same on rank %u", position, group->ranks[i]);
            return;
        }
    }
}

/*
 * Checks the head, the chunk counts and the peers, and then pairs the channels and checks the switch channels. Stops
 * after a fault of check_peers, because the later parts use the peers as indices.
 */
void mscclpp_plan_check_frame(mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    frame_t frame = {plan, report};

    check_head(&frame);
    check_shape(&frame);
    if (!check_peers(&frame)) {
        return;
    }
    for (int type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
        if (!pair_channels(&frame, type)) {
            report->no_memory = true;
        }
    }
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        for (uint32_t i = 0; i < plan->ranks[rank_number].group_count; ++i) {
            check_group(&frame, rank_number, i);
        }
    }
}

/*
 * Runs the checks in this order, and stops after a check that finds a fault: each check uses numbers as indices that
 * the earlier checks have found to be valid.
 */
bool mscclpp_plan_check(mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    int faults_before = report->faults;

    mscclpp_plan_check_frame(plan, report);
    if (report->faults == faults_before && !report->no_memory) {
        mscclpp_plan_check_ops(plan, report);
    }
    if (report->faults == faults_before && !report->no_memory) {
        mscclpp_plan_check_together(plan, report);
    }
    if (report->faults == faults_before && !report->no_memory) {
        mscclpp_plan_check_portable(plan, report);
    }
    return report->faults == faults_before && !report->no_memory;
}
