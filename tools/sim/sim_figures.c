/* Takes the figures of the cost model from a rules file that mscclpp_tune has written. */
#include "mca/common/algo/rules.h"
#include "mca/common/base/log.h"
#include "tools/sim/sim_options.h"

/* Prints a line of the library's log to standard error, for mscclpp_log_set. */
static void print_to_stderr(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "mscclpp_sim: %s\n", line);
}

/* The figures are those that mscclpp_tune --between has written into a rules file. */
bool sim_read_figures(const char *path, const char *transport, mscclpp_cost_figures_t *figures)
{
    const mscclpp_rule_figures_t *measured;
    mscclpp_rules_t *rules = NULL;
    bool ok;

    mscclpp_log_set(print_to_stderr, NULL, MSCCLPP_LOG_WARN);
    if (mscclpp_rules_read(path, &rules) != MSCCLPP_OK) {
        return false; /* the library has logged why */
    }
    measured = &mscclpp_rules_find_figures(rules)[mscclpp_cost_find_transport(transport)];
    ok = measured->is_given != 0;
    if (ok) {
        figures->latency = measured->latency;
        figures->overhead = measured->overhead;
        figures->gap = measured->gap;
        figures->bandwidth = measured->bandwidth;
    } else {
        fprintf(stderr, "mscclpp_sim: %s has no line transport=%s\n", path, transport);
    }
    mscclpp_rules_destroy(rules);
    return ok;
}
