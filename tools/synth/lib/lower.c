/*
 * Every rank does its steps in order: puts, then signals, then waits, then additions. So each wait needs a signal of an
 * earlier step or one before any wait of its own step, and no circle of waits can come about. What peers write into is
 * free once a rank has told them that it is there.
 */
#include "tools/synth/lib/lower.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"

enum { LIST = 8, NONE = -1 }; /* LIST: entries of one operation that every executor has room for */

typedef struct {
    char buffer; /* i, o or s; 0: not there */
    int index;
} spot_t;

typedef struct {
    const synth_schedule_t *schedule;
    const int *node_of; /* peers on other nodes are reached over ports */
    int instances, ranks, count;
    spot_t *spot; /* [rank][chunk]: where a rank has it, or will have it */
    spot_t *slot; /* of each send that adds: where it arrives */
    int *scratch; /* chunks of each rank */
    FILE *out;
    int rank, peer[SYNTH_MAX_RANKS], peers; /* the rank at hand, and those that it has to do with: near ones first */
    int near_peers;
    int position[SYNTH_MAX_RANKS]; /* of a peer among the near ones, or among the far ones */
    bool any;                      /* an operation was written already */
} lowering_t;

static spot_t *spot_at(lowering_t *lowering, int rank, int chunk)
{
    return &lowering->spot[rank * lowering->count + chunk];
}

static bool adds_up(const lowering_t *lowering)
{
    return synth_combines(lowering->schedule->collective) && !lowering->schedule->whole;
}

/* Which rank's input a chunk is, and where in it; for collectives that do not add up. */
static int source_of(const lowering_t *lowering, int chunk, int *index_p)
{
    const synth_schedule_t *schedule = lowering->schedule;

    if (schedule->collective == SYNTH_BROADCAST || schedule->collective == SYNTH_SCATTER) {
        *index_p = chunk;
        return schedule->root;
    }
    *index_p = chunk % schedule->chunks;
    return chunk / schedule->chunks;
}

/* Where the chunk belongs in a rank's output, or nowhere. */
static spot_t target_of(const lowering_t *lowering, int rank, int chunk)
{
    const synth_schedule_t *schedule = lowering->schedule;
    int each = schedule->chunks / (schedule->collective == SYNTH_ALLTOALL ? schedule->ranks : 1);
    int block = chunk / schedule->chunks, within = chunk % schedule->chunks;
    spot_t nowhere = {0, 0};

    if (schedule->whole) {
        return nowhere;
    }
    switch (schedule->collective) {
    case SYNTH_ALLGATHER:
    case SYNTH_BROADCAST:
    case SYNTH_ALLREDUCE:
        return (spot_t){'o', chunk};
    case SYNTH_GATHER:
        return rank == schedule->root ? (spot_t){'o', chunk} : nowhere;
    case SYNTH_REDUCE:
        return rank == schedule->root ? (spot_t){'o', chunk} : nowhere;
    case SYNTH_SCATTER:
    case SYNTH_REDUCESCATTER:
        return rank == block ? (spot_t){'o', within} : nowhere;
    case SYNTH_ALLTOALL:
        return rank == within / each ? (spot_t){'o', block * each + within % each} : nowhere;
    default:
        return nowhere;
    }
}

static int new_scratch(lowering_t *lowering, int rank)
{
    return lowering->scratch[rank]++;
}

/* Gives each chunk that a rank receives its place, and each that is added a slot of its own. */
static void place(lowering_t *lowering)
{
    const synth_schedule_t *schedule = lowering->schedule;
    bool adds = adds_up(lowering);

    for (int rank = 0; rank < lowering->ranks; ++rank) {
        for (int c = 0; c < lowering->count; ++c) {
            int index;

            if (adds) {
                *spot_at(lowering, rank, c) = (spot_t){'i', c};
            } else if (source_of(lowering, c, &index) == rank) {
                *spot_at(lowering, rank, c) = (spot_t){'i', index};
            }
        }
    }
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];
        spot_t *spot = spot_at(lowering, send->to, send->chunk);

        if (send->adds) {
            lowering->slot[i] = (spot_t){'s', new_scratch(lowering, send->to)};
        } else if (!adds && spot->buffer == 0) {
            *spot = target_of(lowering, send->to, send->chunk);
            if (spot->buffer == 0) {
                *spot = (spot_t){'s', new_scratch(lowering, send->to)};
            }
        }
    }
}

static void begin_op(lowering_t *lowering, const char *name)
{
    fprintf(lowering->out, "%s\n          {\"name\": \"%s\"", lowering->any ? "," : "", name);
    lowering->any = true;
}

