/* What the three ways to lower a schedule share: with signals, with packets, and as a pipeline. */
#ifndef TOOLS_SYNTH_LIB_LOWER_PARTS_H
#define TOOLS_SYNTH_LIB_LOWER_PARTS_H

#include "tools/synth/lib/writer.h"

enum { SYNTH_ANY_STEP = -1 };

/* Finds the sets of ranks that send to a rank in a step, and that it sends to. SYNTH_ANY_STEP: in any step. */
void synth_lower_partners(const synth_schedule_t *schedule, int rank, int step, uint64_t *senders, uint64_t *receivers);

/* Adds blocks: block i of each rank works on part i. With `joined`, block i also gets channels to block i of each rank
 * that it sends to or receives from. */
void synth_lower_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, bool joined);

/* Writes operations of this name that add up what a rank got in a step. Returns whether it got anything to add. */
bool synth_lower_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step, const char *name);

/* Writes copies of what a rank sends to itself. */
void synth_lower_own(synth_writer_t *writer, const synth_layout_t *layout, int rank);

/* Writes the whole plan with packets. The layout has to be one for packets; scratch is added to it. */
void synth_lower_packets(synth_writer_t *writer, synth_layout_t *layout, int instances);

/*
 * Writes the whole plan as a pipeline. It has two blocks for each tree: one adds up on the way to the root, and one
 * sends on away from it. The layout has to be one for pipelines; its scratch is rounded up to powers of two.
 * `instances` is what synth_turns_instances returned.
 */
void synth_lower_turns(synth_writer_t *writer, synth_layout_t *layout, int instances);

/* Returns how many instances a pipeline has: a power of two, at most as many as asked for. */
int synth_turns_instances(const synth_layout_t *layout, int asked);

/* Returns the bytes that one turn of such a pipeline moves of each chunk; 0 if memory runs out. */
uint64_t synth_turns_bytes(const synth_schedule_t *schedule, int asked);

/* Whether each chunk is added up along one tree and sent on along another, from the root of the first. */
bool synth_has_trees(const synth_schedule_t *schedule);

#endif
