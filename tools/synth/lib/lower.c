/*
 * Writes plans of schedules: with signals in this file, with packets in lower_packets.c, and as pipelines in
 * lower_turns.c.
 *
 * Every rank does its steps in order. With signals, a step consists of puts, then signals, then waits, then additions.
 * So each wait is for a signal that its sender gives before any wait of the same step, and there cannot be a cycle of
 * waits. The same holds for packets, which are sent before packets of the same step are read.
 */
#include "tools/synth/lib/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"
#include "tools/synth/lib/lower_parts.h"

enum { MAX_SENDS = 1024 }; /* most sends of a schedule that becomes a plan with packets */

void synth_lower_partners(const synth_schedule_t *schedule, int rank, int step, uint64_t *senders, uint64_t *receivers)
{
    *senders = *receivers = 0;
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (step == SYNTH_ANY_STEP || send->step == step) {
            *senders |= send->to == rank ? UINT64_C(1) << send->from : 0;
            *receivers |= send->from == rank ? UINT64_C(1) << send->to : 0;
        }
    }
}

/* Joins each pair of ranks once, when the loop comes to the rank with the higher number. */
void synth_lower_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, bool joined)
{
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_add_block(writer, rank, i);
        }
    }
    for (int rank = 0; rank < layout->ranks && joined; ++rank) {
        uint64_t senders, receivers;

        synth_lower_partners(layout->schedule, rank, SYNTH_ANY_STEP, &senders, &receivers);
        for (int other = 0; other < rank; ++other) {
            for (int i = 0; i < instances && ((senders | receivers) >> other & 1) != 0; ++i) {
                synth_writer_join(writer, rank, i, other, i, 0);
            }
        }
    }
}

bool synth_lower_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step, const char *name)
{
    synth_moves_t moves = {NULL, 0, 0, false};
    bool has_sums;

    synth_moves_add(layout, rank, step, &moves);
    has_sums = moves.count > 0;
    synth_writer_data(writer, name, &moves, 0);
    synth_moves_destroy(&moves);
    return has_sums;
}

void synth_lower_local_copies(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    synth_moves_t moves = {NULL, 0, 0, false};

    synth_moves_local(layout, rank, &moves);
    synth_writer_data(writer, "copy", &moves, 1);
    synth_moves_destroy(&moves);
}

/*
 * Writes the additions of whole inputs into the output. The inputs are read from their places after the last step. All
 * ranks add in the order of the ranks, so that all of them get the same bits.
 */
static void add_inputs(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    int chunks = layout->schedule->chunks;
    synth_moves_t moves = {NULL, 0, 0, false};

    for (int chunk = 0; chunk < chunks; ++chunk) {
        synth_move_t *move = synth_moves_begin(&moves, 0, rank, synth_layout_at(layout, rank, chunk, SYNTH_MAX_STEPS));

        for (int source = 1; source < layout->ranks; ++source) {
            synth_move_add_operand(move, rank, synth_layout_at(layout, rank, source * chunks + chunk, SYNTH_MAX_STEPS));
        }
        synth_move_add_operand(move, rank, (synth_place_t){'o', chunk});
    }
    synth_moves_merge(layout, &moves);
    synth_writer_data(writer, "re", &moves, 0);
    synth_moves_destroy(&moves);
}

/*
 * Writes the operations of the selected block, with signals. First each rank tells the ranks that send to it that it
 * has started: only then may they write into its buffers. The threads of the block meet at each "nop". So no thread
 * signals before all threads have put, and no thread reads before all signals have arrived.
 */
static void write_with_signals(synth_writer_t *writer, const synth_layout_t *layout, int rank)
{
    const synth_schedule_t *schedule = layout->schedule;
    uint64_t senders, receivers;

    synth_lower_partners(schedule, rank, SYNTH_ANY_STEP, &senders, &receivers);
    synth_writer_sync(writer, "rlxsignal", 0, senders);
    synth_writer_sync(writer, "rlxwait", 0, receivers);
    synth_writer_simple(writer, "nop");
    synth_lower_local_copies(writer, layout, rank);
    for (int step = 0; step < schedule->steps; ++step) {
        synth_moves_t moves = {NULL, 0, 0, false};

        synth_lower_partners(schedule, rank, step, &senders, &receivers);
        if (senders == 0 && receivers == 0) {
            continue;
        }
        synth_moves_send(layout, rank, step, &moves);
        synth_writer_put(writer, "put", 0, &moves);
        synth_moves_destroy(&moves);
        synth_writer_simple(writer, "nop");
        synth_writer_sync(writer, "signal", 0, receivers);
        /* After the flush, the sources of the puts may be overwritten. */
        synth_writer_sync(writer, "flush", 0, receivers);
        synth_writer_sync(writer, "wait", 0, senders);
        synth_writer_simple(writer, "nop");
        if (synth_lower_sums(writer, layout, rank, step, "re")) {
            synth_writer_simple(writer, "nop");
        }
    }
    if (schedule->sends_whole_inputs) {
        add_inputs(writer, layout, rank);
    }
}

/*
 * Writes the plan in the manner of puts and signals. Each of the `instances` blocks of a rank moves a part of the data.
 */
static void lower_with_signals(synth_writer_t *writer, const synth_layout_t *layout, int instances)
{
    synth_lower_blocks(writer, layout, instances, true);
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_select(writer, rank, i);
            write_with_signals(writer, layout, rank);
        }
    }
}

/* Checks one condition after another. Only the first one that does not hold becomes the reason. */
bool synth_can_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
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
    if (manner == SYNTH_PACKETS && schedule->send_count > MAX_SENDS) {
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

/* Makes the layout and writes the plan in the manner of `lowering`. */
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

/* Reads, checks and simulates the plan. Stops at the first finding that refuses it. */
bool synth_prove(const char *text, size_t size, bool *checked, char *reason, size_t reason_size)
{
    mscclpp_plan_sim_options_t options = {.launches = MSCCLPP_PLAN_LAUNCHES, .seed = 1};
    mscclpp_plan_sim_stats_t stats = {0, 0, false, 0};
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    char place[80];
    bool is_right;

    mscclpp_plan_report_init(&report);
    is_right = mscclpp_plan_parse(text, size, &report, &plan) == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
               mscclpp_plan_simulate(plan, &options, &report, &stats);
    *checked = stats.has_result;
    for (int i = 0; i < report.count; ++i) {
        /*
         * In general this finding is only a note: it says that data are overwritten if an executor has a smaller ring
         * of scratch. In plans that are made here, credits prevent this, so the finding is a fault.
         */
        bool is_wrap = strcmp(report.findings[i].rule, "wrap") == 0;

        is_right = is_right && !is_wrap;
        if (!is_right && (is_wrap || report.findings[i].kind != MSCCLPP_PLAN_NOTE)) {
            snprintf(reason, reason_size, "%s: %s [%s]",
                     mscclpp_plan_place_text(report.findings[i].place, place, sizeof(place)),
                     report.findings[i].text != NULL ? report.findings[i].text : "", report.findings[i].rule);
            break;
        }
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return is_right;
}
