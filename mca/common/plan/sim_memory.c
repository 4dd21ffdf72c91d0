/* Reads and writes the buffers of all ranks, cell by cell, and checks that all accesses are ordered. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

enum {
    NOBODY = UINT32_MAX, /* in place of an actor: nobody has written the cell */
    MAX_CELLS = 8 << 20, /* of all ranks */
    MAX_FAULTS = 8       /* of a run; further ones are counted and not reported */
};

/*
 * Lets a rank's input and output overlap, as in a call in place. Moves the start of one of the two buffers, so that the
 * smaller buffer becomes this rank's part of the larger one. The former cells of the moved buffer stay unused. For
 * collectives that MPI does not have, nothing is moved.
 */
static void overlay_buffers(mscclpp_sim_t *sim, uint32_t rank_number, uint64_t in_chunks, uint64_t out_chunks)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];

    switch (sim->plan->collective) {
    case MSCCLPP_PLAN_ALLREDUCE:
    case MSCCLPP_PLAN_ALLTOALL:
        rank->base[MSCCLPP_PLAN_OUTPUT] = rank->base[MSCCLPP_PLAN_INPUT];
        break;
    case MSCCLPP_PLAN_ALLGATHER:
        rank->base[MSCCLPP_PLAN_INPUT] =
            rank->base[MSCCLPP_PLAN_OUTPUT] + rank_number * in_chunks * sim->cells_per_chunk;
        break;
    case MSCCLPP_PLAN_REDUCESCATTER:
        rank->base[MSCCLPP_PLAN_OUTPUT] =
            rank->base[MSCCLPP_PLAN_INPUT] + rank_number * out_chunks * sim->cells_per_chunk;
        break;
    case MSCCLPP_PLAN_SENDRECV:
    case MSCCLPP_PLAN_TEST:
    case MSCCLPP_PLAN_CUSTOM:
    case MSCCLPP_PLAN_COLLECTIVES:
        break;
    }
}

/* Puts the cells of all ranks into one array, of at most MAX_CELLS. */
bool mscclpp_sim_layout(mscclpp_sim_t *sim)
{
    const mscclpp_plan_t *plan = sim->plan;
    size_t cell_index = 0;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
        uint64_t in_chunks = 0, out_chunks = 0, scratch = plan->ranks[rank_number].chunks[MSCCLPP_PLAN_SCRATCH];

        mscclpp_sim_get_shape(plan, rank_number, &in_chunks, &out_chunks);
        scratch *= sim->wrap_cells > 0 ? sim->wrap_cells : sim->cells_per_chunk;
        scratch *= (plan->uses_packets ? 2 : 1) * (plan->halves ? 2 : 1);
        rank->cells[MSCCLPP_PLAN_INPUT] = in_chunks * sim->cells_per_chunk;
        rank->cells[MSCCLPP_PLAN_OUTPUT] = out_chunks * sim->cells_per_chunk;
        rank->cells[MSCCLPP_PLAN_SCRATCH] = scratch;
        for (int type = 0; type < MSCCLPP_PLAN_BUFFERS; ++type) {
            rank->base[type] = cell_index;
            cell_index += rank->cells[type];
        }
        if (plan->in_place) {
            overlay_buffers(sim, rank_number, in_chunks, out_chunks);
        }
        if (cell_index > MAX_CELLS) {
            return false;
        }
    }
    sim->cells = calloc(cell_index + 1, sizeof(*sim->cells));
    if (sim->cells == NULL) {
        sim->no_memory = true;
        return false;
    }
    sim->cell_count = cell_index;
    for (size_t i = 0; i < cell_index; ++i) {
        sim->cells[i].write.agent = NOBODY;
    }
    return true;
}

void mscclpp_sim_packet_release(mscclpp_sim_packet_t *packet)
{
    if (packet != NULL && --packet->references == 0) {
        free(packet->know);
        free(packet);
    }
}

void mscclpp_sim_memory_destroy(mscclpp_sim_t *sim)
{
    for (size_t i = 0; sim->cells != NULL && i < sim->cell_count; ++i) {
        free(sim->cells[i].reads);
        free(sim->cells[i].facts.entries);
        mscclpp_sim_packet_release(sim->cells[i].packet);
    }
    free(sim->cells);
}

/* Returns true if the actor is the application of a rank, and not a block or a proxy. */
static bool is_application(const mscclpp_sim_t *sim, uint32_t agent)
{
    return agent >= sim->block_count && agent < sim->block_count + sim->plan->rank_count;
}

/*
 * Reports a race: nothing orders the actor's current access after an earlier access. `writes` says that the current
 * access is a write, and `earlier_writes` that the earlier access is a write. With `is_over_packet`, the current access
 * overwrites a packet, which its reader may then miss; this is reported as a deadlock.
 *
 * If the current access is made by an application, the finding is placed at the earlier access, because only that
 * belongs to the plan. After MAX_FAULTS faults, races are only counted.
 */
