/*
 * Replays schedules. So that the replay is independent, it shares only the definition of the problem (demand.c) with
 * the functions that find schedules.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/schedule.h"

/* The state of a replay. All functions that return bool return false after they have stored the fault. */
typedef struct {
    const synth_topology_t *topology;
    const synth_schedule_t *schedule;
    synth_fault_t *fault;
    uint8_t *contributions; /* [(chunk * ranks + rank) * ranks + contributor]: how often the contribution is in the
                       chunk at the rank */
    uint8_t *sent_values; /* [send of the step][contributor]: the value that its sender had at the start of the step */
    int *load;            /* chunks on each link in a step */
} replay_t;

static bool fail_with(replay_t *replay, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stores the fault. Returns false, so that the caller can return it. */
static bool fail_with(replay_t *replay, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(replay->fault->text, sizeof(replay->fault->text), format, arguments);
    va_end(arguments);
    replay->fault->name = name;
    return false;
}

/* Returns an array: how often the contribution of each rank is in a chunk at a rank. */
static uint8_t *contributions_of(replay_t *replay, int chunk, int rank)
{
    size_t ranks = (size_t)replay->schedule->ranks;

    return replay->contributions + ((size_t)chunk * ranks + (size_t)rank) * ranks;
}

/*
 * Checks that all numbers of the schedule are in range, that its sends are sorted by step, and that every send has a
 * link. The later checks use these numbers as indices.
 */
static bool check_ranges(replay_t *replay)
{
    const synth_schedule_t *schedule = replay->schedule;

    if (schedule->ranks != replay->topology->ranks) {
        return fail_with(replay, "range", "a schedule of %d ranks on a topology of %d", schedule->ranks,
                         replay->topology->ranks);
    }
    if (schedule->steps < 0 || schedule->steps > SYNTH_MAX_STEPS) {
        return fail_with(replay, "range", "%d steps", schedule->steps);
    }
    for (int step = 0; step < schedule->steps; ++step) {
        if (schedule->rounds[step] < 1) {
            return fail_with(replay, "range", "step %d has %d rounds", step, schedule->rounds[step]);
        }
    }
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->chunk < 0 || send->chunk >= schedule->total_chunks || send->from < 0 ||
            send->from >= schedule->ranks || send->to < 0 || send->to >= schedule->ranks || send->step < 0 ||
            send->step >= schedule->steps || (i > 0 && send->step < schedule->sends[i - 1].step)) {
            return fail_with(replay, "range", "send %d: chunk %d from rank %d to rank %d in step %d", i, send->chunk,
                             send->from, send->to, send->step);
        }
        if (replay->topology->link_between[send->from][send->to] < 0) {
            return fail_with(replay, "link", "step %d: chunk %d goes from rank %d to rank %d, which no link joins",
                             send->step, send->chunk, send->from, send->to);
        }
    }
    return true;
}

/*
 * Checks that no link and no group carries more in a step than the rounds of the step allow. The sends of the step are
 * those from `first` to `end` - 1; check_ranges has checked that each has a link.
 */
static bool check_capacities(replay_t *replay, int step, int first, int end)
{
    const synth_topology_t *topology = replay->topology;
    int rounds = replay->schedule->rounds[step];

    memset(replay->load, 0, sizeof(*replay->load) * (size_t)topology->link_count);
    for (int i = first; i < end; ++i) {
        ++replay->load[topology->link_between[replay->schedule->sends[i].from][replay->schedule->sends[i].to]];
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        if (replay->load[i] > (int64_t)link->capacity * rounds) {
            return fail_with(replay, "overfull",
                             "step %d: %d chunks on the link %d to %d, which carries %d in %d rounds", step,
                             replay->load[i], link->from, link->to, link->capacity * rounds, rounds);
        }
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int group_load = 0;

        for (int j = 0; j < group->count; ++j) {
            group_load += replay->load[group->links[j]];
        }
        if (group_load > (int64_t)group->capacity * rounds) {
            return fail_with(replay, "overfull", "step %d: %d chunks through \"%s\", which carries %d in %d rounds",
                             step, group_load, group->name, group->capacity * rounds, rounds);
        }
    }
    return true;
}

/*
 * Carries out the sends of a step, from `first` to `end` - 1. All sends read the values that their senders had at the
 * start of the step. Fails if the sender does not have the chunk, if the receiver already has it, or if a contribution
 * is added twice.
 */
