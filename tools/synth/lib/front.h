/*
 * The front: schedules of a collective that no other known schedule beats in both the number of steps and the rounds
 * for each chunk. Few steps are best for small messages, and few rounds for large ones.
 */
#ifndef TOOLS_SYNTH_LIB_FRONT_H
#define TOOLS_SYNTH_LIB_FRONT_H

#include <signal.h>

#include "tools/synth/lib/schedule.h"

typedef enum {
    SYNTH_PROVEN,    /* a bound proves that no schedule of this number of steps has fewer rounds for each chunk */
    SYNTH_BEST,      /* the best schedule that a search found; there may be better ones */
    SYNTH_HEURISTIC, /* from a method that does not search; there may be better ones */
    SYNTH_LABELS
} synth_label_t;

extern const char *const synth_label_names[SYNTH_LABELS];

typedef struct {
    synth_schedule_t *schedule;
    synth_rational_t ratio; /* rounds for each chunk */
    synth_rational_t bound; /* lower bound of the ratio for that many steps; 0/1 if none is known */
    synth_label_t label;
    const char *method; /* name of the method that found it */
    double seconds;     /* from the start of the search until the schedule was found; for the cache, in the search that
                           found it */
} synth_point_t;

enum { SYNTH_MAX_POINTS = 64 };

typedef struct {
    synth_point_t points[SYNTH_MAX_POINTS]; /* sorted by steps */
    int count;
    int min_steps;               /* lower bound of the steps */
    synth_rational_t min_ratio;  /* lower bound of the ratio for any number of steps; 0/1 if none is known */
    const char *min_ratio_proof; /* what proves that bound */
    synth_schedule_t *trees;     /* the trees of a pipeline, as one turn of it; NULL: none */
    bool is_complete;            /* the last point meets the bound that holds for every number of steps */
    bool was_stopped;            /* the time was over, or the caller asked to stop */
    char note[SYNTH_REASON];     /* a fault of the cache, or empty */
} synth_front_t;

typedef struct {
    int root;
    int steps;  /* 0: all */
    int chunks; /* 0: up to max_chunks */
    int max_chunks;
    int tree_chunks;   /* max_chunks for schedules of packed trees, which improve with more and more chunks */
    int closed_chunks; /* max_chunks for schedules of formulas */
    double seconds;
    bool searches;                                     /* false: polynomial methods only */
    const char *cache;                                 /* folder of the cache; NULL: none. Used with `searches` only. */
    const volatile sig_atomic_t *stop;                 /* the search ends soon after it becomes true; may be NULL */
    void (*progress)(void *context, const char *text); /* may be NULL */
    void *context;
} synth_options_t;

/* Returns true if some point of the front has at most `steps` steps and at most `ratio` rounds for each chunk. */
bool synth_front_beats(const synth_front_t *front, int steps, synth_rational_t ratio);

/*
 * Adds a point unless another point is as good, and removes the points that it beats. Takes ownership of the schedule,
 * and frees it if it is not added, which also happens if the front is full. `method` has to be a string literal,
 * because only the pointer is stored.
 */
void synth_front_add(synth_front_t *front, synth_schedule_t *schedule, const char *method, synth_label_t label,
                     double seconds);

/* Frees the schedules of the front, which is then empty. */
void synth_front_free(synth_front_t *front);

/*
 * Fills the front. Every schedule in it has passed synth_schedule_verify. If the time is over or *stop becomes true,
 * the function returns MSCCLPP_OK with the schedules that were found so far. Returns MSCCLPP_ERR_INVALID, with
 * a text in `reason`, if the options do not fit the collective or the topology, and MSCCLPP_ERR_NO_MEMORY; the front is
 * then empty. The caller frees the front with synth_front_free.
 */
mscclpp_status_t synth_front_find(const synth_topology_t *topology, synth_collective_t collective,
                                  const synth_options_t *options, synth_front_t *front, char *reason,
                                  size_t reason_size);

#endif
