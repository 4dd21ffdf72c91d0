/* The installed device headers beside the host library: triggers, conversions, handles of each version. */
#include <string.h>

#include "device/lib/trigger.h"
#include "mpix/handles.h"
#include "mpix/include/mpix_mscclpp_device.h"
#include "test/unit/unit.h"

static uint64_t state = 1;

static uint64_t draw(unsigned bits)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> (64 - bits);
}

/* The proxy understands what kernels pack. */
static void test_triggers(void)
{
    mpix_port_channel_t channel;
    int i;

    memset(&channel, 0, sizeof(channel));
    for (i = 0; i < 1000; ++i) {
        const mscclpp_dev_request_t request = {
            .to = draw(39),
            .from = draw(39),
            .size = (uint32_t)draw(30),
            .type = 1 + (uint32_t)draw(32) % 7,
            .channel = (uint32_t)draw(16),
        };
        mscclpp_dev_request_t unpacked;
        mscclpp_dev_trigger_t raw;
        mpix_trigger_t trigger;

        channel.number = request.channel;
        trigger = mpix_trigger_of(&channel, request.type, request.to, request.from, request.size);
        memcpy(&raw, &trigger, sizeof(raw));
        unpacked = mscclpp_dev_trigger_unpack(&raw);
        CHECK(unpacked.to == request.to && unpacked.from == request.from && unpacked.size == request.size &&
              unpacked.type == request.type && unpacked.channel == request.channel);
    }
}

static void test_conversions(void)
{
    uint32_t bits;
    int i;

    for (bits = 0; bits < 0x10000; ++bits) {
        const float half = mpix_float_of_float16(bits), expected = mscclpp_dev_f16_to_f32((uint16_t)bits);
        const float brain = mpix_float_of_bfloat16(bits), expected_brain = mscclpp_dev_bf16_to_f32((uint16_t)bits);

        if (memcmp(&half, &expected, sizeof(half)) != 0 || memcmp(&brain, &expected_brain, sizeof(brain)) != 0) {
            break;
        }
    }
    CHECK_EQ(bits, 0x10000);
    for (i = 0; i < 1000000; ++i) {
        const float value = mpix_float_of_bits((uint32_t)draw(32));

        if (mpix_float16_of_float(value) != mscclpp_dev_f32_to_f16(value) ||
            mpix_bfloat16_of_float(value) != mscclpp_dev_f32_to_bf16(value)) {
            break;
        }
    }
    CHECK_EQ(i, 1000000);
}

#define COMBINES(type_, name_, a_, b_, op_, expected_)                                                                 \
    do {                                                                                                               \
        const type_ a = (a_), b = (b_), expected = (expected_);                                                        \
        uint64_t x = 0, y = 0, z;                                                                                      \
        memcpy(&x, &a, sizeof(a));                                                                                     \
        memcpy(&y, &b, sizeof(b));                                                                                     \
        z = mpix_combine8(x, y, name_, op_);                                                                           \
        CHECK(memcmp(&z, &expected, sizeof(expected)) == 0);                                                           \
    } while (0)

