/*
 * Maximises a linear function of variables that are not negative. Each row is a condition of the form "the sum of
 * coefficients times variables is at most a number", and this number is not negative. Columns may be added between
 * runs. Everything is computed in floating point, so callers have to check the results.
 */
#ifndef TOOLS_SYNTH_LIB_SIMPLEX_H
#define TOOLS_SYNTH_LIB_SIMPLEX_H

#include <stdbool.h>

typedef struct synth_simplex synth_simplex_t;

/*
 * Makes a program without columns, whose rows have these right sides, which are copied. Returns NULL if memory runs
 * out.
 */
synth_simplex_t *synth_simplex_new(int rows, const double *right_sides);
void synth_simplex_free(synth_simplex_t *simplex);

/*
 * Adds a variable: `gain` is its coefficient in the function, and values[i] is its coefficient in rows[i]. Returns the
 * number of the variable, or -1 if memory runs out.
 */
int synth_simplex_add_column(synth_simplex_t *simplex, double gain, int count, const int *rows, const double *values);

/*
 * Continues towards the optimum from the solution of the last run. Returns true when it finds that the solution is
 * optimal. Returns false after `max_pivots` pivots, even if the last one has reached the optimum, or if the function
 * has no upper bound.
 */
bool synth_simplex_run(synth_simplex_t *simplex, int max_pivots);

/* Return the value of the function, and the value of one variable, in the current solution. */
double synth_simplex_objective(const synth_simplex_t *simplex);
double synth_simplex_variable(const synth_simplex_t *simplex, int column);

/*
 * Returns how much the function would gain from one more unit of the row's right side: the row's variable in the dual
 * program.
 */
double synth_simplex_price(const synth_simplex_t *simplex, int row);

/* Returns how many pivots were made so far. */
int synth_simplex_pivots(const synth_simplex_t *simplex);

#endif
