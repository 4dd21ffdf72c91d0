/* Lines of a rules file with measured figures of a transport, for the cost model between nodes. */
#ifndef MCA_COMMON_ALGO_RULE_FIGURES_H
#define MCA_COMMON_ALGO_RULE_FIGURES_H

#include <stdio.h>

#include "mca/common/algo/algo.h"

/* The fault of a line: a value that is not allowed. All fields are texts for a message. */
typedef struct {
    char subject[32];  /* the key or the kind of word that has the value */
    char value[64];    /* the value in the line; cut off if it is longer */
    char allowed[128]; /* the values that are allowed */
} mscclpp_figures_fault_t;

/* Returns true if the first word of the text begins a line of figures. */
bool mscclpp_figures_is_line(const char *text);

/*
 * Reads a line of figures, without its comment, into the entry of its transport in `figures`. mscclpp_figures_is_line
 * must have returned true for the text. Changes the text. Returns false, with *fault filled in, no figures changed and
 * nothing logged, if a word is not allowed, is missing or is given twice, or if the transport has figures already.
 */
bool mscclpp_figures_parse(char *text, mscclpp_rule_figures_t *figures, mscclpp_figures_fault_t *fault);

/* Writes a line for each transport that has figures. Write errors are kept in the file's state (ferror). */
void mscclpp_figures_write(const mscclpp_rule_figures_t *figures, FILE *file);

#endif
