/* Shapes and layouts: within what kernels and scratch can take, for everything they can be asked. */
#include "device/types/nodes.h"
#include "device/types/reduce.h"
#include "mca/common/algo/schedule/schedule.h"
#include "mca/common/algo/shape/engine_plan.h"
#include "mca/common/algo/shape/tiles.h"
#include "mca/common/algo/select.h"
#include "test/unit/select_input.h"
#include "test/unit/unit.h"

/* Results of all checks of a sweep count as one, for there are millions of them; a failure says where. */
typedef struct {
    const mscclpp_select_input_t *input;
    const mscclpp_choice_t *choice;
    const char *algo;
    bool good;
} sweep_t;

static void expect(sweep_t *sweep, bool condition, const char *text)
{
    if (!condition && sweep->good) {
        fprintf(stderr,
                "    %s: %s, %llu bytes, %u ranks, %s, block limit %u, max %ux%u, twin %ux%u, packet half %llu; grid "
                "%ux%u, %llu epochs\n",
                text, sweep->algo, (unsigned long long)sweep->input->bytes, sweep->input->nranks,
                sweep->input->on_twin ? "twin" : "cuda", sweep->input->block_limit, sweep->input->protocol->max_blocks,
                sweep->input->protocol->max_threads, sweep->input->protocol->twin_blocks,
                sweep->input->protocol->twin_threads, (unsigned long long)sweep->input->layout->packet_half,
                sweep->choice->nblocks, sweep->choice->nthreads, (unsigned long long)sweep->choice->epochs);
        sweep->good = false;
    }
}

/* What a kernel relies on (device/kern/), worked out from the choice alone. */
static void check_choice(sweep_t *sweep)
{
    const mscclpp_select_input_t *input = sweep->input;
    const mscclpp_choice_t *choice = sweep->choice;
    const uint64_t n = input->nranks, threads = (uint64_t)choice->nblocks * choice->nthreads;
    const uint64_t units = (input->bytes + 15) / 16, shard = (units + n - 1) / n;
    uint64_t capacity = 0, message = 0, chunk, tile;

    expect(sweep, choice->nblocks >= 1 && choice->nblocks <= MSCCLPP_DEV_MAX_BLOCKS, "number of blocks");
    expect(sweep, choice->nthreads >= 1 && choice->nthreads <= MSCCLPP_DEV_MAX_THREADS, "number of threads");
    if (input->on_twin) {
        expect(sweep, choice->nblocks <= input->protocol->twin_blocks, "more blocks than the twin's grid");
        expect(sweep, choice->nthreads <= input->protocol->twin_threads, "more threads than the twin's grid");
    } else {
        expect(sweep, choice->nthreads % 32 == 0, "no whole warps");
        expect(sweep, choice->nblocks <= input->block_limit, "more blocks than run at once");
        expect(sweep, input->protocol->max_blocks == 0 || choice->nblocks <= input->protocol->max_blocks,
               "more blocks than asked for");
        expect(sweep, input->protocol->max_threads == 0 || choice->nthreads <= input->protocol->max_threads,
               "more threads than asked for");
    }
    switch (choice->kernel) {
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT:
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8:
        capacity = input->layout->packet_half / (n * 32);
        message = units;
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE:
        capacity = input->layout->packet_half / (2 * n * 32);
        message = shard;
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128:
        expect(sweep, input->has_ll128 && input->protocol->packet_width != 16 && input->protocol->packet_width != 8,
               "LL128 unasked");
        /* Warps and bundles take the place of threads and units, and an epoch need not serve all of them. */
        capacity = input->layout->packet_half / (2 * (n == 1 ? 1 : n - 1) * 512);
        message = (shard + 29) / 30;
        expect(sweep, threads / (input->on_twin ? 1 : 32) <= capacity, "more warps than bundles in a slot");
        expect(sweep, choice->epochs == (message + capacity - 1) / capacity, "number of epochs");
        return;
    case MSCCLPP_KERNEL_ALLREDUCE_SCRATCH:
        tile = input->layout->bulk_size / (2 * 16 * (uint64_t)choice->nblocks * n);
        expect(sweep, tile >= 1, "a tile of no unit");
        expect(sweep, choice->nblocks * 2 * n * tile * 16 <= input->layout->bulk_size, "tiles beyond the bulk area");
        expect(sweep, choice->epochs == 0, "epochs without packets");
        return;
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT:
        capacity = MSCCLPP_DEV_PUT_CAPACITY(input->layout->put_size, n);
        expect(sweep, capacity >= 1 && capacity <= 4096, "units of a slot");
        expect(sweep, choice->nblocks <= 64, "more blocks than have slots");
        expect(sweep, (n - 1) * 64 * 4 * capacity * 16 <= input->layout->put_size, "slots beyond the put area");
        expect(sweep, choice->epochs == 0, "epochs without packets");
        return;
    case MSCCLPP_KERNEL_REDUCE_CHUNK:
        expect(sweep, choice->nblocks <= 24 || input->on_twin || input->protocol->max_blocks != 0,
               "more processors than promised");
        expect(sweep, choice->epochs == 0, "epochs without packets");
        return;
    default:
        expect(sweep,
               choice->kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY ||
                   choice->kernel == MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT,
               "which kernel");
        expect(sweep, choice->epochs == 0, "epochs without packets");
        return;
    }
    expect(sweep, threads <= capacity, "more threads than units in a slot");
    chunk = MSCCLPP_DEV_PACKET_CHUNK(message, capacity, threads);
    expect(sweep, chunk >= 1 && chunk <= capacity, "units of an epoch");
    expect(sweep, choice->epochs == (message + chunk - 1) / chunk, "number of epochs");
    expect(sweep, choice->epochs <= 1 || chunk % threads == 0, "threads without a packet in an epoch");
    expect(sweep, choice->epochs < (uint64_t)1 << 32, "flags come round within a call");
}

