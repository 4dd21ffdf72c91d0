/* Maximum flow in whole numbers, by levels and blocking flows. */
#ifndef TOOLS_SYNTH_LIB_FLOW_H
#define TOOLS_SYNTH_LIB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#define SYNTH_FLOW_FULL (INT64_MAX / 4) /* a capacity that never limits */

typedef struct synth_flow synth_flow_t;

/* Makes a graph of `nodes` nodes without arcs, and with room for `arcs` arcs. Returns NULL if memory runs out. */
synth_flow_t *synth_flow_new(int nodes, int arcs);
void synth_flow_free(synth_flow_t *flow);

/* Adds an arc and returns its number: 0, 1, ... The caller adds no more arcs than it passed to synth_flow_new. */
int synth_flow_add_arc(synth_flow_t *flow, int from, int to, int64_t capacity);

/*
 * Sets the capacity of an arc, and removes all flow from it. If the graph has any flow, the caller has to do this for
 * all arcs, because the flow that enters a vertex has to leave it again.
 */
void synth_flow_set_capacity(synth_flow_t *flow, int arc, int64_t capacity);

/* Adds as much flow as possible to the current flow, at most `max_flow`, and returns how much it added. */
int64_t synth_flow_run(synth_flow_t *flow, int source, int sink, int64_t max_flow);

/* Returns the flow on an arc. */
int64_t synth_flow_on(const synth_flow_t *flow, int arc);

/*
 * Removes flow from an arc, for callers that split a flow into paths. The remaining capacity of the arc does not grow.
 */
void synth_flow_remove(synth_flow_t *flow, int arc, int64_t amount);

/*
 * Returns true if a node is on the source's side of a minimum cut. Valid only after a run that returned less than
 * `max_flow`.
 */
bool synth_flow_is_near(const synth_flow_t *flow, int node);

#endif
