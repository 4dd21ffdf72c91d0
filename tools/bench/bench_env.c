/* Where the ranks are and what they run on: the runtime, the device of each rank, the communicators, the stream. */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/log.h"

/* Opens the GPU runtime that --device names. "auto" stands for CUDA, or for the host twin where CUDA cannot be used. */
bool bench_env_choose_device(bench_env_t *env, const char *device)
{
    const mscclpp_gpu_ops_t *gpu;
    mscclpp_status_t status = mscclpp_gpu_open(device, &gpu);

    if (MSCCLPP_ERR_NOT_SUPPORTED == status && 0 == strcmp(device, "auto")) {
        status = mscclpp_gpu_open("host", &gpu);
    }
    if (MSCCLPP_OK != status) {
        fprintf(stderr, "%s: --device %s: no such device can be used here\n", bench_program, device);
        return false;
    }
    env->gpu = gpu;
    env->on_twin = 0 == strcmp(gpu->name, "host");
    /* The component reads this when it is opened. A value that the user gave to mpirun stays. */
    setenv("OMPI_MCA_coll_mscclpp_device", gpu->name, 0);
    return true;
}

size_t bench_env_largest(const bench_env_t *env, size_t min)
{
    const size_t largest = (size_t)(env->on_twin ? 1 : 256) << 20; /* 1 MiB or 256 MiB */

    return largest < min ? min : largest;
}

/*
 * Reads the parameters for the host library's own calls from the environment: first OMPI_MCA_coll_mscclpp_<name>, which
 * mpirun sets, then MSCCLPP_<NAME>, which wins and which the component does not read. Does not see parameter files. If
 * a value is not allowed, prints a line and returns false.
 */
static bool load_config(mscclpp_config_t *config)
{
    char name[128];
    bool ok = true;

    mscclpp_config_init(config);
    for (int i = 0; ok && i < mscclpp_param_count; ++i) {
        snprintf(name, sizeof(name), "OMPI_MCA_coll_mscclpp_%s", mscclpp_params[i].name);
        const char *value = getenv(name);
        ok = value == NULL || MSCCLPP_OK == mscclpp_config_set(config, &mscclpp_params[i], value);
    }
    return ok && MSCCLPP_OK == mscclpp_config_from_environment(config);
}

/* Loads the rules file, if there is one. As in the component, a file with an error is reported and not used. */
static void load_rules(bench_env_t *env)
{
    if ('\0' != env->config.rules[0]) {
        (void)mscclpp_rules_read(env->config.rules, &env->rules);
    }
}

/*
 * Selects this rank's device. The devices of a node are dealt out to its ranks in turn. All ranks must call this
 * function, because MPI splits the communicator. On failure prints a line and returns false.
 */