static bool same(const mscclpp_choice_t *a, const mscclpp_choice_t *b)
{
    return a->algo == b->algo && a->kernel == b->kernel && a->nblocks == b->nblocks && a->nthreads == b->nthreads &&
           a->epochs == b->epochs;
}

/* All bytes up to a few units, then around every power of two up to 2^40. */
static uint64_t next_bytes(uint64_t bytes)
{
    if (bytes < 300) {
        return bytes + 1;
    }
    if ((bytes & (bytes - 1)) == 0) {
        return bytes + 1;
    }
    if (((bytes - 1) & (bytes - 2)) == 0) {
        return (bytes - 1) * 3 / 2;
    }
    while ((bytes & (bytes - 1)) != 0) {
        bytes &= bytes - 1;
    }
    return 2 * bytes;
}

static void sweep_shapes(const mscclpp_protocol_t *protocol, const mscclpp_layout_t *layout, bool on_twin, bool ll128,
                         uint32_t block_limit, bool *good)
{
    mscclpp_select_input_t input;
    mscclpp_choice_t choice, again;
    sweep_t sweep;
    int algo;

    memset(&input, 0, sizeof(input));
    memset(&choice, 0, sizeof(choice));
    memset(&again, 0, sizeof(again));
    input.protocol = protocol;
    input.layout = layout;
    input.on_twin = on_twin;
    input.may_use_engines = true;
    input.has_ll128 = ll128;
    input.block_limit = on_twin ? 0 : block_limit;
    sweep.input = &input;
    sweep.choice = &choice;
    sweep.good = *good;
    for (input.nranks = 1; input.nranks <= MSCCLPP_DEV_MAX_RANKS; ++input.nranks) {
        for (input.bytes = 1; input.bytes <= (uint64_t)1 << 40; input.bytes = next_bytes(input.bytes)) {
            for (algo = 0; algo < mscclpp_algo_count; ++algo) {
                mscclpp_status_t status = mscclpp_select_shape(&input, mscclpp_algos[algo], &choice);

                sweep.algo = mscclpp_algos[algo]->name;
                if (mscclpp_algos[algo]->uses_engines) {
                    mscclpp_engine_plan_t plan;

                    expect(
                        &sweep,
                        (status == MSCCLPP_OK) ==
                            (input.nranks > 1 && mscclpp_engine_make_plan(input.bytes, input.nranks, protocol, &plan)),
                        "engines without a plan, or a plan without engines");
                } else if (mscclpp_algos[algo]->spans_nodes) {
                    expect(&sweep, status != MSCCLPP_OK, "serves one node");
                } else {
                    expect(&sweep, status == MSCCLPP_OK, "does not fit the smallest scratch");
                }
                if (status != MSCCLPP_OK) {
                    continue;
                }
                expect(&sweep, choice.algo == mscclpp_algos[algo], "which algorithm");
                check_choice(&sweep);
                expect(&sweep,
                       mscclpp_select_shape(&input, mscclpp_algos[algo], &again) == MSCCLPP_OK && same(&choice, &again),
                       "another choice the second time");
            }
            sweep.algo = "selected";
            expect(&sweep, mscclpp_select_allreduce(&input, &choice) == MSCCLPP_OK, "nothing is selected");
            check_choice(&sweep);
            expect(&sweep, mscclpp_select_allreduce(&input, &again) == MSCCLPP_OK && same(&choice, &again),
                   "another selection the second time");
        }
    }
    *good = sweep.good;
}

