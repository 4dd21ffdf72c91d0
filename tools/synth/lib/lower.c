/*
 * Every rank does its steps in order. With signals: puts, then signals, then waits, then additions; so each wait needs
 * a signal of an earlier step or one before any wait of its own step, and no circle of waits can come about. With
 * packets the same holds of packets that are sent and read.
 */
#include "tools/synth/lib/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"
#include "tools/synth/lib/lower_parts.h"

enum { MOST_PACKETS = 1024 }; /* sends of a schedule */

void synth_lower_partners(const synth_schedule_t *schedule, int rank, int step, uint64_t *from, uint64_t *to)
{
    *from = *to = 0;
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (step == SYNTH_ANY_STEP || send->step == step) {
            *from |= send->to == rank ? UINT64_C(1) << send->from : 0;
            *to |= send->from == rank ? UINT64_C(1) << send->to : 0;
        }
    }
}

void synth_lower_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, bool channels)
{
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_block(writer, rank, i);
        }
    }
    for (int rank = 0; rank < layout->ranks && channels; ++rank) {
        uint64_t from, to;

        synth_lower_partners(layout->schedule, rank, SYNTH_ANY_STEP, &from, &to);
        for (int other = 0; other < rank; ++other) {
            for (int i = 0; i < instances && ((from | to) >> other & 1) != 0; ++i) {
                synth_writer_join(writer, rank, i, other, i, 0);
            }
        }
    }
}

bool synth_lower_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step, const char *name)
{
    synth_moves_t moves = {NULL, 0, 0, false};
    bool any;

    synth_moves_add(layout, rank, step, &moves);
    any = moves.count > 0;
    synth_writer_data(writer, name, &moves, 0);
    synth_moves_destroy(&moves);
    return any;
}

void synth_lower_own(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    synth_moves_t moves = {NULL, 0, 0, false};

    synth_moves_own(layout, rank, &moves);
    synth_writer_data(writer, "copy", &moves, 1);
    synth_moves_destroy(&moves);
}

/* Adds up whole inputs at the end, in the order of the ranks, so that all ranks get the same bits. */
static void add_inputs(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    int chunks = layout->schedule->chunks;
    synth_moves_t moves = {NULL, 0, 0, false};

    for (int k = 0; k < chunks; ++k) {
        synth_move_t *move = synth_moves_begin(&moves, 0, rank, synth_layout_at(layout, rank, k, SYNTH_MAX_STEPS));

        for (int r = 1; r < layout->ranks; ++r) {
            synth_move_end(move, rank, synth_layout_at(layout, rank, r * chunks + k, SYNTH_MAX_STEPS));
        }
        synth_move_end(move, rank, (synth_place_t){'o', k});
    }
    synth_moves_merge(layout, &moves);
    synth_writer_data(writer, "re", &moves, 0);
    synth_moves_destroy(&moves);
}

/* Writes the operations of one block with signals. At first each rank tells its senders that it has started, so that
 * they may write into its buffers. */
static void write_with_signals(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    const synth_schedule_t *schedule = layout->schedule;
    uint64_t from, to;

    synth_lower_partners(schedule, rank, SYNTH_ANY_STEP, &from, &to);
    synth_writer_sync(writer, "rlxsignal", 0, from);
    synth_writer_sync(writer, "rlxwait", 0, to);
    synth_writer_simple(writer, "nop");
    synth_lower_own(writer, layout, rank);
    for (int s = 0; s < schedule->steps; ++s) {
        synth_moves_t moves = {NULL, 0, 0, false};

        synth_lower_partners(schedule, rank, s, &from, &to);
        if (from == 0 && to == 0) {
            continue;
        }
        synth_moves_send(layout, rank, s, &moves);
        synth_writer_put(writer, "put", 0, &moves);
        synth_moves_destroy(&moves);
        synth_writer_simple(writer, "nop");
        synth_writer_sync(writer, "signal", 0, to);
        synth_writer_sync(writer, "flush", 0, to); /* afterwards the sources may be overwritten */
        synth_writer_sync(writer, "wait", 0, from);
        synth_writer_simple(writer, "nop");
        if (synth_lower_sums(writer, layout, rank, s, "re")) {
            synth_writer_simple(writer, "nop");
        }
    }
    if (schedule->whole) {
        add_inputs(writer, layout, rank);
    }
}

/* Writes the whole plan with signals. */
static void lower_with_signals(synth_writer_t *writer, const synth_layout_t *layout, int instances)
{
    synth_lower_blocks(writer, layout, instances, true);
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_at(writer, rank, i);
            write_with_signals(writer, layout, rank);
        }
    }
}

bool synth_lowers(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                  bool in_place, const char **why_p)
{
    synth_collective_t collective = schedule->collective;

    if (in_place && collective != SYNTH_ALLGATHER && collective != SYNTH_ALLREDUCE &&
        collective != SYNTH_REDUCESCATTER) {
        *why_p = "plans in place are for allgather, allreduce and reducescatter";
        return false;
    }
    if (manner == SYNTH_PACKETS && topology->node_count > 1) {
        *why_p = "packets do not leave a node";
        return false;
    }
    if (manner == SYNTH_PACKETS && schedule->send_count > MOST_PACKETS) {
        *why_p = "messages that are small enough for packets are not worth so many sends";
        return false;
    }
    if (manner == SYNTH_PACKETS && collective != SYNTH_ALLGATHER && collective != SYNTH_ALLREDUCE &&
        collective != SYNTH_REDUCESCATTER && collective != SYNTH_ALLTOALL) {
        *why_p = "not all ranks hear of one another, so packets could be overwritten before they are read";
        return false;
    }
    if (manner == SYNTH_PIPELINE && !synth_has_trees(schedule)) {
        *why_p = "its chunks do not go along trees";
        return false;
    }
    return true;
}

char *synth_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, const synth_lowering_t *lowering,
                  size_t *size_p)
{
    synth_layout_t layout;
    synth_writer_t *writer = NULL;
    char *text = NULL;
    int instances = lowering->instances;

    if (synth_layout_init(&layout, schedule, lowering->manner, lowering->in_place)) {
        if (lowering->manner == SYNTH_PIPELINE) {
            instances = synth_turns_instances(&layout, instances);
        }
        writer = synth_writer_new(topology, &layout, instances);
    }
    if (writer != NULL) {
        if (lowering->manner == SYNTH_PIPELINE) {
            synth_lower_turns(writer, &layout, instances);
        } else if (lowering->manner == SYNTH_PACKETS) {
            synth_lower_packets(writer, &layout, instances);
        } else {
            lower_with_signals(writer, &layout, instances);
        }
        text = synth_writer_finish(writer, lowering->name, &lowering->range, size_p);
    }
    synth_writer_free(writer);
    synth_layout_destroy(&layout);
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
    for (int i = 0; i < report.count; ++i) {
        bool wraps = strcmp(report.finding[i].rule, "wrap") == 0; /* credits are there to prevent this */

        fine = fine && !wraps;
        if (!fine && (wraps || report.finding[i].kind != MSCCLPP_PLAN_NOTE)) {
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