static bool run_step(replay_t *replay, int first, int end)
{
    int ranks = replay->schedule->ranks;

    for (int i = first; i < end; ++i) {
        const synth_send_t *send = &replay->schedule->sends[i];

        memcpy(replay->sent_values + (size_t)(i - first) * ranks, contributions_of(replay, send->chunk, send->from),
               ranks);
    }
    for (int i = first; i < end; ++i) {
        const synth_send_t *send = &replay->schedule->sends[i];
        const uint8_t *value = replay->sent_values + (size_t)(i - first) * ranks;
        uint8_t *target = contributions_of(replay, send->chunk, send->to);
        bool has_value = false;

        for (int contributor = 0; !has_value && contributor < ranks; ++contributor) {
            has_value = value[contributor] != 0;
        }
        if (!has_value) {
            return fail_with(replay, "absent", "step %d: rank %d sends chunk %d to rank %d and does not have it",
                             send->step, send->from, send->chunk, send->to);
        }
        for (int contributor = 0; send->adds && contributor < ranks; ++contributor) {
            target[contributor] += value[contributor];
            if (target[contributor] > 1) {
                return fail_with(replay, "doubled", "step %d: rank %d adds rank %d's contribution to chunk %d twice",
                                 send->step, send->to, contributor, send->chunk);
            }
        }
        if (!send->adds && memcmp(target, value, ranks) == 0) {
            return fail_with(replay, "doubled", "step %d: rank %d receives chunk %d from rank %d and has it already",
                             send->step, send->to, send->chunk, send->from);
        }
        if (!send->adds) {
            memcpy(target, value, ranks);
        }
    }
    return true;
}

/*
 * Checks that each rank of the set `wanted` has the chunk with exactly one contribution of each rank in `expected`, and
 * none of other ranks.
 */
static bool check_result(replay_t *replay, int chunk, uint64_t wanted, uint64_t expected)
{
    for (int rank = 0; rank < replay->schedule->ranks; ++rank) {
        for (int contributor = 0; (wanted >> rank & 1) != 0 && contributor < replay->schedule->ranks; ++contributor) {
            int times = contributions_of(replay, chunk, rank)[contributor],
                expected_times = (int)(expected >> contributor & 1);

            if (times < expected_times) {
                return fail_with(replay, "lost", "rank %d ends without rank %d's contribution to chunk %d", rank,
                                 contributor, chunk);
            }
            if (times > expected_times) {
                return fail_with(replay, "doubled", "rank %d ends with rank %d's contribution %d times in chunk %d",
                                 rank, contributor, times, chunk);
            }
        }
    }
    return true;
}

/*
 * Gives each rank its initial contributions, replays all steps and checks the result. If partial sums are sent, every
 * rank has a contribution to each chunk. Otherwise a demand tells which rank has the chunk, and which ranks want it.
 */
static bool replay_all(replay_t *replay)
{
    const synth_schedule_t *schedule = replay->schedule;
    bool adds = synth_combines(schedule->collective) && !schedule->sends_whole_inputs;
    uint64_t all_ranks = UINT64_MAX >> (64 - schedule->ranks);
    synth_demand_t *demand = NULL;
    bool ok = true;
    int end = 0;

    if (!adds) {
        demand = synth_demand_new(schedule->sends_whole_inputs ? SYNTH_ALLGATHER : schedule->collective,
                                  schedule->ranks, schedule->root, schedule->chunks);
        if (demand == NULL) {
            return fail_with(replay, "memory", "no memory");
        }
    }
    for (int chunk = 0; chunk < schedule->total_chunks; ++chunk) {
        for (int rank = 0; rank < schedule->ranks; ++rank) {
            contributions_of(replay, chunk, rank)[rank] = adds || demand->source[chunk] == rank;
        }
    }
    for (int step = 0, first = 0; ok && step < schedule->steps; ++step, first = end) {
        while (end < schedule->send_count && schedule->sends[end].step == step) {
            ++end;
        }
        ok = check_capacities(replay, step, first, end) && run_step(replay, first, end);
    }
    for (int chunk = 0; ok && chunk < schedule->total_chunks; ++chunk) {
        if (!adds) {
            ok = check_result(replay, chunk, demand->wanted[chunk], UINT64_C(1) << demand->source[chunk]);
        } else if (schedule->collective == SYNTH_ALLREDUCE) {
            ok = check_result(replay, chunk, all_ranks, all_ranks);
        } else {
            int owner = schedule->collective == SYNTH_REDUCE ? schedule->root : chunk / schedule->chunks;

            ok = check_result(replay, chunk, UINT64_C(1) << owner, all_ranks);
        }
    }
    synth_demand_free(demand);
    return ok;
}

/* Allocates the state of the replay after the range of all numbers was checked. */
bool synth_schedule_verify(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_fault_t *fault)
{
    replay_t replay = {.topology = topology, .schedule = schedule, .fault = fault};
    size_t ranks = (size_t)schedule->ranks;
    bool ok;

    fault->name = NULL;
    fault->text[0] = '\0';
    if (!check_ranges(&replay)) {
        return false;
    }
    replay.contributions = calloc((size_t)schedule->total_chunks * ranks * ranks + 1, 1);
    replay.sent_values = malloc((size_t)schedule->send_count * ranks + 1);
    replay.load = malloc(sizeof(*replay.load) * (size_t)(topology->link_count + 1));
    if (replay.contributions == NULL || replay.sent_values == NULL || replay.load == NULL) {
        ok = fail_with(&replay, "memory", "no memory");
    } else {
        ok = replay_all(&replay);
    }
    free(replay.contributions);
    free(replay.sent_values);
    free(replay.load);
    return ok;
}
