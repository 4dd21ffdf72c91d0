/* What the three ways to lower a schedule share: with signals, with packets, and as a pipeline. */
#ifndef TOOLS_SYNTH_LIB_LOWER_PARTS_H
#define TOOLS_SYNTH_LIB_LOWER_PARTS_H

#include "tools/synth/lib/writer.h"

enum { SYNTH_ANY_STEP = -1 };

/* Sets of ranks: who sends to a rank in a step, and to whom it sends. */
void synth_lower_partners(const synth_schedule_t *schedule, int rank, int step, uint64_t *from, uint64_t *to);

/* Block i of each rank works on part i. With `channels` it is joined with block i of each partner of its rank. */
void synth_lower_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, bool channels);

/* Adds up what a rank got in a step, by operations of this name. Whether there was anything. */
bool synth_lower_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step, const char *name);

/* Copies what a rank sends to itself. */
void synth_lower_own(synth_writer_t *writer, const synth_layout_t *layout, int rank);

/* Needs a layout with slots. */
void synth_lower_packets(synth_writer_t *writer, synth_layout_t *layout, int instances);

/*
 * As a pipeline: two blocks for each tree, of which one adds up on the way to the root and one sends on away from it.
 * Needs a layout with slots, and as many instances as synth_turns_instances says, at most those asked for.
 */
void synth_lower_turns(synth_writer_t *writer, synth_layout_t *layout, int instances);
int synth_turns_instances(const synth_layout_t *layout, int asked);

/* Bytes that one turn of such a pipeline moves of each chunk; 0 without memory. */
uint64_t synth_turns_bytes(const synth_schedule_t *schedule, int asked);

/* Whether each chunk is added up along one tree and sent on along another, from the root of the first. */
bool synth_has_trees(const synth_schedule_t *schedule);

#endif
