/* A topology as a file that synth_topology_read reads, and parts of one. */
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/topology.h"

/* Writes a JSON string. */
static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('"', out);
}

void synth_topology_write(const synth_topology_t *topology, FILE *out)
{
    fprintf(out, "{\n  \"version\": 1,\n  \"name\": ");
    write_string(out, topology->name);
    fprintf(out, ",\n  \"ranks\": %d,\n", topology->ranks);
    if (topology->unit_gbps > 0) {
        fprintf(out, "  \"unit_GBps\": %g,\n", topology->unit_gbps);
    }
    if (topology->alpha_us > 0) {
        fprintf(out, "  \"alpha_us\": %g,\n", topology->alpha_us);
    }
    fprintf(out, "  \"links\": [");
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        fprintf(out, "%s[%d, %d, %d]",
                i == 0       ? ""
                : i % 8 == 0 ? ",\n    "
                             : ", ",
                link->from, link->to, link->capacity);
    }
    fprintf(out, "],\n  \"groups\": [");
    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];

        fprintf(out, "%s\n    {\"name\": ", i > 0 ? "," : "");
        write_string(out, group->name);
        fprintf(out, ", \"cap\": %d, \"links\": [", group->capacity);
        for (int k = 0; k < group->count; ++k) {
            const synth_link_t *link = &topology->links[group->links[k]];

            fprintf(out, "%s[%d, %d]", k > 0 ? ", " : "", link->from, link->to);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "],\n  \"nodes\": [");
    for (int node = 0; node < topology->node_count; ++node) {
        bool first = true;

        fprintf(out, "%s[", node > 0 ? ", " : "");
        for (int rank = 0; rank < topology->ranks; ++rank) {
            if (topology->node_of[rank] == node) {
                fprintf(out, first ? "%d" : ", %d", rank);
                first = false;
            }
        }
        fputc(']', out);
    }
    for (int rank = 0; rank < topology->ranks && synth_topology_has_gpus(topology); ++rank) {
        fprintf(out, "%s\"%s\"", rank == 0 ? "],\n  \"gpus\": [" : ", ", topology->gpu[rank]);
    }
    fprintf(out, "]\n}\n");
}

/* Numbers the nodes that still have ranks from 0 on. */
static void renumber_nodes(synth_topology_t *topology)
{
    int now[SYNTH_MAX_RANKS];

    topology->node_count = 0;
    memset(now, -1, sizeof(now));
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int *node = &now[topology->node_of[rank]];

        *node = *node < 0 ? topology->node_count++ : *node;
        topology->node_of[rank] = *node;
    }
}

synth_topology_t *synth_topology_part(const synth_topology_t *topology, const int *ranks, int count)
{
    synth_topology_t *part = synth_topology_new(topology->name, count);
    int *links = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    bool fine = part != NULL && links != NULL;

    for (int a = 0; fine && a < count; ++a) {
        part->node_of[a] = topology->node_of[ranks[a]];
        memcpy(part->gpu[a], topology->gpu[ranks[a]], SYNTH_GPU);
        for (int b = 0; b < count; ++b) {
            int at = a == b ? -1 : topology->link_between[ranks[a]][ranks[b]];

            if (at >= 0) {
                synth_topology_link(part, a, b, topology->links[at].capacity);
            }
        }
    }
    for (int i = 0; fine && i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int left = 0;

        for (int a = 0; a < count; ++a) {
            for (int b = 0; b < count; ++b) {
                int at = a == b ? -1 : topology->link_between[ranks[a]][ranks[b]];
                bool in = false;

                for (int k = 0; at >= 0 && k < group->count; ++k) {
                    in = in || group->links[k] == at;
                }
                if (in) {
                    links[left++] = part->link_between[a][b];
                }
            }
        }
        fine = left == 0 || synth_topology_group(part, group->name, group->capacity, links, left);
    }
    free(links);
    if (!fine) {
        synth_topology_free(part);
        return NULL;
    }
    renumber_nodes(part);
    part->unit_gbps = topology->unit_gbps;
    part->alpha_us = topology->alpha_us;
    return part;
}
