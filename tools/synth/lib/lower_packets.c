/*
 * Packets: whoever needs a chunk reads it from a slot of its own in its scratch, and the flag of a packet says that it
 * is there. The scratch has two halves, for even and odd launches. A rank may write into a half again as every other
 * rank has sent it something since, or made others send something, so it has read all packets of the launch before.
 */
#include "tools/synth/lib/lower_parts.h"

/* Writes the additions after a step. The value that did not come as packets is added last. */
static void write_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step)
{
    if (synth_lower_sums(writer, layout, rank, step, "repkt")) {
        synth_writer_simple(writer, "nop");
    }
}

/* The slot of chunk k of a rank's input at `rank`. The rank's own input has one from `own` on, behind all others. */
static synth_place_t slot_of(const synth_layout_t *layout, int rank, int source, int k, int own)
{
    int chunk = source * layout->schedule->chunks + k;

    return (synth_place_t){'s', source == rank ? own + k : layout->slot[layout->arrival[rank * layout->count + chunk]]};
}

/*
 * Whole inputs are added in one order on all ranks, so that all get the same bits: the last rank's input is what is no
 * packet. The others unpack it into the output, after they have packed their own.
 */
static void add_inputs(synth_writer_t *writer, const synth_layout_t *layout, int rank, int own)
{
    int chunks = layout->schedule->chunks, last = layout->ranks - 1;
    synth_moves_t pack = {NULL, 0, 0, false}, unpack = {NULL, 0, 0, false}, sum = {NULL, 0, 0, false};

    for (int k = 0; k < chunks; ++k) {
        synth_place_t home = layout->home[rank * layout->count + rank * chunks + k], output = {'o', k};
        synth_move_t *move = synth_moves_begin(&sum, 0, rank, rank == last ? home : output);

        for (int source = 0; source < last; ++source) {
            synth_move_end(move, rank, slot_of(layout, rank, source, k, own));
        }
        synth_move_end(move, rank, output);
        if (rank != last) {
            synth_move_end(synth_moves_begin(&pack, 0, rank, home), rank, slot_of(layout, rank, rank, k, own));
            synth_move_end(synth_moves_begin(&unpack, 0, rank, slot_of(layout, rank, last, k, own)), rank, output);
        }
    }
    synth_moves_merge(layout, &pack);
    synth_moves_merge(layout, &unpack);
    synth_moves_merge(layout, &sum);
    synth_writer_data(writer, "cpkt", &pack, 1);
    synth_writer_simple(writer, "nop");
    synth_writer_data(writer, "upkt", &unpack, 1);
    synth_writer_simple(writer, "nop");
    synth_writer_data(writer, "repkt", &sum, 0);
    synth_moves_destroy(&pack);
    synth_moves_destroy(&unpack);
    synth_moves_destroy(&sum);
}

/* Writes the operations of one block. */
static void write_block(synth_writer_t *writer, const synth_layout_t *layout, int rank, int own)
{
    const synth_schedule_t *schedule = layout->schedule;
    synth_moves_t last = {NULL, 0, 0, false};

    for (int s = 0; s < schedule->steps; ++s) {
        synth_moves_t fresh = {NULL, 0, 0, false}, on = {NULL, 0, 0, false};

        synth_moves_send(layout, rank, s, &fresh);
        synth_writer_put(writer, "ppkt", 0, &fresh);
        synth_moves_destroy(&fresh);
        synth_moves_relay(layout, rank, s, &on);
        synth_writer_data(writer, "rppkt", &on, 1);
        synth_moves_destroy(&on);
        write_sums(writer, layout, rank, s);
    }
    synth_writer_simple(writer, "nop");
    synth_lower_own(writer, layout, rank);
    synth_moves_unpack(layout, rank, &last);
    synth_writer_data(writer, "upkt", &last, 1);
    synth_moves_destroy(&last);
    if (schedule->whole) {
        add_inputs(writer, layout, rank, own);
    }
}

void synth_lower_packets(synth_writer_t *writer, synth_layout_t *layout, int instances)
{
    int own[SYNTH_MAX_RANKS];

    for (int rank = 0; rank < layout->ranks; ++rank) {
        own[rank] = layout->scratch[rank];
        layout->scratch[rank] += layout->schedule->whole ? layout->schedule->chunks : 0;
    }
    synth_lower_blocks(writer, layout, instances, false);
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_at(writer, rank, i);
            write_block(writer, layout, rank, own[rank]);
        }
    }
}
