/* Finds out how the GPUs of this machine are joined, from NVIDIA's driver or from hwloc. */
#ifndef TOOLS_SYNTH_LIB_DISCOVER_H
#define TOOLS_SYNTH_LIB_DISCOVER_H

#include "tools/synth/lib/machine.h"

/*
 * Makes a topology of the GPUs of this machine, in the order of the PCI bus. Asks NVML (libnvidia-ml.so.1), or hwloc if
 * NVML is not there. Returns MSCCLPP_ERR_NOT_SUPPORTED and why if neither is there, or if there are too few or too many
 * GPUs; MSCCLPP_ERR_INVALID and why if what they say makes no topology.
 */
mscclpp_status_t synth_discover(char *why, size_t why_size, synth_topology_t **topology_p);

/* The part of synth_discover for machines without NVML: fills in `machine` with what hwloc says. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED and why if hwloc is not there or fails, or if there are too few or too many GPUs. */
mscclpp_status_t synth_discover_hwloc(synth_machine_t *machine, char *why, size_t why_size);

#endif
