/* Packets: what counts as arrived, in either width, and that a wait for one ends. */
#include "device/lib/packet.h"

#include <pthread.h>

#include "test/unit/unit.h"

/* A row of one unit. */
#define PAIR MSCCLPP_DEV_PACKET_STEP

static mscclpp_dev_vec_t vec(uint32_t seed)
{
    mscclpp_dev_vec_t v;
    int i;

    for (i = 0; i < 4; ++i) {
        v.w[i] = seed * 2654435761u + (uint32_t)i * 40503u;
    }
    return v;
}

static bool equal(mscclpp_dev_vec_t a, mscclpp_dev_vec_t b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Half a unit is none: whichever of its 8-byte parts is old or missing, nothing has arrived. */
static void test_partial(int width)
{
    static const uint32_t flags[] = {1, 2, 0x7fffffffu, 0x80000000u, 0xffffffffu};
    size_t f;
    int part;

    for (f = 0; f < sizeof(flags) / sizeof(flags[0]); ++f) {
        uint64_t slot[4] __attribute__((aligned(32))) = {0, 0, 0, 0};
        const uint64_t old_part = (uint64_t)(flags[f] - 1) << 32 | 0x1234u;
        mscclpp_dev_vec_t v;

        CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f], width));
        for (part = 0; part < 4; ++part) {
            mscclpp_dev_put_unit(slot, PAIR, vec(flags[f]), flags[f], width);
            memset(&v, 0, sizeof(v));
            CHECK(mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f], width));
            CHECK(equal(v, vec(flags[f])));
            /* Polling takes nothing away. */
            CHECK(mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f], width));
            slot[part] = old_part;
            CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f], width));
        }
        /* Neither what the next epoch brings nor what an earlier one left is taken for this one's. */
        mscclpp_dev_put_unit(slot, PAIR, vec(1), flags[f], width);
        CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f] + 2, width));
        CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, flags[f] - 2, width));
    }
}

/* Either width may follow the other in the same memory: both have their flags in the odd words. */
static void test_widths_mix(void)
{
    uint32_t slot[8] __attribute__((aligned(32))) = {0};
    mscclpp_dev_vec_t v;
    int i;

    mscclpp_dev_put_unit(slot, PAIR, vec(5), 5, MSCCLPP_DEV_LL16);
    for (i = 1; i < 8; i += 2) {
        CHECK_EQ(slot[i], 5);
    }
    CHECK(mscclpp_dev_poll_unit(slot, PAIR, &v, 5, MSCCLPP_DEV_LL8) && equal(v, vec(5)));
    CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, 6, MSCCLPP_DEV_LL8));
    mscclpp_dev_put_unit(slot, PAIR, vec(6), 6, MSCCLPP_DEV_LL8);
    for (i = 1; i < 8; i += 2) {
        CHECK_EQ(slot[i], 6);
    }
    CHECK(mscclpp_dev_poll_unit(slot, PAIR, &v, 6, MSCCLPP_DEV_LL16) && equal(v, vec(6)));
    CHECK(!mscclpp_dev_poll_unit(slot, PAIR, &v, 5, MSCCLPP_DEV_LL16));
}

#define LINES (MSCCLPP_DEV_BUNDLE_BYTES / 128)

static void fill_bundle(mscclpp_dev_bundle_t *bundle, uint32_t seed)
{
    uint32_t i, unit;

    memset(bundle, 0, sizeof(*bundle));
    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        if (mscclpp_dev_bundle_unit(i, &unit)) {
            bundle->lane[i] = vec(seed + unit);
        }
    }
}

/* Each of the 30 units once; the lanes without one are those that the division says. */
static void test_bundle_units(void)
{
    uint32_t i, unit, seen = 0;

    for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
        const bool has = mscclpp_dev_bundle_unit(i, &unit);

        CHECK_EQ(has, i % 16 != 15);
        if (has) {
            CHECK(unit < MSCCLPP_DEV_BUNDLE_UNITS && (seen >> unit & 1) == 0);
            seen |= 1u << unit;
        }
    }
    CHECK_EQ(seen, (1u << MSCCLPP_DEV_BUNDLE_UNITS) - 1);
}

static bool arrived(const mscclpp_dev_ctx_t *ctx, const uint32_t *memory, uint32_t flag, mscclpp_dev_bundle_t *bundle)
{
    mscclpp_dev_bundle_ld(ctx, (const char *)memory, flag, bundle);
    return mscclpp_dev_bundle_has(ctx, bundle, flag);
}

/* A bundle is there once all of its lines are, and comes out as it went in; data that look like flags are data. */
static void test_bundle(void)
{
    static const uint32_t flags[] = {1, 2, 0x7fffffffu, 0xffffffffu};
    uint32_t memory[3][128] __attribute__((aligned(128)));
    mscclpp_dev_bundle_t sent, closed, got;
    mscclpp_dev_ctx_t ctx;
    uint32_t f, line, i, unit;

    memset(&ctx, 0, sizeof(ctx));
    for (f = 0; f < sizeof(flags) / sizeof(flags[0]); ++f) {
        memset(memory, 0, sizeof(memory));
        CHECK(!arrived(&ctx, memory[1], flags[f], &got));
        fill_bundle(&sent, flags[f]);
        sent.lane[0].w[1] = sent.lane[6].w[3] = sent.lane[8].w[0] = flags[f] + 2;
        closed = sent;
        mscclpp_dev_bundle_close(&ctx, &closed, flags[f]);
        for (line = 0; line < LINES; ++line) {
            mscclpp_dev_bundle_st(&ctx, (char *)memory[1], &closed);
            CHECK(arrived(&ctx, memory[1], flags[f], &got));
            memory[1][32 * line + 31] = memory[1][32 * line + 30] = flags[f] - 2;
            CHECK(!arrived(&ctx, memory[1], flags[f], &got));
        }
        mscclpp_dev_bundle_st(&ctx, (char *)memory[1], &closed);
        CHECK(!arrived(&ctx, memory[1], flags[f] + 2, &got));
        CHECK(arrived(&ctx, memory[1], flags[f], &got));
        mscclpp_dev_bundle_open(&ctx, &got);
        for (i = 0; i < MSCCLPP_DEV_LANES; ++i) {
            if (mscclpp_dev_bundle_unit(i, &unit)) {
                CHECK(equal(got.lane[i], sent.lane[i]));
            }
        }
        for (i = 0; i < 128; ++i) {
            CHECK_EQ(memory[0][i], 0);
            CHECK_EQ(memory[2][i], 0);
            /* The last eight bytes of each line, and only they, are flags. */
            CHECK(i % 32 < 30 || memory[1][i] == flags[f]);
        }
    }
}

