/* Schedules with a given number of chunks, steps and rounds, by satisfiability. Needs CaDiCaL. */
#ifndef TOOLS_SYNTH_LIB_SAT_H
#define TOOLS_SYNTH_LIB_SAT_H

#include "tools/synth/lib/schedule.h"
#include "tools/synth/lib/symmetry.h"

typedef enum {
    SYNTH_SAT_FOUND,
    SYNTH_SAT_NONE,    /* there is none; with symmetries: none that has them */
    SYNTH_SAT_UNKNOWN, /* out of time or memory, or told to stop */
    SYNTH_SAT_ABSENT   /* built without CaDiCaL */
} synth_sat_answer_t;

bool synth_sat_available(void);

/*
 * Looks for a schedule that has all the given symmetries, at most `rounds` rounds in `steps` steps. `optimistic` says
 * whether the solver first assumes variables to be true; which is faster differs from case to case. `stop` may be NULL;
 * the search ends soon after it becomes true. On SYNTH_SAT_FOUND the caller owns the schedule.
 */
synth_sat_answer_t synth_sat_search(const synth_topology_t *topology, const synth_demand_t *demand, int steps,
                                    int rounds, const synth_symmetry_t *symmetry, bool optimistic, double seconds,
                                    const volatile int *stop, synth_schedule_t **schedule_p);

#endif
