/*
 * Asks hwloc for the GPUs of NVIDIA and AMD: the PCIe tree above them, and the links between them that hwloc's backends
 * know. The library is opened at run time.
 */
#include "tools/synth/lib/discover.h"

#include <stdio.h>

#if defined(__has_include)
#if __has_include(<hwloc.h>)
#define HAVE_HWLOC_HEADER 1
#endif
#endif

#ifdef HAVE_HWLOC_HEADER
#include <dlfcn.h>
#include <stdlib.h>
#include <hwloc.h>

enum { NVIDIA = 0x10de, AMD = 0x1002 };         /* PCI numbers of vendors */
enum { DISPLAY = 0x03, ACCELERATOR = 0x12 };    /* PCI classes of devices */
enum { MAX_MATRICES = 4, MAX_MBPS = 10000000 }; /* matrices of one name; a bandwidth in a matrix, MB/s */

/* The functions of hwloc that are used. */
typedef struct {
    int (*init)(hwloc_topology_t *topology);
    int (*io_filter)(hwloc_topology_t topology, enum hwloc_type_filter_e filter);
    int (*load)(hwloc_topology_t topology);
    void (*destroy)(hwloc_topology_t topology);
    hwloc_obj_t (*object)(hwloc_topology_t topology, int depth, unsigned index);
    int (*matrices)(hwloc_topology_t topology, const char *name, unsigned *count, struct hwloc_distances_s **matrices,
                    unsigned long flags);
    void (*release)(hwloc_topology_t topology, struct hwloc_distances_s *matrix);
} hwloc_t;

/* Looks up all functions. If one is missing, stores its name in *missing and returns false. */
static bool load_functions(void *library, hwloc_t *hwloc, const char **missing)
{
    struct {
        const char *name;
        void **function_p;
    } functions[] = {{"hwloc_topology_init", (void **)&hwloc->init},
                     {"hwloc_topology_set_io_types_filter", (void **)&hwloc->io_filter},
                     {"hwloc_topology_load", (void **)&hwloc->load},
                     {"hwloc_topology_destroy", (void **)&hwloc->destroy},
                     {"hwloc_get_obj_by_depth", (void **)&hwloc->object},
                     {"hwloc_distances_get_by_name", (void **)&hwloc->matrices},
                     {"hwloc_distances_release", (void **)&hwloc->release}};

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        *functions[i].function_p = dlsym(library, functions[i].name);
        if (*functions[i].function_p == NULL) {
            *missing = functions[i].name;
            return false;
        }
    }
    return true;
}

/* Returns true if a PCI device is a GPU of NVIDIA or AMD. */
static bool is_gpu(const struct hwloc_pcidev_attr_s *device)
{
    int class = device->class_id >> 8;

    return (device->vendor_id == NVIDIA || device->vendor_id == AMD) && (class == DISPLAY || class == ACCELERATOR);
}

/*
 * Lists the GPUs in the order of hwloc, which is the order of the PCI bus, with their addresses and the rates of their
 * ports. `gpu` has room for SYNTH_MAX_RANKS GPUs. Returns the number of GPUs. GPUs beyond SYNTH_MAX_RANKS are counted,
 * but not listed.
 */
static int find_gpus(const hwloc_t *hwloc, hwloc_topology_t topology, hwloc_obj_t *gpu, synth_machine_t *machine)
{
    int count = 0;
    hwloc_obj_t object;

    for (unsigned i = 0; (object = hwloc->object(topology, HWLOC_TYPE_DEPTH_PCI_DEVICE, i)) != NULL; ++i) {
        const struct hwloc_pcidev_attr_s *device = &object->attr->pcidev;

        if (!is_gpu(device)) {
            continue;
        }
        if (count < SYNTH_MAX_RANKS) {
            gpu[count] = object;
            machine->pcie_mbps[count] = (int)(device->linkspeed * 1000);
            snprintf(machine->gpu[count], SYNTH_GPU, "%04x:%02x:%02x.%x", (unsigned)device->domain & 0xffff,
                     device->bus, device->dev, device->func & 0xf);
        }
        ++count;
    }
    return count;
}

/* Returns true if an object is `above` itself or below it. */
static bool lies_below(hwloc_obj_t object, hwloc_obj_t above)
{
    while (object != NULL && object != above) {
        object = object->parent;
    }
    return object != NULL;
}

/*
 * Adds a hub for each bridge or socket above a GPU that has some of the other GPUs below it, but not all. If hwloc does
 * not report how fast the hub is, it is assumed to be as fast as the fastest port below it. The objects form a tree, so
 * there are fewer such sets of GPUs than GPUs, and the machine has room for all hubs.
 */
