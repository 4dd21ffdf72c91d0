/* Reads files of topologies: JSON by read.c, dumps of NCCL by nccl.c, tables of nvidia-smi by matrix.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/topology.h"

/*
 * Parses a text in any format. The first character that is not blank tells the format: JSON, NCCL's XML, or a table of
 * nvidia-smi. Returns MSCCLPP_ERR_INVALID, with a text in `reason`, if the text is empty, and otherwise the status of
 * the parser.
 */
static mscclpp_status_t parse_any(const char *text, size_t size, char *reason, size_t reason_size,
                                  synth_topology_t **topology_p)
{
    for (size_t i = 0; i < size; ++i) {
        if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0') {
            return text[i] == '{' || text[i] == '[' ? synth_topology_parse(text, size, reason, reason_size, topology_p)
                   : text[i] == '<'                 ? synth_topology_nccl(text, size, reason, reason_size, topology_p)
                                    : synth_topology_matrix(text, size, reason, reason_size, topology_p);
        }
    }
    snprintf(reason, reason_size, "the file is empty");
    return MSCCLPP_ERR_INVALID;
}

/* Reads the whole file, of at most SYNTH_MAX_BYTES bytes. parse_any recognises its format. */
mscclpp_status_t synth_topology_read(const char *path, char *reason, size_t reason_size, synth_topology_t **topology_p)
{
    FILE *file = fopen(path, "r");
    char *text = file != NULL ? malloc(SYNTH_MAX_BYTES + 1) : NULL;
    mscclpp_status_t status = MSCCLPP_ERR_SYSTEM;
    size_t size;

    if (file == NULL) {
        snprintf(reason, reason_size, "%s", strerror(errno));
        return status;
    }
    if (text == NULL) {
        fclose(file);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    size = fread(text, 1, SYNTH_MAX_BYTES + 1, file);
    if (ferror(file)) {
        snprintf(reason, reason_size, "%s", strerror(errno));
    } else if (size > SYNTH_MAX_BYTES) {
        snprintf(reason, reason_size, "larger than %d bytes", SYNTH_MAX_BYTES);
        status = MSCCLPP_ERR_INVALID;
    } else {
        status = parse_any(text, size, reason, reason_size, topology_p);
    }
    fclose(file);
    free(text);
    return status;
}
