/*
 * Mode channel with --coll: measures collectives that an application makes itself. On each rank a kernel of one block
 * exchanges data over channels. A rank that has the blocks of all ranks knows that all have begun the round, so it
 * needs no further message before it uses memory of the round before again.
 */
#include "tools/bench/bench_channel_coll.h"

#include <stdlib.h>
#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_channels.h"
#include "tools/bench/bench_channel_report.h"

#define UNIT_BYTES 16 /* slots begin at multiples of this */

/* One rank's part. */
typedef struct {
    bench_env_t *env;
    const bench_coll_t *coll;
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels; /* memory channels to all other ranks */
    MPIX_Mscclpp_channels ports;    /* port channels to them */
    MPIX_Mscclpp_room room;
    void *handles; /* device memory: the handles of all channels */
    bench_channel_coll_args_t args;
    uint64_t *elapsed_ns; /* args.elapsed_ns at the host's address */
    float *staging;       /* pinned host memory of a slot for each rank */
} part_t;

bool bench_channel_has_coll(const bench_coll_t *coll)
{
    return MSCCLPP_COLL_LAST == coll->coll || MSCCLPP_COLL_ALLGATHER == coll->coll ||
           MSCCLPP_COLL_REDUCE_SCATTER_BLOCK == coll->coll || MSCCLPP_COLL_ALLTOALL == coll->coll;
}

/* Returns how many floats a block has, if the whole buffer has `bytes` bytes. */
static size_t block_floats(const part_t *part, size_t bytes)
{
    const size_t count = bench_layout_max_count(part->coll, part->env->size, bytes, sizeof(float));

    return BENCH_WHOLE == part->coll->blocks ? count : count / (size_t)part->env->size;
}

/* Copies the handles of both kinds of channels to device memory, and puts their addresses into the arguments. */
static bool copy_handles(part_t *part)
{
    const size_t peers = (size_t)part->env->size - 1;
    const size_t memory_bytes = peers * sizeof(mpix_memory_channel_t), port_bytes = peers * sizeof(mpix_port_channel_t);
    mpix_memory_channel_t *memory = malloc(memory_bytes);
    mpix_port_channel_t *ports = malloc(port_bytes);
    bool ok = memory != NULL && ports != NULL &&
              bench_channel_succeeded(
                  "MPIX_Mscclpp_channels_get_device",
                  MPIX_Mscclpp_channels_get_device(part->channels, MPIX_MSCCLPP_DEVICE_ABI, memory, sizeof(*memory))) &&
              bench_channel_succeeded(
                  "MPIX_Mscclpp_channels_get_device",
                  MPIX_Mscclpp_channels_get_device(part->ports, MPIX_MSCCLPP_DEVICE_ABI, ports, sizeof(*ports))) &&
              MSCCLPP_OK == part->env->gpu->device_alloc(part->env->device, memory_bytes + port_bytes, &part->handles);

    if (ok) {
        char *port_handles = (char *)part->handles + memory_bytes;

        part->args.memory = part->handles;
        part->args.ports = (const mpix_port_channel_t *)(const void *)port_handles;
        ok = bench_env_copy(part->env, part->handles, memory, memory_bytes) &&
             bench_env_copy(part->env, port_handles, ports, port_bytes);
    }
    free(memory);
    free(ports);
    return ok;
}

/*
 * Makes memory, channels to all other ranks, and a room, for blocks of up to `floats` floats. All ranks return the
 * same. After a failure nothing is freed, because the program ends.
 */
