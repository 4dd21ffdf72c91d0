/* What is launched again with the same arguments is prepared, and what is not, is not. */
#include "mca/common/run/repeats.h"
#include "test/unit/unit.h"

struct mscclpp_gpu_prepared {
    mscclpp_dev_args_t args;
};

static int launched, prepared, started, destroyed;
static bool refuses;
static uint64_t last_bytes; /* of the operation that was started last, in either way */

static mscclpp_status_t launch(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *what)
{
    (void)stream;
    ++launched;
    last_bytes = ((const mscclpp_dev_args_t *)what->args)->bytes;
    return MSCCLPP_OK;
}

static mscclpp_status_t prepare(int device, const mscclpp_dev_launch_t *what, mscclpp_gpu_prepared_t **prepared_p)
{
    CHECK_EQ(device, 3);
    if (refuses) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *prepared_p = malloc(sizeof(**prepared_p));
    REQUIRE(*prepared_p != NULL);
    (*prepared_p)->args = *(const mscclpp_dev_args_t *)what->args;
    ++prepared;
    return MSCCLPP_OK;
}

static mscclpp_status_t start(mscclpp_gpu_stream_t *stream, mscclpp_gpu_prepared_t *what)
{
    (void)stream;
    ++started;
    last_bytes = what->args.bytes;
    return MSCCLPP_OK;
}

static void destroy(mscclpp_gpu_prepared_t *what)
{
    ++destroyed;
    free(what);
}

static const mscclpp_gpu_ops_t gpu = {.name = "counting",
                                      .launch = launch,
                                      .launch_prepare = prepare,
                                      .launch_prepared = start,
                                      .prepared_destroy = destroy};
static const mscclpp_gpu_ops_t plain = {.name = "plain", .launch = launch};

static void call(mscclpp_repeats_t *repeats, const mscclpp_gpu_ops_t *ops, uint32_t blocks, uint64_t bytes)
{
    mscclpp_dev_args_t args;
    const mscclpp_dev_launch_t what = {MSCCLPP_KERNEL_ALLREDUCE_ONESHOT, blocks, 32, &args};

    memset(&args, 0, sizeof(args));
    args.bytes = bytes;
    CHECK_EQ(mscclpp_repeats_launch(repeats, ops, 3, NULL, &what), MSCCLPP_OK);
    CHECK_EQ(last_bytes, bytes);
}

static void reset(mscclpp_repeats_t *repeats)
{
    memset(repeats, 0, sizeof(*repeats));
    launched = prepared = started = destroyed = 0;
    refuses = false;
}

int main(void)
{
    mscclpp_repeats_t repeats;
    int i;

    unit_begin();

    /* The same again and again, and something else in between. */
    reset(&repeats);
    for (i = 0; i < 100; ++i) {
        call(&repeats, &gpu, 1, 8);
        call(&repeats, &gpu, 1, 1000 + (uint64_t)i);
    }
    CHECK_EQ(prepared, 1);
    CHECK_EQ(launched + started, 200);
    CHECK(started >= 90 && started < 100);
    mscclpp_repeats_clear(&repeats, &gpu);
    CHECK_EQ(destroyed, 1);

    /* The grid is part of it. */
    reset(&repeats);
    for (i = 0; i < 10; ++i) {
        call(&repeats, &gpu, 1, 8);
        call(&repeats, &gpu, 2, 8);
    }
    CHECK_EQ(prepared, 2);
    mscclpp_repeats_clear(&repeats, &gpu);
    CHECK_EQ(destroyed, 2);

    /* As many as there are places, and then more: those used longest ago give way, and nothing is lost. */
    reset(&repeats);
    for (i = 0; i < 10 * MSCCLPP_REPEATS; ++i) {
        call(&repeats, &gpu, 1, 8 + (uint64_t)(i % MSCCLPP_REPEATS));
    }
    CHECK_EQ(prepared, MSCCLPP_REPEATS);
    for (i = 0; i < 10; ++i) {
        call(&repeats, &gpu, 1, 5000);
    }
    CHECK_EQ(prepared, MSCCLPP_REPEATS + 1);
    CHECK_EQ(destroyed, 1);
    mscclpp_repeats_clear(&repeats, &gpu);
    CHECK_EQ(destroyed, prepared);

    /* A runtime that cannot, or has none of it. */
    reset(&repeats);
    refuses = true;
    for (i = 0; i < 20; ++i) {
        call(&repeats, &gpu, 1, 8);
    }
    CHECK_EQ(launched, 20);
    mscclpp_repeats_clear(&repeats, &gpu);
    reset(&repeats);
    for (i = 0; i < 20; ++i) {
        call(&repeats, &plain, 1, 8);
    }
    CHECK_EQ(launched, 20);
    mscclpp_repeats_clear(&repeats, &plain);
    CHECK_EQ(destroyed, 0);
    return unit_end();
}
