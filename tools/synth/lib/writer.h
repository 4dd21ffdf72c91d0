/*
 * Writes an execution plan: the blocks of each rank, the channels between them, and their operations, in the format
 * that docs/plans.md describes. Ranks of one node are connected by memory channels, and ranks of different nodes by
 * port channels.
 */
#ifndef TOOLS_SYNTH_LIB_WRITER_H
#define TOOLS_SYNTH_LIB_WRITER_H

#include "tools/synth/lib/layout.h"
#include "tools/synth/lib/ranges.h"

typedef struct synth_writer synth_writer_t;

/*
 * Makes a writer. Each block of each buffer is divided into `instances` parts; every block of the plan works on one of
 * them. The topology and the layout have to outlive the writer. Returns NULL if memory runs out. If memory runs out
 * later, the following calls write nothing and synth_writer_finish returns NULL.
 */
synth_writer_t *synth_writer_new(const synth_topology_t *topology, const synth_layout_t *layout, int instances);
void synth_writer_free(synth_writer_t *writer); /* NULL is allowed */

/*
 * Adds a block, which works on part `instance`, to a rank. Returns its number: 0, 1, ... All blocks have to be added
 * before the first operation.
 */
int synth_writer_add_block(synth_writer_t *writer, int rank, int instance);

/* Connects two blocks of two ranks by a channel. Two blocks may have one channel for each tag, 0 and 1. */
void synth_writer_join(synth_writer_t *writer, int rank, int block, int other, int others_block, int tag);

/* Selects the block to which the following operations are added. No operation may be added before the first call. */
void synth_writer_select(synth_writer_t *writer, int rank, int block);

/* Adds an operation without operands, such as "nop", at which all threads of the block meet. */
void synth_writer_simple(synth_writer_t *writer, const char *name);

/*
 * Adds signals, waits or flushes on the channels of the block that have the tag `tag` and lead to a set of ranks. The
 * block must have such a channel to each of them. Only port channels are flushed.
 */
void synth_writer_sync(synth_writer_t *writer, const char *name, int tag, uint64_t peers);

/*
 * Adds an operation for each move. The operation reads the first `sources` ends of the move (all ends but the last if
 * `sources` is 0) and writes the others.
 */
void synth_writer_data(synth_writer_t *writer, const char *name, const synth_moves_t *moves, int sources);

/* Adds puts from the first operand of each move to its second and last one. Several moves share an operation. */
void synth_writer_put(synth_writer_t *writer, const char *name, int tag, const synth_moves_t *moves);

/* Operations between these two calls are repeated in turns; each turn handles `unit` bytes of each chunk. */
void synth_writer_begin_turns(synth_writer_t *writer, uint64_t unit);
void synth_writer_end_turns(synth_writer_t *writer);

/* Makes synth_writer_finish fail, for a caller that has run out of memory. */
void synth_writer_fail(synth_writer_t *writer);

/*
 * Returns the plan as text, which the caller frees, and stores its length in *size_p. Returns NULL if memory ran out.
 */
char *synth_writer_finish(synth_writer_t *writer, const char *name, const synth_range_t *range, size_t *size_p);

#endif