static void simple(lowering_t *lowering, const char *name)
{
    begin_op(lowering, name);
    fputc('}', lowering->out);
}

static void group(lowering_t *lowering, int instance)
{
    if (lowering->instances > 1) {
        fprintf(lowering->out, ", \"tbg_info\": {\"tb_id\": %d, \"tbg_size\": %d}", instance, lowering->instances);
    }
}

static void local(lowering_t *lowering, spot_t spot, bool first)
{
    fprintf(lowering->out, "%s{\"type\": \"%c\", \"index\": %d, \"size\": 1}", first ? "" : ", ", spot.buffer,
            spot.index);
}

static void copy(lowering_t *lowering, spot_t from, spot_t to, int instance)
{
    begin_op(lowering, "copy");
    fprintf(lowering->out, ", \"src_buff\": [");
    local(lowering, from, true);
    fprintf(lowering->out, "], \"dst_buff\": [");
    local(lowering, to, true);
    fputc(']', lowering->out);
    group(lowering, instance);
    fputc('}', lowering->out);
}

static bool is_far(const lowering_t *lowering, int other)
{
    return lowering->node_of[lowering->rank] != lowering->node_of[other];
}

static const char *channel_type(bool far)
{
    return far ? "port" : "memory";
}

/* Signals, waits or flushes on the channels of one kind to a set of peers. */
static void synchronise_kind(lowering_t *lowering, const char *name, const bool *with, bool far)
{
    int count = 0;

    for (int k = 0; k < lowering->peers; ++k) {
        int peer = lowering->peer[k];

        if (with[peer] && is_far(lowering, peer) == far) {
            if (count % LIST == 0) {
                if (count > 0) {
                    fprintf(lowering->out, "]}");
                }
                begin_op(lowering, name);
                fprintf(lowering->out, ", \"channel_type\": \"%s\", \"channel_ids\": [%d", channel_type(far),
                        lowering->position[peer]);
            } else {
                fprintf(lowering->out, ", %d", lowering->position[peer]);
            }
            ++count;
        }
    }
    if (count > 0) {
        fprintf(lowering->out, "]}");
    }
}

static void synchronise(lowering_t *lowering, const char *name, const bool *with)
{
    synchronise_kind(lowering, name, with, false);
    synchronise_kind(lowering, name, with, true);
}

/* Of each peer the output and the scratch can be reached. */
static int remote(const lowering_t *lowering, int rank, char buffer)
{
    return 2 * lowering->position[rank] + (buffer == 's');
}

static void put_list(lowering_t *lowering, const int *mine, int count, int instance, bool far)
{
    const synth_schedule_t *schedule = lowering->schedule;
    int rank = lowering->rank;

    begin_op(lowering, "put");
    fprintf(lowering->out, ", \"channel_type\": \"%s\"", channel_type(far));
    for (int k = 0; far && k < count; ++k) { /* who is asked to carry it */
        fprintf(lowering->out, "%s%d", k == 0 ? ", \"channel_ids\": [" : ", ",
                lowering->position[schedule->sends[mine[k]].to]);
    }
    fprintf(lowering->out, "%s, \"src_buff\": [", far ? "]" : "");
    for (int k = 0; k < count; ++k) {
        local(lowering, *spot_at(lowering, rank, schedule->sends[mine[k]].chunk), k == 0);
    }
    fprintf(lowering->out, "], \"dst_buff\": [");
    for (int k = 0; k < count; ++k) {
        const synth_send_t *send = &schedule->sends[mine[k]];
        spot_t to = send->adds ? lowering->slot[mine[k]] : *spot_at(lowering, send->to, send->chunk);

        if (!send->adds && adds_up(lowering)) {
            to = target_of(lowering, send->to, send->chunk); /* a sum that is complete */
        }
        fprintf(lowering->out, "%s{\"buffer_id\": %d, \"index\": %d, \"size\": 1}", k > 0 ? ", " : "",
                remote(lowering, send->to, to.buffer), to.index);
    }
    fputc(']', lowering->out);
    group(lowering, instance);
    fputc('}', lowering->out);
}

/* The puts of the rank at hand in a step over channels of one kind, so many in one operation. */
static void put(lowering_t *lowering, int step, int instance, bool far)
{
    const synth_schedule_t *schedule = lowering->schedule;
    int mine[LIST], count = 0;

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->step == step && send->from == lowering->rank && is_far(lowering, send->to) == far) {
            mine[count++] = i;
            if (count == LIST) {
                put_list(lowering, mine, count, instance, far);
                count = 0;
            }
        }
    }
    if (count > 0) {
        put_list(lowering, mine, count, instance, far);
    }
}

