/* Divides a team's scratch into areas (mscclpp_layout_t). */
#include "mca/common/algo/algo.h"

void mscclpp_layout_init(mscclpp_layout_t *layout, uint64_t scratch_size)
{
    mscclpp_layout_divide(layout, scratch_size / 4, scratch_size / 2, scratch_size);
}

void mscclpp_layout_init_between(mscclpp_layout_t *layout, uint64_t scratch_size)
{
    mscclpp_layout_divide_between(layout, scratch_size / 4, scratch_size / 4 * 3);
}

/* All areas are whole pages, except the state at the end. */
static void divide(mscclpp_layout_t *layout, uint64_t packet_half, bool has_lines, uint64_t bulk_size,
                   uint64_t put_size)
{
    /* The total is a multiple of 512 bytes, so that pieces of the pool (mca/common/gpu/pool.h) are aligned to that. */
    const uint64_t page = 4096, alignment = 512;

    layout->packet_half = packet_half / page * page;
    layout->bulk_offset = MSCCLPP_DEV_LL128_OFFSET(layout->packet_half) + (has_lines ? layout->packet_half : 0);
    layout->bulk_size = bulk_size / page * page;
    layout->put_offset = layout->bulk_offset + layout->bulk_size;
    layout->put_size = put_size / page * page;
    layout->state_offset = layout->put_offset + layout->put_size;
    layout->total = layout->state_offset + (sizeof(mscclpp_dev_state_t) + alignment - 1) / alignment * alignment;
}

void mscclpp_layout_divide(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size, uint64_t put_size)
{
    divide(layout, packet_half, true, bulk_size, put_size);
}

void mscclpp_layout_divide_between(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size)
{
    divide(layout, packet_half, false, bulk_size, 0);
}

uint64_t mscclpp_layout_packet_bytes(const mscclpp_layout_t *layout)
{
    return layout->bulk_offset - MSCCLPP_DEV_PACKET_OFFSET;
}
