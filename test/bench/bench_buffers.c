/*
 * Device buffers with contents whose exact result is known. Operands are small integers that repeat with a prime
 * period, so that one period of the result tells every element, and a block that landed in the wrong place still shows.
 */
#include "test/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD 1021u
#define STAGING (4u << 20)
#define POISON 0xa5

/*
 * The operand of a rank at an index. Sums stay within what the type holds exactly; in a product none, one or two
 * neighbouring ranks have the factor 2 and the others 1.
 */
static long operand(const bench_type_t *type, mscclpp_op_t op, int rank, int size, size_t index, int seed)
{
    unsigned long mix = (index + 1) * 7919ul + (unsigned long)rank * 104729ul + (unsigned long)seed * 1299709ul;
    size_t mix_index = index * 31 + (size_t)seed;
    long range = type->sum_max / size;

    switch (op) {
    case MSCCLPP_OP_PROD:
        return (mix_index + (size_t)rank) % (size_t)size < index % 3 ? 2 : 1;
    case MSCCLPP_OP_SUM:
        range = range > 500 ? 500 : range;
        return range < 1 ? (long)(mix % 2) : (long)(mix % (unsigned long)(range + 1));
    default:
        return (long)(mix % 101);
    }
}

static long combine(mscclpp_op_t op, long a, long b)
{
    switch (op) {
    case MSCCLPP_OP_SUM:
        return a + b;
    case MSCCLPP_OP_PROD:
        return a * b;
    case MSCCLPP_OP_MAX:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

bool bench_buffers_open(bench_buffers_t *buffers, const bench_env_t *env, size_t capacity)
{
    void *send, *recv, *staging, *unused;

    memset(buffers, 0, sizeof(*buffers));
    buffers->capacity = capacity;
    buffers->staging_size = STAGING;
    buffers->expected = malloc(PERIOD * sizeof(int64_t));
    if (NULL == buffers->expected) {
        goto err;
    }
    if (MSCCLPP_OK != env->gpu->device_alloc(env->device, capacity, &send)) {
        goto err_expected;
    }
    if (MSCCLPP_OK != env->gpu->device_alloc(env->device, capacity, &recv)) {
        goto err_send;
    }
    if (MSCCLPP_OK != env->gpu->host_alloc(STAGING, &staging, &unused)) {
        goto err_recv;
    }
    buffers->send = send;
    buffers->recv = recv;
    buffers->staging = staging;
    return true;

err_recv:
    env->gpu->device_free(env->device, recv);

err_send:
    env->gpu->device_free(env->device, send);

err_expected:
    free(buffers->expected);

err:
    memset(buffers, 0, sizeof(*buffers));
    fprintf(stderr, "%s: rank %d: cannot allocate two buffers of %zu bytes\n", bench_program, env->rank, capacity);
    return false;
}

void bench_buffers_close(bench_buffers_t *buffers, const bench_env_t *env)
{
    if (NULL != buffers->send) {
        env->gpu->host_free(buffers->staging);
        env->gpu->device_free(env->device, buffers->recv);
        env->gpu->device_free(env->device, buffers->send);
        free(buffers->expected);
    }
    memset(buffers, 0, sizeof(*buffers));
}

/* Copies the staging area's first `unit` bytes over and over to [to, to + bytes). */
static bool spread(bench_buffers_t *buffers, const bench_env_t *env, char *to, size_t bytes, size_t unit)
{
    bool ok = true;

    for (size_t done = 0; ok && done < bytes; done += unit) {
        size_t part = bytes - done < unit ? bytes - done : unit;
        ok = MSCCLPP_OK == env->gpu->copy(env->stream, to + done, buffers->staging, part);
    }
    return ok && MSCCLPP_OK == env->gpu->stream_sync(env->stream);
}

bool bench_buffers_fill(bench_buffers_t *buffers, const bench_env_t *env, const bench_type_t *type,
                        const bench_op_t *op, size_t count, bool in_place, int seed)
{
    size_t row = PERIOD * type->size;
    size_t unit = buffers->staging_size / row * row;
    size_t used = count * type->size < unit ? (count * type->size + row - 1) / row * row : unit;

    if (!in_place) {
        memset(buffers->staging, POISON, used);
        if (!spread(buffers, env, buffers->recv, count * type->size, unit)) {
            return false;
        }
    }
    for (size_t i = 0; i < PERIOD; ++i) {
        bench_type_encode(type, operand(type, op->op, env->rank, env->size, i, seed),
                          buffers->staging + i * type->size);
    }
    for (size_t done = row; done < used; done += row) {
        memcpy(buffers->staging + done, buffers->staging, row);
    }
    return spread(buffers, env, in_place ? buffers->recv : buffers->send, count * type->size, unit);
}

/* Elements of [data, data + count) that differ from the period of expected ones, which starts with data. */
static uint64_t count_wrong(const bench_buffers_t *buffers, size_t size, size_t count)
{
    uint64_t wrong = 0;

    for (size_t done = 0; done < count; done += PERIOD) {
        size_t part = count - done < PERIOD ? count - done : PERIOD;
        const char *data = buffers->staging + done * size;
        if (0 == memcmp(data, buffers->expected, part * size)) {
            continue;
        }
        for (size_t i = 0; i < part; ++i) {
            wrong += 0 != memcmp(data + i * size, buffers->expected + i * size, size);
        }
    }
    return wrong;
}

bool bench_buffers_verify(bench_buffers_t *buffers, const bench_env_t *env, const bench_type_t *type,
                          const bench_op_t *op, size_t count, int seed, uint64_t *wrong_p)
{
    size_t unit = buffers->staging_size / (PERIOD * type->size) * PERIOD;
    uint64_t wrong = 0;

    for (size_t i = 0; i < PERIOD; ++i) {
        long value = operand(type, op->op, 0, env->size, i, seed);
        for (int rank = 1; rank < env->size; ++rank) {
            value = combine(op->op, value, operand(type, op->op, rank, env->size, i, seed));
        }
        bench_type_encode(type, value, buffers->expected + i * type->size);
    }
    for (size_t done = 0; done < count; done += unit) {
        size_t part = count - done < unit ? count - done : unit;
        if (MSCCLPP_OK !=
                env->gpu->copy(env->stream, buffers->staging, buffers->recv + done * type->size, part * type->size) ||
            MSCCLPP_OK != env->gpu->stream_sync(env->stream)) {
            return false;
        }
        wrong += count_wrong(buffers, type->size, part);
    }
    *wrong_p = wrong;
    return true;
}
