/*
 * Maximum flow by Dinic's algorithm: each round finds levels by a breadth-first search, then pushes flow along arcs
 * that lead from one level to the next.
 */
#include "tools/synth/lib/flow.h"

#include <stdlib.h>
#include <string.h>

/* An arc or its reverse. */
typedef struct {
    int to, next; /* next: the next half that leaves the same node; -1: none */
    int64_t rest; /* residual capacity */
} half_t;

struct synth_flow {
    int nodes,
        count; /* count: of halves. Halves 2a and 2a + 1 are arc a and its reverse, so i ^ 1 is the opposite of i. */
    half_t *half;
    int *first, *level, *cursor, *queue;
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

int synth_flow_arc(synth_flow_t *flow, int from, int to, int64_t capacity)
{
    flow->half[flow->count] = (half_t){to, flow->first[from], capacity};
    flow->first[from] = flow->count++;
    flow->half[flow->count] = (half_t){from, flow->first[to], 0};
    flow->first[to] = flow->count++;
    return flow->count / 2 - 1;
}

void synth_flow_set(synth_flow_t *flow, int arc, int64_t capacity)
{
    flow->half[2 * arc].rest = capacity;
    flow->half[2 * arc + 1].rest = 0;
}

int64_t synth_flow_on(const synth_flow_t *flow, int arc)
{
    return flow->half[2 * arc + 1].rest;
}

void synth_flow_take(synth_flow_t *flow, int arc, int64_t amount)
{
    flow->half[2 * arc + 1].rest -= amount;
}

bool synth_flow_near(const synth_flow_t *flow, int node)
{
    return flow->level[node] >= 0;
}

/*
 * Numbers the nodes by their distance from the source over arcs with residual capacity; -1: cannot be reached. False if
 * the sink cannot be reached, so that the flow is a maximum.
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
            if (flow->half[i].rest > 0 && flow->level[flow->half[i].to] < 0) {
                flow->level[flow->half[i].to] = flow->level[node] + 1;
                flow->queue[tail++] = flow->half[i].to;
            }
        }
    }
    return flow->level[sink] >= 0;
}

/* Pushes at most `most` units from a node to the sink along arcs that lead one level up. Returns how many. The
 * recursion is as deep as there are levels. */
static int64_t push(synth_flow_t *flow, int node, int sink, int64_t most)
{
    int64_t sum = 0;

    if (node == sink) {
        return most;
    }
    for (; flow->cursor[node] >= 0 && sum < most; flow->cursor[node] = flow->half[flow->cursor[node]].next) {
        half_t *half = &flow->half[flow->cursor[node]];
        int64_t want = most - sum < half->rest ? most - sum : half->rest, done;

        if (want <= 0 || flow->level[half->to] != flow->level[node] + 1) {
            continue;
        }
        done = push(flow, half->to, sink, want);
        half->rest -= done;
        flow->half[flow->cursor[node] ^ 1].rest += done;
        sum += done;
        if (sum == most) {
            break; /* this arc may have room left */
        }
    }
    return sum;
}

int64_t synth_flow_run(synth_flow_t *flow, int source, int sink, int64_t most)
{
    int64_t sum = 0;

    while (sum < most && find_levels(flow, source, sink)) {
        int64_t done;

        memcpy(flow->cursor, flow->first, sizeof(int) * (size_t)flow->nodes);
        done = push(flow, source, sink, most - sum);
        if (done == 0) {
            break;
        }
        sum += done;
    }
    return sum;
}
