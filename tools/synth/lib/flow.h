/* Maximum flow in whole numbers, by levels and blocking flows. */
#ifndef TOOLS_SYNTH_LIB_FLOW_H
#define TOOLS_SYNTH_LIB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define SYNTH_FLOW_FULL (INT64_MAX / 4) /* a capacity that never limits */

typedef struct synth_flow synth_flow_t;

/* Makes a graph of so many nodes without arcs, and room for so many arcs. NULL if memory runs out. */
synth_flow_t *synth_flow_new(int nodes, int arcs);
void synth_flow_free(synth_flow_t *flow);

/* Adds an arc and returns its position: 0, 1, ... At most as many as synth_flow_new was told of. */
int synth_flow_arc(synth_flow_t *flow, int from, int to, int64_t capacity);

/* Gives an arc another capacity, and takes all flow away from it. If there is any flow, it has to be done for all arcs,
 * for what flows into a vertex has to flow out again. */
void synth_flow_set(synth_flow_t *flow, int arc, int64_t capacity);

/* Adds as much flow as possible to the present flow, at most `most`, and returns how much it added. */
int64_t synth_flow_run(synth_flow_t *flow, int source, int sink, int64_t most);

/* Returns the flow on an arc. */
int64_t synth_flow_on(const synth_flow_t *flow, int arc);

/* Takes flow away from an arc, for callers that split a flow into paths. The capacity is not given back. */
void synth_flow_take(synth_flow_t *flow, int arc, int64_t amount);

/* Whether a node lies on the source's side of a minimum cut. Only after a run that returned less than `most`. */
bool synth_flow_near(const synth_flow_t *flow, int node);

#endif
