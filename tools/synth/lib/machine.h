/* What a dump or a driver says of the GPUs of one node, before it becomes a topology. */
#ifndef TOOLS_SYNTH_LIB_MACHINE_H
#define TOOLS_SYNTH_LIB_MACHINE_H

#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_HUBS = 256 };

typedef struct {
    uint64_t below; /* the set of GPUs below it */
    int mbps;       /* MB/s of its way up, each direction */
    char name[SYNTH_NAME];
} synth_hub_t; /* a PCIe switch, a host bridge, a socket */

typedef struct {
    char name[SYNTH_NAME];
    int gpus;
    char gpu[SYNTH_MAX_RANKS][SYNTH_GPU];          /* addresses on the PCI bus, or empty */
    int nvlinks[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS]; /* [from][to]: how many lead directly from one GPU to another */
    int to_switch[SYNTH_MAX_RANKS];                /* NVLinks to NVSwitches, which join all GPUs that have some */
    int nvlink_mbps;                               /* MB/s of one NVLink, each direction */
    int pcie_mbps[SYNTH_MAX_RANKS];                /* MB/s of the GPU's own port, each direction; 0: unknown */
    synth_hub_t hubs[SYNTH_MAX_HUBS];
    int hub_count;
} synth_machine_t;

/* Adds a hub. If one has the same GPUs below it, that one stays, with the slower way up of both. Returns false if there
 * are SYNTH_MAX_HUBS already. */
bool synth_machine_hub(synth_machine_t *machine, const char *name, uint64_t below, int mbps);

/*
 * Makes the topology: of NVLinks alone if they join all GPUs. Otherwise GPUs without an NVLink between them are joined
 * over PCIe; what goes over PCIe shares the ports of the GPUs and the ways up of the hubs. On failure, `why` says what
 * is wrong: MSCCLPP_ERR_INVALID if the machine makes no topology, MSCCLPP_ERR_NO_MEMORY if memory runs out.
 */
mscclpp_status_t synth_machine_topology(const synth_machine_t *machine, char *why, size_t why_size,
                                        synth_topology_t **topology_p);

#endif
