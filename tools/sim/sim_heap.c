/*
 * A heap of events in an array, with the earliest event at index 0. Each event has four children instead of two, so the
 * heap has fewer levels and an operation touches fewer cache lines.
 */
#include <stdlib.h>

#include "tools/sim/sim.h"

enum { CHILDREN = 4, FIRST_CAPACITY = 1024 };

/* Returns true if event a comes before event b. Of two events at one time, the one that was added first does. */
static bool comes_before(const sim_event_t *a, const sim_event_t *b)
{
    return a->time < b->time || (a->time <= b->time && a->number < b->number);
}

/* Doubles the array if it is full. If that fails, the heap remains as it was. */
bool sim_heap_push(sim_heap_t *heap, const sim_event_t *event)
{
    size_t index = heap->count;

    if (heap->count == heap->capacity) {
        const size_t capacity = heap->capacity == 0 ? FIRST_CAPACITY : 2 * heap->capacity;
        sim_event_t *grown = realloc(heap->events, capacity * sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        heap->events = grown;
        heap->capacity = capacity;
    }
    /* Store the event at the end, and exchange it with its parent as long as it comes before the parent. */
    ++heap->count;
    heap->events[index] = *event;
    heap->events[index].number = heap->next_number++;
    while (index > 0 && comes_before(&heap->events[index], &heap->events[(index - 1) / CHILDREN])) {
        const sim_event_t parent = heap->events[(index - 1) / CHILDREN];

        heap->events[(index - 1) / CHILDREN] = heap->events[index];
        heap->events[index] = parent;
        index = (index - 1) / CHILDREN;
    }
    return true;
}

/* Removes the root, and moves the last event of the array to the index where the heap remains in order. */
bool sim_heap_pop(sim_heap_t *heap, sim_event_t *event)
{
    sim_event_t moved;
    size_t index = 0;

    if (heap->count == 0) {
        return false;
    }
    *event = heap->events[0];
    moved = heap->events[--heap->count];
    /*
     * Fill the gap at `index` with its earliest child, and continue with the gap that this leaves, until the last event
     * of the array fits there.
     */
    for (;;) {
        const size_t first_child = CHILDREN * index + 1;
        size_t child, earliest = first_child;

        for (child = first_child + 1; child < first_child + CHILDREN && child < heap->count; ++child) {
            earliest = comes_before(&heap->events[child], &heap->events[earliest]) ? child : earliest;
        }
        if (first_child >= heap->count || !comes_before(&heap->events[earliest], &moved)) {
            break;
        }
        heap->events[index] = heap->events[earliest];
        index = earliest;
    }
    if (heap->count > 0) {
        heap->events[index] = moved;
    }
    return true;
}
