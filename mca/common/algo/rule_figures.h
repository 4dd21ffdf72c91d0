/* Lines of a rules file with measured figures of a transport, for the cost model between nodes. */
#ifndef MCA_COMMON_ALGO_RULE_FIGURES_H
#define MCA_COMMON_ALGO_RULE_FIGURES_H

#include <stdio.h>

#include "mca/common/algo/algo.h"

/* What is wrong with a line. */
typedef struct {
    char what[32];
    char value[64];
    char allowed[128];
} mscclpp_figures_fault_t;

/* True if the line's first word begins a line of figures. */
bool mscclpp_figures_begin(const char *text);

/*
 * Reads such a line, without its comment, into the figures of its transport. The text is changed. False, with what is
 * wrong, if a word is not allowed, missing or there twice, or if the transport has figures already.
 */
bool mscclpp_figures_parse(char *text, mscclpp_rule_figures_t *figures, mscclpp_figures_fault_t *fault);

/* Writes the lines of all transports that have figures. */
void mscclpp_figures_write(const mscclpp_rule_figures_t *figures, FILE *file);

#endif
