/*
 * Memory, channels and rooms for kernels of the application (mca/common/user), with the device functions of the
 * installed headers. Ranks are threads, so that ThreadSanitizer sees both sides of each access.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/user/user.h"
#include "mpix/handles.h"
#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/host/faulty_gpu.h"
#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define BLOCKS 2
#define THREADS 2
#define WORDS 37
#define RANKS 3
#define LIMIT 16 /* all-reduces after which packets are cleared */

static parts_options_t options;
static int scale_of_run;

/* A rank's objects. */
typedef struct {
    rank_t *rank;
    mscclpp_team_t *team;
    mscclpp_user_t *user;
    mscclpp_user_memory_t *memory;
    uint64_t *base;
    mpix_memory_t memory_handle;
    int rounds;
    mpix_memory_channel_t channels[RANKS - 1][BLOCKS];
    mpix_port_channel_t ports[RANKS - 1][BLOCKS];
    mpix_room_t room;
    int32_t sums[BLOCKS][2 * WORDS];
    unsigned wrong;
} side_t;

static uint64_t value(uint32_t rank, uint32_t block, int round, uint32_t i)
{
    return rank * UINT64_C(1000003) + block * UINT64_C(10007) + (uint64_t)round * 101 + i;
}

static void wrong(side_t *side, bool is)
{
    if (is) {
        __atomic_fetch_add(&side->wrong, 1, __ATOMIC_RELAXED);
    }
}

/* A block's words that this rank sends, and those that come from a peer. */
static uint32_t out_at(const mpix_group_t *block)
{
    return block->block * WORDS;
}

static uint32_t in_at(const mpix_group_t *block, uint32_t from)
{
    return (BLOCKS * (1 + from) + block->block) * WORDS;
}

static void run(side_t *side, void (*function)(mpix_group_t *block, void *argument))
{
    mpix_host_kernel_t kernel = {function, side, BLOCKS, THREADS, 0};

    mpix_host_run(&kernel);
    CHECK_EQ(kernel.error, 0);
}

/* Each block tells its words to the same block of all peers in each round, by puts or by the peers' gets. */
static void memory_kernel(mpix_group_t *block, void *argument)
{
    side_t *side = argument;
    int round, peer;
    uint32_t i;

    for (round = 0; round < side->rounds; ++round) {
        const bool put = round % 2 == 0;

        for (i = block->index; i < WORDS; i += block->size) {
            side->base[out_at(block) + i] = value((uint32_t)side->rank->rank, block->block, round, i);
        }
        mpix_sync(block);
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            mpix_memory_channel_t *channel = &side->channels[peer][block->block];

            if (put) {
                (void)mpix_put(block, channel, 8 * in_at(block, channel->head.rank), 8 * out_at(block), 8 * WORDS);
            }
            (void)mpix_signal(block, channel);
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            mpix_memory_channel_t *channel = &side->channels[peer][block->block];

            (void)mpix_wait(block, channel);
            if (!put) {
                (void)mpix_get(block, channel, 8 * in_at(block, channel->peer), 8 * out_at(block), 8 * WORDS);
                mpix_sync(block);
            }
            for (i = block->index; i < WORDS; i += block->size) {
                wrong(side, side->base[in_at(block, channel->peer) + (i + 5) % WORDS] !=
                                value(channel->peer, block->block, round, (i + 5) % WORDS));
            }
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            (void)mpix_signal(block, &side->channels[peer][block->block]);
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            (void)mpix_wait(block, &side->channels[peer][block->block]);
        }
    }
    wrong(side, mpix_failed(block) != 0);
}

static void port_kernel(mpix_group_t *block, void *argument)
{
    side_t *side = argument;
    int round, peer;
    uint32_t i;

    for (round = 0; round < side->rounds; ++round) {
        for (i = block->index; i < WORDS; i += block->size) {
            side->base[out_at(block) + i] = value((uint32_t)side->rank->rank, block->block, round, i);
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            mpix_port_channel_t *channel = &side->ports[peer][block->block];

            (void)mpix_port_put_signal_flush(block, channel, 8 * in_at(block, channel->head.rank), 8 * out_at(block),
                                             8 * WORDS);
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            mpix_port_channel_t *channel = &side->ports[peer][block->block];

            (void)mpix_port_wait(block, channel);
            for (i = block->index; i < WORDS; i += block->size) {
                wrong(side,
                      side->base[in_at(block, channel->peer) + i] != value(channel->peer, block->block, round, i));
            }
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            (void)mpix_port_signal(block, &side->ports[peer][block->block]);
        }
        for (peer = 0; peer < side->rank->size - 1; ++peer) {
            (void)mpix_port_wait(block, &side->ports[peer][block->block]);
        }
    }
    wrong(side, mpix_failed(block) != 0);
}