static void test_operations(void)
{
    COMBINES(float, MPIX_FLOAT32, 1.5f, -2.25f, MPIX_SUM, -0.75f);
    COMBINES(float, MPIX_FLOAT32, 1.5f, -2.0f, MPIX_PROD, -3.0f);
    COMBINES(float, MPIX_FLOAT32, 1.5f, -2.0f, MPIX_MIN, -2.0f);
    COMBINES(float, MPIX_FLOAT32, 1.5f, -2.0f, MPIX_MAX, 1.5f);
    COMBINES(double, MPIX_FLOAT64, 1e300, 1.0, MPIX_SUM, 1e300);
    COMBINES(double, MPIX_FLOAT64, 3.0, 4.0, MPIX_PROD, 12.0);
    COMBINES(double, MPIX_FLOAT64, 3.0, 4.0, MPIX_MAX, 4.0);
    COMBINES(int32_t, MPIX_INT32, -5, 3, MPIX_MIN, -5);
    COMBINES(int32_t, MPIX_INT32, -5, 3, MPIX_MAX, 3);
    COMBINES(uint32_t, MPIX_UINT32, 0xfffffffbu, 3, MPIX_MIN, 3);
    COMBINES(uint32_t, MPIX_UINT32, 0xffffffffu, 2, MPIX_SUM, 1);
    COMBINES(int64_t, MPIX_INT64, -5, 3, MPIX_MIN, -5);
    COMBINES(int64_t, MPIX_INT64, -5, 3, MPIX_PROD, -15);
    COMBINES(uint64_t, MPIX_UINT64, UINT64_MAX - 4, 3, MPIX_MIN, 3);
    COMBINES(uint64_t, MPIX_UINT64, UINT64_MAX - 4, 3, MPIX_MAX, UINT64_MAX - 4);
    /* 1.5 + 2 in halves and brain floats; both elements of a pair count. */
    CHECK_EQ(mpix_combine8(UINT64_C(0x3e003e00), UINT64_C(0x40003c00), MPIX_FLOAT16, MPIX_SUM), UINT64_C(0x43004100));
    CHECK_EQ(mpix_combine8(UINT64_C(0x3fc0) << 48, UINT64_C(0x4000) << 48, MPIX_BFLOAT16, MPIX_SUM), UINT64_C(0x4060)
                                                                                                         << 48);
    CHECK_EQ(mpix_combine8(UINT64_C(1) << 32 | 7, UINT64_C(5) << 32 | 2, MPIX_UINT32, MPIX_MAX), UINT64_C(5) << 32 | 7);
}

/* Later releases add tests beside this one and leave it as it is. */
static void test_abi_1(void)
{
    mscclpp_dev_user_channel_t channel;
    mscclpp_dev_user_room_t room;
    unsigned char handle[160];
    uint64_t word;
    uint32_t half;

    memset(&channel, 0, sizeof(channel));
    memset(&room, 0, sizeof(room));
    CHECK_EQ(mpix_memory_handle_size(1), 104);
    CHECK_EQ(mpix_channel_handle_size(1, 0), 136);
    CHECK_EQ(mpix_channel_handle_size(1, 1), 160);
    CHECK_EQ(mpix_room_handle_size(1), 120);
    CHECK_EQ(mpix_memory_handle_size(0), 0);
    CHECK_EQ(mpix_channel_handle_size(mpix_newest_abi() + 1, 1), 0);
    CHECK_EQ(mpix_room_handle_size(mpix_newest_abi() + 1), 0);
    channel.watch.rank = 3;
    channel.watch.timeout_ns = 12345;
    channel.peer = 9;
    channel.remote_bytes = 777;
    mpix_write_channel(1, &channel, handle);
    memcpy(&half, handle, 4);
    CHECK_EQ(half, 1);
    memcpy(&half, handle + 4, 4);
    CHECK_EQ(half, 136);
    memcpy(&half, handle + 8, 4);
    CHECK_EQ(half, 3);
    memcpy(&word, handle + 32, 8);
    CHECK_EQ(word, 12345);
    memcpy(&half, handle + 40, 4);
    CHECK_EQ(half, 9);
    memcpy(&word, handle + 72, 8);
    CHECK_EQ(word, 777);
    channel.is_port = true;
    channel.port.fifo.size = 64;
    mpix_write_channel(1, &channel, handle);
    memcpy(&half, handle + 4, 4);
    CHECK_EQ(half, 160);
    memcpy(&word, handle + 56, 8);
    CHECK_EQ(word, 64);
    room.capacity = 11;
    room.blocks = 5;
    mpix_write_room(1, &room, handle);
    memcpy(&half, handle + 40, 4);
    CHECK_EQ(half, 5);
    memcpy(&word, handle + 80, 8);
    CHECK_EQ(word, 11);
}

int main(void)
{
    unit_begin();
    test_triggers();
    test_conversions();
    test_operations();
    test_abi_1();
    return unit_end();
}
