/*
 * Plans with packets. Each chunk that a rank receives has a slot in its scratch, and the flags of the packets tell that
 * it has arrived. The scratch has two halves, for even and odd launches. A rank may write into a half again without
 * waiting, for two reasons:
 * 1. In the launch between, every rank has sent something to each other rank, directly or through others.
 * 2. Before that, it had read all packets of the launch before.
 */
#include "tools/synth/lib/lower_parts.h"

/* Writes the additions after a step. The operation "repkt" adds the value that did not come as packets last. */
static void write_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step)
{
    if (synth_lower_sums(writer, layout, rank, step, "repkt")) {
        synth_writer_simple(writer, "nop");
    }
}

/*
 * Returns the slot, on `rank`, of chunk `index` of the input of `source`. The rank's own input has the slots from
 * `input_slots` on. The other inputs have arrived in the slots of their sends.
 */
static synth_place_t slot_of(const synth_layout_t *layout, int rank, int source, int index, int input_slots)
{
    int chunk = source * layout->schedule->chunks + index;

    return (synth_place_t){'s', source == rank ? input_slots + index
                                               : layout->slot[layout->final_send[rank * layout->total_chunks + chunk]]};
}

/*
 * Writes the sums of whole inputs. All ranks add in the same order, so that all of them get the same bits. The
 * operation adds the value that is not a packet last, so this value has to be the last rank's input on every rank.
 * Therefore the other ranks copy their own input into packets and unpack the last rank's input into the output.
 */
static void add_inputs(synth_writer_t *writer, const synth_layout_t *layout, int rank, int input_slots)
{
    int chunks = layout->schedule->chunks, last = layout->ranks - 1;
    synth_moves_t pack = {NULL, 0, 0, false}, unpack = {NULL, 0, 0, false}, sum = {NULL, 0, 0, false};

    for (int index = 0; index < chunks; ++index) {
        synth_place_t input = layout->initial_place[rank * layout->total_chunks + rank * chunks + index],
                      output = {'o', index};
        synth_move_t *move = synth_moves_begin(&sum, 0, rank, rank == last ? input : output);

        for (int source = 0; source < last; ++source) {
            synth_move_add_operand(move, rank, slot_of(layout, rank, source, index, input_slots));
        }
        synth_move_add_operand(move, rank, output);
        if (rank != last) {
            synth_move_add_operand(synth_moves_begin(&pack, 0, rank, input), rank,
                                   slot_of(layout, rank, rank, index, input_slots));
            synth_move_add_operand(synth_moves_begin(&unpack, 0, rank, slot_of(layout, rank, last, index, input_slots)),
                                   rank, output);
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

/*
 * Writes the operations of the selected block. In each step, sends from buffers come before relays and sums, because
 * relays and sums wait for packets. Outputs are filled after the last step. `input_slots` is the first slot for the
 * rank's own input, which is used if whole inputs are sent.
 */
static void write_block(synth_writer_t *writer, const synth_layout_t *layout, int rank, int input_slots)
{
    const synth_schedule_t *schedule = layout->schedule;
    synth_moves_t unpacks = {NULL, 0, 0, false};

    for (int step = 0; step < schedule->steps; ++step) {
        synth_moves_t first_sends = {NULL, 0, 0, false}, relays = {NULL, 0, 0, false};

        synth_moves_send(layout, rank, step, &first_sends); /* from buffers; relays forward packets that have arrived */
        synth_writer_put(writer, "ppkt", 0, &first_sends);
        synth_moves_destroy(&first_sends);
        synth_moves_relay(layout, rank, step, &relays);
        synth_writer_data(writer, "rppkt", &relays, 1);
        synth_moves_destroy(&relays);
        write_sums(writer, layout, rank, step);
    }
    synth_writer_simple(writer, "nop");
    synth_lower_local_copies(writer, layout, rank);
    synth_moves_unpack(layout, rank, &unpacks);
    synth_writer_data(writer, "upkt", &unpacks, 1);
    synth_moves_destroy(&unpacks);
    if (schedule->sends_whole_inputs) {
        add_inputs(writer, layout, rank, input_slots);
    }
}

/* Gives each rank slots for its own input, too, if whole inputs are sent. */
void synth_lower_packets(synth_writer_t *writer, synth_layout_t *layout, int instances)
{
    int input_slots[SYNTH_MAX_RANKS];

    for (int rank = 0; rank < layout->ranks; ++rank) {
        input_slots[rank] = layout->scratch_chunks[rank];
        layout->scratch_chunks[rank] += layout->schedule->sends_whole_inputs ? layout->schedule->chunks : 0;
    }
    synth_lower_blocks(writer, layout, instances, false);
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int i = 0; i < instances; ++i) {
            synth_writer_select(writer, rank, i);
            write_block(writer, layout, rank, input_slots[rank]);
        }
    }
}