/* All-reduces of changing length, and words of memory that a barrier orders. */
static void room_kernel(mpix_group_t *block, void *argument)
{
    side_t *side = argument;
    const int ranks = side->rank->size;
    int32_t *sums = side->sums[block->block];
    int round, rank;
    uint32_t i;

    for (round = 0; round < side->rounds; ++round) {
        const uint32_t count = 1 + (uint32_t)round * 5 % (2 * WORDS);

        for (i = block->index; i < count; i += block->size) {
            sums[i] = side->rank->rank * 7 + round + (int32_t)i;
        }
        (void)mpix_allreduce_small(block, &side->room, sums, sums, count, MPIX_INT32, MPIX_SUM);
        mpix_sync(block);
        for (i = block->index; i < count; i += block->size) {
            const uint32_t j = (i + 3) % count;

            wrong(side, sums[j] != 7 * ranks * (ranks - 1) / 2 + ranks * (round + (int32_t)j));
        }
        mpix_sync(block);
        if (block->index == block->size - 1) {
            side->base[block->block] = value((uint32_t)side->rank->rank, block->block, round, 0);
        }
        (void)mpix_barrier(block, &side->room);
        for (rank = 0; rank < ranks; ++rank) {
            const char *theirs = mpix_peer_pointer(&side->memory_handle, (uint32_t)rank, 8 * block->block);

            wrong(side, *(const uint64_t *)(const void *)theirs != value((uint32_t)rank, block->block, round, 0));
        }
        (void)mpix_barrier(block, &side->room);
    }
    wrong(side, mpix_failed(block) != 0);
}

/*
 * All-reduces one after the other, to which a rank comes late now and then. Every LIMITth is longer than the others, so
 * that its packets but the first are the next ones to carry its flag: whoever does not clear them reads old ones.
 */
static void late_kernel(mpix_group_t *block, void *argument)
{
    const struct timespec pause = {0, 300000}, long_pause = {0, 5000000};
    side_t *side = argument;
    int32_t *sums = side->sums[block->block];
    int round;
    uint32_t i;

    for (round = 0; round < 8 * side->rounds; ++round) {
        const uint32_t others = round < 4 * side->rounds ? 2 : 1 + (uint32_t)(round * 29) % WORDS;
        const uint32_t count = round % LIMIT == 5 ? 2 * WORDS : others;

        for (i = block->index; i < count; i += block->size) {
            sums[i] = side->rank->rank * 7 + round + (int32_t)i;
        }
        if ((round % 5 == 2 || round % LIMIT == 5) && side->rank->rank == round / 3 % side->rank->size) {
            nanosleep(round % LIMIT == 5 ? &long_pause : &pause, NULL);
        }
        (void)mpix_allreduce_small(block, &side->room, sums, sums, count, MPIX_INT32, MPIX_SUM);
        for (i = block->index; i < count; i += block->size) {
            wrong(side, sums[i] != 7 * side->rank->size * (side->rank->size - 1) / 2 +
                                       side->rank->size * (round + (int32_t)i));
        }
    }
    wrong(side, mpix_failed(block) != 0);
}

static bool open_side(rank_t *rank, side_t *side)
{
    mscclpp_dev_user_memory_t view;

    memset(side, 0, sizeof(*side));
    side->rank = rank;
    side->rounds = 30 * scale_of_run;
    side->team = create_team(rank);
    CHECK_EQ(mscclpp_user_create(side->team, rank->config, &side->user), MSCCLPP_OK);
    CHECK_EQ(mscclpp_user_memory_create(side->user, NULL, 8 * BLOCKS * WORDS * (1 + RANKS), &side->memory), MSCCLPP_OK);
    CHECK_EQ(mscclpp_user_memory_view(side->memory, &view), MSCCLPP_OK);
    mpix_write_memory(MPIX_MSCCLPP_DEVICE_ABI, &view, &side->memory_handle);
    side->base = mscclpp_user_memory_base(side->memory);
    return side->base != NULL;
}