static void test_shapes(void)
{
    static const uint64_t scratch_sizes[] = {1024 * KIB, 1024 * KIB + 12345, 16 * 1024 * KIB};
    static const uint32_t grids[][2] = {{1, 1}, {1, 3}, {4, 8}, {128, 512}, {128, 1024}, {7, 500}};
    static const uint32_t limits[] = {1, 2, 13, 132, 128};
    static const uint32_t maxima[][2] = {{0, 0}, {1, 32}, {128, 1024}, {5, 100}, {0, 64}, {3, 0}};
    static const int32_t widths[] = {0, 8, 16, 128};
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    size_t s, i, k;

    for (s = 0; s < sizeof(scratch_sizes) / sizeof(scratch_sizes[0]); ++s) {
        mscclpp_layout_init(&layout, scratch_sizes[s]);
        for (i = 0; i < sizeof(grids) / sizeof(grids[0]); ++i) {
            bool good = true;

            fill_protocol(&protocol);
            protocol.twin_blocks = grids[i][0];
            protocol.twin_threads = grids[i][1];
            protocol.packet_width = i % 3 == 1 ? 128 : 0;
            sweep_shapes(&protocol, &layout, true, i % 3 != 0, 0, &good);
            CHECK(good);
        }
        for (i = 0; i < sizeof(maxima) / sizeof(maxima[0]); ++i) {
            for (k = 0; k < sizeof(limits) / sizeof(limits[0]); ++k) {
                bool good = true;

                fill_protocol(&protocol);
                protocol.max_blocks = maxima[i][0];
                protocol.max_threads = maxima[i][1];
                protocol.packet_width = widths[(i + k) % 4];
                sweep_shapes(&protocol, &layout, false, i % 2 != 0, limits[k], &good);
                CHECK(good);
            }
        }
    }
}

static void test_layout(void)
{
    uint64_t size;
    bool good = true;

    for (size = 1024 * KIB; size <= 64 * 1024 * KIB && good; size += size / 7 + 1) {
        mscclpp_layout_t layout, between;

        memset(&layout, 0, sizeof(layout));
        mscclpp_layout_init(&layout, size);
        good = layout.packet_half % MSCCLPP_DEV_PACKET_UNIT == 0 && layout.bulk_offset % MSCCLPP_DEV_UNIT == 0 &&
               layout.state_offset % 64 == 0 &&
               MSCCLPP_DEV_LL128_OFFSET(layout.packet_half) >= MSCCLPP_DEV_PACKET_OFFSET + 2 * layout.packet_half &&
               MSCCLPP_DEV_LL128_OFFSET(layout.packet_half) % 128 == 0 && layout.packet_half % 128 == 0 &&
               layout.bulk_offset >= MSCCLPP_DEV_LL128_OFFSET(layout.packet_half) + layout.packet_half &&
               layout.put_offset % 128 == 0 && layout.put_offset >= layout.bulk_offset + layout.bulk_size &&
               layout.state_offset >= layout.put_offset + layout.put_size &&
               layout.total >= layout.state_offset + sizeof(mscclpp_dev_state_t) &&
               /* Barrier words, the area of LL128 and state come on top; the rest is for other data. */
               2 * layout.packet_half + layout.bulk_size <= size &&
               2 * layout.packet_half + layout.bulk_size + 4 * 4096 >= size && layout.put_size <= size &&
               layout.put_size + 4096 >= size;
        /* Over several nodes, the bulk area has what LL128 takes on one node, so that the scratch is as large. */
        mscclpp_layout_init_between(&between, size);
        good = good && between.packet_half == layout.packet_half &&
               between.bulk_offset == MSCCLPP_DEV_PACKET_OFFSET + 2 * between.packet_half &&
               between.bulk_size + 4096 >= size / 4 * 3 && between.put_size == 0 &&
               between.state_offset == between.bulk_offset + between.bulk_size && between.state_offset % 64 == 0 &&
               between.total + layout.put_size <= layout.total + 4096 &&
               mscclpp_layout_packet_bytes(&layout) == 3 * layout.packet_half &&
               mscclpp_layout_packet_bytes(&between) == 2 * between.packet_half;
    }
    CHECK(good);
    if (!good) {
        fprintf(stderr, "    scratch of %llu bytes\n", (unsigned long long)size);
    }
}