/* Adds what has come in a step to what the rank has, in the order of the senders. Returns the number of additions. */
static int add_up(lowering_t *lowering, int rank, int step, int instance)
{
    const synth_schedule_t *schedule = lowering->schedule;
    int sums = 0;

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];
        spot_t *spot = spot_at(lowering, rank, send->chunk), to;
        bool first = true;

        if (send->step != step || send->to != rank || !send->adds) {
            continue;
        }
        for (int j = 0; j < i && first; ++j) { /* one addition for all that came of a chunk */
            first = schedule->sends[j].step != step || schedule->sends[j].to != rank || !schedule->sends[j].adds ||
                    schedule->sends[j].chunk != send->chunk;
        }
        if (!first) {
            continue;
        }
        to = target_of(lowering, rank, send->chunk);
        if (to.buffer == 0) {
            to = spot->buffer == 's' ? *spot : (spot_t){'s', new_scratch(lowering, rank)};
        }
        begin_op(lowering, "re");
        fprintf(lowering->out, ", \"reduce_op\": \"sum\", \"src_buff\": [");
        local(lowering, *spot, true);
        for (int j = i; j < schedule->send_count; ++j) {
            if (schedule->sends[j].step == step && schedule->sends[j].to == rank && schedule->sends[j].adds &&
                schedule->sends[j].chunk == send->chunk) {
                local(lowering, lowering->slot[j], false);
            }
        }
        fprintf(lowering->out, "], \"dst_buff\": [");
        local(lowering, to, true);
        fputc(']', lowering->out);
        group(lowering, instance);
        fputc('}', lowering->out);
        *spot = to;
        ++sums;
    }
    return sums;
}

/* All-reduce of whole inputs: the sum in the order of the ranks, so that all ranks get the same bits. */
static void add_inputs(lowering_t *lowering, int rank, int instance)
{
    int chunks = lowering->schedule->chunks;

    for (int k = 0; k < chunks; ++k) {
        begin_op(lowering, "re");
        fprintf(lowering->out, ", \"reduce_op\": \"sum\", \"src_buff\": [");
        for (int r = 0; r < lowering->ranks; ++r) {
            local(lowering, *spot_at(lowering, rank, r * chunks + k), r == 0);
        }
        fprintf(lowering->out, "], \"dst_buff\": [");
        local(lowering, (spot_t){'o', k}, true);
        fputc(']', lowering->out);
        group(lowering, instance);
        fputc('}', lowering->out);
    }
}

/* What a rank sends to itself. */
static void copy_own(lowering_t *lowering, int rank, int instance)
{
    for (int c = 0; !adds_up(lowering) && c < lowering->count; ++c) {
        int index, source = source_of(lowering, c, &index);
        spot_t to = target_of(lowering, rank, c);

        if (source == rank && to.buffer != 0) {
            copy(lowering, (spot_t){'i', index}, to, instance);
        }
    }
}

/* Who sends to a rank in a step, and to whom it sends; -1: in any step. */
static bool partners(const synth_schedule_t *schedule, int rank, int step, bool *from, bool *to)
{
    bool any = false;

    memset(from, 0, sizeof(*from) * SYNTH_MAX_RANKS);
    memset(to, 0, sizeof(*to) * SYNTH_MAX_RANKS);
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (step == NONE || send->step == step) {
            from[send->from] = from[send->from] || send->to == rank;
            to[send->to] = to[send->to] || send->from == rank;
            any = any || send->to == rank || send->from == rank;
        }
    }
    return any;
}

/*
 * What a block uses of its rank's lists, near and far. A list has `each` entries for every peer; channels are `apart`
 * from peer to peer, and numbered anew for each kind; remote buffers of far peers come behind those of near ones.
 */
static void list_kinds(lowering_t *lowering, const char *kind, const char *ids, int apart, int from, int each)
{
    bool first = true;

    for (int far = 0; far < 2; ++far) {
        int peers = far ? lowering->peers - lowering->near_peers : lowering->near_peers;
        int before = far && each > 1 ? each * lowering->near_peers : 0;

        for (int k = 0; k < each * peers; ++k) {
            if (k == 0) {
                fprintf(lowering->out, "%s{\"%s\": \"%s\", \"%s\": [", first ? "" : ", ", kind, channel_type(far), ids);
                first = false;
            }
            fprintf(lowering->out, "%s%d", k > 0 ? ", " : "", before + k * apart + from);
        }
        fprintf(lowering->out, peers > 0 ? "]}" : "");
    }
}

