/* From GPUs, NVLinks and the tree of PCIe to links and groups. */
#include "tools/synth/lib/machine.h"

#include <stdio.h>
#include <string.h>

#include "tools/synth/lib/rational.h"

enum { MAX_NVLINK_MBPS = 500000000 }; /* limit of the rate from a GPU to another one, and from a GPU to switches */

/* Compares hubs by the set of GPUs below them. */
bool synth_machine_add_hub(synth_machine_t *machine, const char *name, uint64_t below, int mbps)
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

/*
 * Adds a group of links: those that lead out of a set of ranks (or into it, if `is_outgoing` is false) and are marked
 * in `is_limited`. Adds nothing if there are fewer than two such links, or already SYNTH_MAX_GROUPS groups. Returns
 * false if memory runs out.
 */
static bool add_border(synth_topology_t *topology, const char *name, uint64_t set, bool is_outgoing,
                       const bool *is_limited, int capacity)
{
    static const char *const ways[] = {"into", "out of"};
    int links[SYNTH_MAX_LINKS], count = 0;
    char text[SYNTH_NAME];

    for (int i = 0; i < topology->link_count; ++i) {
        bool from_inside = (set >> topology->links[i].from & 1) != 0,
             to_inside = (set >> topology->links[i].to & 1) != 0;

        if (is_limited[i] && from_inside == is_outgoing && to_inside == !is_outgoing) {
            links[count++] = i;
        }
    }
    snprintf(text, sizeof(text), "%s %.50s", ways[is_outgoing], name);
    return count < 2 || topology->group_count == SYNTH_MAX_GROUPS ||
           synth_topology_add_group(topology, text, capacity, links, count);
}

/*
 * Returns true if the numbers of NVLinks are small enough that their rates fit in an int. Otherwise `reason` names the
 * first GPU with too many.
 */
static bool check_nvlink_counts(const synth_machine_t *machine, char *reason, size_t reason_size)
{
    /*
     * If the description of a machine has rates in place of numbers of links, a rate counts as this many links of 1
     * MB/s.
     */
    const int allowed = machine->nvlink_mbps > 0 ? MAX_NVLINK_MBPS / machine->nvlink_mbps : MAX_NVLINK_MBPS;

    for (int gpu = 0; gpu < machine->gpus; ++gpu) {
        int max_nvlinks = machine->to_switch[gpu];

        for (int other = 0; other < machine->gpus; ++other) {
            max_nvlinks = machine->nvlinks[gpu][other] > max_nvlinks ? machine->nvlinks[gpu][other] : max_nvlinks;
        }
        if (max_nvlinks > allowed) {
            snprintf(reason, reason_size, "GPU %d has %d NVLinks to another GPU or to switches; allowed are 0 to %d",
                     gpu, max_nvlinks, allowed);
            return false;
        }
    }
    return true;
}

/*
 * Adds the links between GPUs with NVLinks. Links that lead only through a switch share the NVLink ports of their GPUs.
 * The topology must not have any links yet. Returns false if memory runs out.
 */
static bool add_nvlinks(const synth_machine_t *machine, synth_topology_t *topology)
{
    bool is_switched[SYNTH_MAX_LINKS] = {false};
    char name[SYNTH_NAME];

    for (int gpu = 0; gpu < machine->gpus; ++gpu) {
        for (int other = 0; other < machine->gpus; ++other) {
            int common_ports = machine->to_switch[gpu] < machine->to_switch[other] ? machine->to_switch[gpu]
                                                                                   : machine->to_switch[other];

            if (gpu != other && machine->nvlinks[gpu][other] + common_ports > 0) {
                synth_topology_add_link(topology, gpu, other,
                                        (machine->nvlinks[gpu][other] + common_ports) * machine->nvlink_mbps);
            }
        }
    }
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];

        is_switched[i] = machine->to_switch[link->from] > 0 && machine->to_switch[link->to] > 0 &&
                         machine->nvlinks[link->from][link->to] == 0;
    }
    for (int gpu = 0; gpu < machine->gpus; ++gpu) {
        snprintf(name, sizeof(name), "NVLink ports of %d", gpu);
        if (!add_border(topology, name, UINT64_C(1) << gpu, true, is_switched,
                        machine->to_switch[gpu] * machine->nvlink_mbps) ||
            !add_border(topology, name, UINT64_C(1) << gpu, false, is_switched,
                        machine->to_switch[gpu] * machine->nvlink_mbps)) {
            return false;
        }
    }
    return true;
}

/*
 * Adds links over PCIe between GPUs without an NVLink between them, unless the rate of one of the two GPUs is unknown.
 * These links share the ports of the GPUs and the upstream links of the hubs. Returns false if memory runs out.
 */
