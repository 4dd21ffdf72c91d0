/*
 * Records which operations each actor knows to have happened. Each record is a vector clock. A packet may inform a
 * single thread only; such facts are recorded by thread.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim.h"

mscclpp_sim_know_t *mscclpp_sim_know_copy(mscclpp_sim_t *sim, const mscclpp_sim_know_t *know)
{
    mscclpp_sim_know_t *copy = malloc((sim->agents + 1) * sizeof(*copy));

    if (copy == NULL) {
        sim->no_memory = true;
        return NULL;
    }
    memcpy(copy, know, sim->agents * sizeof(*copy));
    return copy;
}

/* Adds what another actor knows. Leaves out `strong`, which packets do not pass on. */
static void add_knowledge(mscclpp_sim_know_t *to, const mscclpp_sim_know_t *from)
{
    to->full = from->full > to->full ? from->full : to->full;
    if (from->partial > to->partial || (from->partial == to->partial && from->partial_threads > to->partial_threads)) {
        to->partial = from->partial;
        to->partial_threads = from->partial_threads;
    }
}

void mscclpp_sim_join(const mscclpp_sim_t *sim, mscclpp_sim_know_t *to, const mscclpp_sim_know_t *from)
{
    for (uint32_t i = 0; from != NULL && i < sim->agents; ++i) {
        to[i].strong = from[i].strong > to[i].strong ? from[i].strong : to[i].strong;
        add_knowledge(&to[i], &from[i]);
    }
}

bool mscclpp_sim_actor_init(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t agent)
{
    actor->agent = agent;
    actor->now = calloc(sim->agents + 1, sizeof(*actor->now));
    actor->later = calloc(sim->agents + 1, sizeof(*actor->later));
    actor->thread = calloc(sim->agents + 1, sizeof(*actor->thread));
    return actor->now != NULL && actor->later != NULL && actor->thread != NULL;
}

void mscclpp_sim_actor_destroy(mscclpp_sim_actor_t *actor)
{
    free(actor->now);
    free(actor->later);
    free(actor->thread);
    free(actor->events);
    for (uint32_t i = 0; i < actor->fact_capacity; ++i) {
        free(actor->facts[i].entries);
    }
    free(actor->facts);
}

/* Clocks begin with 1, so events[0] is never used. */
bool mscclpp_sim_tick(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, mscclpp_sim_event_t event)
{
    const uint32_t clock = actor->clock + 1;
    mscclpp_sim_event_t *events;
    uint32_t capacity;

    if (clock >= actor->event_capacity) {
        capacity = actor->event_capacity > 0 ? 2 * actor->event_capacity : 64;
        events = realloc(actor->events, capacity * sizeof(*events));
        if (events == NULL) {
            sim->no_memory = true;
            return false;
        }
        actor->events = events;
        actor->event_capacity = capacity;
    }
    actor->events[clock] = event;
    actor->clock = clock;
    return true;
}

void mscclpp_sim_learn(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_know_t *know)
{
    mscclpp_sim_join(sim, actor->later, know);
    actor->has_later = true;
}

/*
 * Adds a fact to the list. The list has one fact for each thread of each actor, with the latest clock, because a later
 * clock implies all earlier clocks. If memory runs out, the fact is lost, and sim->no_memory ends the run.
 */
static void add_fact(mscclpp_sim_t *sim, mscclpp_sim_facts_t *facts, mscclpp_sim_fact_t fact)
{
    enum { MAX_FACTS = 256 }; /* further facts are dropped; the simulation may then report a race that does not exist */
    mscclpp_sim_fact_t *enlarged;
    uint32_t capacity;

    for (uint32_t i = 0; i < facts->count; ++i) {
        if (facts->entries[i].agent == fact.agent && facts->entries[i].position == fact.position) {
            facts->entries[i].clock = fact.clock > facts->entries[i].clock ? fact.clock : facts->entries[i].clock;
            return;
        }
    }
    if (facts->count == facts->capacity && facts->count < MAX_FACTS) {
        capacity = facts->capacity > 0 ? 2 * facts->capacity : 4;
        enlarged = realloc(facts->entries, capacity * sizeof(*enlarged));
        if (enlarged == NULL) {
            sim->no_memory = true;
            return;
        }
        facts->entries = enlarged;
        facts->capacity = capacity;
    }
    if (facts->count < facts->capacity) {
        facts->entries[facts->count++] = fact;
    }
}

/*
 * The thread learns the packet's write and all that the writing thread knew. Without memory, sim->no_memory ends the
 * run.
 */
