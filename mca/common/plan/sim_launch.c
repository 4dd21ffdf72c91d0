/* The launches of a rank: what the application does before, between and after them. */
#include <stdio.h>
#include <string.h>

#include "mca/common/plan/sim.h"
#include "mca/common/plan/words.h"

/* Returns true if the cell belongs to the input of the rank. */
static bool is_input(const mscclpp_sim_rank_t *rank, size_t cell)
{
    return cell >= rank->base[MSCCLPP_PLAN_INPUT] &&
           cell < rank->base[MSCCLPP_PLAN_INPUT] + rank->cells[MSCCLPP_PLAN_INPUT];
}

/*
 * Writes the inputs of a launch, and makes the contents of the output undefined, so that a plan that relies on them is
 * found. Cells that are both input and output get the input. Does nothing if memory has run out.
 */
static void set_inputs(mscclpp_sim_t *sim, uint32_t rank_number, uint32_t launch)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
    const mscclpp_sim_thread_t thread = {0, MSCCLPP_SIM_ALONE};
    mscclpp_sim_event_t event = {.inner = -1, .launch = launch};

    if (!mscclpp_sim_tick(sim, &rank->actor, event)) {
        return;
    }
    for (size_t i = 0; i < rank->cells[MSCCLPP_PLAN_INPUT]; ++i) {
        mscclpp_sim_write(sim, &rank->actor, launch, rank->base[MSCCLPP_PLAN_INPUT] + i, thread,
                          mscclpp_sim_input_value(sim, rank_number, i, launch));
    }
    for (size_t i = 0; i < rank->cells[MSCCLPP_PLAN_OUTPUT]; ++i) {
        if (!is_input(rank, rank->base[MSCCLPP_PLAN_OUTPUT] + i)) {
            mscclpp_sim_undefine(sim, &rank->actor, launch, rank->base[MSCCLPP_PLAN_OUTPUT] + i);
        }
    }
    mscclpp_sim_meet(sim, &rank->actor);
}

/*
 * Sets the inputs of the next launch. Sets them once more after the last launch, although no launch uses them: these
 * writes are checked like all others, and reveal peers or proxies that still access the buffers.
 */
void mscclpp_sim_launch(mscclpp_sim_t *sim, uint32_t rank_number)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
    mscclpp_sim_block_t *block;

    ++rank->launch;
    set_inputs(sim, rank_number, rank->launch);
    if (rank->launch > sim->launches) {
        rank->has_ended = true;
        return;
    }
    for (uint32_t i = 0; i < sim->block_count; ++i) {
        block = &sim->blocks[i];
        if (block->rank != rank_number) {
            continue;
        }
        /* A block begins with all that the application knows. */
        memcpy(block->actor.now, rank->actor.now, sim->agents * sizeof(*block->actor.now));
        mscclpp_sim_meet(sim, &block->actor);
        block->launch = rank->launch;
        block->op = block->inner = block->turn = block->turns = 0;
        block->has_ended = false;
        ++rank->running;
    }
}

/*
 * Reports the first element that is not the result that the collective defines. Reports nothing after a race, or if the
 * collective defines no result. Even then it reads the whole output, because these reads reveal peers and proxies that
 * are still writing to it.
 */
static void check_results(mscclpp_sim_t *sim, uint32_t rank_number)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
    mscclpp_plan_place_t place = {.rank = (int)rank_number, .block = -1, .op = -1, .inner = -1};
    mscclpp_sim_value_t value, expected = {0, 0};
    bool has_result = mscclpp_sim_has_result(sim->plan), is_reported = false, may_report;
    const mscclpp_sim_thread_t thread = {0, MSCCLPP_SIM_ALONE};
    char text[200];

    for (size_t i = 0; i < rank->cells[MSCCLPP_PLAN_OUTPUT]; ++i) {
        const mscclpp_sim_cell_t *cell = &sim->cells[rank->base[MSCCLPP_PLAN_OUTPUT] + i];

        value = mscclpp_sim_read(sim, &rank->actor, rank->launch, rank->base[MSCCLPP_PLAN_OUTPUT] + i, thread);
        /* After a race a cell may have any value, so a wrong result would tell nothing new. */
        may_report = has_result && !is_reported && sim->races == 0;
        if (!may_report || !mscclpp_sim_expected_value(sim, rank_number, i, rank->launch, &expected) ||
            (value.first == expected.first && value.second == expected.second)) {
            continue;
        }
        is_reported = true;
        if (!cell->is_defined) {
            snprintf(text, sizeof(text), "nothing has written it");
        } else {
            mscclpp_sim_describe_value(sim, value, i, rank->launch, text, sizeof(text));
        }
        mscclpp_plan_add_finding(sim->report, MSCCLPP_PLAN_WRONG, "result", place,
                                 "after launch %u chunk %zu of its output is not what %s yields: %s", rank->launch,
                                 i / sim->cells_per_chunk, mscclpp_plan_collective_name(sim->plan->collective), text);
    }
}

/*
 * The application learns what the blocks of its own rank know. It learns nothing else about peers, because it sees only
 * the end of its own kernel.
 */
bool mscclpp_sim_end_launch(mscclpp_sim_t *sim, uint32_t rank_number)
{
    mscclpp_sim_rank_t *rank = &sim->ranks[rank_number];
    mscclpp_sim_event_t event = {.inner = -1, .launch = rank->launch + 1}; /* what comes before the next launch */

    if (rank->has_ended || rank->running > 0) {
        return false;
    }
    for (uint32_t i = 0; i < sim->block_count; ++i) {
        if (sim->blocks[i].rank == rank_number) {
            mscclpp_sim_meet(sim, &sim->blocks[i].actor);
            mscclpp_sim_learn(sim, &rank->actor, sim->blocks[i].actor.now);
        }
    }
    if (!mscclpp_sim_tick(sim, &rank->actor, event)) {
        return false;
    }
    mscclpp_sim_meet(sim, &rank->actor);
    check_results(sim, rank_number);
    mscclpp_sim_launch(sim, rank_number);
    return true;
}