static void report_race(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, const mscclpp_sim_access_t *earlier,
                        bool earlier_writes, bool writes, size_t cell, bool is_over_packet)
{
    mscclpp_plan_place_t place = mscclpp_sim_place_of(sim, actor->agent, actor->clock);
    bool is_kept, by_application = is_application(sim, actor->agent) || is_application(sim, earlier->agent);
    char actor_text[160], earlier_text[160], cell_text[100];

    if (is_application(sim, actor->agent)) {
        place = mscclpp_sim_place_of(sim, earlier->agent, earlier->clock);
    }
    ++sim->races;
    if (sim->report->faults - sim->faults_before >= (int)MAX_FAULTS) {
        return;
    }
    mscclpp_sim_actor_text(sim, actor->agent, actor->clock, actor_text, sizeof(actor_text));
    mscclpp_sim_actor_text(sim, earlier->agent, earlier->clock, earlier_text, sizeof(earlier_text));
    mscclpp_sim_cell_text(sim, cell, is_over_packet, cell_text, sizeof(cell_text));
    if (is_over_packet) {
        is_kept = mscclpp_plan_add_finding(
            sim->report, MSCCLPP_PLAN_DEADLOCK, "packet-overwrite", place,
            "%s may overwrite packets in %s before %s has read them, which then waits for ever", actor_text, cell_text,
            earlier_text);
    } else if (earlier->agent == actor->agent) {
        is_kept = mscclpp_plan_add_finding(
            sim->report, MSCCLPP_PLAN_RACE, "hazard", place,
            "it %s %s, which %s %s by other threads of the block, without a nop between them",
            writes ? "writes" : "reads", cell_text, earlier_text, earlier_writes ? "writes" : "reads");
    } else {
        is_kept = mscclpp_plan_add_finding(sim->report, MSCCLPP_PLAN_RACE, by_application ? "launch" : "race", place,
                                           "%s %s %s, which %s %s; nothing orders the two", actor_text,
                                           writes ? "writes" : "reads", cell_text, earlier_text,
                                           earlier_writes ? "writes" : "reads");
    }
    if (is_kept && by_application) {
        mscclpp_plan_explain(sim->report,
                             "The buffers are the application's as soon as the rank's own kernel has ended, "
                             "whatever its peers and proxies still do.");
    }
}

/*
 * Reports that packets must order an earlier store. Only packets order an earlier plain store before the current
 * access. That is safe only if whoever executes the plan orders such stores before packets.
 */
static void report_packet_order(mscclpp_sim_t *sim, const mscclpp_sim_access_t *earlier, size_t cell)
{
    char earlier_text[160], cell_text[100];

    mscclpp_plan_add_finding(
        sim->report, MSCCLPP_PLAN_NOTE, "packet-order", mscclpp_plan_nowhere,
        "%s stores %s, and only packets tell of it: packets have to order stores before them",
        mscclpp_sim_actor_text(sim, earlier->agent, earlier->clock, earlier_text, sizeof(earlier_text)),
        mscclpp_sim_cell_text(sim, cell, false, cell_text, sizeof(cell_text)));
}

/*
 * Checks that an access is ordered after the last write to the cell. `writes` says that the access is a write, and
 * `is_packet` that it writes a packet. If only packets order the access after a plain store, reports that the packets
 * must order other stores.
 */
static void check_after_write(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, size_t cell_index,
                              mscclpp_sim_thread_t thread, bool writes, bool is_packet)
{
    const mscclpp_sim_cell_t *cell = &sim->cells[cell_index];
    mscclpp_sim_order_t order;

    if (cell->write.agent == NOBODY) {
        return;
    }
    order = mscclpp_sim_order(actor, &cell->write, thread);
    if (order == MSCCLPP_SIM_UNORDERED) {
        report_race(sim, actor, &cell->write, true, writes, cell_index, is_packet && cell->packet != NULL);
    } else if (order == MSCCLPP_SIM_WEAK && cell->write.is_plain) {
        report_packet_order(sim, &cell->write, cell_index);
    }
}

/*
 * Adds a read to the list of the cell. To keep the list short, the new read replaces an earlier read of the same actor
 * where that loses nothing: everything that is ordered after the new read must also be ordered after the earlier one.
 * This holds if all threads have met in between (`synced`), or if the same thread made both reads. If memory runs out,
 * sim->no_memory ends the run.
 */
static void add_read(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, mscclpp_sim_cell_t *cell,
                     mscclpp_sim_thread_t thread)
{
    mscclpp_sim_access_t access = {.agent = actor->agent,
                                   .clock = actor->clock,
                                   .position = thread.position,
                                   .map = (uint8_t)thread.map},
                         *reads;
    uint32_t capacity;

    for (uint32_t i = 0; i < cell->read_count; ++i) {
        mscclpp_sim_access_t *read = &cell->reads[i];

        if (read->agent == actor->agent &&
            (read->clock <= actor->synced || (read->map == thread.map && read->position == thread.position))) {
            *read = access;
            return;
        }
    }
    if (cell->read_count == cell->read_capacity) {
        capacity = cell->read_capacity > 0 ? 2 * cell->read_capacity : 2;
        reads = realloc(cell->reads, capacity * sizeof(*reads));
        if (reads == NULL) {
            sim->no_memory = true;
            return;
        }
        cell->reads = reads;
        cell->read_capacity = capacity;
    }
    cell->reads[cell->read_count++] = access;
}

