/* Searches for schedules with a given number of chunks, steps and rounds, by satisfiability. Needs CaDiCaL. */
#ifndef TOOLS_SYNTH_LIB_SAT_H
#define TOOLS_SYNTH_LIB_SAT_H

#include <signal.h>

#include "tools/synth/lib/schedule.h"
#include "tools/synth/lib/symmetry.h"

typedef enum {
    SYNTH_SAT_FOUND,     /* a schedule was found: *schedule_p */
    SYNTH_SAT_NONE,      /* it is proven that there is none; with symmetries: none that has them */
    SYNTH_SAT_UNKNOWN,   /* the time was over, the caller asked to stop, or the instance is too large */
    SYNTH_SAT_NO_MEMORY, /* memory ran out before or during the search */
    SYNTH_SAT_ABSENT     /* built without CaDiCaL */
} synth_sat_answer_t;

/* Returns true if the tool was built with CaDiCaL. */
bool synth_sat_available(void);

/*
 * Searches for a schedule of `steps` steps and at most `rounds` rounds that has all the given symmetries. If
 * `optimistic` is true, the solver first assumes variables to be true; whether this is faster differs from case to
 * case. The search ends after `seconds`, or soon after *stop becomes true; `stop` may be NULL. *schedule_p is set on
 * SYNTH_SAT_FOUND only, and the caller then owns the schedule.
 */
synth_sat_answer_t synth_sat_search(const synth_topology_t *topology, const synth_demand_t *demand, int steps,
                                    int rounds, const synth_symmetry_t *symmetry, bool optimistic, double seconds,
                                    const volatile sig_atomic_t *stop, synth_schedule_t **schedule_p);

#endif