void mscclpp_sim_hear_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, const mscclpp_sim_cell_t *cell,
                             uint32_t position)
{
    mscclpp_sim_facts_t *enlarged;
    uint32_t capacity = actor->fact_capacity > 0 ? actor->fact_capacity : 8;

    while (capacity <= position) {
        capacity *= 2;
    }
    if (capacity > actor->fact_capacity) {
        enlarged = realloc(actor->facts, capacity * sizeof(*enlarged));
        if (enlarged == NULL) {
            sim->no_memory = true;
            return;
        }
        memset(enlarged + actor->fact_capacity, 0, (capacity - actor->fact_capacity) * sizeof(*enlarged));
        actor->facts = enlarged;
        actor->fact_capacity = capacity;
    }
    actor->fact_threads = position >= actor->fact_threads ? position + 1 : actor->fact_threads;
    add_fact(
        sim, &actor->facts[position],
        (mscclpp_sim_fact_t){.agent = cell->write.agent, .clock = cell->write.clock, .position = cell->write.position});
    for (uint32_t i = 0; i < cell->facts.count; ++i) {
        add_fact(sim, &actor->facts[position], cell->facts.entries[i]);
    }
}

void mscclpp_sim_tell_packet(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, mscclpp_sim_cell_t *cell,
                             uint32_t position)
{
    cell->facts.count = 0;
    for (uint32_t i = 0; position < actor->fact_threads && i < actor->facts[position].count; ++i) {
        add_fact(sim, &cell->facts, actor->facts[position].entries[i]);
    }
}

/*
 * Returns true if the thread at `position` knows of an earlier access from a packet that it has read. Facts are about
 * the threads of packet operations, so only accesses with the map MSCCLPP_SIM_PACKET can be among them.
 */
static bool has_fact(const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier, uint32_t position)
{
    if (position >= actor->fact_threads || earlier->map != MSCCLPP_SIM_PACKET) {
        return false;
    }
    for (uint32_t i = 0; i < actor->facts[position].count; ++i) {
        const mscclpp_sim_fact_t *fact = &actor->facts[position].entries[i];

        if (fact->agent == earlier->agent && fact->clock >= earlier->clock && fact->position == earlier->position) {
            return true;
        }
    }
    return false;
}

/*
 * After a meeting, all threads know what each of them knew. So the separate knowledge of single threads is added to the
 * common knowledge where needed, and then cleared.
 */
void mscclpp_sim_meet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor)
{
    if (actor->has_later) {
        mscclpp_sim_join(sim, actor->now, actor->later);
        memset(actor->later, 0, sim->agents * sizeof(*actor->later));
        actor->has_later = false;
    }
    if (actor->has_thread) {
        memset(actor->thread, 0, sim->agents * sizeof(*actor->thread));
        actor->has_thread = false;
    }
    for (uint32_t i = 0; i < actor->fact_threads; ++i) {
        actor->facts[i].count = 0;
    }
    actor->fact_threads = 0;
    actor->synced = actor->clock;
    actor->now[actor->agent].strong = actor->now[actor->agent].full = actor->clock;
}

/*
 * Tries the kinds of knowledge from the strongest to the weakest. Packets order only other packets, so knowledge from
 * packets yields at most MSCCLPP_SIM_WEAK.
 */
mscclpp_sim_order_t mscclpp_sim_order(const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier,
                                      mscclpp_sim_thread_t thread)
{
    const mscclpp_sim_know_t *know = &actor->now[earlier->agent], *of_readers = &actor->thread[earlier->agent];

    if (earlier->agent == actor->agent) {
        /* The access came before the last nop, the actor has only one thread, or the same thread made both accesses. */
        if (earlier->clock <= actor->synced || thread.map == MSCCLPP_SIM_ALONE ||
            (earlier->map == thread.map && earlier->position == thread.position)) {
            return MSCCLPP_SIM_ORDERED;
        }
        return thread.map == MSCCLPP_SIM_PACKET && has_fact(actor, earlier, thread.position) ? MSCCLPP_SIM_WEAK
                                                                                             : MSCCLPP_SIM_UNORDERED;
    }
    if (know->strong >= earlier->clock) {
        return MSCCLPP_SIM_ORDERED;
    }
    /*
     * All threads know the access, but only from packets. They know it of all threads of the other actor (`full`), or
     * of its first threads (`partial`).
     */
    if (know->full >= earlier->clock ||
        (know->partial >= earlier->clock && earlier->position < know->partial_threads)) {
        return MSCCLPP_SIM_WEAK;
    }
    /*
     * A thread that has read a packet knows what its writer knew, and what the writing thread did before. In
     * actor->thread, `strong` is the number of such threads, counted from the first thread.
     */
    if (thread.map == MSCCLPP_SIM_PACKET &&
        ((actor->has_thread && thread.position < of_readers->strong && of_readers->full >= earlier->clock) ||
         has_fact(actor, earlier, thread.position))) {
        return MSCCLPP_SIM_WEAK;
    }
    return MSCCLPP_SIM_UNORDERED;
}
