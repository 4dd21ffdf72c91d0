#include "mca/common/algo/algo.h"

void mscclpp_layout_init(mscclpp_layout_t *layout, uint64_t scratch_size)
{
    const uint64_t page = 4096;

    layout->packet_half = scratch_size / 4 / page * page;
    layout->bulk_offset = MSCCLPP_DEV_LL128_OFFSET(layout->packet_half) + layout->packet_half;
    layout->bulk_size = scratch_size / 2 / page * page;
    layout->put_offset = layout->bulk_offset + layout->bulk_size;
    layout->put_size = scratch_size / page * page;
    layout->state_offset = layout->put_offset + layout->put_size;
    layout->total = layout->state_offset + (sizeof(mscclpp_dev_state_t) + page - 1) / page * page;
}