static bool add_pcie(const synth_machine_t *machine, synth_topology_t *topology)
{
    bool is_pcie[SYNTH_MAX_LINKS] = {false};
    char name[SYNTH_NAME];

    for (int gpu = 0; gpu < machine->gpus; ++gpu) {
        for (int other = 0; other < machine->gpus; ++other) {
            int slower_mbps = machine->pcie_mbps[gpu] < machine->pcie_mbps[other] ? machine->pcie_mbps[gpu]
                                                                                  : machine->pcie_mbps[other];

            if (gpu != other && topology->link_between[gpu][other] < 0 && slower_mbps > 0) {
                synth_topology_add_link(topology, gpu, other, slower_mbps);
                is_pcie[topology->link_between[gpu][other]] = true;
            }
        }
    }
    for (int gpu = 0; gpu < machine->gpus; ++gpu) {
        snprintf(name, sizeof(name), "PCIe port of %d", gpu);
        for (int out = 0; out < 2 && machine->pcie_mbps[gpu] > 0; ++out) {
            if (!add_border(topology, name, UINT64_C(1) << gpu, out, is_pcie, machine->pcie_mbps[gpu])) {
                return false;
            }
        }
    }
    for (int i = 0; i < machine->hub_count; ++i) {
        const synth_hub_t *hub = &machine->hubs[i];

        for (int out = 0; out < 2; ++out) {
            /* A hub with only one GPU is left out: the port of the GPU already has a group. */
            if ((hub->below & (hub->below - 1)) != 0 &&
                !add_border(topology, hub->name, hub->below, out, is_pcie, hub->mbps)) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Divides all rates by their greatest common divisor, which becomes the unit of capacity. Returns false, with
 * a text in `reason`, if the rate of a link or a group is still too large.
 */
static bool reduce_rates(synth_topology_t *topology, char *reason, size_t reason_size)
{
    int64_t unit_mbps = 0;

    for (int i = 0; i < topology->link_count; ++i) {
        unit_mbps = synth_gcd(unit_mbps, topology->links[i].capacity);
    }
    for (int i = 0; i < topology->group_count; ++i) {
        unit_mbps = synth_gcd(unit_mbps, topology->groups[i].capacity);
    }
    for (int i = 0; unit_mbps > 0 && i < topology->link_count; ++i) {
        topology->links[i].capacity /= (int)unit_mbps;
        if (topology->links[i].capacity > SYNTH_MAX_CAPACITY) {
            snprintf(reason, reason_size,
                     "the rates of its links differ too much: one is %d times a common part of all",
                     topology->links[i].capacity);
            return false;
        }
    }
    for (int i = 0; unit_mbps > 0 && i < topology->group_count; ++i) {
        topology->groups[i].capacity /= (int)unit_mbps;
        if (topology->groups[i].capacity > SYNTH_MAX_CAPACITY) {
            snprintf(reason, reason_size,
                     "the rates of its links differ too much: \"%s\" has %d times a common part of all",
                     topology->groups[i].name, topology->groups[i].capacity);
            return false;
        }
    }
    topology->unit_gbps = (double)unit_mbps / 1000;
    return true;
}

/*
 * Writes the message, for `reason` may say by then which GPUs NVLinks do not join. Returns the status, so that the
 * caller can return it.
 */
static mscclpp_status_t out_of_memory(char *reason, size_t reason_size)
{
    snprintf(reason, reason_size, "no memory");
    return MSCCLPP_ERR_NO_MEMORY;
}

mscclpp_status_t synth_machine_topology(const synth_machine_t *machine, char *reason, size_t reason_size,
                                        synth_topology_t **topology_p)
{
    synth_topology_t *topology;

    if (machine->gpus < 2 || machine->gpus > SYNTH_MAX_RANKS) {
        snprintf(reason, reason_size, "it has %d GPUs; allowed are 2 to %d", machine->gpus, SYNTH_MAX_RANKS);
        return MSCCLPP_ERR_INVALID;
    }
    if (!check_nvlink_counts(machine, reason, reason_size)) {
        return MSCCLPP_ERR_INVALID;
    }
    topology = synth_topology_new(machine->name, machine->gpus);
    if (topology == NULL) {
        return out_of_memory(reason, reason_size);
    }
    memcpy(topology->gpu, machine->gpu, sizeof(topology->gpu));
    if (!add_nvlinks(machine, topology) ||
        (!synth_topology_connected(topology, reason, reason_size) && !add_pcie(machine, topology))) {
        synth_topology_free(topology);
        return out_of_memory(reason, reason_size);
    }
    if (!synth_topology_connected(topology, reason, reason_size) || !reduce_rates(topology, reason, reason_size)) {
        synth_topology_free(topology);
        return MSCCLPP_ERR_INVALID;
    }
    reason[0] = '\0'; /* the first call of synth_topology_connected may have left a message */
    *topology_p = topology;
    return MSCCLPP_OK;
}
