/* Functions that the three manners of a plan share: with signals, with packets, and as a pipeline. */
#ifndef TOOLS_SYNTH_LIB_LOWER_PARTS_H
#define TOOLS_SYNTH_LIB_LOWER_PARTS_H

#include "tools/synth/lib/writer.h"

enum { SYNTH_ANY_STEP = -1 };

/*
 * Determines the set of ranks that send to a rank in a step, and the set of ranks to which it sends. SYNTH_ANY_STEP: in
 * any step.
 */
void synth_lower_partners(const synth_schedule_t *schedule, int rank, int step, uint64_t *senders, uint64_t *receivers);

/*
 * Adds blocks: block i of each rank works on part i. If `joined` is true, block i also gets channels to block i of each
 * rank to which its rank sends or from which it receives.
 */
void synth_lower_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, bool joined);

/*
 * Writes operations of this name that add up the values that a rank received in a step. Returns true if there were any.
 */
bool synth_lower_sums(synth_writer_t *writer, const synth_layout_t *layout, int rank, int step, const char *name);

/* Adds to the plan the operations by which a rank copies to its output those chunks of its input that stay on it. */
void synth_lower_local_copies(synth_writer_t *writer, const synth_layout_t *layout, int rank);

/* Writes the whole plan with packets. The layout has to be one for packets; the function may add scratch to it. */
void synth_lower_packets(synth_writer_t *writer, synth_layout_t *layout, int instances);

/*
 * Writes the whole plan as a pipeline. The plan has two blocks for each tree: one adds up on the way to the root, and
 * one sends on the way back. The layout has to be one for pipelines; the function rounds its scratch up to powers of
 * two. `instances` is the value that synth_turns_instances returned.
 */
void synth_lower_turns(synth_writer_t *writer, synth_layout_t *layout, int instances);

/* Returns the number of instances of a pipeline: a power of two, at most `max_instances`. */
int synth_turns_instances(const synth_layout_t *layout, int max_instances);

/* Returns the bytes of each chunk that one turn of such a pipeline moves, or 0 if memory runs out. */
uint64_t synth_turns_bytes(const synth_schedule_t *schedule, int max_instances);

/*
 * Returns true if each chunk is added up along one tree and sent along another. This is so if each rank sends a partial
 * sum of it at most once, and receives its result at most once. The schedule must have passed synth_schedule_verify.
 * Always returns false for whole inputs.
 */
bool synth_has_trees(const synth_schedule_t *schedule);

#endif
