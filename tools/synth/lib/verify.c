/* The replay of a schedule. It shares only the statement of the problem (demand.c) with what finds schedules. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/schedule.h"

typedef struct {
    const synth_topology_t *topology;
    const synth_schedule_t *schedule;
    synth_fault_t *fault;
    uint8_t *parts;  /* [chunk][rank][contributor]: how often the contribution is in it */
    uint8_t *before; /* values of the senders at the start of a step, one a send */
    int *load;       /* chunks on each link in a step */
} replay_t;

/* Stores the fault. Returns false, for the caller to return. */
static bool fail_with(replay_t *replay, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail_with(replay_t *replay, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(replay->fault->text, sizeof(replay->fault->text), format, arguments);
    va_end(arguments);
    replay->fault->name = name;
    return false;
}

/* The contributions in a chunk at a rank. */
static uint8_t *contributors(replay_t *replay, int chunk, int rank)
{
    size_t n = (size_t)replay->schedule->ranks;

    return replay->parts + ((size_t)chunk * n + (size_t)rank) * n;
}

/* Whether all numbers of the schedule are in range and every send has a link. */
static bool in_range(replay_t *replay)
{
    const synth_schedule_t *schedule = replay->schedule;

    if (schedule->ranks != replay->topology->ranks) {
        return fail_with(replay, "range", "a schedule of %d ranks on a topology of %d", schedule->ranks,
                         replay->topology->ranks);
    }
    if (schedule->steps < 0 || schedule->steps > SYNTH_MAX_STEPS) {
        return fail_with(replay, "range", "%d steps", schedule->steps);
    }
    for (int s = 0; s < schedule->steps; ++s) {
        if (schedule->rounds[s] < 1) {
            return fail_with(replay, "range", "step %d has %d rounds", s, schedule->rounds[s]);
        }
    }
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->chunk < 0 || send->chunk >= schedule->count || send->from < 0 || send->from >= schedule->ranks ||
            send->to < 0 || send->to >= schedule->ranks || send->step < 0 || send->step >= schedule->steps ||
            (i > 0 && send->step < schedule->sends[i - 1].step)) {
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

/* Whether no link and no group carries more in a step than its rounds allow. */
static bool fits(replay_t *replay, int step, int first, int end)
{
    const synth_topology_t *topology = replay->topology;
    int rounds = replay->schedule->rounds[step];

    memset(replay->load, 0, sizeof(*replay->load) * (size_t)topology->link_count);
    for (int i = first; i < end; ++i) {
        ++replay->load[topology->link_between[replay->schedule->sends[i].from][replay->schedule->sends[i].to]];
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        if (replay->load[i] > link->capacity * rounds) {
            return fail_with(replay, "overfull",
                             "step %d: %d chunks on the link %d to %d, which carries %d in %d rounds", step,
                             replay->load[i], link->from, link->to, link->capacity * rounds, rounds);
        }
    }
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int sum = 0;

        for (int j = 0; j < group->count; ++j) {
            sum += replay->load[group->links[j]];
        }
        if (sum > group->capacity * rounds) {
            return fail_with(replay, "overfull", "step %d: %d chunks through \"%s\", which carries %d in %d rounds",
                             step, sum, group->name, group->capacity * rounds, rounds);
        }
    }
    return true;
}

/* Carries out the sends of a step. All of them read the values of its beginning. */
static bool run_step(replay_t *replay, int first, int end)
{
    int n = replay->schedule->ranks;

    for (int i = first; i < end; ++i) {
        const synth_send_t *send = &replay->schedule->sends[i];

        memcpy(replay->before + (size_t)(i - first) * n, contributors(replay, send->chunk, send->from), n);
    }
    for (int i = first; i < end; ++i) {
        const synth_send_t *send = &replay->schedule->sends[i];
        const uint8_t *value = replay->before + (size_t)(i - first) * n;
        uint8_t *target = contributors(replay, send->chunk, send->to);
        bool comes = false;

        for (int r = 0; !comes && r < n; ++r) {
            comes = value[r] != 0;
        }
        if (!comes) {
            return fail_with(replay, "absent", "step %d: rank %d sends chunk %d to rank %d and does not have it",
                             send->step, send->from, send->chunk, send->to);
        }
        for (int r = 0; send->adds && r < n; ++r) {
            target[r] += value[r];
            if (target[r] > 1) {
                return fail_with(replay, "doubled", "step %d: rank %d adds rank %d's contribution to chunk %d twice",
                                 send->step, send->to, r, send->chunk);
            }
        }
        if (!send->adds && memcmp(target, value, n) == 0) {
            return fail_with(replay, "doubled", "step %d: rank %d receives chunk %d from rank %d and has it already",
                             send->step, send->to, send->chunk, send->from);
        }
        if (!send->adds) {
            memcpy(target, value, n);
        }
    }
    return true;
}

/* Whether each rank of `wanted` has exactly the contributions `asked` of a chunk. */
static bool complete(replay_t *replay, int chunk, uint64_t wanted, uint64_t asked)
{
    for (int rank = 0; rank < replay->schedule->ranks; ++rank) {
        for (int r = 0; (wanted >> rank & 1) != 0 && r < replay->schedule->ranks; ++r) {
            int have = contributors(replay, chunk, rank)[r], want = (int)(asked >> r & 1);

            if (have < want) {
                return fail_with(replay, "lost", "rank %d ends without rank %d's contribution to chunk %d", rank, r,
                                 chunk);
            }
            if (have > want) {
                return fail_with(replay, "doubled", "rank %d ends with rank %d's contribution %d times in chunk %d",
                                 rank, r, have, chunk);
            }
        }
    }
    return true;
}

/* Replays all steps and checks the result. */
static bool replay_all(replay_t *replay)
{
    const synth_schedule_t *schedule = replay->schedule;
    bool adds = synth_combines(schedule->collective) && !schedule->whole;
    uint64_t all = UINT64_MAX >> (64 - schedule->ranks);
    synth_demand_t *demand = NULL;
    bool fine = true;
    int end = 0;

    if (!adds) {
        demand = synth_demand_new(schedule->whole ? SYNTH_ALLGATHER : schedule->collective, schedule->ranks,
                                  schedule->root, schedule->chunks);
        if (demand == NULL) {
            return fail_with(replay, "memory", "no memory");
        }
    }
    for (int c = 0; c < schedule->count; ++c) {
        for (int r = 0; r < schedule->ranks; ++r) {
            contributors(replay, c, r)[r] = adds || demand->source[c] == r;
        }
    }
    for (int s = 0, first = 0; fine && s < schedule->steps; ++s, first = end) {
        while (end < schedule->send_count && schedule->sends[end].step == s) {
            ++end;
        }
        fine = fits(replay, s, first, end) && run_step(replay, first, end);
    }
    for (int c = 0; fine && c < schedule->count; ++c) {
        if (!adds) {
            fine = complete(replay, c, demand->wanted[c], UINT64_C(1) << demand->source[c]);
        } else if (schedule->collective == SYNTH_ALLREDUCE) {
            fine = complete(replay, c, all, all);
        } else {
            int owner = schedule->collective == SYNTH_REDUCE ? schedule->root : c / schedule->chunks;

            fine = complete(replay, c, UINT64_C(1) << owner, all);
        }
    }
    synth_demand_free(demand);
    return fine;
}

bool synth_schedule_verify(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_fault_t *fault)
{
    replay_t replay = {topology, schedule, fault, NULL, NULL, NULL};
    size_t n = (size_t)schedule->ranks;
    bool fine;

    fault->name = NULL;
    fault->text[0] = '\0';
    if (!in_range(&replay)) {
        return false;
    }
    replay.parts = calloc((size_t)schedule->count * n * n + 1, 1);
    replay.before = malloc((size_t)schedule->send_count * n + 1);
    replay.load = malloc(sizeof(*replay.load) * (size_t)(topology->link_count + 1));
    if (replay.parts == NULL || replay.before == NULL || replay.load == NULL) {
        fine = fail_with(&replay, "memory", "no memory");
    } else {
        fine = replay_all(&replay);
    }
    free(replay.parts);
    free(replay.before);
    free(replay.load);
    return fine;
}
