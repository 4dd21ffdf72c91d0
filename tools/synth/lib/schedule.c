/* Schedules, and functions that make one schedule from another. */
#include "tools/synth/lib/schedule.h"

#include <stdlib.h>
#include <string.h>

/* In place of a step's number. */
enum { ALL_STEPS = -1 };

synth_schedule_t *synth_schedule_new(synth_collective_t collective, int ranks, int root, int chunks)
{
    synth_schedule_t *schedule = calloc(1, sizeof(*schedule));

    if (schedule == NULL) {
        return NULL;
    }
    schedule->collective = collective;
    schedule->ranks = ranks;
    schedule->root = root;
    schedule->chunks = chunks;
    /* These three move one vector of `chunks` chunks; in all others each rank has a block of that many. */
    schedule->total_chunks =
        collective == SYNTH_BROADCAST || collective == SYNTH_REDUCE || collective == SYNTH_ALLREDUCE ? chunks
                                                                                                     : ranks * chunks;
    return schedule;
}

void synth_schedule_free(synth_schedule_t *schedule)
{
    if (schedule != NULL) {
        free(schedule->sends);
        free(schedule);
    }
}

synth_schedule_t *synth_schedule_copy(const synth_schedule_t *schedule)
{
    synth_schedule_t *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    *copy = *schedule;
    copy->send_room = schedule->send_count > 0 ? schedule->send_count : 1;
    copy->sends = malloc(sizeof(*copy->sends) * copy->send_room);
    if (copy->sends == NULL) {
        free(copy);
        return NULL;
    }
    memcpy(copy->sends, schedule->sends, sizeof(*copy->sends) * schedule->send_count);
    return copy;
}

/* The array grows to twice its size whenever it is full. */
bool synth_schedule_add(synth_schedule_t *schedule, int chunk, int from, int to, int step, bool adds)
{
    if (schedule->send_count == schedule->send_room) {
        int room = schedule->send_room > 0 ? 2 * schedule->send_room : 64;
        synth_send_t *sends = room <= SYNTH_MAX_SENDS ? realloc(schedule->sends, sizeof(*sends) * room) : NULL;

        if (sends == NULL) {
            return false;
        }
        schedule->sends = sends;
        schedule->send_room = room;
    }
    schedule->sends[schedule->send_count++] =
        (synth_send_t){.chunk = chunk, .from = from, .to = to, .step = step, .adds = adds};
    return true;
}

/* Compares sends by step, sender, receiver and chunk, for qsort. */
static int by_step(const void *left, const void *right)
{
    const synth_send_t *a = left, *b = right;

    return a->step != b->step     ? a->step - b->step
           : a->from != b->from   ? a->from - b->from
           : a->to != b->to       ? a->to - b->to
           : a->chunk != b->chunk ? a->chunk - b->chunk
                                  : a->adds - b->adds;
}

void synth_schedule_sort(synth_schedule_t *schedule)
{
    if (schedule->send_count > 0) {
        qsort(schedule->sends, schedule->send_count, sizeof(*schedule->sends), by_step);
    }
}

int synth_schedule_rounds(const synth_schedule_t *schedule)
{
    int rounds = 0;

    for (int step = 0; step < schedule->steps; ++step) {
        rounds += schedule->rounds[step];
    }
    return rounds;
}

synth_rational_t synth_schedule_ratio(const synth_schedule_t *schedule)
{
    return synth_fraction(synth_schedule_rounds(schedule), schedule->chunks);
}

/* Returns the least number of rounds in which a group can carry what its links carry: `load` chunks each. */
static int group_rounds_of(const synth_group_t *group, const int *load)
{
    int chunks = 0;

    for (int i = 0; i < group->count; ++i) {
        chunks += load[group->links[i]];
    }
    return (chunks + group->capacity - 1) / group->capacity;
}

/*
 * Returns the least number of rounds, at least 1, in which the links and groups can carry the sends of a step, or those
 * of all steps at once (ALL_STEPS). Each send must have a link.
 */
