/* The description of the GPUs of one node, from a dump or a driver, before it becomes a topology. */
#ifndef TOOLS_SYNTH_LIB_MACHINE_H
#define TOOLS_SYNTH_LIB_MACHINE_H

#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_HUBS = 256 };

typedef struct {
    uint64_t below; /* the set of GPUs below it */
    int mbps;       /* MB/s of its upstream link, each direction */
    char name[SYNTH_NAME];
} synth_hub_t; /* a PCIe switch, a host bridge, a socket */

typedef struct {
    char name[SYNTH_NAME];
    int gpus;
    char gpu[SYNTH_MAX_RANKS][SYNTH_GPU];          /* addresses on the PCI bus, or empty */
    int nvlinks[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS]; /* [from][to]: NVLinks that directly connect the two GPUs */
    int to_switch[SYNTH_MAX_RANKS]; /* NVLinks to NVSwitches, which connect all GPUs that have such links */
    int nvlink_mbps;                /* MB/s of one NVLink, each direction */
    int pcie_mbps[SYNTH_MAX_RANKS]; /* MB/s of the GPU's own port, each direction; 0: unknown */
    synth_hub_t hubs[SYNTH_MAX_HUBS];
    int hub_count;
} synth_machine_t;

/*
 * Adds a hub. If there is already a hub with the same GPUs below it, that hub is kept, with the slower of the two
 * rates. Returns false if there are already SYNTH_MAX_HUBS hubs.
 */
bool synth_machine_add_hub(synth_machine_t *machine, const char *name, uint64_t below, int mbps);

/*
 * Makes the topology. It consists of NVLinks alone if they connect all GPUs. Otherwise GPUs without an NVLink between
 * them are also connected over PCIe; these links share the ports of the GPUs and the upstream links of the hubs.
 * Returns MSCCLPP_ERR_INVALID if the number of GPUs or a rate is out of range, or if the links do not join all GPUs,
 * and MSCCLPP_ERR_NO_MEMORY; `reason` becomes a text in both cases. On success `reason` is empty, and the caller frees
 * the topology with synth_topology_free.
 */
mscclpp_status_t synth_machine_topology(const synth_machine_t *machine, char *reason, size_t reason_size,
                                        synth_topology_t **topology_p);

#endif
