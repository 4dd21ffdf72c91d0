/* Writes topologies as files that synth_topology_read reads, and makes parts of topologies. */
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/topology.h"

/* Writes a JSON string. Control characters become spaces. */
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

/* Leaves out values that are not known, such as addresses of GPUs. */
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
        for (int j = 0; j < group->count; ++j) {
            const synth_link_t *link = &topology->links[group->links[j]];

            fprintf(out, "%s[%d, %d]", j > 0 ? ", " : "", link->from, link->to);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "],\n  \"nodes\": [");
    for (int node = 0; node < topology->node_count; ++node) {
        bool is_first = true;

        fprintf(out, "%s[", node > 0 ? ", " : "");
        for (int rank = 0; rank < topology->ranks; ++rank) {
            if (topology->node_of[rank] == node) {
                fprintf(out, is_first ? "%d" : ", %d", rank);
                is_first = false;
            }
        }
        fputc(']', out);
    }
    fputc(']', out);
    if (synth_topology_has_gpus(topology)) {
        fprintf(out, ",\n  \"gpus\": [");
        for (int rank = 0; rank < topology->ranks; ++rank) {
            fprintf(out, "%s\"%s\"", rank > 0 ? ", " : "", topology->gpu[rank]);
        }
        fputc(']', out);
    }
    fprintf(out, "\n}\n");
}

/* Renumbers the nodes that still have ranks as 0, 1, ..., in the order of their first ranks. */
static void renumber_nodes(synth_topology_t *topology)
{
    int new_number[SYNTH_MAX_RANKS];

    topology->node_count = 0;
    memset(new_number, -1, sizeof(new_number));
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int *number_p = &new_number[topology->node_of[rank]];

        *number_p = *number_p < 0 ? topology->node_count++ : *number_p;
        topology->node_of[rank] = *number_p;
    }
}

/* Copies the links between the given ranks, and of each group those links that are left. */
synth_topology_t *synth_topology_part(const synth_topology_t *topology, const int *ranks, int count)
{
    synth_topology_t *part = synth_topology_new(topology->name, count);
    int *links = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    bool ok = part != NULL && links != NULL;

    for (int from = 0; ok && from < count; ++from) {
        part->node_of[from] = topology->node_of[ranks[from]];
        memcpy(part->gpu[from], topology->gpu[ranks[from]], SYNTH_GPU);
        for (int to = 0; to < count; ++to) {
            int link = from == to ? -1 : topology->link_between[ranks[from]][ranks[to]];

            if (link >= 0) {
                synth_topology_add_link(part, from, to, topology->links[link].capacity);
            }
        }
    }
    /* Each group keeps the links between the remaining ranks; a group without such links is left out. */
    for (int i = 0; ok && i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        int links_left = 0;

        for (int from = 0; from < count; ++from) {
            for (int to = 0; to < count; ++to) {
                int link = from == to ? -1 : topology->link_between[ranks[from]][ranks[to]];
                bool is_member = false;

                for (int j = 0; link >= 0 && j < group->count; ++j) {
                    is_member = is_member || group->links[j] == link;
                }
                if (is_member) {
                    links[links_left++] = part->link_between[from][to];
                }
            }
        }
        ok = links_left == 0 || synth_topology_add_group(part, group->name, group->capacity, links, links_left);
    }
    free(links);
    if (!ok) {
        synth_topology_free(part);
        return NULL;
    }
    renumber_nodes(part);
    part->unit_gbps = topology->unit_gbps;
    part->alpha_us = topology->alpha_us;
    return part;
}
