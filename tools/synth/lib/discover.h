/* The machine at hand, as NVIDIA's driver or hwloc describes it. */
#ifndef TOOLS_SYNTH_LIB_DISCOVER_H
#define TOOLS_SYNTH_LIB_DISCOVER_H

#include "tools/synth/lib/machine.h"

/*
 * Opens NVML (libnvidia-ml.so.1), or, where that is not there, hwloc, and asks it for the GPUs, in the order of the PCI
 * bus. MSCCLPP_ERR_NOT_SUPPORTED and why if neither is there or has GPUs, MSCCLPP_ERR_INVALID and why if what it says
 * makes no topology.
 */
mscclpp_status_t synth_discover(char *why, size_t why_size, synth_topology_t **topology_p);

/* The part of it that asks hwloc. */
mscclpp_status_t synth_discover_hwloc(synth_machine_t *machine, char *why, size_t why_size);

#endif
