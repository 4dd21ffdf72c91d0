/*
 * Maximises a linear function of variables that are not negative, under rows of the form "the sum of coefficients times
 * variables is at most a number", which is not negative either. Columns may be added between runs. Everything is
 * computed in floating point, so callers have to check the results.
 */
#ifndef TOOLS_SYNTH_LIB_SIMPLEX_H
#define TOOLS_SYNTH_LIB_SIMPLEX_H

#include <stdbool.h>

typedef struct synth_simplex synth_simplex_t;

/* Makes a program without columns, whose rows have these right sides, which are copied. NULL if memory runs out. */
synth_simplex_t *synth_simplex_new(int rows, const double *right_sides);
void synth_simplex_free(synth_simplex_t *simplex);

/* Adds a variable: `gain` is its coefficient in the function, values[i] that in rows[i]. Returns its number; -1 if
 * memory runs out. */
int synth_simplex_column(synth_simplex_t *simplex, double gain, int count, const int *rows, const double *values);

/* Goes to the optimum, from where the last run ended. Returns true once it finds that it is there. Returns false after
 * `most_pivots` pivots, even if the last one has reached the optimum, or if the function has no upper bound. */
bool synth_simplex_run(synth_simplex_t *simplex, int most_pivots);

/* Return the value of the function, and of one variable, in the current solution. */
double synth_simplex_objective(const synth_simplex_t *simplex);
double synth_simplex_variable(const synth_simplex_t *simplex, int column);

/* Returns what one more unit of the row's right side would gain: the row's variable in the dual program. */
double synth_simplex_price(const synth_simplex_t *simplex, int row);

/* Returns how many pivots were made so far. */
int synth_simplex_pivots(const synth_simplex_t *simplex);

#endif