/* With packets: blocks, epochs and slots must fit one another. */
static void sweep_packets(sweep_t *sweep)
{
    const mscclpp_select_input_t *input = sweep->input;
    const uint64_t shard = ((input->bytes + 15) / 16 + input->shards - 1) / input->shards;
    uint64_t capacity = input->packet_units, near = input->layout->packet_half / (64 * (uint64_t)input->max_node_ranks);
    uint64_t threads, chunk;
    mscclpp_choice_t choice;

    capacity = input->max_node_ranks > 1 && near < capacity ? near : capacity;
    if (mscclpp_select_shape(input, &mscclpp_algo_allreduce_nodes_packets, &choice) != MSCCLPP_OK) {
        expect(sweep, capacity < (input->on_twin ? 1 : 32), "packets do not fit their slots");
        return;
    }
    threads = (uint64_t)choice.nblocks * choice.nthreads;
    expect(sweep, choice.kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS, "which kernel");
    expect(sweep, choice.nblocks >= 1 && choice.nblocks <= MSCCLPP_DEV_NODES_BLOCKS, "number of blocks");
    expect(sweep, input->on_twin || choice.nblocks <= input->block_limit, "more blocks than run at once");
    expect(sweep, threads <= capacity, "more threads than units of a slot");
    chunk = shard <= capacity ? shard : capacity / threads * threads;
    expect(sweep, chunk >= 1 && choice.epochs == (shard + chunk - 1) / chunk, "number of epochs");
    expect(sweep, shard <= capacity || chunk % choice.nblocks == 0, "blocks with parts of different size");
}

/* By halving: where it serves, a tile has a unit of each part, and all its parts and messages fit a set. */
static void sweep_halving(sweep_t *sweep)
{
    const mscclpp_select_input_t *input = sweep->input;
    mscclpp_schedule_t schedule;
    mscclpp_choice_t choice;
    uint64_t room;

    REQUIRE(
        mscclpp_schedule_init(&schedule, MSCCLPP_SCHEDULE_HALVING, MSCCLPP_SCHEDULE_ALLREDUCE, input->nodes, 0, 0, 0));
    room = MSCCLPP_DEV_NODES_ROOM(MSCCLPP_DEV_NODES_HALVING, input->nodes, input->slot_size, schedule.blocks,
                                  schedule.places);
    expect(sweep, room / schedule.blocks * schedule.places <= (input->nodes + 1) * input->slot_size,
           "the places of messages do not fit a set");
    if (mscclpp_select_shape(input, &mscclpp_algo_allreduce_nodes_halving, &choice) == MSCCLPP_OK) {
        expect(sweep, room >= schedule.blocks * MSCCLPP_DEV_UNIT, "parts of no unit");
        expect(sweep, choice.nblocks >= 1 && choice.nblocks <= MSCCLPP_DEV_NODES_BLOCKS, "number of blocks");
    }
}

