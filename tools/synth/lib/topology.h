/*
 * The machine: ranks, directed links, and groups of links that share a limit (switch ports, NICs, buses). A link of
 * capacity b carries at most b chunks in one round.
 */
#ifndef TOOLS_SYNTH_LIB_TOPOLOGY_H
#define TOOLS_SYNTH_LIB_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/base/status.h"

enum {
    SYNTH_MAX_RANKS = 64, /* a set of ranks is a 64-bit word */
    SYNTH_MAX_LINKS = SYNTH_MAX_RANKS * (SYNTH_MAX_RANKS - 1),
    SYNTH_MAX_GROUPS = 1024,
    SYNTH_MAX_CAPACITY = 100000,
    SYNTH_MAX_BYTES = 4 << 20, /* largest size of a file */
    SYNTH_NAME = 64,           /* bytes of a name, with the zero byte */
    SYNTH_GPU = 24,            /* bytes of a GPU's address, with the zero byte */
    SYNTH_REASON = 256         /* bytes of a message about a fault, with the zero byte */
};

typedef struct {
    int from, to;
    int capacity; /* chunks that it carries in one round */
} synth_link_t;

typedef struct {
    char name[SYNTH_NAME];
    int capacity; /* chunks that all its links together carry in one round */
    int *links;   /* indices in the topology's list of links */
    int count;    /* of links */
} synth_group_t;

typedef struct {
    char name[SYNTH_NAME];
    int ranks;
    synth_link_t *links;
    int link_count;
    int (*link_between)[SYNTH_MAX_RANKS]; /* [from][to]: the index of the link, or -1 if there is none */
    synth_group_t *groups;
    int group_count;
    int node_of[SYNTH_MAX_RANKS]; /* the node of each rank, from 0 on; all 0 if nodes are not known */
    int node_count;
    char gpu[SYNTH_MAX_RANKS][SYNTH_GPU]; /* PCI addresses of the ranks' GPUs; empty if unknown */
    double unit_gbps;                     /* GB/s of one unit of capacity; 0: unknown */
    double alpha_us;                      /* microseconds that one step takes at least; 0: unknown */
} synth_topology_t;

/*
 * Makes a topology of `ranks` ranks without links, on one node. Cuts the name if it is too long. The caller frees it
 * with synth_topology_free. Returns NULL if memory runs out.
 */
synth_topology_t *synth_topology_new(const char *name, int ranks);
void synth_topology_free(synth_topology_t *topology);

/* Adds a link from one rank to a different one. If there already is one, adds to its capacity. */
void synth_topology_add_link(synth_topology_t *topology, int from, int to, int capacity);

/*
 * Adds a group of `count` links, at least 1, and copies `links` and `name`, which is cut if it is too long. Callers
 * make sure that there are no more than SYNTH_MAX_GROUPS groups. The links of a group may have any ends. Those of a
 * port all begin or all end at one rank, which is found from the first of them. Returns false if memory runs out.
 */
bool synth_topology_add_group(synth_topology_t *topology, const char *name, int capacity, const int *links, int count);

/*
 * Makes the topology with every link reversed, for collectives that combine. It has no addresses of GPUs. Returns NULL
 * if memory runs out.
 */
synth_topology_t *synth_topology_transposed(const synth_topology_t *topology);

/*
 * Makes the topology of some of the ranks: its rank i is ranks[i]. Ranks that are left out cannot relay data, since
 * their processes take no part in the call. Returns NULL if memory runs out.
 */
synth_topology_t *synth_topology_part(const synth_topology_t *topology, const int *ranks, int count);

/* Returns true if every rank can reach every other one; otherwise `reason` names two ranks that are not connected. */
bool synth_topology_connected(const synth_topology_t *topology, char *reason, size_t reason_size);

/* Returns true if the address of every GPU is known. */
bool synth_topology_has_gpus(const synth_topology_t *topology);

/*
 * Computes the length of the shortest path from each rank to each rank, in links. If there is no path, the length is
 * larger than that of any path.
 */
void synth_topology_distances(const synth_topology_t *topology, int distance[][SYNTH_MAX_RANKS]);

/* Returns the length of the longest of these paths. */
int synth_topology_diameter(const synth_topology_t *topology);

/* Returns the number of pairs of ranks whose capacities in the two directions differ. */
int synth_topology_asymmetry(const synth_topology_t *topology);

/*
 * Makes the machine with a name such as "ring:8". Returns MSCCLPP_ERR_NOT_SUPPORTED if the text does not begin with one
 * of these names, MSCCLPP_ERR_INVALID, with a text in `reason`, if its numbers are not allowed, and
 * MSCCLPP_ERR_NO_MEMORY.
 */
mscclpp_status_t synth_topology_named(const char *text, char *reason, size_t reason_size,
                                      synth_topology_t **topology_p);

/* All names that synth_topology_named accepts, for messages. */
extern const char synth_topology_names[];

/*
 * Reads a file: JSON in the format of docs/synthesis.md or of msccl-tools, NCCL's dump, or the output of nvidia-smi
 * topo -m. Errors, with a text in `reason`:
 * - MSCCLPP_ERR_SYSTEM: the file cannot be read.
 * - MSCCLPP_ERR_INVALID: it is wrong or too large.
 * - MSCCLPP_ERR_NOT_SUPPORTED: it is JSON, and there is no yajl.
 * - MSCCLPP_ERR_NO_MEMORY: memory ran out; `reason` is unchanged or "no memory".
 */
mscclpp_status_t synth_topology_read(const char *path, char *reason, size_t reason_size, synth_topology_t **topology_p);

/*
 * Parse a text in memory, as synth_topology_read does: JSON (_parse), the table of nvidia-smi (_matrix) or NCCL's dump
 * (_nccl).
 */
mscclpp_status_t synth_topology_parse(const char *text, size_t size, char *reason, size_t reason_size,
                                      synth_topology_t **topology_p);
mscclpp_status_t synth_topology_matrix(const char *text, size_t size, char *reason, size_t reason_size,
                                       synth_topology_t **topology_p);
mscclpp_status_t synth_topology_nccl(const char *text, size_t size, char *reason, size_t reason_size,
                                     synth_topology_t **topology_p);

/* Writes JSON in the format of docs/synthesis.md. The caller checks for errors with ferror. */
void synth_topology_write(const synth_topology_t *topology, FILE *out);

#endif