static bool open_part(part_t *part, size_t floats)
{
    bench_env_t *env = part->env;
    const size_t slot_bytes = (floats * sizeof(float) + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    const MPI_Aint bytes = (MPI_Aint)(bench_channel_slot_count((mpix_u32)env->size) * slot_bytes);
    int *peers = malloc((size_t)env->size * sizeof(int));
    void *base, *host, *device;
    bool ok = peers != NULL;

    for (int i = 0; ok && i < env->size - 1; ++i) {
        peers[i] = i < env->rank ? i : i + 1;
    }
    ok = bench_all(env->control, ok) &&
         bench_channel_succeeded("MPIX_Mscclpp_memory_alloc",
                                 MPIX_Mscclpp_memory_alloc(env->comm, bytes, &base, &part->memory)) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_create",
                                 MPIX_Mscclpp_channels_create(part->memory, MPIX_MSCCLPP_CHANNEL_MEMORY, env->size - 1,
                                                              peers, 1, &part->channels)) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_create",
                                 MPIX_Mscclpp_channels_create(part->memory, MPIX_MSCCLPP_CHANNEL_PORT, env->size - 1,
                                                              peers, 1, &part->ports)) &&
         bench_channel_succeeded("MPIX_Mscclpp_room_create",
                                 MPIX_Mscclpp_room_create(env->comm, 1, (MPI_Aint)slot_bytes, &part->room));
    free(peers);
    if (!bench_all(env->control, ok)) {
        return false;
    }
    ok = copy_handles(part) &&
         bench_channel_succeeded("MPIX_Mscclpp_room_get_device",
                                 MPIX_Mscclpp_room_get_device(part->room, MPIX_MSCCLPP_DEVICE_ABI, &part->args.room,
                                                              sizeof(part->args.room))) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_open", MPIX_Mscclpp_channels_open(part->ports)) &&
         MSCCLPP_OK == env->gpu->host_alloc(UNIT_BYTES + (size_t)env->size * slot_bytes, &host, &device);
    if (ok) {
        part->elapsed_ns = host;
        part->staging = (float *)(void *)((char *)host + UNIT_BYTES);
        part->args.elapsed_ns = device;
    }
    part->args.rank = (mpix_u32)env->rank;
    part->args.ranks = (mpix_u32)env->size;
    part->args.sends_same = BENCH_WHOLE == part->coll->blocks || BENCH_GATHERS == part->coll->blocks;
    part->args.combines = part->coll->reduces;
    part->args.slot_bytes = slot_bytes;
    part->args.base = base;
    return bench_all(env->control, ok);
}

/* Frees what open_part has made: channels before the memory that they refer to. All ranks call it. */
static void close_part(part_t *part)
{
    (void)MPIX_Mscclpp_channels_close(part->ports);
    (void)MPIX_Mscclpp_room_free(&part->room);
    (void)MPIX_Mscclpp_channels_free(&part->ports);
    (void)MPIX_Mscclpp_channels_free(&part->channels);
    (void)MPIX_Mscclpp_memory_free(&part->memory);
    part->env->gpu->device_free(part->env->device, part->handles);
    part->env->gpu->host_free(part->elapsed_ns);
}

/* Runs the kernel in one thread of the host twin, as mpix_host_run calls it. */
static void run_twin(mpix_group_t *block, void *args)
{
    bench_channel_coll_body(block, args);
}

/*
 * Makes `rounds` calls in one kernel, after all ranks are ready. Returns the seconds that a call takes on the slowest
 * rank. If the kernel fails on a rank, ends the program, because the others would wait forever.
 */
static double time_rounds(part_t *part, int way, int rounds)
{
    mpix_host_kernel_t kernel = {.function = run_twin, .argument = &part->args, .blocks = 1, .threads = 1};
    int code;

    bench_all(part->env->control, true); /* a barrier */
    part->args.way = (mpix_u32)way;
    part->args.rounds = (mpix_u32)rounds;
    __atomic_store_n(part->elapsed_ns, 0, __ATOMIC_RELAXED);
    if (part->env->on_twin) {
        mpix_host_run(&kernel);
        code = kernel.error;
    } else {
#if MSCCLPP_HAVE_CUDA
        code =
            bench_channel_coll_launch(part->env->native_stream, bench_channel_threads(part->args.bytes), &part->args);
#else
        code = -1;
#endif
    }
    if (!bench_channel_wait(part->env, code, part->elapsed_ns)) {
        MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
    }
    part->args.last_flag += (mpix_u32)rounds + 1; /* the kernel makes one call more, which is not timed */
    return bench_max(part->env->control, 1e-9 * (double)*part->elapsed_ns / rounds);
}

/* Returns float `i` of a block that a rank sends. They are small integers, so that sums are exact in any order. */
static float content(int from, int block, int seed, size_t i)
{
    return (float)((size_t)(from * 31 + block * 11 + seed * 7) % 61 + i % 67);
}

/* Returns the number of the block that a rank sends to rank `to`. All get block 0 where ranks have one block. */
static int block_for(const part_t *part, int to)
{
    return part->args.sends_same ? 0 : to;
}