/* The shape over several nodes: what the kernel divides must be there for every number of nodes and shards. */
static void sweep_nodes(const mscclpp_protocol_t *protocol, const mscclpp_layout_t *layout, bool on_twin, bool *good)
{
    mscclpp_select_input_t input;
    mscclpp_choice_t choice;
    sweep_t sweep;
    uint32_t pattern;
    uint64_t room, part;

    memset(&input, 0, sizeof(input));
    memset(&choice, 0, sizeof(choice));
    input.protocol = protocol;
    input.layout = layout;
    input.on_twin = on_twin;
    input.block_limit = on_twin ? 0 : 32;
    sweep.input = &input;
    sweep.choice = &choice;
    sweep.good = *good;
    sweep.algo = "nodes";
    for (input.nodes = 2; input.nodes <= MSCCLPP_DEV_MAX_RANKS; ++input.nodes) {
        for (input.shards = 1; input.shards * input.nodes <= MSCCLPP_DEV_MAX_RANKS; ++input.shards) {
            input.nranks = input.shards;
            for (input.bytes = 1; input.bytes <= (uint64_t)1 << 40; input.bytes = next_bytes(input.bytes)) {
                input.slot_size = 16 << input.bytes % 20;
                input.max_node_ranks = input.shards + (uint32_t)(input.bytes % 3);
                input.packet_units = 1 << input.bytes % 14;
                sweep_packets(&sweep);
                input.packet_units = 0;
                expect(&sweep, mscclpp_select_allreduce(&input, &choice) == MSCCLPP_OK, "nothing is selected");
                expect(&sweep, choice.kernel == MSCCLPP_KERNEL_ALLREDUCE_NODES, "which kernel");
                expect(&sweep, choice.nblocks >= 1 && choice.nblocks <= MSCCLPP_DEV_NODES_BLOCKS, "number of blocks");
                for (pattern = MSCCLPP_DEV_NODES_DIRECT; pattern <= MSCCLPP_DEV_NODES_RING; ++pattern) {
                    expect(&sweep,
                           MSCCLPP_DEV_NODES_TILE(
                               layout->bulk_size, choice.nblocks, input.shards,
                               MSCCLPP_DEV_NODES_ROOM(pattern, input.nodes, input.slot_size, 1, 1)) >= 1,
                           "a tile of no unit");
                }
                sweep_halving(&sweep);
                expect(&sweep,
                       2 * MSCCLPP_DEV_NODES_RING_ROOM(input.nodes, input.slot_size) <=
                           (input.nodes + 1) * input.slot_size,
                       "the two areas of a ring do not fit a set");
                room = MSCCLPP_DEV_NODES_SPLIT_ROOM(input.nodes, input.slot_size);
                part = (room / MSCCLPP_DEV_UNIT + input.nodes - 1) / input.nodes * MSCCLPP_DEV_UNIT;
                expect(&sweep, room >= 16 && room + input.nodes * part <= (input.nodes + 1) * input.slot_size,
                       "a split tile and the parts of all nodes do not fit a set");
                expect(&sweep, on_twin || choice.nblocks <= input.block_limit, "more blocks than run at once");
            }
        }
    }
    *good = sweep.good;
}

/* Beyond 4,097 nodes, blocks and nodes together have no more port channels than there may be. */
static void test_channels(void)
{
    static const uint32_t nodes[] = {256, 1000, 4096, 4097, 4098, 9000, 16384};
    mscclpp_protocol_t protocol;
    mscclpp_select_input_t input;
    mscclpp_layout_t layout;
    mscclpp_choice_t choice;
    size_t i;

    mscclpp_layout_init_between(&layout, 16 * 1024 * KIB);
    fill_protocol(&protocol);
    protocol.twin_blocks = 40;
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.on_twin = true;
    input.shards = input.max_node_ranks = input.nranks = 1;
    input.slot_size = 4096;
    input.packet_units = 1024;
    input.bytes = (uint64_t)1 << 20;
    for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); ++i) {
        input.nodes = nodes[i];
        CHECK_EQ(mscclpp_select_shape(&input, &mscclpp_algo_allreduce_nodes, &choice), MSCCLPP_OK);
        CHECK(choice.nblocks >= 1 && choice.nblocks * (nodes[i] - 1) <= MSCCLPP_DEV_PORT_CHANNELS);
        CHECK(choice.nblocks == MSCCLPP_DEV_NODES_BLOCKS || (nodes[i] > 4097 && choice.nblocks >= 4));
        CHECK_EQ(mscclpp_select_shape(&input, &mscclpp_algo_allreduce_nodes_doubling, &choice), MSCCLPP_OK);
        CHECK(choice.nblocks >= 1 && choice.nblocks * (nodes[i] - 1) <= MSCCLPP_DEV_PORT_CHANNELS);
    }
}

