/* Divides a team's scratch into areas (mscclpp_layout_t). */
#include "mca/common/algo/algo.h"
#include "mca/common/base/numbers.h"

void mscclpp_layout_init(mscclpp_layout_t *layout, uint64_t scratch_size)
{
    mscclpp_layout_divide(layout, scratch_size / 4, scratch_size / 2, scratch_size);
}

void mscclpp_layout_init_between(mscclpp_layout_t *layout, uint64_t scratch_size)
{
    mscclpp_layout_divide_between(layout, scratch_size / 4, scratch_size / 4 * 3);
}

/* The unit in bytes of all areas but the state. */
#define PAGE_BYTES ((uint64_t)4096)

/* The total is a multiple of this number of bytes, so that pieces of the pool (mca/common/gpu/pool.h) are aligned. */
#define TOTAL_ALIGN ((uint64_t)512)

/* Places the areas one after another. The LL128 area has `lines_size` bytes. */
static void place_areas(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t lines_size, uint64_t bulk_size,
                        uint64_t put_size)
{
    layout->packet_half = mscclpp_round_down(packet_half, PAGE_BYTES);
    layout->bulk_offset = MSCCLPP_DEV_LL128_OFFSET(layout->packet_half) + mscclpp_round_down(lines_size, PAGE_BYTES);
    layout->bulk_size = mscclpp_round_down(bulk_size, PAGE_BYTES);
    layout->put_offset = layout->bulk_offset + layout->bulk_size;
    layout->put_size = mscclpp_round_down(put_size, PAGE_BYTES);
    layout->state_offset = layout->put_offset + layout->put_size;
    layout->total = layout->state_offset + mscclpp_round_up(sizeof(mscclpp_dev_state_t), TOTAL_ALIGN);
}

/* The LL128 area is as large as one half of the packet area. */
void mscclpp_layout_divide(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size, uint64_t put_size)
{
    place_areas(layout, packet_half, packet_half, bulk_size, put_size);
}

void mscclpp_layout_divide_between(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size)
{
    place_areas(layout, packet_half, 0, bulk_size, 0);
}

uint64_t mscclpp_layout_packet_bytes(const mscclpp_layout_t *layout)
{
    return layout->bulk_offset - MSCCLPP_DEV_PACKET_OFFSET;
}