/* Fills the outgoing blocks, and overwrites what may come, so that an earlier result does not pass for this one. */
static bool fill(const part_t *part, int seed)
{
    const int size = part->env->size;
    const size_t slot_floats = part->args.slot_bytes / sizeof(float);
    const size_t outgoing_bytes = (size_t)size * part->args.slot_bytes;
    bool ok;

    memset(part->staging, 0xff, outgoing_bytes);
    ok = bench_env_copy(part->env, part->args.base + bench_channel_result_offset(&part->args), part->staging,
                        part->args.slot_bytes);
    for (mpix_u32 turn = 0; turn < 2; ++turn) {
        ok = ok && bench_env_copy(part->env, part->args.base + bench_channel_incoming_offset(&part->args, turn, 0),
                                  part->staging, outgoing_bytes);
    }
    for (int to = 0; to < size; ++to) {
        for (size_t i = 0; i < part->args.bytes / sizeof(float); ++i) {
            part->staging[(size_t)to * slot_floats + i] = content(part->env->rank, block_for(part, to), seed, i);
        }
    }
    return ok && bench_env_copy(part->env, part->args.base, part->staging, outgoing_bytes);
}

/* Returns how many floats of this rank's result are wrong after the last call; all of them if they cannot be copied. */
static uint64_t count_wrong(const part_t *part, int seed)
{
    const int size = part->env->size, block = block_for(part, part->env->rank);
    const size_t floats = part->args.bytes / sizeof(float), slot_floats = part->args.slot_bytes / sizeof(float);
    const mpix_u64 result_offset = part->args.combines
                                       ? bench_channel_result_offset(&part->args)
                                       : bench_channel_incoming_offset(&part->args, part->args.last_flag & 1, 0);
    const bool ok = bench_env_copy(part->env, part->staging, part->args.base + result_offset,
                                   (part->args.combines ? 1 : (size_t)size) * part->args.slot_bytes);
    uint64_t wrong = 0;

    for (size_t i = 0; i < floats; ++i) {
        float sum = 0;

        for (int from = 0; from < size; ++from) {
            sum += content(from, block, seed, i);
            if (!part->args.combines) {
                wrong += !ok || part->staging[(size_t)from * slot_floats + i] != content(from, block, seed, i);
            }
        }
        if (part->args.combines) {
            wrong += !ok || part->staging[i] != sum;
        }
    }
    return wrong;
}

/* Verifies a size in each way, as often as the options say. Returns the number of wrong floats on all ranks. */
static uint64_t check_size(part_t *part, const bench_options_t *options)
{
    uint64_t wrong = 0;

    for (int seed = 0; seed < BENCH_CHANNEL_WAYS * options->checks; ++seed) {
        const bool is_filled = fill(part, seed);

        time_rounds(part, seed % BENCH_CHANNEL_WAYS, 1);
        wrong += is_filled ? count_wrong(part, seed) : part->args.bytes / sizeof(float);
    }
    return bench_sum(part->env->control, wrong);
}

/* Verifies and measures one size in each way. The ways take turns, so that a drift of the machine affects all. */
static void measure_size(part_t *part, const bench_options_t *options, bench_channel_row_t *row)
{
    row->wrong = check_size(part, options);
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        if (options->warmup > 0) {
            time_rounds(part, way, options->warmup);
        }
        row->rounds[way] = bench_channel_rounds(options, time_rounds(part, way, BENCH_CHANNEL_MIN_ROUNDS));
    }
    for (int i = 0; i < options->rounds; ++i) {
        for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
            bench_times_t *times = &row->times[way];

            times->seconds[times->rounds++] = time_rounds(part, way, row->rounds[way]);
        }
    }
}

bool bench_channel_measure_coll(bench_env_t *env, const bench_options_t *options, const bench_coll_t *coll,
                                bench_report_t *report, uint64_t *wrong_p)
{
    part_t part = {.env = env, .coll = coll};
    size_t previous = 0;

    if (!open_part(&part, block_floats(&part, options->max_bytes) + 1)) {
        return false;
    }
    bench_channel_report_header(report, coll);
    for (double size = (double)options->min_bytes; size <= (double)options->max_bytes; size *= options->factor) {
        bench_channel_row_t row = {.bytes = 0};

        part.args.bytes = block_floats(&part, (size_t)size) * sizeof(float);
        row.bytes = part.args.bytes * (BENCH_WHOLE == coll->blocks ? 1 : (size_t)env->size);
        if (row.bytes != previous && row.bytes > 0) {
            measure_size(&part, options, &row);
            bench_channel_report_row(report, coll, &row);
            *wrong_p += row.wrong;
        }
        previous = row.bytes;
    }
    close_part(&part);
    return true;
}