static void add_hubs_above(const hwloc_obj_t *gpu, int gpu_number, synth_machine_t *machine)
{
    uint64_t all_gpus = UINT64_MAX >> (64 - machine->gpus);

    for (hwloc_obj_t object = gpu[gpu_number]->parent; object != NULL; object = object->parent) {
        bool is_bridge = object->type == HWLOC_OBJ_BRIDGE;
        int mbps = is_bridge && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI
                       ? (int)(object->attr->bridge.upstream.pci.linkspeed * 1000)
                       : 0;
        uint64_t below = 0;
        int fastest_port = 0;
        char name[SYNTH_NAME];

        for (int i = 0; i < machine->gpus; ++i) {
            if (lies_below(gpu[i], object)) {
                below |= UINT64_C(1) << i;
                fastest_port = machine->pcie_mbps[i] > fastest_port ? machine->pcie_mbps[i] : fastest_port;
            }
        }
        mbps = mbps > 0 ? mbps : fastest_port;
        snprintf(name, sizeof(name), "%s of %d", is_bridge ? "bridge" : "socket", gpu_number);
        if (mbps > 0 && below != all_gpus && (below & (below - 1)) != 0) {
            synth_machine_add_hub(machine, name, below, mbps);
        }
    }
}

/*
 * Returns the number of the GPU that an object of a matrix belongs to, or -1 if there is none. Such an object is a
 * device of the PCI bus, or one of the operating system that is below it.
 */
static int gpu_of(const hwloc_obj_t *gpu, int gpus, hwloc_obj_t object)
{
    for (int i = 0; i < gpus; ++i) {
        if (lies_below(object, gpu[i])) {
            return i;
        }
    }
    return -1;
}

/*
 * Reads the matrices of one name from hwloc, and adds the bandwidths in them as links between GPUs. Values that are too
 * large to be correct are ignored, and a name that hwloc does not know is no error.
 */
static void read_bandwidths(const hwloc_t *hwloc, hwloc_topology_t topology, const char *name, const hwloc_obj_t *gpu,
                            synth_machine_t *machine)
{
    struct hwloc_distances_s *matrices[MAX_MATRICES];
    unsigned count = MAX_MATRICES;

    if (hwloc->matrices(topology, name, &count, matrices, 0) != 0) {
        return;
    }
    for (unsigned i = 0; i < count && i < MAX_MATRICES; ++i) {
        struct hwloc_distances_s *matrix = matrices[i];
        const unsigned size = matrix->nbobjs;

        for (unsigned entry = 0; entry < size * size; ++entry) {
            int from = gpu_of(gpu, machine->gpus, matrix->objs[entry / size]);
            int to = gpu_of(gpu, machine->gpus, matrix->objs[entry % size]);

            if (from >= 0 && to >= 0 && from != to && matrix->values[entry] < MAX_MBPS) {
                machine->nvlinks[from][to] = (int)matrix->values[entry]; /* counted as so many links of 1 MB/s each */
            }
        }
        hwloc->release(topology, matrix);
    }
}

/*
 * Asks hwloc for all GPUs and the connections between them. Returns MSCCLPP_ERR_NOT_SUPPORTED, with the reason in
 * `reason`, if there are too few or too many GPUs.
 */
static mscclpp_status_t query_machine(const hwloc_t *hwloc, hwloc_topology_t topology, synth_machine_t *machine,
                                      char *reason, size_t reason_size)
{
    hwloc_obj_t gpu[SYNTH_MAX_RANKS];
    int count = find_gpus(hwloc, topology, gpu, machine);

    if (count < 2 || count > SYNTH_MAX_RANKS) {
        snprintf(reason, reason_size, "hwloc finds %d GPU%s; a topology has 2 to %d", count, count == 1 ? "" : "s",
                 SYNTH_MAX_RANKS);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    machine->gpus = count;
    machine->nvlink_mbps = 1; /* see read_bandwidths */
    snprintf(machine->name, sizeof(machine->name), "this machine");
    for (int i = 0; i < count; ++i) {
        add_hubs_above(gpu, i, machine);
    }
    read_bandwidths(hwloc, topology, "NVLinkBandwidth", gpu, machine);
    read_bandwidths(hwloc, topology, "XGMIBandwidth", gpu, machine);
    return MSCCLPP_OK;
}

/* Loads hwloc at run time, so that the program does not depend on it, and unloads it before it returns. */
mscclpp_status_t synth_discover_hwloc(synth_machine_t *machine, char *reason, size_t reason_size)
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;
    hwloc_topology_t topology = NULL;
    const char *missing = "";
    hwloc_t hwloc;

    if (library == NULL) {
        snprintf(reason, reason_size, "hwloc is not here: %.180s", dlerror());
        return status;
    }
    if (!load_functions(library, &hwloc, &missing)) {
        snprintf(reason, reason_size, "this hwloc has no %s", missing);
    } else if (hwloc.init(&topology) != 0) {
        snprintf(reason, reason_size, "hwloc does not start");
    } else {
        if (hwloc.io_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 && hwloc.load(topology) == 0) {
            status = query_machine(&hwloc, topology, machine, reason, reason_size);
        } else {
            snprintf(reason, reason_size, "hwloc cannot read this machine");
        }
        hwloc.destroy(topology);
    }
    (void)dlclose(library);
    return status;
}

#else

mscclpp_status_t synth_discover_hwloc(synth_machine_t *machine, char *reason, size_t reason_size)
{
    (void)machine;
    snprintf(reason, reason_size, "this tool was built without hwloc.h");
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

#endif
