/*
 * Maximises a linear function of variables from 0 up, under rows of the form "sum of coefficients times variables is at
 * most a number from 0 up". Columns may be added between runs. It computes in floating point, so callers check the
 * results.
 */
#ifndef TOOLS_SYNTH_LIB_SIMPLEX_H
#define TOOLS_SYNTH_LIB_SIMPLEX_H

#include <stdbool.h>

typedef struct synth_simplex synth_simplex_t;

/* `most` holds the right side of each row. NULL without memory. */
synth_simplex_t *synth_simplex_new(int rows, const double *most);
void synth_simplex_free(synth_simplex_t *simplex);

/* Adds a variable with its coefficients in the rows. -1 without memory, else its number. */
int synth_simplex_column(synth_simplex_t *simplex, double gain, int count, const int *rows, const double *values);

/* Goes to the optimum. False if it did not get there after so many pivots. */
bool synth_simplex_run(synth_simplex_t *simplex, int most_pivots);

/* The value of the function, and of one variable, in the current solution. */
double synth_simplex_objective(const synth_simplex_t *simplex);
double synth_simplex_variable(const synth_simplex_t *simplex, int column);

/* What one more unit of the row's right side would gain. */
double synth_simplex_price(const synth_simplex_t *simplex, int row);

/* How many pivots were made so far. */
int synth_simplex_pivots(const synth_simplex_t *simplex);

#endif