/*
 * Reports a read of a cell that no operation of launch `launch` has written. Applications may read such cells, because
 * they read the whole output; check_results reports what is wrong there. After MAX_FAULTS faults, nothing is reported.
 */
static void check_defined(mscclpp_sim_t *sim, const mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index)
{
    const mscclpp_sim_cell_t *cell = &sim->cells[cell_index];
    char cell_text[100];

    /* Values from an earlier launch do not count: another call may have used other buffers. */
    if ((cell->is_defined && cell->launch == launch) || is_application(sim, actor->agent) ||
        sim->report->faults - sim->faults_before >= (int)MAX_FAULTS) {
        return;
    }
    mscclpp_plan_add_finding(sim->report, MSCCLPP_PLAN_WRONG, "undefined",
                             mscclpp_sim_place_of(sim, actor->agent, actor->clock),
                             "it reads %s, which nothing has written in %s",
                             mscclpp_sim_cell_text(sim, cell_index, false, cell_text, sizeof(cell_text)),
                             cell->is_defined ? "this launch" : "any launch");
}

mscclpp_sim_value_t mscclpp_sim_read(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                                     mscclpp_sim_thread_t thread)
{
    mscclpp_sim_cell_t *cell = &sim->cells[cell_index];

    check_after_write(sim, actor, cell_index, thread, false, false);
    check_defined(sim, actor, launch, cell_index);
    add_read(sim, actor, cell, thread);
    return cell->value;
}

bool mscclpp_sim_has_packet(const mscclpp_sim_t *sim, size_t cell_index, uint32_t launch)
{
    return sim->cells[cell_index].packet != NULL && sim->cells[cell_index].launch == launch;
}

mscclpp_sim_value_t mscclpp_sim_read_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, size_t cell_index,
                                            uint32_t position)
{
    const mscclpp_sim_thread_t thread = {position, MSCCLPP_SIM_PACKET};

    /* Not checked against the last write: the packet's flag orders this read after it. */
    add_read(sim, actor, &sim->cells[cell_index], thread);
    add_read(sim, actor, &sim->cells[cell_index + 1], thread);
    mscclpp_sim_hear_packet(sim, actor, &sim->cells[cell_index], position);
    return sim->cells[cell_index].value;
}

/*
 * Writes one cell. `packet` is the record of the packet, to which the cell gets a reference, or NULL for a plain store.
 *
 * Reports earlier accesses that nothing orders before the write: the last write, and the reads since then. The reads
 * are then forgotten: a later write that is ordered after this write is ordered after the reads, too.
 */
static void write_cell(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                       mscclpp_sim_thread_t thread, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet)
{
    mscclpp_sim_cell_t *cell = &sim->cells[cell_index];

    check_after_write(sim, actor, cell_index, thread, true, packet != NULL);
    for (uint32_t i = 0; i < cell->read_count; ++i) {
        if (mscclpp_sim_order(actor, &cell->reads[i], thread) == MSCCLPP_SIM_UNORDERED) {
            report_race(sim, actor, &cell->reads[i], false, true, cell_index,
                        packet != NULL && cell->packet != NULL && cell->launch < launch);
        }
    }
    cell->read_count = 0;
    cell->value = value;
    cell->launch = launch;
    cell->is_defined = true;
    cell->write = (mscclpp_sim_access_t){.agent = actor->agent,
                                         .clock = actor->clock,
                                         .position = thread.position,
                                         .map = (uint8_t)thread.map,
                                         .is_plain = packet == NULL};
    mscclpp_sim_packet_release(cell->packet);
    cell->packet = packet;
    if (packet != NULL) {
        ++packet->references;
    }
}

void mscclpp_sim_write(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                       mscclpp_sim_thread_t thread, mscclpp_sim_value_t value)
{
    write_cell(sim, actor, launch, cell_index, thread, value, NULL);
}

void mscclpp_sim_write_packet(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index,
                              uint32_t position, mscclpp_sim_value_t value, mscclpp_sim_packet_t *packet)
{
    const mscclpp_sim_thread_t thread = {position, MSCCLPP_SIM_PACKET};

    write_cell(sim, actor, launch, cell_index, thread, value, packet);
    write_cell(sim, actor, launch, cell_index + 1, thread, value, packet);
    mscclpp_sim_tell_packet(sim, actor, &sim->cells[cell_index], position);
}

void mscclpp_sim_undefine(mscclpp_sim_t *sim, mscclpp_sim_actor_t *actor, uint32_t launch, size_t cell_index)
{
    const mscclpp_sim_thread_t thread = {0, MSCCLPP_SIM_ALONE};
    mscclpp_sim_value_t nothing = {cell_index + 1, ~(uint64_t)launch};

    write_cell(sim, actor, launch, cell_index, thread, nothing, NULL);
    sim->cells[cell_index].is_defined = false;
}
