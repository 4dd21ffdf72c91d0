/*
 * The front: schedules of a collective, each of which no other known schedule beats in both steps and rounds for each
 * chunk. Few steps serve small messages best, few rounds large ones.
 */
#ifndef TOOLS_SYNTH_LIB_FRONT_H
#define TOOLS_SYNTH_LIB_FRONT_H

#include <signal.h>

#include "tools/synth/lib/schedule.h"

typedef enum {
    SYNTH_PROVEN,    /* a bound says that no schedule of so many steps has fewer rounds for each chunk */
    SYNTH_BEST,      /* the best that a search found; there may be better ones */
    SYNTH_HEURISTIC, /* from a method that does not search; there may be better ones */
    SYNTH_LABELS
} synth_label_t;

extern const char *const synth_label_names[SYNTH_LABELS];

typedef struct {
    synth_schedule_t *schedule;
    synth_rational_t ratio; /* rounds for each chunk */
    synth_rational_t bound; /* lower bound of the ratio for that many steps; 0/1 if none is known */
    synth_label_t label;
    const char *by; /* name of the method that found it */
    double seconds; /* from the start of the search until it was found; from the cache: as it took then */
} synth_point_t;

enum { SYNTH_MAX_POINTS = 64 };

typedef struct {
    synth_point_t point[SYNTH_MAX_POINTS]; /* sorted by steps */
    int count;
    int least_steps;              /* lower bound of the steps */
    synth_rational_t least_ratio; /* lower bound of the ratio for any number of steps; 0/1 if none is known */
    const char *least_by;         /* what proves that bound */
    synth_schedule_t *trees;      /* the trees that a pipeline sends along, as one turn of it; NULL: none */
    bool complete;                /* the last point meets the bound that holds for every number of steps */
    bool stopped;                 /* out of time, or told to stop */
    char note[SYNTH_WHY];         /* what is wrong with the cache, or empty */
} synth_front_t;

typedef struct {
    int root;
    int steps;  /* 0: all */
    int chunks; /* 0: up to most_chunks */
    int most_chunks;
    int tree_chunks;   /* most_chunks for schedules of packed trees, which get better with ever more chunks */
    int closed_chunks; /* most_chunks for schedules of formulas */
    double seconds;
    bool search;                       /* false: polynomial methods only */
    const char *cache;                 /* folder of what earlier searches found; NULL: none. With `search` only. */
    const volatile sig_atomic_t *stop; /* the search ends soon after it becomes true; may be NULL */
    void (*progress)(void *context, const char *text); /* may be NULL */
    void *context;
} synth_options_t;

/* Whether some point of the front has at most so many steps and at most so many rounds for each chunk. */
bool synth_front_beats(const synth_front_t *front, int steps, synth_rational_t ratio);

/*
 * Adds a point unless another is as good, and removes the points that it beats. Takes ownership of the schedule. `by`
 * has to be a literal. If the front is full, the schedule is dropped.
 */
void synth_front_add(synth_front_t *front, synth_schedule_t *schedule, const char *by, synth_label_t label,
                     double seconds);

void synth_front_free(synth_front_t *front);

/*
 * Fills the front; every schedule in it has passed synth_schedule_verify. If the time is up or `stop` becomes true,
 * what was found so far is in the front, and the status is a success. On an error the front is empty; `why` says what
 * is wrong if it is MSCCLPP_ERR_INVALID. The caller frees the front with synth_front_free.
 */
mscclpp_status_t synth_front_find(const synth_topology_t *topology, synth_collective_t collective,
                                  const synth_options_t *options, synth_front_t *front, char *why, size_t why_size);

#endif