/* Nothing outside the slot is written. */
static void test_bounds(int width)
{
    uint32_t slots[3][8] __attribute__((aligned(32)));
    int i;

    memset(slots, 0xa5, sizeof(slots));
    mscclpp_dev_put_unit(slots[1], PAIR, vec(3), 3, width);
    for (i = 0; i < 8; ++i) {
        CHECK_EQ(slots[0][i], 0xa5a5a5a5u);
        CHECK_EQ(slots[2][i], 0xa5a5a5a5u);
    }
}

/* Two threads pass a unit to and fro, each in the half of the epoch's parity. */
typedef struct {
    char *slots[2]; /* the two ends' memory, two halves each */
    mscclpp_dev_args_t args;
    int end;
    int width;
    int wrong;
} pong_t;

enum { PONGS = 3000 };

static void *pong_main(void *argument)
{
    pong_t *pong = argument;
    mscclpp_dev_ctx_t ctx;
    uint32_t flag;

    memset(&ctx, 0, sizeof(ctx));
    ctx.nthreads = ctx.nblocks = 1;
    for (flag = 1; flag <= PONGS; ++flag) {
        size_t half = (flag & 1) * (size_t)MSCCLPP_DEV_PACKET_UNIT;
        mscclpp_dev_vec_t v;

        mscclpp_dev_put_unit(pong->slots[1 - pong->end] + half, PAIR, vec(flag * 2 + (uint32_t)pong->end), flag,
                             pong->width);
        mscclpp_dev_get_unit(&ctx, &pong->args, pong->slots[pong->end] + half, PAIR, &v, flag, pong->width, 0);
        if (ctx.failed) {
            ++pong->wrong;
            break;
        }
        pong->wrong += !equal(v, vec(flag * 2 + 1 - (uint32_t)pong->end));
    }
    return NULL;
}

static void test_pong(int width)
{
    uint64_t memory[2][8] __attribute__((aligned(32)));
    mscclpp_dev_mailbox_t mailbox;
    pong_t pong[2];
    pthread_t threads[2];
    int i;

    memset(memory, 0, sizeof(memory));
    memset(&mailbox, 0, sizeof(mailbox));
    memset(pong, 0, sizeof(pong));
    for (i = 0; i < 2; ++i) {
        pong[i].slots[0] = (char *)memory[0];
        pong[i].slots[1] = (char *)memory[1];
        pong[i].args.mailbox = &mailbox;
        pong[i].args.timeout_ns = 60000000000u;
        pong[i].end = i;
        pong[i].width = width;
        REQUIRE(pthread_create(&threads[i], NULL, pong_main, &pong[i]) == 0);
    }
    for (i = 0; i < 2; ++i) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(pong[i].wrong, 0);
    }
    CHECK_EQ(mailbox.failed, 0);
}

/* A wait that nobody serves ends by its own clock or by the host's word, names the peer, and stays ended. */
static void test_giving_up(bool by_word)
{
    uint64_t slot[4] __attribute__((aligned(32))) = {0, 0, 0, 0};
    mscclpp_dev_mailbox_t mailbox;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    mscclpp_dev_vec_t v;
    uint64_t started;

    memset(&mailbox, 0, sizeof(mailbox));
    memset(&args, 0, sizeof(args));
    memset(&ctx, 0, sizeof(ctx));
    ctx.nthreads = ctx.nblocks = 1;
    args.mailbox = &mailbox;
    args.timeout_ns = by_word ? 0 : 20000000u;
    mailbox.abort = by_word;
    started = mscclpp_dev_now_ns();
    mscclpp_dev_get_unit(&ctx, &args, slot, PAIR, &v, 1, MSCCLPP_DEV_LL16, 41);
    CHECK(ctx.failed);
    CHECK_EQ(mailbox.failed, 42);
    CHECK(by_word || mscclpp_dev_now_ns() - started >= args.timeout_ns);

    /* What has failed waits for nobody any more, and the first peer stays named. */
    args.timeout_ns = 0;
    mailbox.abort = 0;
    mscclpp_dev_get_unit(&ctx, &args, slot, PAIR, &v, 1, MSCCLPP_DEV_LL8, 7);
    CHECK(ctx.failed);
    CHECK_EQ(mailbox.failed, 42);
}

int main(void)
{
    unit_begin();
    test_partial(MSCCLPP_DEV_LL16);
    test_partial(MSCCLPP_DEV_LL8);
    test_widths_mix();
    test_bundle_units();
    test_bundle();
    test_bounds(MSCCLPP_DEV_LL16);
    test_bounds(MSCCLPP_DEV_LL8);
    test_pong(MSCCLPP_DEV_LL16);
    test_pong(MSCCLPP_DEV_LL8);
    test_giving_up(false);
    test_giving_up(true);
    return unit_end();
}