static void write_block(lowering_t *lowering, int rank, int instance)
{
    const synth_schedule_t *schedule = lowering->schedule;
    bool from[SYNTH_MAX_RANKS], to[SYNTH_MAX_RANKS];

    lowering->any = false;
    fprintf(lowering->out, "%s\n        {\"id\": %d, \"ops\": [", instance > 0 ? "," : "", instance);
    partners(schedule, rank, NONE, from, to);
    synchronise(lowering, "rlxsignal", from);
    synchronise(lowering, "rlxwait", to);
    simple(lowering, "nop");
    copy_own(lowering, rank, instance);
    for (int s = 0; s < schedule->steps; ++s) {
        if (!partners(schedule, rank, s, from, to)) {
            continue;
        }
        put(lowering, s, instance, false);
        put(lowering, s, instance, true);
        simple(lowering, "nop");
        synchronise(lowering, "signal", to);
        synchronise_kind(lowering, "flush", to, true); /* what was put may be written from now on */
        synchronise(lowering, "wait", from);
        simple(lowering, "nop");
        if (add_up(lowering, rank, s, instance) > 0) {
            simple(lowering, "nop");
        }
        for (int i = 0; i < schedule->send_count; ++i) { /* sums that have come from elsewhere */
            const synth_send_t *send = &schedule->sends[i];

            if (send->step == s && send->to == rank && !send->adds && adds_up(lowering)) {
                *spot_at(lowering, rank, send->chunk) = target_of(lowering, rank, send->chunk);
            }
        }
    }
    if (schedule->whole) {
        add_inputs(lowering, rank, instance);
    }
    fprintf(lowering->out, "],\n         \"channels\": [");
    list_kinds(lowering, "channel_type", "channel_ids", lowering->instances, instance, 1);
    fprintf(lowering->out, "],\n         \"remote_buffer_refs\": [");
    list_kinds(lowering, "access_channel_type", "remote_buffer_ids", 1, 0, 2);
    fprintf(lowering->out, "]}");
}

/* How many chunks the rank's input and output have; 0 says that it has none. */
static void counts(const lowering_t *lowering, int rank, int *inputs, int *outputs)
{
    const synth_schedule_t *schedule = lowering->schedule;
    int one = schedule->chunks, all = schedule->chunks * schedule->ranks;
    bool root = rank == schedule->root;

    *inputs = *outputs = one;
    switch (schedule->collective) {
    case SYNTH_ALLGATHER:
        *outputs = all;
        break;
    case SYNTH_GATHER:
        *outputs = root ? all : 0;
        break;
    case SYNTH_REDUCE:
        *outputs = root ? one : 0;
        break;
    case SYNTH_BROADCAST:
        *inputs = root ? one : 0;
        break;
    case SYNTH_SCATTER:
        *inputs = root ? all : 0;
        break;
    case SYNTH_REDUCESCATTER:
        *inputs = all;
        break;
    default:
        break;
    }
}

static bool write_rank(lowering_t *lowering, int rank)
{
    bool from[SYNTH_MAX_RANKS], to[SYNTH_MAX_RANKS];
    spot_t *spots = malloc(sizeof(*spots) * (size_t)lowering->count);
    int scratch = lowering->scratch[rank], inputs, outputs;

    if (spots == NULL) {
        return false;
    }
    memcpy(spots, spot_at(lowering, rank, 0), sizeof(*spots) * (size_t)lowering->count);
    partners(lowering->schedule, rank, NONE, from, to);
    lowering->rank = rank;
    lowering->peers = lowering->near_peers = 0;
    for (int far = 0; far < 2; ++far) {
        for (int other = 0; other < lowering->ranks; ++other) {
            if ((from[other] || to[other]) && is_far(lowering, other) == far) {
                lowering->position[other] = lowering->peers - (far ? lowering->near_peers : 0);
                lowering->peer[lowering->peers++] = other;
            }
        }
        lowering->near_peers = far ? lowering->near_peers : lowering->peers;
    }
    fprintf(lowering->out, "%s\n    {\"id\": %d, \"threadblocks\": [", rank > 0 ? "," : "", rank);
    for (int instance = 0; instance < lowering->instances; ++instance) {
        /* Each instance goes through the same places. */
        memcpy(spot_at(lowering, rank, 0), spots, sizeof(*spots) * (size_t)lowering->count);
        lowering->scratch[rank] = scratch;
        write_block(lowering, rank, instance);
    }
    memcpy(spot_at(lowering, rank, 0), spots, sizeof(*spots) * (size_t)lowering->count);
    free(spots);
    fprintf(lowering->out, "],\n     \"channels\": [");
    for (int k = 0; k < lowering->peers; ++k) {
        bool far = k >= lowering->near_peers, first = k == 0 || k == lowering->near_peers;

        for (int instance = 0; instance < lowering->instances; ++instance) {
            if (first && instance == 0) {
                fprintf(lowering->out, "%s{\"channel_type\": \"%s\", \"connected_to\": [%d", k > 0 ? "]}, " : "",
                        channel_type(far), lowering->peer[k]);
            } else {
                fprintf(lowering->out, ", %d", lowering->peer[k]);
            }
        }
    }
    fprintf(lowering->out, lowering->peers > 0 ? "]}],\n     \"remote_buffers\": [" : "], \"remote_buffers\": [");
    for (int k = 0; k < lowering->peers; ++k) {
        for (int scratch_too = 0; scratch_too < 2; ++scratch_too) {
            fprintf(lowering->out, "%s{\"rank\": %d, \"type\": \"%c\", \"access_channel_types\": [\"%s\"]}",
                    k + scratch_too > 0 ? ", " : "", lowering->peer[k], scratch_too ? 's' : 'o',
                    channel_type(k >= lowering->near_peers));
        }
    }
    counts(lowering, rank, &inputs, &outputs);
    fprintf(lowering->out,
            "],\n     \"input_chunks\": %d, \"output_chunks\": %d, \"scratch_chunks\": %d, \"semaphores\": []}", inputs,
            outputs, lowering->scratch[rank]);
    return true;
}

