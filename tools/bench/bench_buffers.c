/*
 * Buffers with contents whose exact result is known. Operands are small integers that repeat with a prime period. So
 * one period of the result determines every element, and a block in a wrong place is still found.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PERIOD 1021u
#define STAGING (4u << 20)
#define POISON 0xa5

/* Bits of data that only moves: every type holds such integers exactly, and none of them equals the poison. */
#define MOVED 0x7f

/* The least size of a large mapping, in bytes. */
#define LARGE ((size_t)256 << 20)

/*
 * The operand of a rank at an index. The type holds all sums exactly. In a product none, one or two neighbouring ranks
 * have the factor 2, and the others have 1. Data that only moves differs between ranks at nearly every index, however
 * small the type is.
 */
static long operand(const bench_operation_t *operation, int rank, size_t index, int seed)
{
    const bench_type_t *type = operation->type;
    const int size = operation->layout->size;
    unsigned long mix = (index + 1) * 7919ul + (unsigned long)rank * 104729ul + (unsigned long)seed * 1299709ul;
    size_t mix_index = index * 31 + (size_t)seed;
    long range = type->sum_max / size;

    if (!operation->layout->coll->reduces) {
        uint64_t scrambled = (uint64_t)mix * UINT64_C(0x9e3779b97f4a7c15);
        return (long)((scrambled ^ scrambled >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 33) & MOVED;
    }
    switch (operation->op->op) {
    case MSCCLPP_OP_PROD:
        return (mix_index + (size_t)rank) % (size_t)size < index % 3 ? 2 : 1;
    case MSCCLPP_OP_SUM:
        range = range > 500 ? 500 : range;
        return range < 1 ? (long)(mix % 2) : (long)(mix % (unsigned long)(range + 1));
    default:
        return (long)(mix % 101);
    }
}

/* Combines two elements as the operation does. */
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

static size_t mapped_size(size_t capacity)
{
    return 2 * capacity < LARGE ? LARGE : 2 * capacity;
}

/* Allocates both buffers, or on failure neither. */
static bool allocate(bench_buffers_t *buffers, const bench_env_t *env, char *stack)
{
    void *send = NULL, *recv = NULL;

    switch (buffers->memory) {
    case BENCH_MEMORY_HEAP:
        send = malloc(buffers->capacity);
        recv = malloc(buffers->capacity);
        if (send == NULL || recv == NULL) {
            free(send);
            free(recv);
            return false;
        }
        break;
    case BENCH_MEMORY_STACK:
        send = stack;
        recv = stack + BENCH_STACK_BUFFER;
        break;
    case BENCH_MEMORY_LARGE:
        send = mmap(NULL, mapped_size(buffers->capacity), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (MAP_FAILED == send) {
            return false;
        }
        recv = (char *)send + mapped_size(buffers->capacity) / 2;
        break;
    default:
        if (MSCCLPP_OK != env->gpu->device_alloc(env->device, buffers->capacity, &send)) {
            return false;
        }
        if (MSCCLPP_OK != env->gpu->device_alloc(env->device, buffers->capacity, &recv)) {
            env->gpu->device_free(env->device, send);
            return false;
        }
        break;
    }
    buffers->send = send;
    buffers->recv = recv;
    return true;
}

/* Frees both buffers. */
static void release(bench_buffers_t *buffers, const bench_env_t *env)
{
    switch (buffers->memory) {
    case BENCH_MEMORY_HEAP:
        free(buffers->recv);
        free(buffers->send);
        break;
    case BENCH_MEMORY_STACK:
        break;
    case BENCH_MEMORY_LARGE:
        munmap(buffers->send, mapped_size(buffers->capacity));
        break;
    default:
        env->gpu->device_free(env->device, buffers->recv);
        env->gpu->device_free(env->device, buffers->send);
        break;
    }
}

bool bench_buffers_open(bench_buffers_t *buffers, const bench_env_t *env, size_t capacity, bench_memory_t memory,
                        char *stack)
{
    void *staging, *unused;

    memset(buffers, 0, sizeof(*buffers));
    buffers->memory = memory;
    buffers->capacity = capacity;
    buffers->staging_size = STAGING;
    buffers->expected = malloc(2 * PERIOD * sizeof(int64_t));
    if (buffers->expected == NULL) {
        goto err;
    }
    if (!allocate(buffers, env, stack)) {
        goto err_expected;
    }
    if (MSCCLPP_OK != env->gpu->host_alloc(STAGING, &staging, &unused)) {
        goto err_buffers;
    }
    buffers->staging = staging;
    return true;

err_buffers:
    release(buffers, env);

err_expected:
    free(buffers->expected);

err:
    memset(buffers, 0, sizeof(*buffers));
    fprintf(stderr, "%s: rank %d: cannot allocate two buffers of %zu bytes\n", bench_program, env->rank, capacity);
    return false;
}

void bench_buffers_close(bench_buffers_t *buffers, const bench_env_t *env)
{
    if (buffers->send != NULL) {
        env->gpu->host_free(buffers->staging);
        release(buffers, env);
        free(buffers->expected);
    }
    memset(buffers, 0, sizeof(*buffers));
}

/* Copies to or from one of the buffers. A copy of device memory is queued in the stream. */
static bool copy(const bench_buffers_t *buffers, const bench_env_t *env, void *to, const void *from, size_t bytes)
{
    if (BENCH_MEMORY_DEVICE == buffers->memory) {
        return MSCCLPP_OK == env->gpu->copy(env->stream, to, from, bytes);
    }
    memcpy(to, from, bytes);
    return true;
}

/* Copies the staging area's first `unit` bytes over and over to [to, to + bytes). */
static bool spread(bench_buffers_t *buffers, const bench_env_t *env, char *to, size_t bytes, size_t unit)
{
    bool ok = true;

    for (size_t done = 0; ok && done < bytes; done += unit) {
        size_t part = bytes - done < unit ? bytes - done : unit;
        ok = copy(buffers, env, to + done, buffers->staging, part);
    }
    return ok && MSCCLPP_OK == env->gpu->stream_sync(env->stream);
}

/* Elements that the staging area holds, in whole periods. */
static size_t unit_of(const bench_buffers_t *buffers, const bench_type_t *type)
{
    return buffers->staging_size / (PERIOD * type->size) * PERIOD;
}

/* Spreads the period at the beginning of the staging area over `count` elements from `to` on. */
static bool spread_period(bench_buffers_t *buffers, const bench_env_t *env, const bench_type_t *type, char *to,
                          size_t count)
{
    const size_t row = PERIOD * type->size, unit = unit_of(buffers, type) * type->size;
    const size_t used = count * type->size < unit ? (count * type->size + row - 1) / row * row : unit;

    for (size_t done = row; done < used; done += row) {
        memcpy(buffers->staging + done, buffers->staging, row);
    }
    return spread(buffers, env, to, count * type->size, unit);
}

bool bench_buffers_fill(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation, int seed)
{
    const bench_type_t *type = operation->type;
    const bench_layout_t *layout = operation->layout;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    char *at = (input.in_recv ? operation->recv : operation->send) + input.first * type->size;

    if (!input.in_recv || input.count < layout->count) {
        memset(buffers->staging, POISON, PERIOD * type->size);
        if (!spread_period(buffers, env, type, operation->recv, layout->count)) {
            return false;
        }
    }
    for (size_t i = 0; i < PERIOD; ++i) {
        bench_type_encode(type, operand(operation, env->rank, i, seed), buffers->staging + i * type->size);
    }
    return spread_period(buffers, env, type, at, input.count);
}

/* Counts the elements of the staging area that differ from the expected ones from `phase` on. */
static uint64_t count_wrong(const bench_buffers_t *buffers, size_t size, size_t phase, size_t count)
{
    const char *expected = buffers->expected + phase * size;
    uint64_t wrong = 0;

    for (size_t done = 0; done < count; done += PERIOD) {
        size_t part = count - done < PERIOD ? count - done : PERIOD;
        const char *data = buffers->staging + done * size;
        if (0 == memcmp(data, expected, part * size)) {
            continue;
        }
        for (size_t i = 0; i < part; ++i) {
            wrong += 0 != memcmp(data + i * size, expected + i * size, size);
        }
    }
    return wrong;
}

/* Compares elements [first, first + count) of the result with the expected ones from `phase` on. */
static bool compare(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation, size_t first,
                    size_t count, size_t phase, uint64_t *wrong_p)
{
    const size_t size = operation->type->size, unit = unit_of(buffers, operation->type);

    for (size_t done = 0; done < count; done += unit) {
        size_t part = count - done < unit ? count - done : unit;
        if (!copy(buffers, env, buffers->staging, operation->recv + (first + done) * size, part * size) ||
            MSCCLPP_OK != env->gpu->stream_sync(env->stream)) {
            return false;
        }
        *wrong_p += count_wrong(buffers, size, phase, part);
    }
    return true;
}

/* Computes the expected elements of a segment from their index 0 on, twice one period. */
static void expect(bench_buffers_t *buffers, const bench_operation_t *operation, const bench_segment_t *segment,
                   int seed)
{
    const size_t size = operation->type->size;

    for (size_t i = 0; i < PERIOD; ++i) {
        long value = operand(operation, segment->low, i, seed);
        for (int rank = segment->low + 1; rank < segment->high; ++rank) {
            value = combine(operation->op->op, value, operand(operation, rank, i, seed));
        }
        bench_type_encode(operation->type, value, buffers->expected + i * size);
    }
    memcpy(buffers->expected + PERIOD * size, buffers->expected, PERIOD * size);
}

bool bench_buffers_verify(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation,
                          int seed, bool strict, uint64_t *wrong_p)
{
    const bench_layout_t *layout = operation->layout;
    const int segments = bench_layout_segments(layout, operation->in_place);
    size_t end = 0;

    *wrong_p = 0;
    for (int i = 0; i < segments; ++i) {
        const bench_segment_t segment = bench_layout_segment(layout, i);

        expect(buffers, operation, &segment, seed);
        if (!compare(buffers, env, operation, segment.first, segment.count, segment.from % PERIOD, wrong_p)) {
            return false;
        }
        end = segment.first + segment.count;
    }
    if (!strict || !bench_layout_keeps_rest(layout, operation->in_place)) {
        return true;
    }
    memset(buffers->expected, POISON, 2 * PERIOD * operation->type->size);
    return compare(buffers, env, operation, end, layout->count - end, 0, wrong_p);
}
