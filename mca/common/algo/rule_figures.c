#include "mca/common/algo/rule_figures.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/schedule/cost.h"

_Static_assert(MSCCLPP_RULE_TRANSPORTS == MSCCLPP_COST_TRANSPORTS, "each transport has figures");

#define TRANSPORT "transport="

/* The numbers of a line, in the order in which they are written: microseconds, and 10^9 bytes a second. */
static const struct {
    const char *key;
    size_t offset;   /* of the field in mscclpp_rule_figures_t, bytes */
    double unit;     /* what a number is multiplied by */
    double min, max; /* the allowed numbers */
} numbers[] = {
    {"latency=", offsetof(mscclpp_rule_figures_t, latency), 1e-6, 0, 1e6},
    {"overhead=", offsetof(mscclpp_rule_figures_t, overhead), 1e-6, 0, 1e6},
    {"gap=", offsetof(mscclpp_rule_figures_t, gap), 1e-6, 0, 1e6},
    {"bandwidth=", offsetof(mscclpp_rule_figures_t, bandwidth), 1e9, 0.001, 1e6},
};

enum { NUMBER_COUNT = sizeof(numbers) / sizeof(numbers[0]) };

/*
 * Fills in a fault; texts that are too long are cut off. Always returns false, so that callers can return its result.
 */
static bool refuse(mscclpp_figures_fault_t *fault, const char *subject, const char *value, const char *allowed)
{
    (void)snprintf(fault->subject, sizeof(fault->subject), "%s", subject);
    (void)snprintf(fault->value, sizeof(fault->value), "%s", value);
    (void)snprintf(fault->allowed, sizeof(fault->allowed), "%s", allowed);
    return false;
}

bool mscclpp_figures_begin(const char *text)
{
    return strncmp(text + strspn(text, " \t\r"), TRANSPORT, strlen(TRANSPORT)) == 0;
}

/*
 * Reads the number of figure `i` into *figures. Returns false, with the reason in *fault, if it is not allowed. "Not a
 * number" (nan) is refused by the range check as well.
 */
static bool parse_number(int i, const char *text, mscclpp_rule_figures_t *figures, mscclpp_figures_fault_t *fault)
{
    char key_name[32], allowed[64], *end = NULL;
    const double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= numbers[i].min && value <= numbers[i].max)) {
        (void)snprintf(key_name, sizeof(key_name), "%.*s", (int)strlen(numbers[i].key) - 1, numbers[i].key);
        (void)snprintf(allowed, sizeof(allowed), "a number from %g to %g", numbers[i].min, numbers[i].max);
        return refuse(fault, key_name, text, allowed);
    }
    *(double *)(void *)((char *)figures + numbers[i].offset) = value * numbers[i].unit;
    return true;
}

bool mscclpp_figures_parse(char *text, mscclpp_rule_figures_t *figures, mscclpp_figures_fault_t *fault)
{
    static const char syntax[] = "transport=NAME latency=US overhead=US gap=US bandwidth=GB/S, each once";
    mscclpp_rule_figures_t parsed = {.is_given = 1};
    bool is_given[NUMBER_COUNT] = {false};
    /* The first word begins with TRANSPORT, as the caller has asked mscclpp_figures_begin. */
    char *remaining = NULL, *word = strtok_r(text, " \t\r", &remaining);
    const int transport = mscclpp_cost_transport(word + strlen(TRANSPORT));
    int i;

    if (transport < 0) {
        return refuse(fault, "transport", word + strlen(TRANSPORT), "one of verbs|ucx|shm|cuda_ipc");
    }
    if (figures[transport].is_given != 0) {
        return refuse(fault, "transport", word + strlen(TRANSPORT), "one line of figures for each transport");
    }
    for (word = strtok_r(NULL, " \t\r", &remaining); word != NULL; word = strtok_r(NULL, " \t\r", &remaining)) {
        for (i = 0; i < NUMBER_COUNT && strncmp(word, numbers[i].key, strlen(numbers[i].key)) != 0; ++i) {
        }
        if (i == NUMBER_COUNT || is_given[i]) {
            return refuse(fault, "word", word, syntax);
        }
        is_given[i] = true;
        if (!parse_number(i, word + strlen(numbers[i].key), &parsed, fault)) {
            return false;
        }
    }
    /* A line may give its numbers in any order, but has to give all of them. */
    for (i = 0; i < NUMBER_COUNT; ++i) {
        if (!is_given[i]) {
            return refuse(fault, "a line without", numbers[i].key, syntax);
        }
    }
    figures[transport] = parsed;
    return true;
}

/* Writes the units that mscclpp_figures_parse reads: microseconds, and 10^9 bytes a second. */
void mscclpp_figures_write(const mscclpp_rule_figures_t *figures, FILE *file)
{
    int i;

    for (i = 0; i < MSCCLPP_RULE_TRANSPORTS; ++i) {
        if (figures[i].is_given != 0) {
            (void)fprintf(file, "transport=%s latency=%.6g overhead=%.6g gap=%.6g bandwidth=%.6g\n",
                          mscclpp_cost_transport_name(i), figures[i].latency * 1e6, figures[i].overhead * 1e6,
                          figures[i].gap * 1e6, figures[i].bandwidth * 1e-9);
        }
    }
}