/* The line about the choice gives no time for recursive doubling if it has no room, or for 16-bit floats. */
static void test_doubling_told(void)
{
    mscclpp_protocol_t protocol;
    mscclpp_select_input_t input;
    mscclpp_layout_t layout;
    mscclpp_choice_t choice;
    char text[512];
    int i;

    mscclpp_layout_init_between(&layout, 16 * 1024 * KIB);
    fill_protocol(&protocol);
    memset(&input, 0, sizeof(input));
    input.protocol = &protocol;
    input.layout = &layout;
    input.on_twin = true;
    input.shards = input.max_node_ranks = input.nranks = 1;
    input.nodes = 4;
    input.slot_size = 4096;
    input.bytes = (uint64_t)1 << 20;
    for (i = 0; i < 3; ++i) {
        const bool serves = i == 2;

        input.packet_units = i == 0 ? 0 : 1024;
        input.dtype = i == 1 ? MSCCLPP_DTYPE_FLOAT16 : MSCCLPP_DTYPE_FLOAT32;
        REQUIRE(mscclpp_select_allreduce(&input, &choice) == MSCCLPP_OK);
        mscclpp_select_explain(&input, &choice, text, sizeof(text));
        CHECK(strstr(text, ", nodes_doubling ") != NULL);
        CHECK_EQ(strstr(text, ", nodes_doubling inf us") == NULL, serves);
    }
}

static void test_nodes(void)
{
    static const uint64_t scratch_sizes[] = {1024 * KIB, 16 * 1024 * KIB};
    mscclpp_protocol_t protocol;
    mscclpp_layout_t layout;
    size_t s;

    for (s = 0; s < sizeof(scratch_sizes) / sizeof(scratch_sizes[0]); ++s) {
        bool good = true;

        mscclpp_layout_init_between(&layout, scratch_sizes[s]);
        fill_protocol(&protocol);
        protocol.twin_blocks = 40;
        protocol.twin_threads = 3;
        sweep_nodes(&protocol, &layout, true, &good);
        sweep_nodes(&protocol, &layout, false, &good);
        CHECK(good);
    }
}

/* Every byte of a message lies in one chunk of one shard, and all chunks fit the slots there are. */
static void test_plans(void)
{
    static const uint64_t chunks[] = {0, 1, 128, 1000, 65536, 1024 * KIB, 1024 * 1024 * KIB};
    static const uint64_t head = MSCCLPP_DEV_ENGINE_SLOTS;
    static const uint64_t scratches[] = {head, head + 511, head + 512, head + 5000, 192 * 1024 * KIB};
    mscclpp_protocol_t protocol;
    uint32_t nranks;
    uint64_t bytes;
    size_t i, k;

    fill_protocol(&protocol);
    for (i = 0; i < sizeof(chunks) / sizeof(chunks[0]); ++i) {
        for (k = 0; k < sizeof(scratches) / sizeof(scratches[0]); ++k) {
            bool good = true;

            protocol.engine_chunk = chunks[i];
            protocol.engine_scratch = scratches[k];
            for (nranks = 2; nranks <= MSCCLPP_DEV_MAX_RANKS; ++nranks) {
                const uint64_t slots = (uint64_t)(nranks - 1) * MSCCLPP_DEV_ENGINE_DEPTH;
                const uint64_t largest = mscclpp_engine_max_chunk(nranks, &protocol);

                good = good && largest * slots <= scratches[k] - head &&
                       (largest != 0 || (scratches[k] - head) / slots < 128);
                for (bytes = 1; bytes <= (uint64_t)1 << 40; bytes = next_bytes(bytes)) {
                    mscclpp_engine_plan_t plan = {0, 0, 0};

                    if (!mscclpp_engine_make_plan(bytes, nranks, &protocol, &plan)) {
                        good = good && largest == 0;
                        continue;
                    }
                    good = good && plan.shard * nranks >= bytes && plan.shard % 128 == 0 && plan.chunk % 128 == 0 &&
                           plan.chunk >= 128 && plan.chunk <= largest && plan.chunks >= 1 &&
                           plan.chunk * plan.chunks >= plan.shard && plan.chunk * (plan.chunks - 1) < plan.shard;
                }
            }
            CHECK(good);
        }
    }
}

/* No tiles are found for an exchange whose area has no room for one unit of each node. */
static void test_no_room(void)
{
    const mscclpp_tiles_place_t place = {33, 1, .scratch_size = 16 << 20, .exchange_size = 64 << 10};
    const mscclpp_tiles_way_t way = {
        .pattern = -1, .exchange = MSCCLPP_DEV_NODES_HALVING, .parts = 32, .places = 3 * 32};
    mscclpp_tiles_t tiles;

    CHECK(!mscclpp_tiles_find_between(&place, &way, 1 << 20, &tiles));
}

int main(void)
{
    unit_begin();
    test_plans();
    test_layout();
    test_nodes();
    test_channels();
    test_doubling_told();
    test_no_room();
    test_shapes();
    return unit_end();
}
