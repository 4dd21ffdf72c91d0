/* Packed parts of an all-gather: what they come back as, how short they are, and what is refused. */
#include <stdint.h>
#include <stdlib.h>

#include "mca/common/oob/delta.h"
#include "test/unit/unit.h"

#define COUNT 256
#define LENGTH 104

static char parts[COUNT * LENGTH], back[COUNT * LENGTH];

/* Packs parts into memory of exactly as many bytes as they may take, and unpacks them. Returns the packed length. */
static size_t pack_and_compare(size_t count, size_t length)
{
    const size_t most = mscclpp_delta_max(count, length);
    char *packed = malloc(most + 1);
    size_t used;

    packed[most] = 'x';
    used = mscclpp_delta_pack(parts, count, length, packed);
    CHECK(used <= most && packed[most] == 'x');
    memset(back, 'b', sizeof(back));
    CHECK(mscclpp_delta_unpack(packed, used, count, length, back));
    CHECK(memcmp(back, parts, count * length) == 0);
    CHECK(count * length == sizeof(back) || back[count * length] == 'b');
    free(packed);
    return used;
}

/* Fills the parts with bytes of a linear congruential generator, so that hardly any word equals the one before it. */
static void fill_random(void)
{
    uint64_t state = 1;

    for (size_t i = 0; i < sizeof(parts); ++i) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        parts[i] = (char)(state >> 56);
    }
}

/* What ranks say when they take over what others have agreed on: all the same, except for two words of rank 0. */
static void check_alike(void)
{
    for (size_t i = 0; i < sizeof(parts); ++i) {
        parts[i] = i % LENGTH < LENGTH / 2 ? (char)(i % LENGTH) : 0;
    }
    parts[80] = 7;
    parts[88] = 9;
    /* Two bytes of mask for each part, nine words of the first part, and two of the second. */
    CHECK(pack_and_compare(COUNT, LENGTH) == 2 * COUNT + 11 * 8);
}

/* Every length of a part, with a short last word or without, none among them; and every number of parts. */
static void check_lengths(void)
{
    fill_random();
    for (size_t length = 0; length <= LENGTH; ++length) {
        (void)pack_and_compare(5, length);
        (void)pack_and_compare(0, length);
    }
    for (size_t count = 0; count <= COUNT; ++count) {
        (void)pack_and_compare(count, 24);
    }
    CHECK(pack_and_compare(COUNT, LENGTH) == mscclpp_delta_max(COUNT, LENGTH));
}

/* A message that is cut off, too long, or for other parts. Each lies in memory of its own length. */
static void check_refusals(void)
{
    const size_t most = mscclpp_delta_max(3, 20);
    char packed[128], *cut;
    size_t used;

    fill_random();
    used = mscclpp_delta_pack(parts, 3, 20, packed);
    CHECK(used == most);
    for (size_t length = 0; length < used; ++length) {
        cut = malloc(length + 1);
        memcpy(cut, packed, length);
        CHECK(!mscclpp_delta_unpack(cut, length, 3, 20, back));
        free(cut);
    }
    CHECK(!mscclpp_delta_unpack(packed, used + 1, 3, 20, back));
    CHECK(!mscclpp_delta_unpack(packed, used, 2, 20, back));
    CHECK(!mscclpp_delta_unpack(packed, used, 3, 12, back));
}

int main(void)
{
    unit_begin();
    check_alike();
    check_lengths();
    check_refusals();
    return unit_end();
}
