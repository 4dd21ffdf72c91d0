/*
 * The simplex method with a tableau. Many right sides are 0, so pivots would often change nothing, and the method could
 * repeat the same bases for ever. Therefore the right sides are perturbed, each by a different amount; the true right
 * sides are updated, too.
 */
#include "tools/synth/lib/simplex.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-9      /* smaller entries count as 0 */
#define PERTURBATION 1e-6 /* of right sides: from this to twice as much */

struct synth_simplex {
    int rows, columns;         /* columns: one slack for each row, then the columns that were added */
    int room;                  /* number of columns for which memory is allocated */
    double **column;           /* each has an entry for each row, then the reduced cost */
    double *perturbed, *right; /* right sides, perturbed and true; each followed by the objective, negated */
    int *basis;                /* [row]: its basic column */
    int pivots;                /* number of pivots so far */
};

/* Begins with the slack variables as the basis. Perturbs the right sides, for the reason at the head of this file. */
synth_simplex_t *synth_simplex_new(int rows, const double *right_sides)
{
    synth_simplex_t *simplex = calloc(1, sizeof(*simplex));
    uint64_t random = 88172645463325252u; /* xorshift's state; a fixed seed, so that all runs find the same optimum */

    if (simplex == NULL) {
        return NULL;
    }
    simplex->rows = rows;
    simplex->room = 2 * rows + 64; /* a guess; synth_simplex_add_column makes more room if needed */
    simplex->column = calloc((size_t)simplex->room, sizeof(*simplex->column));
    simplex->perturbed = calloc((size_t)rows + 1, sizeof(double));
    simplex->right = calloc((size_t)rows + 1, sizeof(double));
    simplex->basis = malloc(sizeof(int) * (size_t)rows);
    if (simplex->column == NULL || simplex->perturbed == NULL || simplex->right == NULL || simplex->basis == NULL) {
        synth_simplex_free(simplex);
        return NULL;
    }
    for (int i = 0; i < rows; ++i) {
        /* This is a step of xorshift. Its upper 24 bits become a fraction below 1. */
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        simplex->right[i] = right_sides[i];
        simplex->perturbed[i] = right_sides[i] + PERTURBATION * (1.0 + (double)(random >> 40) / (1 << 24));
        simplex->basis[i] = i;
        simplex->column[i] = calloc((size_t)rows + 1, sizeof(double));
        if (simplex->column[i] == NULL) {
            synth_simplex_free(simplex);
            return NULL;
        }
        simplex->column[i][i] = 1;
    }
    simplex->columns = rows;
    return simplex;
}

void synth_simplex_free(synth_simplex_t *simplex)
{
    if (simplex == NULL) {
        return;
    }
    for (int i = 0; simplex->column != NULL && i < simplex->room; ++i) {
        free(simplex->column[i]);
    }
    free(simplex->column);
    free(simplex->perturbed);
    free(simplex->right);
    free(simplex->basis);
    free(simplex);
}

int synth_simplex_add_column(synth_simplex_t *simplex, double gain, int count, const int *rows, const double *values)
{
    double *column;

    if (simplex->columns == simplex->room) {
        double **larger = realloc(simplex->column, sizeof(*larger) * (size_t)(2 * simplex->room));

        if (larger == NULL) {
            return -1;
        }
        memset(larger + simplex->room, 0, sizeof(*larger) * (size_t)simplex->room);
        simplex->column = larger;
        simplex->room *= 2;
    }
    column = calloc((size_t)simplex->rows + 1, sizeof(double));
    if (column == NULL) {
        return -1;
    }
    /*
     * The columns of the slacks contain the inverse of the basis. The new column is multiplied by it to fit the
     * tableau.
     */
    for (int j = 0; j < count; ++j) {
        const double *slack = simplex->column[rows[j]];

        for (int i = 0; i <= simplex->rows; ++i) {
            column[i] += values[j] * slack[i];
        }
    }
    column[simplex->rows] += gain;
    simplex->column[simplex->columns] = column;
    return simplex->columns++ - simplex->rows;
}

/*
 * Applies a pivot in `row` to one column: subtracts a multiple of the entering column. The entry in `row` becomes the
 * factor of this multiple.
 */
static void eliminate(double *column, const double *entering, int row, int rows)
{
    double factor = column[row] / entering[row];

    if (factor == 0) {
        return;
    }
    for (int i = 0; i <= rows; ++i) {
        column[i] -= factor * entering[i];
    }
    column[row] = factor;
}

/*
 * Makes the column `entering` the basic column of a row, and updates the tableau. The entry of the column in this row
 * must not be 0. All other columns are updated before this column, since they are computed from it.
 */
static void pivot(synth_simplex_t *simplex, int entering, int row)
{
    double *column = simplex->column[entering];
    int rows = simplex->rows;

    for (int j = 0; j < simplex->columns; ++j) {
        if (j != entering) {
            eliminate(simplex->column[j], column, row, rows);
        }
    }
    eliminate(simplex->perturbed, column, row, rows);
    eliminate(simplex->right, column, row, rows);
    memset(column, 0, sizeof(double) * ((size_t)rows + 1));
    column[row] = 1;
    simplex->basis[row] = entering;
    ++simplex->pivots;
}

/* The primal simplex method, with the rule of Dantzig: the column with the largest gain enters the basis. */
bool synth_simplex_run(synth_simplex_t *simplex, int max_pivots)
{
    int rows = simplex->rows;

    for (int turn = 0; turn < max_pivots; ++turn) {
        double best_gain = EPSILON, min_ratio = INFINITY;
        int entering = -1, leaving_row = -1;

        /* The column with the largest gain enters the basis. The column of the row that limits it most leaves. */
        for (int j = 0; j < simplex->columns; ++j) {
            if (simplex->column[j][rows] > best_gain) {
                best_gain = simplex->column[j][rows];
                entering = j;
            }
        }
        if (entering < 0) {
            return true;
        }
        for (int i = 0; i < rows; ++i) {
            double entry = simplex->column[entering][i];

            if (entry > EPSILON && simplex->perturbed[i] / entry < min_ratio) {
                min_ratio = simplex->perturbed[i] / entry;
                leaving_row = i;
            }
        }
        if (leaving_row < 0) { /* no row limits the entering column */
            return false;
        }
        pivot(simplex, entering, leaving_row);
    }
    return false;
}

double synth_simplex_objective(const synth_simplex_t *simplex)
{
    return -simplex->right[simplex->rows];
}

double synth_simplex_variable(const synth_simplex_t *simplex, int column)
{
    for (int i = 0; i < simplex->rows; ++i) {
        if (simplex->basis[i] == simplex->rows + column) {
            return simplex->right[i];
        }
    }
    return 0;
}

double synth_simplex_price(const synth_simplex_t *simplex, int row)
{
    return -simplex->column[row][simplex->rows];
}

int synth_simplex_pivots(const synth_simplex_t *simplex)
{
    return simplex->pivots;
}
