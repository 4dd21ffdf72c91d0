/*
 * Asks NVML for the GPUs of this machine. The library is opened at run time, so that the tool also runs on machines
 * without it.
 */
#include "tools/synth/lib/discover.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/synth/lib/machine.h"

enum { MAX_LINKS = 36 }; /* NVLinks of a GPU */

/*
 * Values of NVML: kinds of devices at the far end of an NVLink, and levels of the closest common ancestor of two GPUs.
 */
enum { TO_GPU = 0, TO_SWITCH = 2 };
enum { SINGLE = 10, MULTIPLE = 20, HOST = 30, NODE = 40, LEVELS = 4 /* how many of them */ };

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_info_t; /* the layout is that of NVML */

typedef void *device_t;

/* The functions of NVML that are used. All but `error` return 0, or an error code. */
typedef struct {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int code);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, device_t *device);
    int (*pci)(device_t device, pci_info_t *info);
    int (*state)(device_t device, unsigned link, unsigned *active);
    int (*remote)(device_t device, unsigned link, pci_info_t *info);
    int (*remote_type)(device_t device, unsigned link, unsigned *type); /* NULL with old drivers */
    int (*generation)(device_t device, unsigned *generation);
    int (*width)(device_t device, unsigned *width);
    int (*ancestor)(device_t a, device_t b, unsigned *level);
    int (*capability)(device_t device, int *major, int *minor);
} nvml_t;

/*
 * Looks up all functions. The pointer of a missing optional function becomes NULL. If a required function is missing,
 * stores its name in *missing and returns false.
 */
static bool load_functions(void *library, nvml_t *nvml, const char **missing)
{
    struct {
        const char *name;
        void **function_p;
        bool is_optional;
    } functions[] = {{"nvmlInit_v2", (void **)&nvml->init, false},
                     {"nvmlShutdown", (void **)&nvml->shutdown, false},
                     {"nvmlErrorString", (void **)&nvml->error, false},
                     {"nvmlDeviceGetCount_v2", (void **)&nvml->count, false},
                     {"nvmlDeviceGetHandleByIndex_v2", (void **)&nvml->handle, false},
                     {"nvmlDeviceGetPciInfo_v3", (void **)&nvml->pci, false},
                     {"nvmlDeviceGetNvLinkState", (void **)&nvml->state, false},
                     {"nvmlDeviceGetNvLinkRemotePciInfo_v2", (void **)&nvml->remote, false},
                     {"nvmlDeviceGetNvLinkRemoteDeviceType", (void **)&nvml->remote_type, true},
                     {"nvmlDeviceGetMaxPcieLinkGeneration", (void **)&nvml->generation, false},
                     {"nvmlDeviceGetMaxPcieLinkWidth", (void **)&nvml->width, false},
                     {"nvmlDeviceGetTopologyCommonAncestor", (void **)&nvml->ancestor, false},
                     {"nvmlDeviceGetCudaComputeCapability", (void **)&nvml->capability, false}};

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        *functions[i].function_p = dlsym(library, functions[i].name);
        if (*functions[i].function_p == NULL && !functions[i].is_optional) {
            *missing = functions[i].name;
            return false;
        }
    }
    return true;
}

/* Returns the MB/s of a PCIe port in one direction; 0 if the generation or width is unknown. */
static int pcie_mbps_of(unsigned generation, unsigned width)
{
    static const int lane_mbps[] = {0, 250, 500, 1000, 2000, 4000, 8000};

    return generation < sizeof(lane_mbps) / sizeof(lane_mbps[0]) && width <= 32 ? lane_mbps[generation] * (int)width
                                                                                : 0;
}

/*
 * Counts the active NVLinks of a GPU to each other GPU and to switches. A link is ignored if NVML does not report the
 * device at its far end.
 */
static void count_nvlinks(const nvml_t *nvml, device_t device, int gpu, const pci_info_t *pci, synth_machine_t *machine)
{
    for (unsigned link = 0; link < MAX_LINKS; ++link) {
        unsigned active = 0, type = TO_GPU;
        pci_info_t remote;
        int peer = -1;

        memset(&remote, 0, sizeof(remote));
        if (nvml->state(device, link, &active) != 0 || active == 0) {
            continue;
        }
        if (nvml->remote_type != NULL && nvml->remote_type(device, link, &type) == 0 && type == TO_SWITCH) {
            ++machine->to_switch[gpu];
            continue;
        }
        if (nvml->remote(device, link, &remote) != 0) {
            continue;
        }
        for (int i = 0; i < machine->gpus; ++i) {
            peer = strcasecmp(pci[i].bus_id, remote.bus_id) == 0 ? i : peer;
        }
        if (peer >= 0 && peer != gpu) {
            ++machine->nvlinks[gpu][peer];
        }
    }
}

/*
 * Adds the hubs of the PCIe tree. At each level, a hub connects the GPUs whose closest common ancestor is at that level
 * or at a closer one. Every GPU of a hub adds the hub, and synth_machine_add_hub keeps only one of them. The machine
 * has room for a hub of each GPU at each level, so adding does not fail. A hub above all GPUs is left out. NVML does
 * not report how fast a hub is, so a hub counts as being as fast as the fastest port below it.
 */