static int rounds_of(const synth_topology_t *topology, const synth_schedule_t *schedule, int step)
{
    int load[SYNTH_MAX_LINKS] = {0}, rounds = 1;

    for (int i = 0; i < schedule->send_count; ++i) {
        if (schedule->sends[i].step == step || step == ALL_STEPS) {
            ++load[topology->link_between[schedule->sends[i].from][schedule->sends[i].to]];
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        int capacity = topology->links[i].capacity, link_rounds = (load[i] + capacity - 1) / capacity;

        rounds = link_rounds > rounds ? link_rounds : rounds;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        int group_rounds = group_rounds_of(&topology->groups[i], load);

        rounds = group_rounds > rounds ? group_rounds : rounds;
    }
    return rounds;
}

int synth_schedule_rounds_at_once(const synth_topology_t *topology, const synth_schedule_t *schedule)
{
    return rounds_of(topology, schedule, ALL_STEPS);
}

void synth_schedule_set_rounds(const synth_topology_t *topology, synth_schedule_t *schedule)
{
    for (int step = 0; step < schedule->steps; ++step) {
        schedule->rounds[step] = rounds_of(topology, schedule, step);
    }
}

/*
 * Keeps a send if it is the first one that brings its chunk to the receiver, and if the receiver wants the chunk or
 * needs it for another send that is kept.
 */
bool synth_schedule_prune(synth_schedule_t *schedule)
{
    synth_demand_t *demand = synth_demand_new(schedule->collective, schedule->ranks, schedule->root, schedule->chunks);
    uint64_t *needed = malloc(sizeof(*needed) * schedule->total_chunks),
             *has = calloc(schedule->total_chunks, sizeof(*has));
    bool *keep = calloc(schedule->send_count + 1, sizeof(*keep));
    int kept = 0;
    bool ok = demand != NULL && needed != NULL && has != NULL && keep != NULL;

    synth_schedule_sort(schedule);
    /*
     * Keep the first of the sends that bring a chunk to a rank. Then go through the sends from the last to the first
     * and drop the sends that are not needed. A rank's sends of a chunk come later than the send that brought the chunk
     * to this rank. So `needed` already says whether the rank needs it.
     */
    for (int i = 0; ok && i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];
        uint64_t receiver = UINT64_C(1) << send->to;

        keep[i] = (has[send->chunk] & receiver) == 0 && demand->source[send->chunk] != send->to;
        has[send->chunk] |= receiver;
    }
    for (int chunk = 0; ok && chunk < schedule->total_chunks; ++chunk) {
        needed[chunk] = demand->wanted[chunk];
    }
    for (int i = schedule->send_count - 1; ok && i >= 0; --i) {
        const synth_send_t *send = &schedule->sends[i];

        keep[i] = keep[i] && (needed[send->chunk] >> send->to & 1) != 0;
        if (keep[i]) {
            needed[send->chunk] |= UINT64_C(1) << send->from;
        }
    }
    for (int i = 0; ok && i < schedule->send_count; ++i) {
        if (keep[i]) {
            schedule->sends[kept++] = schedule->sends[i];
        }
    }
    schedule->send_count = ok ? kept : schedule->send_count;
    synth_demand_free(demand);
    free(needed);
    free(has);
    free(keep);
    return ok;
}

/* Reverses the order of the steps and the direction of each send. */
synth_schedule_t *synth_schedule_invert(const synth_schedule_t *dual, synth_collective_t collective)
{
    synth_schedule_t *inverted = synth_schedule_new(collective, dual->ranks, dual->root, dual->chunks);
    bool ok = inverted != NULL;

    for (int i = 0; ok && i < dual->send_count; ++i) {
        const synth_send_t *send = &dual->sends[i];

        ok = synth_schedule_add(inverted, send->chunk, send->to, send->from, dual->steps - 1 - send->step, true);
    }
    if (!ok) {
        synth_schedule_free(inverted);
        return NULL;
    }
    inverted->steps = dual->steps;
    for (int step = 0; step < dual->steps; ++step) {
        inverted->rounds[step] = dual->rounds[dual->steps - 1 - step];
    }
    synth_schedule_sort(inverted);
    return inverted;
}

/*
 * Appends the steps of `part` to `joined`. Each chunk is divided into `pieces` chunks, so each round becomes `pieces`
 * rounds. Returns false if memory runs out or there are too many sends.
 */
static bool append_steps(synth_schedule_t *joined, const synth_schedule_t *part, int pieces, bool adds)
{
    for (int i = 0; i < part->send_count; ++i) {
        const synth_send_t *send = &part->sends[i];

        for (int j = 0; j < pieces; ++j) {
            if (!synth_schedule_add(joined, send->chunk * pieces + j, send->from, send->to, joined->steps + send->step,
                                    adds)) {
                return false;
            }
        }
    }
    for (int step = 0; step < part->steps; ++step) {
        joined->rounds[joined->steps++] = part->rounds[step] * pieces;
    }
    return true;
}

/* The steps of `second` follow after those of `first`. Only the sends of `first` add. */
synth_schedule_t *synth_schedule_join(const synth_schedule_t *first, const synth_schedule_t *second)
{
    /* The number of chunks of each block after chunks are divided: the least common multiple. */
    int common_chunks = first->chunks / (int)synth_gcd(first->chunks, second->chunks) * second->chunks;
    int blocks = first->collective == SYNTH_REDUCE ? 1 : first->ranks;
    synth_schedule_t *allreduce;

    if (first->steps + second->steps > SYNTH_MAX_STEPS || blocks * common_chunks > SYNTH_MAX_CHUNKS * SYNTH_MAX_RANKS) {
        return NULL;
    }
    allreduce = synth_schedule_new(SYNTH_ALLREDUCE, first->ranks, 0, blocks * common_chunks);
    if (allreduce == NULL || !append_steps(allreduce, first, common_chunks / first->chunks, true) ||
        !append_steps(allreduce, second, common_chunks / second->chunks, false)) {
        synth_schedule_free(allreduce);
        return NULL;
    }
    synth_schedule_sort(allreduce);
    return allreduce;
}

synth_schedule_t *synth_schedule_oneshot(const synth_schedule_t *gather)
{
    synth_schedule_t *allreduce = synth_schedule_copy(gather);

    if (allreduce != NULL) {
        allreduce->collective = SYNTH_ALLREDUCE;
        allreduce->sends_whole_inputs = true;
    }
    return allreduce;
}

synth_schedule_t *synth_schedule_finish(const synth_topology_t *topology, synth_schedule_t *schedule, int steps,
                                        bool ok)
{
    if (schedule == NULL || !ok || steps > SYNTH_MAX_STEPS) {
        synth_schedule_free(schedule);
        return NULL;
    }
    schedule->steps = steps;
    synth_schedule_sort(schedule);
    synth_schedule_set_rounds(topology, schedule);
    return schedule;
}
