/*
 * Maximum flow by Dinic's algorithm. Each round determines levels by a breadth-first search, then pushes flow along
 * arcs that lead from one level to the next.
 */
#include "tools/synth/lib/flow.h"

#include <stdlib.h>
#include <string.h>

/* An arc or its reverse. */
typedef struct {
    int to, next;     /* next: the next half-arc that leaves the same node; -1: none */
    int64_t residual; /* the remaining capacity */
} half_t;

struct synth_flow {
    int nodes;
    int count; /* number of half-arcs. Halves 2 * a and 2 * a + 1 are arc a and its reverse, so i ^ 1 is the opposite of
                  i. */
    half_t *half;
    int *first;  /* [node]: the first half that leaves it; -1: none. Its memory also contains the next three arrays. */
    int *level;  /* [node]: its distance from the source in the residual graph; -1: cannot be reached */
    int *cursor; /* [node]: the half that is tried next */
    int *queue;  /* the queue of the breadth-first search */
};

synth_flow_t *synth_flow_new(int nodes, int arcs)
{
    synth_flow_t *flow = calloc(1, sizeof(*flow));

    if (flow == NULL) {
        return NULL;
    }
    flow->nodes = nodes;
    flow->half = malloc(sizeof(*flow->half) * (size_t)(2 * arcs + 1));
    flow->first = malloc(sizeof(int) * 4 * (size_t)nodes);
    if (flow->half == NULL || flow->first == NULL) {
        synth_flow_free(flow);
        return NULL;
    }
    flow->level = flow->first + nodes;
    flow->cursor = flow->level + nodes;
    flow->queue = flow->cursor + nodes;
    memset(flow->first, -1, sizeof(int) * (size_t)nodes);
    return flow;
}

void synth_flow_free(synth_flow_t *flow)
{
    if (flow != NULL) {
        free(flow->half);
        free(flow->first);
        free(flow);
    }
}

int synth_flow_add_arc(synth_flow_t *flow, int from, int to, int64_t capacity)
{
    flow->half[flow->count] = (half_t){.to = to, .next = flow->first[from], .residual = capacity};
    flow->first[from] = flow->count++;
    flow->half[flow->count] = (half_t){.to = from, .next = flow->first[to]};
    flow->first[to] = flow->count++;
    return flow->count / 2 - 1;
}

void synth_flow_set_capacity(synth_flow_t *flow, int arc, int64_t capacity)
{
    flow->half[2 * arc].residual = capacity;
    flow->half[2 * arc + 1].residual = 0;
}

int64_t synth_flow_on(const synth_flow_t *flow, int arc)
{
    return flow->half[2 * arc + 1].residual;
}

void synth_flow_remove(synth_flow_t *flow, int arc, int64_t amount)
{
    flow->half[2 * arc + 1].residual -= amount;
}

bool synth_flow_is_near(const synth_flow_t *flow, int node)
{
    return flow->level[node] >= 0;
}

/*
 * Sets the levels of all nodes. Returns false if the sink cannot be reached, so that the flow is a maximum. The nodes
 * with a level are then the source's side of a minimum cut, which synth_flow_is_near tests.
 */
static bool find_levels(synth_flow_t *flow, int source, int sink)
{
    int head = 0, tail = 0;

    memset(flow->level, -1, sizeof(int) * (size_t)flow->nodes);
    flow->level[source] = 0;
    flow->queue[tail++] = source;
    while (head < tail) {
        int node = flow->queue[head++];

        for (int i = flow->first[node]; i >= 0; i = flow->half[i].next) {
            if (flow->half[i].residual > 0 && flow->level[flow->half[i].to] < 0) {
                flow->level[flow->half[i].to] = flow->level[node] + 1;
                flow->queue[tail++] = flow->half[i].to;
            }
        }
    }
    return flow->level[sink] >= 0;
}

/*
 * Pushes up to `max_flow` units from a node to the sink, along arcs that lead to the next level. Returns the number of
 * units that were pushed. The depth of the recursion is the number of levels.
 */
static int64_t push(synth_flow_t *flow, int node, int sink, int64_t max_flow)
{
    int64_t pushed = 0;

    if (node == sink) {
        return max_flow;
    }
    for (; flow->cursor[node] >= 0 && pushed < max_flow; flow->cursor[node] = flow->half[flow->cursor[node]].next) {
        half_t *half = &flow->half[flow->cursor[node]];
        int64_t wanted = max_flow - pushed < half->residual ? max_flow - pushed : half->residual, passed_on;

        if (wanted <= 0 || flow->level[half->to] != flow->level[node] + 1) {
            continue;
        }
        passed_on = push(flow, half->to, sink, wanted);
        half->residual -= passed_on;
        flow->half[flow->cursor[node] ^ 1].residual += passed_on;
        pushed += passed_on;
        if (pushed == max_flow) {
            break; /* without moving the cursor: this arc may have capacity left */
        }
    }
    return pushed;
}

/* Alternates between the two phases of Dinic's algorithm, until there is no path left or the flow is large enough. */
int64_t synth_flow_run(synth_flow_t *flow, int source, int sink, int64_t max_flow)
{
    int64_t total = 0;

    while (total < max_flow && find_levels(flow, source, sink)) {
        int64_t pushed;

        memcpy(flow->cursor, flow->first, sizeof(int) * (size_t)flow->nodes);
        pushed = push(flow, source, sink, max_flow - total);
        if (pushed == 0) {
            break;
        }
        total += pushed;
    }
    return total;
}
