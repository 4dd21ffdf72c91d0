/* Builds the machines that have a name, such as "ring:8". All build functions return false if memory runs out. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/topology.h"

const char synth_topology_names[] = "ring:N, line:N, mesh:N, switch:N, torus:AxB, nodes:NxG, dgx1, mi250x";

/* Adds a link in each direction between two ranks, as synth_topology_add_link does. */
static void add_both(synth_topology_t *topology, int rank, int other, int capacity)
{
    synth_topology_add_link(topology, rank, other, capacity);
    synth_topology_add_link(topology, other, rank, capacity);
}

/*
 * Adds a group of links: those that lead out of a rank (or into it, if `is_outgoing` is false) and connect it with
 * ranks of the set `others`. `name_prefix` begins the group's name. If there are no such links, adds nothing. Returns
 * false if memory runs out.
 */
static bool add_port(synth_topology_t *topology, const char *name_prefix, int rank, bool is_outgoing, uint64_t others,
                     int capacity)
{
    int links[SYNTH_MAX_RANKS], count = 0;
    char name[SYNTH_NAME];

    for (int i = 0; i < topology->ranks; ++i) {
        int link = is_outgoing ? topology->link_between[rank][i] : topology->link_between[i][rank];

        if (link >= 0 && (others >> i & 1) != 0) {
            links[count++] = link;
        }
    }
    snprintf(name, sizeof(name), "%s %s %d", name_prefix, is_outgoing ? "out of" : "into", rank);
    return count == 0 || synth_topology_add_group(topology, name, capacity, links, count);
}

/* Builds a ring. A ring of two ranks joins them once, not twice. */
static bool build_ring(synth_topology_t *topology, int ranks, int unused)
{
    (void)unused;
    for (int i = 0; i < ranks; ++i) {
        if (ranks > 2 || i == 0) {
            add_both(topology, i, (i + 1) % ranks, 1);
        }
    }
    return true;
}

/* Builds a line: each rank is joined with the next one, and the ends with one neighbour only. */
static bool build_line(synth_topology_t *topology, int ranks, int unused)
{
    (void)unused;
    for (int i = 0; i + 1 < ranks; ++i) {
        add_both(topology, i, i + 1, 1);
    }
    return true;
}

/* Builds a full mesh: every two ranks are joined. */
static bool build_mesh(synth_topology_t *topology, int ranks, int unused)
{
    (void)unused;
    for (int i = 0; i < ranks; ++i) {
        for (int j = i + 1; j < ranks; ++j) {
            add_both(topology, i, j, 1);
        }
    }
    return true;
}

/* Builds a switch: a full mesh in which each rank has one port out and one in. */
static bool build_switch(synth_topology_t *topology, int ranks, int unused)
{
    build_mesh(topology, ranks, unused);
    for (int i = 0; i < ranks; ++i) {
        if (!add_port(topology, "port", i, true, UINT64_MAX, 1) ||
            !add_port(topology, "port", i, false, UINT64_MAX, 1)) {
            return false;
        }
    }
    return true;
}

/* Builds a two-dimensional torus. If there are only two rows or columns, only one link connects their ranks. */
static bool build_torus(synth_topology_t *topology, int rows, int columns)
{
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
            if (columns > 2 || j == 0) {
                add_both(topology, i * columns + j, i * columns + (j + 1) % columns, 1);
            }
            if (rows > 2 || i == 0) {
                add_both(topology, i * columns + j, (i + 1) % rows * columns + j, 1);
            }
        }
    }
    return true;
}

/*
 * Builds nodes of several GPUs. Each node is a full mesh, whose links are four times as fast as the NICs. NICs connect
 * GPUs of the same position.
 */
static bool build_nodes(synth_topology_t *topology, int nodes, int gpus)
{
    enum { INSIDE = 4 }; /* capacity of a link within a node */
    int ranks = nodes * gpus;

    for (int rank = 0; rank < ranks; ++rank) {
        for (int other = rank + 1; other < ranks; ++other) {
            if (rank / gpus == other / gpus) {
                add_both(topology, rank, other, INSIDE);
            } else if (rank % gpus == other % gpus) {
                add_both(topology, rank, other, 1);
            }
        }
    }
    topology->node_count = nodes;
    for (int rank = 0; rank < ranks; ++rank) {
        uint64_t partners = 0;

        topology->node_of[rank] = rank / gpus;
        for (int other = rank % gpus; other < ranks; other += gpus) {
            partners |= other != rank ? UINT64_C(1) << other : 0;
        }
        if (!add_port(topology, "NIC", rank, true, partners, 1) ||
            !add_port(topology, "NIC", rank, false, partners, 1)) {
            return false;
        }
    }
    return true;
}

