/* Reads the values of options, and says what is wrong with them. */
#include "tools/bench/bench.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Returns true on rank 0. It is known before MPI_Init, because the launchers of the common MPI libraries pass the rank
 * in the environment. Without a launcher there is one rank.
 */
bool bench_prints(void)
{
    static const char *variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); ++i) {
        const char *rank = getenv(variables[i]);
        if (rank != NULL) {
            return 0 == strcmp(rank, "0");
        }
    }
    return true;
}

int bench_exit_status(int status)
{
    if (0 == fflush(stdout) && !ferror(stdout)) {
        return status;
    }
    fprintf(stderr, "%s: standard output cannot be written, what it should have got is lost\n", bench_program);
    return 0 == status ? BENCH_EXIT_WRONG : status;
}

int bench_early_exit_status(int status)
{
    status = bench_exit_status(status);
    /* When the first process fails, the launcher ends the others, also one that has not yet printed. */
    if (0 != status && !bench_prints()) {
        sleep(1); /* long enough for the rank that prints */
    }
    return status;
}

bool bench_refuse(const char *option, const char *value, const char *allowed)
{
    if (bench_prints()) {
        fprintf(stderr, "%s: %s: '%s' is not allowed; use %s\n", bench_program, option, value, allowed);
    }
    return false;
}

/* Prints what is wrong with an option that getopt_long has refused. Returns false. */
bool bench_refuse_option(int result, char *const *argv, const struct option *table)
{
    char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = 0 != optopt;

    /*
     * optopt is the letter that getopt_long refused or, for a long option, its value in the table, or 0. A letter is
     * printed alone, because in a group of letters, argv[optind - 1] is not yet the argument that contains it.
     */
    for (; '?' == result && table->name != NULL; ++table) {
        is_letter = is_letter && table->val != optopt;
    }
    if (bench_prints()) {
        fprintf(stderr, "%s: %s: %s; see --help\n", bench_program,
                '?' == result && is_letter ? letter : argv[optind - 1],
                '?' == result ? "no such option, or a value where none is taken" : "needs a value");
    }
    return false;
}

/*
 * Reads a size from 1 byte to 64 GiB. A suffix may be in upper case. The limit is shifted instead of the value, so that
 * the comparison cannot overflow. A text that does not begin with a digit is refused, because strtoull would accept a
 * sign or a space.
 */
bool bench_parse_size(const char *option, const char *text, size_t *size_p)
{
    static const char allowed[] = "a number of bytes from 1 to 64g, with an optional suffix k, m or g";
    char *end;
    unsigned shift = 0; /* the suffix as a power of two */

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end != text && '\0' != *end && '\0' == end[1]) {
        const char *suffix = strchr("kmg", tolower((unsigned char)*end));
        if (suffix == NULL) {
            return bench_refuse(option, text, allowed);
        }
        shift = 'k' == *suffix ? 10 : 'm' == *suffix ? 20 : 30;
        ++end;
    }
    if (!isdigit((unsigned char)text[0]) || '\0' != *end || 0 != errno || 0 == value ||
        value > (64ull << 30) >> shift) {
        return bench_refuse(option, text, allowed);
    }
    *size_p = (size_t)(value << shift);
    return true;
}

/* Reads a whole decimal number from `min` to `max`. */
bool bench_parse_int(const char *option, const char *text, int min, int max, int *value_p)
{
    char allowed[64];
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || '\0' != *end || 0 != errno || value < min || value > max) {
        snprintf(allowed, sizeof(allowed), "a whole number from %d to %d", min, max);
        return bench_refuse(option, text, allowed);
    }
    *value_p = (int)value;
    return true;
}

bool bench_parse_factor(const char *text, double *factor_p)
{
    char *end;
    double factor = strtod(text, &end);

    if (end == text || '\0' != *end || !(factor > 1.0) || factor > 1e9) {
        return bench_refuse("--factor", text, "a number above 1");
    }
    *factor_p = factor;
    return true;
}

/*
 * Calls `add` for each name of a list. A name that is longer than all known names is cut off, and `add` then refuses
 * it.
 */
bool bench_parse_list(const char *list, void *context, bool (*add)(const char *name, void *context))
{
    char name[32];

    for (;;) {
        size_t length = strcspn(list, ",");
        snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1), list);
        if (!add(name, context)) {
            return false;
        }
        if ('\0' == list[length]) {
            return true;
        }
        list += length + 1;
    }
}

/*
 * Finds a text among the choices. *index_p is its position, counted from 0. The text has to be a whole choice: an
 * abbreviation is refused, with a line.
 */
bool bench_parse_choice(const char *option, const char *text, const char *choices, int *index_p)
{
    size_t length = strlen(text);
    const char *choice = choices;

    for (int index = 0; choice != NULL; ++index) {
        if (length > 0 && 0 == strncmp(choice, text, length) && ('\0' == choice[length] || '|' == choice[length])) {
            *index_p = index;
            return true;
        }
        choice = strchr(choice, '|');
        choice = choice == NULL ? NULL : choice + 1;
    }
    return bench_refuse(option, text, choices);
}

/*
 * Adds a collective, or a group of them, to a list. No collective is in the list twice, and BENCH_MAX_COLLS is the
 * number of all collectives, so there is always room. The function is in this file, and not in bench_coll.c, because it
 * refuses values of an option.
 */
bool bench_coll_add(const char *name, const bench_coll_t **colls, int *coll_count_p)
{
    const bool adds_all = 0 == strcmp(name, "all"), adds_neighbors = 0 == strcmp(name, "neighbors");
    bool is_known = false;

    for (int i = 0; i < bench_coll_count; ++i) {
        bool is_listed = false;

        if (0 != strcmp(name, bench_colls[i].name) && !(bench_colls[i].is_of_neighbors ? adds_neighbors : adds_all)) {
            continue;
        }
        is_known = true;
        for (int j = 0; j < *coll_count_p; ++j) {
            is_listed |= colls[j] == &bench_colls[i];
        }
        if (!is_listed) {
            colls[(*coll_count_p)++] = &bench_colls[i];
        }
    }
    return is_known || bench_refuse("--coll", name,
                                    "allreduce, allgather, allgatherv, reduce_scatter_block, reduce_scatter, bcast, "
                                    "reduce, alltoall, alltoallv, alltoallw, gather, gatherv, scatter, scatterv, scan, "
                                    "exscan or all; neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, "
                                    "neighbor_alltoallv, neighbor_alltoallw or neighbors");
}