static void close_side(side_t *side)
{
    char text[320] = "";

    CHECK_EQ(mscclpp_user_find_failure(side->user, text, sizeof(text)), MSCCLPP_OK);
    CHECK_EQ(mscclpp_user_memory_free(side->memory), MSCCLPP_OK);
    CHECK_EQ(side->wrong, 0);
    mscclpp_user_end(side->user);
    mscclpp_team_destroy(side->team);
    meet(side->rank);
}

static mscclpp_user_kind_t kind_of(bool is_port)
{
    return is_port ? MSCCLPP_USER_PORT_CHANNELS : MSCCLPP_USER_MEMORY_CHANNELS;
}

static mscclpp_user_channels_t *make_channels(side_t *side, bool is_port)
{
    mscclpp_user_channels_t *channels = NULL;
    mscclpp_dev_user_channel_t view;
    int peers[RANKS], n = 0, i, k;

    for (i = side->rank->size - 1; i >= 0; --i) {
        if (i != side->rank->rank) {
            peers[n++] = i;
        }
    }
    CHECK_EQ(mscclpp_user_channels_create(side->memory, kind_of(is_port), n, peers, BLOCKS, &channels), MSCCLPP_OK);
    for (i = 0; i < n; ++i) {
        for (k = 0; k < BLOCKS; ++k) {
            CHECK_EQ(mscclpp_user_channels_view(channels, i * BLOCKS + k, &view), MSCCLPP_OK);
            CHECK_EQ(view.peer, (uint32_t)peers[i]);
            mpix_write_channel(MPIX_MSCCLPP_DEVICE_ABI, &view,
                               is_port ? (void *)&side->ports[i][k] : (void *)&side->channels[i][k]);
        }
    }
    return channels;
}

static void run_memory(rank_t *rank)
{
    mscclpp_user_channels_t *channels;
    side_t side;

    if (open_side(rank, &side)) {
        channels = make_channels(&side, false);
        run(&side, memory_kernel);
        run(&side, memory_kernel); /* counts go on */
        CHECK_EQ(mscclpp_user_channels_free(channels), MSCCLPP_OK);
    }
    close_side(&side);
}

static void run_ports(rank_t *rank)
{
    mscclpp_user_channels_t *channels;
    side_t side;

    if (open_side(rank, &side)) {
        channels = make_channels(&side, true);
        CHECK_EQ(mscclpp_user_channels_open(channels), MSCCLPP_OK);
        run(&side, port_kernel);
        CHECK_EQ(mscclpp_user_channels_close(channels), MSCCLPP_OK);
        CHECK_EQ(mscclpp_user_channels_open(channels), MSCCLPP_OK);
        run(&side, port_kernel);
        CHECK_EQ(mscclpp_user_channels_close(channels), MSCCLPP_OK);
        CHECK_EQ(mscclpp_user_channels_free(channels), MSCCLPP_OK);
    }
    close_side(&side);
}

static void run_rooms(rank_t *rank)
{
    mscclpp_user_room_t *room = NULL;
    mscclpp_dev_user_room_t view;
    side_t side;

    if (open_side(rank, &side)) {
        CHECK_EQ(mscclpp_user_room_create(side.user, BLOCKS, sizeof(side.sums[0]), &room), MSCCLPP_OK);
        CHECK_EQ(mscclpp_user_room_view(room, &view), MSCCLPP_OK);
        mpix_write_room(MPIX_MSCCLPP_DEVICE_ABI, &view, &side.room);
        run(&side, room_kernel);
        run(&side, late_kernel);
        run(&side, room_kernel);
        CHECK_EQ(mscclpp_user_room_free(room), MSCCLPP_OK);
    }
    close_side(&side);
}

static void with(int scale, void (*body)(rank_t *rank), size_t epoch_limit, int ranks)
{
    mscclpp_config_t config;

    scale_of_run = scale;
    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = options.timeout;
    config.epoch_limit = epoch_limit;
    config.fifo_size = 2;
    config.ucx = false;
    CHECK_EQ(run_ranks(ranks, &config, body, NULL), 0);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
}

static void test_memory(int scale)
{
    with(scale, run_memory, (size_t)1 << 31, 2);
    with(scale, run_memory, (size_t)1 << 31, RANKS);
}

static void test_ports(int scale)
{
    with(scale, run_ports, (size_t)1 << 31, RANKS);
}

static void test_rooms(int scale)
{
    with(scale, run_rooms, LIMIT, RANKS);
    with(scale, run_rooms, (size_t)1 << 31, 2);
}

