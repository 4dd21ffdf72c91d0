#include "mca/common/fabric/slabs.h"

#include <string.h>

#include "mca/common/base/shmseg.h"
#include "test/unit/unit.h"

#define PIECE ((uint64_t)300 << 10)
#define PIECES 9

/* The twin's runtime, as it is and as that of a GPU, which pins memory and may refuse to. */
static mscclpp_gpu_ops_t twin_ops, gpu_ops;
static uint64_t pinned, pinned_max;

static mscclpp_status_t count_register(void *address, size_t size, void **device_p)
{
    if (pinned + size > pinned_max) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    pinned += size;
    *device_p = address;
    return MSCCLPP_OK;
}

static int unregistered;

static void count_unregister(void *address)
{
    (void)address;
    ++unregistered;
}

static void reset(void)
{
    twin_ops = mscclpp_gpu_twin_ops;
    gpu_ops = twin_ops;
    gpu_ops.twin = false;
    gpu_ops.host_register = count_register;
    gpu_ops.host_unregister = count_unregister;
    pinned = 0;
    pinned_max = UINT64_MAX;
    unregistered = 0;
}

typedef struct {
    mscclpp_slab_t *slab;
    char *host, *device;
} piece_t;

static piece_t take(const mscclpp_gpu_ops_t *ops)
{
    piece_t piece = {NULL, NULL, NULL};

    REQUIRE(mscclpp_slab_take(ops, "test", PIECE, &piece.slab, (void **)&piece.host, (void **)&piece.device) ==
            MSCCLPP_OK);
    return piece;
}

/* The number of the segment that a peer would map to reach a piece; 0 if it could not map it any more. */
static uint64_t segment_of(const piece_t *piece)
{
    mscclpp_shmseg_descriptor_t descriptor;
    uint64_t offset;

    return mscclpp_shmseg_locate(piece->host, PIECE, &descriptor, &offset) ? descriptor.id : 0;
}

/* A peer maps one segment for the first communicator, and one for all further ones. */
static void further_pieces_share_a_segment(void)
{
    piece_t piece[PIECES];

    reset();
    for (int i = 0; i < PIECES; ++i) {
        piece[i] = take(&twin_ops);
        CHECK_EQ((uintptr_t)piece[i].host % 4096, 0);
        CHECK(piece[i].host == piece[i].device);
        CHECK(piece[i].host[0] == 0 && piece[i].host[PIECE - 1] == 0);
        memset(piece[i].host, 1 + i, PIECE);
    }
    CHECK(segment_of(&piece[0]) != 0 && segment_of(&piece[0]) != segment_of(&piece[1]));
    for (int i = 0; i < PIECES; ++i) {
        CHECK(i == 0 || segment_of(&piece[i]) == segment_of(&piece[1]));
        CHECK(piece[i].host[0] == 1 + i && piece[i].host[PIECE - 1] == 1 + i); /* no two overlap */
    }
    for (int i = 0; i < PIECES; ++i) {
        mscclpp_slab_give(piece[i].slab, false);
    }
    CHECK_EQ(segment_of(&piece[0]), 0);
    CHECK_EQ(segment_of(&piece[1]), 0);
}

/* What is given back may be written to by a peer that is late, so it is not used again. */
static void a_piece_is_used_once(void)
{
    piece_t first, kept, again;

    reset();
    first = take(&twin_ops);
    kept = take(&twin_ops);
    mscclpp_slab_give(first.slab, false);
    first = take(&twin_ops);
    memset(first.host, 7, PIECE);
    mscclpp_slab_give(first.slab, false);
    again = take(&twin_ops);
    CHECK(again.host != first.host && again.host[0] == 0);
    mscclpp_slab_give(again.slab, false);
    mscclpp_slab_give(kept.slab, false);
}

/* Once no peer will map any of its pieces, a slab takes no descriptor, and nobody finds it. */
static void a_slab_hides_with_its_last_piece(void)
{
    piece_t first, second, third;

    reset();
    first = take(&gpu_ops);
    mscclpp_slab_hide_piece(first.slab);
    CHECK_EQ(segment_of(&first), 0);
    second = take(&gpu_ops);
    third = take(&gpu_ops); /* the third slab: two pieces */
    mscclpp_slab_hide_piece(third.slab);
    CHECK(segment_of(&third) != 0);
    mscclpp_slab_give(third.slab, true);
    mscclpp_slab_give(second.slab, false);
    mscclpp_slab_give(first.slab, true);
    CHECK_EQ(unregistered, 3);
}

/* Of pinned memory there is at most twice what communicators use, and where it ends, a slab has one piece. */
static void pinned_memory_grows_with_its_use(void)
{
    piece_t piece[PIECES];

    reset();
    for (int i = 0; i < PIECES - 1; ++i) {
        piece[i] = take(&gpu_ops);
        CHECK(pinned <= 2 * (uint64_t)(i + 1) * (PIECE + (64 << 10)));
    }
    /* All slabs are full: 1, 1, 2 and 4 pieces. Not as many again can be pinned, but one can. */
    pinned_max = pinned + 2 * PIECE;
    piece[PIECES - 1] = take(&gpu_ops);
    CHECK(pinned <= pinned_max);
    for (int i = 0; i < PIECES; ++i) {
        mscclpp_slab_give(piece[i].slab, false);
    }
}

static void a_shortage_leaves_nothing(void)
{
    mscclpp_slab_t *slab;
    void *host, *device;

    reset();
    pinned_max = PIECE / 2;
    unit_expect_log();
    CHECK_EQ(mscclpp_slab_take(&gpu_ops, "test", PIECE, &slab, &host, &device), MSCCLPP_ERR_NO_MEMORY);
    CHECK_EQ(unit_logged(), 1);
    pinned_max = UINT64_MAX;
    CHECK_EQ(mscclpp_slab_take(&gpu_ops, "test", PIECE, &slab, &host, &device), MSCCLPP_OK);
    mscclpp_slab_give(slab, false);
}

int main(void)
{
    unit_begin();
    further_pieces_share_a_segment();
    a_piece_is_used_once();
    a_slab_hides_with_its_last_piece();
    pinned_memory_grows_with_its_use();
    a_shortage_leaves_nothing();
    return unit_end();
}