/* Builds NVIDIA's DGX-1 of 8 GPUs: a ring of double links through all GPUs, and another ring of single links. */
static bool build_dgx1(synth_topology_t *topology, int unused, int unused_too)
{
    /* GPU, GPU, capacity in both directions */
    static const int pairs[][3] = {{0, 1, 2}, {0, 2, 1}, {0, 3, 1}, {0, 4, 2}, {1, 2, 1}, {1, 3, 2},
                                   {1, 5, 1}, {2, 3, 2}, {2, 6, 2}, {3, 7, 1}, {4, 5, 2}, {4, 6, 1},
                                   {4, 7, 1}, {5, 6, 1}, {5, 7, 2}, {6, 7, 2}};

    (void)unused, (void)unused_too;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        add_both(topology, pairs[i][0], pairs[i][1], pairs[i][2]);
    }
    topology->unit_gbps = 25;
    return true;
}

/*
 * Builds a node of AMD's MI250X: eight packages of two dies. Four links connect the dies of a package, and three lead
 * from each die to other packages.
 */
static bool build_mi250x(synth_topology_t *topology, int unused, int unused_too)
{
    /* die, die, capacity in both directions */
    static const int pairs[][3] = {{0, 4, 2},  {3, 7, 2},   {8, 12, 2},  {11, 15, 2}, {0, 8, 1},
                                   {1, 9, 1},  {2, 10, 1},  {3, 11, 1},  {1, 10, 1},  {2, 9, 1},
                                   {1, 5, 1},  {2, 6, 1},   {4, 6, 1},   {5, 7, 1},   {5, 6, 1},
                                   {9, 13, 1}, {10, 14, 1}, {12, 14, 1}, {13, 15, 1}, {13, 14, 1}};

    (void)unused, (void)unused_too;
    for (int die = 0; die < topology->ranks; die += 2) {
        add_both(topology, die, die + 1, 4);
    }
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        add_both(topology, pairs[i][0], pairs[i][1], pairs[i][2]);
    }
    topology->unit_gbps = 50;
    return true;
}

static const struct {
    const char *name;
    int numbers; /* how many numbers follow the colon */
    int ranks;   /* of a machine without numbers */
    bool (*build)(synth_topology_t *topology, int first, int second);
} machines[] = {{"ring", 1, 0, build_ring},     {"line", 1, 0, build_line},     {"mesh", 1, 0, build_mesh},
                {"switch", 1, 0, build_switch}, {"torus", 2, 0, build_torus},   {"nodes", 2, 0, build_nodes},
                {"dgx1", 0, 8, build_dgx1},     {"mi250x", 0, 16, build_mi250x}};

/*
 * Parses one or two whole numbers from 1 on, with an x between them. Returns how many there are, or 0 if the text is
 * something else. A missing second number is set to 1.
 */
static int parse_numbers(const char *text, int *first_p, int *second_p)
{
    long number[2] = {1, 1};
    int count = 0;

    for (;;) {
        char *end;

        if (!isdigit((unsigned char)*text) || count == 2) {
            return 0;
        }
        number[count] = strtol(text, &end, 10);
        if (number[count] < 1 || number[count] > SYNTH_MAX_RANKS) {
            return 0;
        }
        ++count;
        if (*end == '\0') {
            break;
        }
        if (*end != 'x') {
            return 0;
        }
        text = end + 1;
    }
    *first_p = (int)number[0];
    *second_p = (int)number[1];
    return count;
}

/*
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if no machine has this name, so that the caller can try to read a file of this
 * name.
 */
mscclpp_status_t synth_topology_named(const char *text, char *reason, size_t reason_size, synth_topology_t **topology_p)
{
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);

    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); ++i) {
        int first = 8, second = 1; /* not used for machines without numbers, but their product is an allowed one */
        synth_topology_t *topology;

        if (strlen(machines[i].name) != length || strncmp(machines[i].name, text, length) != 0) {
            continue;
        }
        if ((colon != NULL) != (machines[i].numbers > 0) ||
            (colon != NULL && parse_numbers(colon + 1, &first, &second) != machines[i].numbers) || first * second < 2 ||
            first * second > SYNTH_MAX_RANKS) {
            snprintf(reason, reason_size, "the topology is \"%.80s\"; allowed are %s, with 2 to %d ranks", text,
                     synth_topology_names, SYNTH_MAX_RANKS);
            return MSCCLPP_ERR_INVALID;
        }
        topology = synth_topology_new(text, machines[i].numbers == 0 ? machines[i].ranks : first * second);
        if (topology == NULL || !machines[i].build(topology, first, second)) {
            synth_topology_free(topology);
            return MSCCLPP_ERR_NO_MEMORY;
        }
        *topology_p = topology;
        return MSCCLPP_OK;
    }
    return MSCCLPP_ERR_NOT_SUPPORTED;
}
