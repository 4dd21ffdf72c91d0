/* Determines how the GPUs of this machine are connected, from NVIDIA's driver or from hwloc. */
#ifndef TOOLS_SYNTH_LIB_DISCOVER_H
#define TOOLS_SYNTH_LIB_DISCOVER_H

#include "tools/synth/lib/machine.h"

/*
 * Makes a topology of the GPUs of this machine, in the order of the PCI bus. Asks NVML (libnvidia-ml.so.1), or hwloc if
 * NVML cannot be opened. Returns MSCCLPP_ERR_NOT_SUPPORTED if neither can be opened, if the one that is asked fails, or
 * if there are too few or too many GPUs; MSCCLPP_ERR_INVALID if the answers make no topology; MSCCLPP_ERR_NO_MEMORY.
 * Except for MSCCLPP_ERR_NO_MEMORY, `reason` becomes a text. The caller frees the topology with synth_topology_free.
 */
mscclpp_status_t synth_discover(char *reason, size_t reason_size, synth_topology_t **topology_p);

/*
 * Fills in `machine` with the answers of hwloc. synth_discover calls it on machines without NVML. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, with a text in `reason`, if hwloc is not installed or fails, or if there are too few or
 * too many GPUs.
 */
mscclpp_status_t synth_discover_hwloc(synth_machine_t *machine, char *reason, size_t reason_size);

#endif
