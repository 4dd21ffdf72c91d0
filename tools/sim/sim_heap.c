/* A heap of events in which each place has four children: fewer levels touch fewer cache lines. */
#include <stdlib.h>

#include "tools/sim/sim.h"

enum { CHILDREN = 4 };

/* Whether event a comes before event b. */
static bool before(const sim_event_t *a, const sim_event_t *b)
{
    return a->time < b->time || (a->time <= b->time && a->number < b->number);
}

bool sim_heap_add(sim_heap_t *heap, const sim_event_t *event)
{
    size_t place = heap->count;

    if (heap->count == heap->room) {
        const size_t room = heap->room == 0 ? 1024 : 2 * heap->room;
        sim_event_t *grown = realloc(heap->event, room * sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        heap->event = grown;
        heap->room = room;
    }
    ++heap->count;
    heap->event[place] = *event;
    heap->event[place].number = heap->number++;
    while (place > 0 && before(&heap->event[place], &heap->event[(place - 1) / CHILDREN])) {
        const sim_event_t above = heap->event[(place - 1) / CHILDREN];

        heap->event[(place - 1) / CHILDREN] = heap->event[place];
        heap->event[place] = above;
        place = (place - 1) / CHILDREN;
    }
    return true;
}

bool sim_heap_take(sim_heap_t *heap, sim_event_t *event)
{
    sim_event_t last;
    size_t place = 0;

    if (heap->count == 0) {
        return false;
    }
    *event = heap->event[0];
    last = heap->event[--heap->count];
    for (;;) {
        const size_t first = CHILDREN * place + 1;
        size_t child, least = first;

        for (child = first + 1; child < first + CHILDREN && child < heap->count; ++child) {
            least = before(&heap->event[child], &heap->event[least]) ? child : least;
        }
        if (first >= heap->count || !before(&heap->event[least], &last)) {
            break;
        }
        heap->event[place] = heap->event[least];
        place = least;
    }
    if (heap->count > 0) {
        heap->event[place] = last;
    }
    return true;
}
