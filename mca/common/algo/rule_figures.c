#include "mca/common/algo/rule_figures.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/schedule/cost.h"

_Static_assert(MSCCLPP_RULE_TRANSPORTS == MSCCLPP_COST_TRANSPORTS, "each transport has figures");

#define TRANSPORT "transport="

#define SEPARATORS " \t\r"

/* The numbers of a line: microseconds, and 10^9 bytes per second. */
static const struct {
    const char *key;
    size_t offset; /* offset of the field in mscclpp_rule_figures_t, in bytes */
    double unit;   /* the field is the number multiplied by this */
    double min;    /* the smallest number that is allowed */
    double max;    /* the largest number that is allowed */
} numbers[] = {
    {"latency=", offsetof(mscclpp_rule_figures_t, latency), 1e-6, 0, 1e6},
    {"overhead=", offsetof(mscclpp_rule_figures_t, overhead), 1e-6, 0, 1e6},
    {"gap=", offsetof(mscclpp_rule_figures_t, gap), 1e-6, 0, 1e6},
    {"bandwidth=", offsetof(mscclpp_rule_figures_t, bandwidth), 1e9, 0.001, 1e6},
};

enum { NUMBER_COUNT = sizeof(numbers) / sizeof(numbers[0]) };

static const char syntax[] = "transport=NAME latency=US overhead=US gap=US bandwidth=GB/S, each once";

/* Fills in a fault, and cuts off texts that are too long. Always returns false, so that callers can return it. */
static bool refuse(mscclpp_figures_fault_t *fault, const char *subject, const char *value, const char *allowed)
{
    (void)snprintf(fault->subject, sizeof(fault->subject), "%s", subject);
    (void)snprintf(fault->value, sizeof(fault->value), "%s", value);
    (void)snprintf(fault->allowed, sizeof(fault->allowed), "%s", allowed);
    return false;
}

bool mscclpp_figures_is_line(const char *text)
{
    return strncmp(text + strspn(text, SEPARATORS), TRANSPORT, strlen(TRANSPORT)) == 0;
}

/*
 * Reads the number of figure `i` into *figures. Returns false, with the reason in *fault, if the number is not allowed.
 * The check of the range also refuses "not a number" (nan).
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

/*
 * Reads one word of a line, a key with its number, into *figures, and marks the number as given. Returns false, with
 * the reason in *fault, if the key is not known or is given twice, or if the number is not allowed.
 */
static bool parse_word(const char *word, bool is_given[NUMBER_COUNT], mscclpp_rule_figures_t *figures,
                       mscclpp_figures_fault_t *fault)
{
    int i = 0;

    while (i < NUMBER_COUNT && strncmp(word, numbers[i].key, strlen(numbers[i].key)) != 0) {
        ++i;
    }
    if (i == NUMBER_COUNT || is_given[i]) {
        return refuse(fault, "word", word, syntax);
    }
    is_given[i] = true;
    return parse_number(i, word + strlen(numbers[i].key), figures, fault);
}

/* The first word begins with TRANSPORT, because mscclpp_figures_is_line has returned true. */
bool mscclpp_figures_parse(char *text, mscclpp_rule_figures_t *figures, mscclpp_figures_fault_t *fault)
{
    mscclpp_rule_figures_t parsed = {.is_given = 1};
    bool is_given[NUMBER_COUNT] = {false};
    char *remaining = NULL, *word = strtok_r(text, SEPARATORS, &remaining);
    const char *name = word + strlen(TRANSPORT);
    const int transport = mscclpp_cost_find_transport(name);
    int i;

    if (transport < 0) {
        return refuse(fault, "transport", name, "one of verbs|ucx|shm|cuda_ipc");
    }
    if (figures[transport].is_given != 0) {
        return refuse(fault, "transport", name, "one line of figures for each transport");
    }
    for (word = strtok_r(NULL, SEPARATORS, &remaining); word != NULL; word = strtok_r(NULL, SEPARATORS, &remaining)) {
        if (!parse_word(word, is_given, &parsed, fault)) {
            return false;
        }
    }
    /* A line may give its numbers in any order, but must give all of them. */
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