static void add_hubs(const nvml_t *nvml, device_t *device, synth_machine_t *machine)
{
    static const struct {
        unsigned level;
        const char *name;
    } levels[LEVELS] = {
        {SINGLE, "PCIe switch of"}, {MULTIPLE, "PCIe switches of"}, {HOST, "host bridge of"}, {NODE, "socket of"}};
    uint64_t all_gpus = UINT64_MAX >> (64 - machine->gpus);

    for (int i = 0; i < LEVELS; ++i) {
        for (int gpu = 0; gpu < machine->gpus; ++gpu) {
            uint64_t below = UINT64_C(1) << gpu;
            int mbps = machine->pcie_mbps[gpu];
            char name[SYNTH_NAME];

            for (int other = 0; other < machine->gpus; ++other) {
                unsigned level = 0;

                if (other != gpu && nvml->ancestor(device[gpu], device[other], &level) == 0 &&
                    level <= levels[i].level) {
                    below |= UINT64_C(1) << other;
                    mbps = machine->pcie_mbps[other] > mbps ? machine->pcie_mbps[other] : mbps;
                }
            }
            snprintf(name, sizeof(name), "%s %d", levels[i].name, gpu);
            if (below != all_gpus && mbps > 0) {
                synth_machine_add_hub(machine, name, below, mbps);
            }
        }
    }
}

/*
 * Asks NVML for all GPUs and the connections between them. Returns MSCCLPP_ERR_NOT_SUPPORTED, with a text in `reason`,
 * if there are too few or too many GPUs. The status is the same if NVML does not report their number, or an address.
 * Anything else that NVML does not report counts as unknown: such NVLinks and hubs are left out.
 */
static mscclpp_status_t query_machine(const nvml_t *nvml, synth_machine_t *machine, char *reason, size_t reason_size)
{
    device_t device[SYNTH_MAX_RANKS];
    pci_info_t pci[SYNTH_MAX_RANKS];
    unsigned count = 0;
    int code = nvml->count(&count), major = 0, minor = 0;

    if (code == 0 && (count < 2 || count > SYNTH_MAX_RANKS)) {
        snprintf(reason, reason_size, "this machine has %u GPU%s; a topology has 2 to %d", count, count == 1 ? "" : "s",
                 SYNTH_MAX_RANKS);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memset(pci, 0, sizeof(pci));
    for (unsigned i = 0; code == 0 && i < count; ++i) {
        unsigned generation = 0, width = 0;

        code = nvml->handle(i, &device[i]);
        code = code == 0 ? nvml->pci(device[i], &pci[i]) : code;
        if (code == 0) { /* NVML writes eight digits of the domain, CUDA four */
            size_t length = strnlen(pci[i].bus_id, sizeof(pci[i].bus_id));

            snprintf(machine->gpu[i], SYNTH_GPU, "%.23s", pci[i].bus_id + (length == 16 ? 4 : 0));
        }
        if (code == 0 && nvml->generation(device[i], &generation) == 0 && nvml->width(device[i], &width) == 0) {
            machine->pcie_mbps[i] = pcie_mbps_of(generation, width);
        }
    }
    if (code != 0) {
        snprintf(reason, reason_size, "NVML says: %.150s", nvml->error(code));
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    machine->gpus = (int)count;
    (void)nvml->capability(device[0], &major, &minor);
    /* By compute capability: 10 and above, 50 GB/s; Pascal, 20 GB/s; all others, and unknown ones, 25 GB/s. */
    machine->nvlink_mbps = major >= 10 ? 50000 : major > 0 && major < 7 ? 20000 : 25000;
    snprintf(machine->name, sizeof(machine->name), "this machine");
    for (int i = 0; i < machine->gpus; ++i) {
        count_nvlinks(nvml, device[i], i, pci, machine);
    }
    add_hubs(nvml, device, machine);
    return MSCCLPP_OK;
}

/* Asks hwloc if NVML cannot be opened. If both fail, the reason names both failures. */
mscclpp_status_t synth_discover(char *reason, size_t reason_size, synth_topology_t **topology_p)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    synth_machine_t *machine = calloc(1, sizeof(*machine));
    mscclpp_status_t status = machine != NULL ? MSCCLPP_ERR_NOT_SUPPORTED : MSCCLPP_ERR_NO_MEMORY;
    const char *missing = "";
    nvml_t nvml;
    int code;

    if (library == NULL) {
        const char *error = dlerror();
        char driver[110], hwloc[128] = "no memory";

        /* The text is copied, since the dlopen of hwloc replaces the text of dlerror. */
        snprintf(driver, sizeof(driver), "%s", error != NULL ? error : "");
        status = machine != NULL ? synth_discover_hwloc(machine, hwloc, sizeof(hwloc)) : status;
        if (status != MSCCLPP_OK) {
            snprintf(reason, reason_size, "NVIDIA's driver is not here: %s; %s", driver, hwloc);
        }
    } else if (!load_functions(library, &nvml, &missing)) {
        snprintf(reason, reason_size, "NVML of this driver has no %s", missing);
    } else if ((code = nvml.init()) != 0) {
        snprintf(reason, reason_size, "NVML does not start: %.150s", nvml.error(code));
    } else {
        status = machine != NULL ? query_machine(&nvml, machine, reason, reason_size) : status;
        (void)nvml.shutdown();
    }
    if (status == MSCCLPP_OK) {
        status = synth_machine_topology(machine, reason, reason_size, topology_p);
    }
    if (library != NULL) {
        (void)dlclose(library);
    }
    free(machine);
    return status;
}
