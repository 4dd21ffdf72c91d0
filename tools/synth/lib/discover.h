/* The machine at hand, as NVIDIA's driver describes it. */
#ifndef TOOLS_SYNTH_LIB_DISCOVER_H
#define TOOLS_SYNTH_LIB_DISCOVER_H

#include "tools/synth/lib/topology.h"

/*
 * Opens NVML (libnvidia-ml.so.1) and asks it for the GPUs, in the order of its indices, which is that of the PCI bus.
 * MSCCLPP_ERR_NOT_SUPPORTED and why if the library is not there or has no GPUs, MSCCLPP_ERR_INVALID and why if what it
 * says makes no topology.
 */
mscclpp_status_t synth_discover(char *why, size_t why_size, synth_topology_t **topology_p);

#endif
