/* What is chosen on one node for the collectives other than all-reduce (mca/common/algo/coll.c). */
#include "test/unit/coll_input.h"

/* Small blocks, then middle ones, then large ones; each limit is on what a rank sends to all others together. */
static void test_sizes(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
            const mscclpp_select_input_t input = gpus(ranks);
            const uint64_t peers = ranks - 1, engine_min = ranks == 2 ? 8 * MIB : 16 * MIB;
            const bool puts = !moves(coll) && ranks == 2;
            const uint64_t packets_max = puts ? 384 * KIB : MIB;
            const int middle = puts ? SERVED(MSCCLPP_COLL_BY_PUTS) : SERVED(MSCCLPP_COLL_BY_ZEROCOPY);
            const int large = moves(coll) ? SERVED(MSCCLPP_COLL_BY_ENGINES) : middle;

            CHECK_EQ(choose(&input, coll, 1, true), MSCCLPP_COLL_BY_PACKETS);
            CHECK_EQ(choose(&input, coll, packets_max / peers, true), MSCCLPP_COLL_BY_PACKETS);
            CHECK_EQ(choose(&input, coll, packets_max / peers + 1, true), middle);
            CHECK_EQ(choose(&input, coll, (engine_min - 1) / peers, true), middle);
            CHECK_EQ(choose(&input, coll, (engine_min + peers - 1) / peers, true), large);
            CHECK_EQ(choose(&input, coll, UINT64_MAX / 2, true), large); /* what all send overflows 64 bits */
        }
    }
}

/* Puts serve what would go in tiles between 2 GPUs, and what a queued call on mapped buffers combines up to 8 MiB. */
static void test_puts(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        mscclpp_select_input_t input = gpus(2);

        CHECK_EQ(choose(&input, coll, 4 * MIB, false), MSCCLPP_COLL_BY_PUTS);
        CHECK_EQ(choose(&input, coll, 64 * MIB, false), MSCCLPP_COLL_BY_PUTS);
        input.is_queued = true;
        input.may_use_engines = false;
        CHECK_EQ(choose(&input, coll, 8 * MIB, true), moves(coll) ? MSCCLPP_COLL_BY_ZEROCOPY : MSCCLPP_COLL_BY_PUTS);
        CHECK_EQ(choose(&input, coll, 8 * MIB + 1, true), MSCCLPP_COLL_BY_ZEROCOPY);
        CHECK_EQ(choose(&input, coll, 8 * MIB + 1, false), MSCCLPP_COLL_BY_PUTS);
        /* The slots are too small. */
        input = gpus(2);
        mscclpp_layout_divide(&layout, 16 * KIB, 8 * KIB, 4 * KIB);
        CHECK_EQ(choose(&input, coll, 4 * MIB, false), MSCCLPP_COLL_BY_SCRATCH);
        CHECK_EQ(choose(&input, coll, 4 * MIB, true), MSCCLPP_COLL_BY_ZEROCOPY);
        /* Neither ranks that share a GPU nor more ranks use them by themselves. */
        input = gpus(2);
        input.is_one_gpu = true;
        CHECK_EQ(choose(&input, coll, 4 * MIB, false), MSCCLPP_COLL_BY_SCRATCH);
        input = gpus(3);
        CHECK_EQ(choose(&input, coll, 4 * MIB, false), MSCCLPP_COLL_BY_SCRATCH);
    }
}

/* Each condition takes away one algorithm, and the next one serves. */
static void test_conditions(void)
{
    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        mscclpp_select_input_t input = gpus(4);

        CHECK_EQ(choose(&input, coll, 64 * MIB, false), MSCCLPP_COLL_BY_SCRATCH); /* buffers cannot be mapped */
        protocol.zerocopy = 0;
        CHECK_EQ(choose(&input, coll, 64 * MIB, true), MSCCLPP_COLL_BY_SCRATCH);
        CHECK_EQ(choose(&input, coll, 100, true), MSCCLPP_COLL_BY_PACKETS);
        input = gpus(4);
        input.may_use_engines = false;
        CHECK_EQ(choose(&input, coll, 64 * MIB, true), MSCCLPP_COLL_BY_ZEROCOPY);
        /* A slot that does not hold the block. */
        input = gpus(4);
        mscclpp_layout_init(&layout, 64 * KIB);
        CHECK_EQ(choose(&input, coll, 2 * KIB, true), MSCCLPP_COLL_BY_PACKETS);
        CHECK_EQ(choose(&input, coll, 2 * KIB + 1, true), MSCCLPP_COLL_BY_ZEROCOPY);
        CHECK_EQ(choose(&input, coll, 2 * KIB + 1, false), MSCCLPP_COLL_BY_SCRATCH);
        /* The twin has no engines that are worth it. */
        input = gpus(2);
        input.on_twin = true;
        input.block_limit = 0;
        CHECK_EQ(choose(&input, coll, 256, true), MSCCLPP_COLL_BY_PACKETS);
        CHECK_EQ(choose(&input, coll, 257, true), MSCCLPP_COLL_BY_ZEROCOPY);
        CHECK_EQ(choose(&input, coll, 1024 * MIB, true), MSCCLPP_COLL_BY_ZEROCOPY);
    }
}

static void test_forced(void)
{
    static const char *const names[] = {"packets", "zerocopy", "engines", "scratch", "puts"};

    for (int coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        for (int i = 0; i < MSCCLPP_COLL_BY_LAST; ++i) {
            mscclpp_select_input_t input = gpus(4);
            const bool none = !moves(coll) && i == MSCCLPP_COLL_BY_ENGINES;

            CHECK_TEXT(mscclpp_coll_algo_name((mscclpp_coll_algo_t)i), names[i]);
            CHECK_EQ(mscclpp_coll_algo_find(names[i]), i);
            protocol.coll_algorithm[coll] = i;
            CHECK_EQ(choose(&input, coll, 4096, true), none ? SERVED(MSCCLPP_COLL_BY_ZEROCOPY) : i);
            /* The others are as before. */
            CHECK_EQ(choose(&input, (coll + 1) % MSCCLPP_COLL_LAST, 4096, true), MSCCLPP_COLL_BY_PACKETS);
            /* An algorithm of its own wins over the staging of everything. */
            protocol.algorithm = MSCCLPP_ALGO_STAGE;
            CHECK_EQ(choose(&input, coll, 4096, true), none ? SERVED(MSCCLPP_COLL_BY_ZEROCOPY) : i);
            CHECK_EQ(choose(&input, (coll + 1) % MSCCLPP_COLL_LAST, 4096, true), REFUSED);
        }
        {
            mscclpp_select_input_t input = gpus(4);

            protocol.coll_algorithm[coll] = mscclpp_coll_algo_find("stage");
            CHECK_EQ(choose(&input, coll, 4096, true), REFUSED);
        }
    }
    CHECK_EQ(mscclpp_coll_algo_find("auto"), MSCCLPP_ALGO_AUTO);
}

int main(void)
{
    unit_begin();
    test_sizes();
    test_puts();
    test_conditions();
    test_forced();
    return unit_end();
}
