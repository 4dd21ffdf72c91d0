/*
 * Parses the output of nvidia-smi topo -m: a table with a row for each GPU, in which NV4 means that 4 NVLinks connect
 * two GPUs.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/topology.h"

/*
 * Reads the word at the cursor and moves the cursor behind it. Characters that do not fit into `word` are left out, and
 * so are terminal sequences that change the type face. Returns the length of the word. The length is 0 at the end of
 * the line, or if the word consists of such sequences only.
 */
static size_t read_word(const char **cursor, const char *end, char *word, size_t size)
{
    size_t length = 0;

    while (*cursor < end && (**cursor == ' ' || **cursor == '\t' || **cursor == '\r')) {
        ++*cursor;
    }
    while (*cursor < end && !isspace((unsigned char)**cursor)) {
        if (**cursor == '\x1b') { /* a change of the type face: up to the letter that ends it */
            while (*cursor < end && !isalpha((unsigned char)**cursor)) {
                ++*cursor;
            }
        } else if (length + 1 < size) {
            word[length++] = **cursor;
        }
        *cursor += *cursor < end;
    }
    word[length] = '\0';
    return length;
}

/* Parses a word that consists of a prefix and a number, such as GPU3. Returns false if it is something else. */
static bool parse_numbered(const char *word, const char *prefix, int *number_p)
{
    size_t length = strlen(prefix);
    char *end;
    long number;

    if (strncmp(word, prefix, length) != 0 || !isdigit((unsigned char)word[length])) {
        return false;
    }
    number = strtol(word + length, &end, 10);
    if (*end != '\0' || number < 0 || number > SYNTH_MAX_CAPACITY) {
        return false;
    }
    *number_p = (int)number;
    return true;
}

/* Returns how many GPUs the heading of the table names; 0 if the line is no heading. */
static int count_gpus(const char *line, const char *end)
{
    char word[32];
    int count = 0, number;

    while (read_word(&line, end, word, sizeof(word)) > 0 && parse_numbered(word, "GPU", &number) && number == count) {
        ++count;
    }
    return count;
}

/*
 * Reads the table line by line. Skips all lines before the heading, and then all lines that are not the row of the next
 * GPU. An entry NV<n> becomes a link of capacity n.
 */
mscclpp_status_t synth_topology_matrix(const char *text, size_t size, char *reason, size_t reason_size,
                                       synth_topology_t **topology_p)
{
    const char *end = text + size, *line_end;
    synth_topology_t *topology = NULL;
    int ranks = 0, rows = 0;

    for (const char *line = text; line < end && (ranks == 0 || rows < ranks); line = line_end + 1) {
        char word[32];
        const char *cursor = line;
        int rank, nvlinks;

        line_end = memchr(line, '\n', end - line);
        line_end = line_end != NULL ? line_end : end;
        if (ranks == 0) { /* the heading has not come yet */
            ranks = count_gpus(line, line_end);
            if (ranks == 1 || ranks > SYNTH_MAX_RANKS) {
                snprintf(reason, reason_size, "a table of %d GPUs; allowed are 2 to %d", ranks, SYNTH_MAX_RANKS);
                return MSCCLPP_ERR_INVALID;
            }
            topology = ranks > 0 ? synth_topology_new("nvidia-smi", ranks) : NULL;
            if (ranks > 0 && topology == NULL) {
                return MSCCLPP_ERR_NO_MEMORY;
            }
            continue;
        }
        if (read_word(&cursor, line_end, word, sizeof(word)) == 0 || !parse_numbered(word, "GPU", &rank) ||
            rank != rows) {
            continue; /* a line that is not the next GPU's row */
        }
        for (int peer = 0; peer < ranks; ++peer) {
            if (read_word(&cursor, line_end, word, sizeof(word)) == 0) {
                snprintf(reason, reason_size, "the row of GPU%d is too short", rank);
                synth_topology_free(topology);
                return MSCCLPP_ERR_INVALID;
            }
            if (peer != rank && parse_numbered(word, "NV", &nvlinks) && nvlinks > 0) {
                synth_topology_add_link(topology, rank, peer, nvlinks);
            }
        }
        ++rows;
    }
    if (ranks == 0 || rows < ranks) {
        snprintf(reason, reason_size,
                 ranks == 0 ? "neither JSON nor a table of nvidia-smi topo -m"
                            : "the table names more GPUs than it has rows for");
        synth_topology_free(topology);
        return MSCCLPP_ERR_INVALID;
    }
    if (!synth_topology_connected(topology, reason, reason_size)) {
        synth_topology_free(topology);
        return MSCCLPP_ERR_INVALID;
    }
    *topology_p = topology;
    return MSCCLPP_OK;
}
