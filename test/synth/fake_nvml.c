/*
 * Stands for NVIDIA's libnvidia-ml.so.1 in tests. FAKE_NVML says what machine it has: "bridges": four GPUs, two of
 * which each are joined by two NVLinks, on two sockets; "switch": four on an NVSwitch; "pcie": four below two PCIe
 * switches; "lone": as "bridges", but two GPUs have no NVLinks; "one": one GPU; "broken": it does not start; "lost": a
 * GPU does not answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetPciInfo_v3(void *device, void *info);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info);
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width);
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *level);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
#pragma GCC visibility pop

static int devices[4];

static int is(const char *kind)
{
    const char *said = getenv("FAKE_NVML");

    return said != NULL && strcmp(said, kind) == 0;
}

static int number(const void *device)
{
    return (int)((const int *)device - devices);
}

static void name(int gpu, char *info)
{
    snprintf(info + 36, 32, "00000000:%02X:00.0", 0x1a + gpu); /* behind 16 letters and five numbers */
}

int nvmlInit_v2(void)
{
    return is("broken") ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = is("one") ? 1 : 4;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &devices[index];
    return is("lost") && index == 2 ? 15 : 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, void *info)
{
    name(number(device), info);
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
    *active =
        (is("bridges") && link < 2) || (is("lone") && link < 2 && number(device) < 2) || (is("switch") && link < 18);
    return link < 18 ? 0 : 2;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info)
{
    (void)link;
    name(is("switch") ? 40 : number(device) ^ 1, info);
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
    (void)device, (void)link;
    *type = is("switch") ? 2 : 0;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation)
{
    (void)device;
    *generation = 4;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width)
{
    (void)device;
    *width = 16;
    return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *level)
{
    *level = number(a) / 2 == number(b) / 2 ? (is("bridges") || is("lone") ? 40 : 10) : 50;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    (void)device;
    *major = 9;
    *minor = 0;
    return 0;
}