static const char *plan_collective(synth_collective_t collective)
{
    return collective == SYNTH_ALLGATHER || collective == SYNTH_ALLTOALL || collective == SYNTH_REDUCESCATTER ||
                   collective == SYNTH_ALLREDUCE
               ? synth_collective_names[collective]
               : "custom";
}

char *synth_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, const char *name, int instances,
                  const synth_range_t *range, size_t *size_p)
{
    lowering_t lowering = {
        .schedule = schedule, .node_of = topology->node_of, .instances = instances, .ranks = schedule->ranks};
    char *text = NULL;
    bool fine;

    lowering.count = schedule->whole ? schedule->chunks * schedule->ranks : schedule->count;
    lowering.spot = calloc((size_t)lowering.ranks * (size_t)lowering.count, sizeof(*lowering.spot));
    lowering.slot = calloc((size_t)schedule->send_count + 1, sizeof(*lowering.slot));
    lowering.scratch = calloc((size_t)lowering.ranks, sizeof(*lowering.scratch));
    lowering.out = open_memstream(&text, size_p);
    fine = lowering.spot != NULL && lowering.slot != NULL && lowering.scratch != NULL && lowering.out != NULL;
    if (fine) {
        place(&lowering);
        fprintf(lowering.out,
                "{\"name\": \"%s\", \"collective\": \"%s\", \"protocol\": \"Simple\", \"inplace\": false,\n", name,
                plan_collective(schedule->collective));
        fprintf(lowering.out, "  \"min_message_size\": %" PRIu64 ", \"max_message_size\": %" PRIu64 ",\n", range->least,
                range->most);
        fprintf(lowering.out, "  \"num_threads_per_block\": 512, \"gpus\": [");
        for (int rank = 0; fine && rank < lowering.ranks; ++rank) {
            fine = write_rank(&lowering, rank);
        }
        fprintf(lowering.out, "]}\n");
        fine = fine && !ferror(lowering.out);
    }
    if (lowering.out != NULL && fclose(lowering.out) != 0) {
        fine = false;
    }
    free(lowering.spot);
    free(lowering.slot);
    free(lowering.scratch);
    if (!fine) {
        free(text);
        return NULL;
    }
    return text;
}

bool synth_prove(const char *text, size_t size, bool *checked, char *why, size_t why_size)
{
    mscclpp_plan_sim_options_t options = {MSCCLPP_PLAN_LAUNCHES, 1};
    mscclpp_plan_sim_stats_t stats = {0, 0, false, 0};
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    char place[80];
    bool fine;

    mscclpp_plan_report_init(&report);
    fine = mscclpp_plan_parse(text, size, &report, &plan) == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
           mscclpp_plan_simulate(plan, &options, &report, &stats);
    *checked = stats.checked;
    for (int i = 0; !fine && i < report.count; ++i) {
        if (report.finding[i].kind != MSCCLPP_PLAN_NOTE) {
            snprintf(why, why_size, "%s: %s [%s]",
                     mscclpp_plan_place_text(report.finding[i].place, place, sizeof(place)),
                     report.finding[i].text != NULL ? report.finding[i].text : "", report.finding[i].rule);
            break;
        }
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return fine;
}
