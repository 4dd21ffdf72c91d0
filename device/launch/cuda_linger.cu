/*
 * The lingering kernel and the clusters of its blocks. The kernel has a file of its own because it is as large as all
 * others together.
 */
#include "device/launch/cuda_linger.h"

#include "device/kern/linger.h"

/* The most devices with clusters. */
#define DEVICES 64

static __global__ void __launch_bounds__(MSCCLPP_DEV_MAX_THREADS, 1)
    linger_kernel(const __grid_constant__ mscclpp_dev_linger_args_t args)
{
    __shared__ mscclpp_dev_linger_block_t block_state;
    mscclpp_dev_ctx_t ctx;

    mscclpp_dev_ctx_init(&ctx);
    mscclpp_dev_linger(&ctx, &args, &block_state);
}

const void *mscclpp_dev_cuda_linger_kernel(void)
{
    return (const void *)linger_kernel;
}

/*
 * Cluster sizes that a lingering kernel can have on each device, one bit for each size. A failed launch clears its bit.
 * Accessed atomically.
 */
static uint32_t cluster_sizes[DEVICES];

/* The largest cluster of any device, in blocks. */
#define MAX_CLUSTER 16u

/* Makes the whole grid of a launch one cluster. `attribute` must last as long as `config`. */
static void make_cluster(cudaLaunchConfig_t *config, cudaLaunchAttribute *attribute)
{
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = config->gridDim.x;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config->attrs = attribute;
    config->numAttrs = 1;
}

/*
 * Returns the cluster sizes that the current device supports, as in cluster_sizes; 0 if there are none. Leaves no error
 * in the runtime. A kernel compiled for an older architecture has none.
 */
static uint32_t find_cluster_sizes(void)
{
    const void *function = (const void *)linger_kernel;
    cudaFuncAttributes attributes;
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = {};
    uint32_t sizes = 0;

    config.blockDim = dim3(MSCCLPP_DEV_MAX_THREADS);
    if (cudaFuncGetAttributes(&attributes, function) != cudaSuccess ||
        cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    for (config.gridDim = dim3(2); config.gridDim.x <= MAX_CLUSTER && attributes.ptxVersion >= 90; ++config.gridDim.x) {
        int clusters = 0;

        make_cluster(&config, &attribute);
        if (cudaOccupancyMaxActiveClusters(&clusters, function, &config) != cudaSuccess) {
            (void)cudaGetLastError();
        } else if (clusters > 0) {
            sizes |= 1u << config.gridDim.x;
        }
    }
    return sizes;
}

/*
 * If the cluster does not start after all, the blocks are launched without one, and clusters of this size are not tried
 * on this device any more.
 */
cudaError_t mscclpp_dev_cuda_launch_lingering(cudaLaunchConfig_t *config, const mscclpp_dev_linger_args_t *args)
{
    const uint32_t size = config->gridDim.x;
    void *parameters[] = {(void *)args};
    cudaLaunchAttribute attribute;
    int device;

    if (args->cluster != 0 && size > 1 && size <= MAX_CLUSTER && cudaGetDevice(&device) == cudaSuccess &&
        device < DEVICES && (__atomic_load_n(&cluster_sizes[device], __ATOMIC_RELAXED) >> size & 1u) != 0) {
        make_cluster(config, &attribute);
        if (cudaLaunchKernelExC(config, (const void *)linger_kernel, parameters) == cudaSuccess) {
            return cudaSuccess;
        }
        (void)cudaGetLastError();
        (void)__atomic_fetch_and(&cluster_sizes[device], ~(1u << size), __ATOMIC_RELAXED);
        config->numAttrs = 0;
    }
    return cudaLaunchKernel((const void *)linger_kernel, config->gridDim, config->blockDim, parameters, 0,
                            config->stream);
}

void mscclpp_dev_cuda_find_clusters(int device)
{
    if (device < DEVICES) {
        __atomic_store_n(&cluster_sizes[device], find_cluster_sizes(), __ATOMIC_RELAXED);
    }
}
