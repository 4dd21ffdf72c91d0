/* From GPUs, NVLinks and the tree of PCIe to links and groups. */
#include "tools/synth/lib/machine.h"

#include <stdio.h>
#include <string.h>

#include "tools/synth/lib/rational.h"

bool synth_machine_hub(synth_machine_t *machine, const char *name, uint64_t below, int mbps)
{
    synth_hub_t *hub;

    for (int i = 0; i < machine->hub_count; ++i) {
        hub = &machine->hubs[i];
        if (hub->below == below) {
            hub->mbps = mbps < hub->mbps ? mbps : hub->mbps;
            return true;
        }
    }
    if (machine->hub_count == SYNTH_MAX_HUBS) {
        return false;
    }
    hub = &machine->hubs[machine->hub_count++];
    hub->below = below;
    hub->mbps = mbps;
    snprintf(hub->name, sizeof(hub->name), "%s", name);
    return true;
}

/* Adds a group of those links marked in `through` that lead out of a set of ranks, or into it. False without memory. */
static bool add_border(synth_topology_t *topology, const char *name, uint64_t set, bool out, const bool *through,
                       int capacity)
{
    static const char *const ways[] = {"into", "out of"};
    int links[SYNTH_MAX_LINKS], count = 0;
    char text[SYNTH_NAME];

    for (int i = 0; i < topology->link_count; ++i) {
        bool from = (set >> topology->links[i].from & 1) != 0, to = (set >> topology->links[i].to & 1) != 0;

        if (through[i] && from == out && to == !out) {
            links[count++] = i;
        }
    }
    snprintf(text, sizeof(text), "%s %.50s", ways[out], name);
    return count < 2 || topology->group_count == SYNTH_MAX_GROUPS ||
           synth_topology_group(topology, text, capacity, links, count);
}

/* Adds links over NVLinks. Those through a switch share the NVLink ports of their GPUs. False without memory. */
static bool add_nvlinks(const synth_machine_t *machine, int mbps, synth_topology_t *topology)
{
    bool through[SYNTH_MAX_LINKS] = {false};
    char name[SYNTH_NAME];

    for (int a = 0; a < machine->gpus; ++a) {
        for (int b = 0; b < machine->gpus; ++b) {
            int ports = machine->to_switch[a] < machine->to_switch[b] ? machine->to_switch[a] : machine->to_switch[b];

            if (a != b && machine->nvlinks[a][b] + ports > 0) {
                synth_topology_link(topology, a, b, (machine->nvlinks[a][b] + ports) * mbps);
            }
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        through[i] = machine->to_switch[link->from] > 0 && machine->to_switch[link->to] > 0 &&
                     machine->nvlinks[link->from][link->to] == 0;
    }
    for (int a = 0; a < machine->gpus; ++a) {
        snprintf(name, sizeof(name), "NVLink ports of %d", a);
        if (!add_border(topology, name, UINT64_C(1) << a, true, through, machine->to_switch[a] * mbps) ||
            !add_border(topology, name, UINT64_C(1) << a, false, through, machine->to_switch[a] * mbps)) {
            return false;
        }
    }
    return true;
}

/* Adds links over PCIe between GPUs that NVLink does not join. They share ports and hubs. False without memory. */
static bool add_pcie(const synth_machine_t *machine, synth_topology_t *topology)
{
    bool through[SYNTH_MAX_LINKS] = {false};
    char name[SYNTH_NAME];

    for (int a = 0; a < machine->gpus; ++a) {
        for (int b = 0; b < machine->gpus; ++b) {
            int least = machine->pcie_mbps[a] < machine->pcie_mbps[b] ? machine->pcie_mbps[a] : machine->pcie_mbps[b];

            if (a != b && topology->link_between[a][b] < 0 && least > 0) {
                synth_topology_link(topology, a, b, least);
                through[topology->link_between[a][b]] = true;
            }
        }
    }
    for (int a = 0; a < machine->gpus; ++a) {
        snprintf(name, sizeof(name), "PCIe port of %d", a);
        for (int out = 0; out < 2 && machine->pcie_mbps[a] > 0; ++out) {
            if (!add_border(topology, name, UINT64_C(1) << a, out, through, machine->pcie_mbps[a])) {
                return false;
            }
        }
    }
    for (int i = 0; i < machine->hub_count; ++i) {
        const synth_hub_t *hub = &machine->hubs[i];

        for (int out = 0; out < 2; ++out) {
            /* Of one GPU alone the port says enough. */
            if ((hub->below & (hub->below - 1)) != 0 &&
                !add_border(topology, hub->name, hub->below, out, through, hub->mbps)) {
                return false;
            }
        }
    }
    return true;
}

/* Divides all rates by their greatest common divisor. False, and why, if one is still too large. */
static bool reduce_rates(synth_topology_t *topology, char *why, size_t why_size)
{
    int64_t unit = 0;

    for (int i = 0; i < topology->link_count; ++i) {
        unit = synth_gcd(unit, topology->links[i].capacity);
    }
    for (int i = 0; i < topology->group_count; ++i) {
        unit = synth_gcd(unit, topology->groups[i].capacity);
    }
    for (int i = 0; unit > 0 && i < topology->link_count; ++i) {
        topology->links[i].capacity /= (int)unit;
        if (topology->links[i].capacity > SYNTH_MAX_CAPACITY) {
            snprintf(why, why_size, "the rates of its links differ too much: one is %d times a common part of all",
                     topology->links[i].capacity);
            return false;
        }
    }
    for (int i = 0; unit > 0 && i < topology->group_count; ++i) {
        topology->groups[i].capacity /= (int)unit;
    }
    topology->unit_gbps = (double)unit / 1000;
    return true;
}

mscclpp_status_t synth_machine_topology(const synth_machine_t *machine, char *why, size_t why_size,
                                        synth_topology_t **topology_p)
{
    synth_topology_t *topology;
    bool fine, apart;

    if (machine->gpus < 2 || machine->gpus > SYNTH_MAX_RANKS) {
        snprintf(why, why_size, "it has %d GPUs; allowed are 2 to %d", machine->gpus, SYNTH_MAX_RANKS);
        return MSCCLPP_ERR_INVALID;
    }
    topology = synth_topology_new(machine->name, machine->gpus);
    if (topology == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    memcpy(topology->gpu, machine->gpu, sizeof(topology->gpu));
    fine = add_nvlinks(machine, machine->nvlink_mbps, topology);
    apart = fine && !synth_topology_connected(topology, why, why_size);
    fine = fine && (!apart || add_pcie(machine, topology));
    if (!fine) {
        synth_topology_free(topology);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    if (!synth_topology_connected(topology, why, why_size) || !reduce_rates(topology, why, why_size)) {
        synth_topology_free(topology);
        return MSCCLPP_ERR_INVALID;
    }
    why[0] = '\0';
    *topology_p = topology;
    return MSCCLPP_OK;
}