/* The nth call of one of the GPU runtime's functions fails on one rank while objects are made. */
typedef struct {
    faulty_function_t function;
    int nth;
    bool happened;
    mscclpp_status_t made[RANKS]; /* by rank; MSCCLPP_OK: everything was made */
    int steps[RANKS];             /* that were begun */
} plan_t;

static mscclpp_status_t make_all(side_t *side, plan_t *plan, mscclpp_user_channels_t *channels[2],
                                 mscclpp_user_room_t **room)
{
    const int peers[2] = {(side->rank->rank + 1) % RANKS, (side->rank->rank + 2) % RANKS};
    int *steps = &plan->steps[side->rank->rank], i;
    mscclpp_status_t status = mscclpp_user_create(side->team, side->rank->config, &side->user);

    if (status == MSCCLPP_OK) {
        ++*steps;
        status = mscclpp_user_memory_create(side->user, NULL, 4096, &side->memory);
    }
    for (i = 0; i < 2 && status == MSCCLPP_OK; ++i) {
        ++*steps;
        status = mscclpp_user_channels_create(side->memory, kind_of(i != 0), 2, peers, BLOCKS, &channels[i]);
    }
    if (status == MSCCLPP_OK) {
        ++*steps;
        status = mscclpp_user_room_create(side->user, BLOCKS, 64, room);
    }
    return status;
}

static void run_faults(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_user_channels_t *channels[2] = {NULL, NULL};
    mscclpp_user_room_t *room = NULL;
    side_t side;
    int i;

    memset(&side, 0, sizeof(side));
    rank->gpu = &faulty_gpu_ops;
    side.rank = rank;
    side.team = create_team(rank);
    meet(rank);
    if (rank->rank == 1) {
        faulty_arm(plan->function, plan->nth, MSCCLPP_ERR_DEVICE);
    }
    plan->made[rank->rank] = make_all(&side, plan, channels, &room);
    if (rank->rank == 1) {
        plan->happened = faulty_disarm();
    }
    meet(rank);
    if (room != NULL) {
        CHECK_EQ(mscclpp_user_room_free(room), MSCCLPP_OK);
    }
    for (i = 0; i < 2; ++i) {
        if (channels[i] != NULL) {
            CHECK_EQ(mscclpp_user_channels_free(channels[i]), MSCCLPP_OK);
        }
    }
    if (side.memory != NULL) {
        CHECK_EQ(mscclpp_user_memory_free(side.memory), MSCCLPP_OK);
    }
    mscclpp_user_end(side.user);
    mscclpp_team_destroy(side.team);
    meet(rank);
}

/* All ranks end alike, and nothing is left. */
static bool fail_once(const mscclpp_config_t *config, faulty_function_t function, int nth)
{
    const int before = unit_failed;
    plan_t plan = {.function = function, .nth = nth};
    int rank;

    CHECK_EQ(run_ranks(RANKS, config, run_faults, &plan), 0);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    for (rank = 0; rank < RANKS; ++rank) {
        CHECK_EQ(plan.made[rank], plan.made[0]);
        CHECK_EQ(plan.steps[rank], plan.steps[0]);
    }
    CHECK(plan.happened == (plan.made[1] != MSCCLPP_OK));
    mscclpp_stream_drain();
    CHECK_EQ(faulty_held(), 0);
    if (unit_failed != before) {
        fprintf(stderr, "in call %d of %s\n", nth, faulty_name(function));
    }
    return plan.happened && unit_failed == before;
}

static void test_faults(int scale)
{
    static const faulty_function_t functions[] = {FAULTY_DEVICE_ALLOC, FAULTY_HOST_ALLOC,    FAULTY_EXPORT,
                                                  FAULTY_IMPORT,       FAULTY_STREAM_CREATE, FAULTY_COPY,
                                                  FAULTY_STREAM_SYNC};
    mscclpp_config_t config;
    size_t i;
    int nth, tries;

    (void)scale;
    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    for (i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        /* Ranks of one process share mappings, so it is chance which of them imports memory; it may not be this one. */
        for (tries = 0, nth = 1; nth == 1 && tries < 20; ++tries) {
            while (nth < 50 && fail_once(&config, functions[i], nth)) {
                ++nth;
            }
        }
        CHECK(nth > 1 && nth < 50);
    }
    log_record_clear();
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
}

static const part_t parts[] = {
    {"memory", test_memory}, {"ports", test_ports}, {"rooms", test_rooms}, {"faults", test_faults}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