static bool select_device(bench_env_t *env)
{
    int local_rank, count;
    MPI_Comm node;

    MPI_Comm_split_type(env->control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    if (MSCCLPP_OK != env->gpu->probe(&count) || count < 1) {
        fprintf(stderr, "%s: rank %d: no device of kind %s\n", bench_program, env->rank, env->gpu->name);
        return false;
    }
    env->device = local_rank % count;
    return env->on_twin || bench_cuda_select(env->device);
}

/*
 * Creates the stream for the program's own copies and for calls in a stream. On CUDA the program itself makes the
 * stream, so that NCCL and other libraries can use it, too. Returns false on failure, with nothing to free.
 */
static bool create_stream(bench_env_t *env)
{
    if (env->on_twin) {
        return MSCCLPP_OK == env->gpu->stream_create(env->device, &env->stream);
    }
    if (!bench_cuda_stream_create(&env->native_stream)) {
        return false;
    }
    if (MSCCLPP_OK != env->gpu->stream_wrap(env->device, env->native_stream, &env->stream)) {
        bench_cuda_stream_destroy(env->native_stream);
        env->native_stream = NULL;
        return false;
    }
    return true;
}

/*
 * Fills in env->places: tells all ranks the host and the GPU of each rank. Returns false on all ranks, without a line,
 * if a rank cannot query its GPU.
 */
static bool exchange_places(bench_env_t *env)
{
    bench_place_t place;
    mscclpp_gpu_info_t info;

    memset(&place, 0, sizeof(place));
    if (!bench_all(env->control, MSCCLPP_OK == env->gpu->device_info(env->device, &info))) {
        return false;
    }
    gethostname(place.host, sizeof(place.host) - 1);
    snprintf(place.device_name, sizeof(place.device_name), "%s", info.name);
    memcpy(place.uuid, info.uuid, sizeof(place.uuid));
    place.device = env->device;
    place.on_cuda = !env->on_twin;
    place.pid = (long)getpid();
    bench_allgather(env->control, &place, env->places, sizeof(place));
    return true;
}

/* Counts the nodes, and notes whether ranks share a GPU. Ranks whose hosts have the same name are on one node. */
static void study_places(bench_env_t *env)
{
    for (int i = 0; i < env->size; ++i) {
        bool is_first_of_node = true;
        for (int j = 0; j < i; ++j) {
            if (0 == strcmp(env->places[i].host, env->places[j].host)) {
                is_first_of_node = false;
                env->has_shared_gpu |= 0 == memcmp(env->places[i].uuid, env->places[j].uuid, MSCCLPP_GPU_UUID_SIZE);
            }
        }
        env->nodes += is_first_of_node;
    }
}

/*
 * Opens the communicators, this rank's device and its stream, and finds out where all ranks are. The runtime must have
 * been chosen before. All ranks call this function and return the same. After a failure bench_env_close frees what was
 * opened. A rules file that cannot be read is no failure.
 */
bool bench_env_open(bench_env_t *env)
{
    bool on_cuda = !env->on_twin, is_ready;
    uint64_t with_cuda;

    MPI_Comm_dup(MPI_COMM_WORLD, &env->comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &env->control);
    env->ring = MPI_COMM_NULL;
    MPI_Comm_rank(env->control, &env->rank);
    MPI_Comm_size(env->control, &env->size);
    with_cuda = bench_sum(env->control, on_cuda ? 1 : 0);
    if (0 != with_cuda && (uint64_t)env->size != with_cuda) {
        if (0 == env->rank) {
            fprintf(stderr, "%s: %llu of %d ranks have a GPU; use --device host to run without\n", bench_program,
                    (unsigned long long)with_cuda, env->size);
        }
        return false;
    }
    env->places = calloc((size_t)env->size, sizeof(env->places[0]));
    is_ready = env->places != NULL && load_config(&env->config);
    is_ready = select_device(env) && is_ready; /* all ranks call it, also one that has failed */
    if (!bench_all(env->control, is_ready && create_stream(env))) {
        return false;
    }
    if (!bench_all(env->control, MSCCLPP_OK == env->gpu->preload(env->device))) {
        return false;
    }
    load_rules(env);
    if (!exchange_places(env)) {
        return false;
    }
    study_places(env);
    return true;
}

bool bench_env_copy(const bench_env_t *env, void *to, const void *from, size_t bytes)
{
    return 0 == bytes || (MSCCLPP_OK == env->gpu->copy(env->stream, to, from, bytes) &&
                          MSCCLPP_OK == env->gpu->stream_sync(env->stream));
}

/* Frees what bench_env_open has opened, also if it has failed. */
void bench_env_close(bench_env_t *env)
{
    bench_library_close(env);
    if (env->stream != NULL) {
        env->gpu->stream_destroy(env->stream);
        env->stream = NULL;
    }
    bench_cuda_stream_destroy(env->native_stream);
    mscclpp_rules_destroy(env->rules);
    env->rules = NULL;
    free(env->places);
    env->places = NULL;
    if (MPI_COMM_NULL != env->ring) {
        MPI_Comm_free(&env->ring);
    }
    MPI_Comm_free(&env->control);
    MPI_Comm_free(&env->comm);
}
