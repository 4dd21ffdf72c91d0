/*
 * Buffers with contents whose exact result is known. Operands are small integers that repeat with a prime period. So
 * one period of the result determines every element, and a block in a wrong place is still found.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PERIOD 1021u            /* number of elements after which operands repeat */
#define STAGING_SIZE (4u << 20) /* bytes */
#define POISON 0xa5             /* the value of all bytes of elements that are not a result */

/* The largest operand of a sum. Where the type holds less, operands are smaller. */
#define MAX_OPERAND 500

/*
 * The bits of operands that are only moved: every type holds such integers exactly, and none of them equals the poison.
 */
#define MOVED_MASK 0x7f

/* The least size of a large mapping, in bytes. */
#define LARGE_SIZE ((size_t)256 << 20)

/*
 * Returns the operand of a rank at an index. Operands of a sum are so small that the type holds the sum over all ranks
 * exactly, if there are at most type->sum_max ranks. In a product, at most two neighbouring ranks have the factor 2 at
 * an index, and the others have 1. Operands that are only moved differ between ranks at nearly every index, even in
 * small types.
 */
static long operand_at(const bench_operation_t *operation, int rank, size_t index, int seed)
{
    const bench_type_t *type = operation->type;
    const int size = operation->layout->size;
    /* Primes, so that neighbouring indices, ranks and seeds yield different operands. */
    unsigned long mix = (index + 1) * 7919ul + (unsigned long)rank * 104729ul + (unsigned long)seed * 1299709ul;
    size_t scaled_index = index * 31 + (size_t)seed;
    long range = type->sum_max / size;

    if (!operation->layout->coll->reduces) {
        /* The constants of SplitMix64, a generator whose bits all depend on all bits of its seed. */
        uint64_t scrambled = (uint64_t)mix * UINT64_C(0x9e3779b97f4a7c15);
        return (long)((scrambled ^ scrambled >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 33) & MOVED_MASK;
    }
    switch (operation->op->op) {
    case MSCCLPP_OP_PROD:
        return (scaled_index + (size_t)rank) % (size_t)size < index % 3 ? 2 : 1;
    case MSCCLPP_OP_SUM:
        range = range > MAX_OPERAND ? MAX_OPERAND : range;
        return range < 1 ? (long)(mix % 2) : (long)(mix % (unsigned long)(range + 1));
    default:
        return (long)(mix % 101); /* max and min: every type holds integers to 100 */
    }
}

/* Returns what one operation makes of two exact integers. The values are such that nothing overflows. */
static long combine_values(mscclpp_op_t op, long a, long b)
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

/* Returns the bytes of the large mapping that holds both buffers. */
static size_t mapped_size(size_t capacity)
{
    return 2 * capacity < LARGE_SIZE ? LARGE_SIZE : 2 * capacity;
}

/*
 * Allocates both buffers in the kind of memory that buffers->memory says. For BENCH_MEMORY_STACK, uses `stack`, which
 * belongs to the caller. On failure allocates neither and returns false, without a line.
 */
static bool alloc_buffers(bench_buffers_t *buffers, const bench_env_t *env, char *stack)
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
    case BENCH_MEMORY_DEVICE:
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

/* Frees what alloc_buffers has allocated. Memory on the stack belongs to the caller, and stays. */
static void free_buffers(bench_buffers_t *buffers, const bench_env_t *env)
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
    case BENCH_MEMORY_DEVICE:
        env->gpu->device_free(env->device, buffers->recv);
        env->gpu->device_free(env->device, buffers->send);
        break;
    }
}

/*
 * Allocates the buffers, the staging area and the expected result. On failure frees everything again, prints a line and
 * returns false.
 */
bool bench_buffers_open(bench_buffers_t *buffers, const bench_env_t *env, size_t capacity, bench_memory_t memory,
                        char *stack)
{
    void *staging, *unused;

    memset(buffers, 0, sizeof(*buffers));
    buffers->memory = memory;
    buffers->capacity = capacity;
    buffers->staging_size = STAGING_SIZE;
    buffers->expected = malloc(2 * PERIOD * sizeof(int64_t));
    if (buffers->expected == NULL) {
        goto err;
    }
    if (!alloc_buffers(buffers, env, stack)) {
        goto err_expected;
    }
    if (MSCCLPP_OK != env->gpu->host_alloc(STAGING_SIZE, &staging, &unused)) {
        goto err_buffers;
    }
    buffers->staging = staging;
    return true;

err_buffers:
    free_buffers(buffers, env);

err_expected:
    free(buffers->expected);

err:
    memset(buffers, 0, sizeof(*buffers));
    fprintf(stderr, "%s: rank %d: cannot allocate two buffers of %zu bytes\n", bench_program, env->rank, capacity);
    return false;
}

/* Frees the buffers. If they are not open, does nothing. */
void bench_buffers_close(bench_buffers_t *buffers, const bench_env_t *env)
{
    if (buffers->send != NULL) {
        env->gpu->host_free(buffers->staging);
        free_buffers(buffers, env);
        free(buffers->expected);
    }
    memset(buffers, 0, sizeof(*buffers));
}

/* Copies to or from one of the buffers. A copy of device memory is only queued in the stream: the caller waits. */
static bool copy_bytes(const bench_buffers_t *buffers, const bench_env_t *env, void *to, const void *from, size_t bytes)
{
    if (BENCH_MEMORY_DEVICE == buffers->memory) {
        return MSCCLPP_OK == env->gpu->copy(env->stream, to, from, bytes);
    }
    memcpy(to, from, bytes);
    return true;
}

/*
 * Fills `bytes` bytes from `to` on with copies of the first `unit_bytes` bytes of the staging area. Waits for the
 * copies, so that the caller may overwrite the staging area. Returns false if a copy fails.
 */
static bool repeat_staging(bench_buffers_t *buffers, const bench_env_t *env, char *to, size_t bytes, size_t unit_bytes)
{
    bool ok = true;

    for (size_t offset = 0; ok && offset < bytes; offset += unit_bytes) {
        size_t piece_bytes = bytes - offset < unit_bytes ? bytes - offset : unit_bytes;
        ok = copy_bytes(buffers, env, to + offset, buffers->staging, piece_bytes);
    }
    return ok && MSCCLPP_OK == env->gpu->stream_sync(env->stream);
}

/* Returns how many elements the staging area holds, in whole periods. */
static size_t staging_elements(const bench_buffers_t *buffers, const bench_type_t *type)
{
    return buffers->staging_size / (PERIOD * type->size) * PERIOD;
}

/*
 * Writes `count` elements from `to` on, which repeat the period at the beginning of the staging area. First repeats the
 * period in the staging area itself, so that fewer and larger copies are needed. Returns false if a copy fails.
 */
static bool repeat_period(bench_buffers_t *buffers, const bench_env_t *env, const bench_type_t *type, char *to,
                          size_t count)
{
    const size_t period_bytes = PERIOD * type->size, unit_bytes = staging_elements(buffers, type) * type->size;
    const size_t used_bytes = count * type->size < unit_bytes
                                  ? (count * type->size + period_bytes - 1) / period_bytes * period_bytes
                                  : unit_bytes;

    for (size_t offset = period_bytes; offset < used_bytes; offset += period_bytes) {
        memcpy(buffers->staging + offset, buffers->staging, period_bytes);
    }
    return repeat_staging(buffers, env, to, count * type->size, unit_bytes);
}

/*
 * Poisons the receive buffer, unless the operands cover all of it, and then writes the operands. The order matters,
 * because in place the operands may be a part of the receive buffer. Both are written through the staging area. Returns
 * false if a copy fails.
 */
bool bench_buffers_fill(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation, int seed)
{
    const bench_type_t *type = operation->type;
    const bench_layout_t *layout = operation->layout;
    const bench_piece_t input = bench_layout_input(layout, operation->in_place);
    char *operands = (input.in_recv ? operation->recv : operation->send) + input.first * type->size;

    if (!input.in_recv || input.count < layout->count) { /* the operands do not cover the whole receive buffer */
        memset(buffers->staging, POISON, PERIOD * type->size);
        if (!repeat_period(buffers, env, type, operation->recv, layout->count)) {
            return false;
        }
    }
    for (size_t i = 0; i < PERIOD; ++i) {
        bench_type_encode(type, operand_at(operation, env->rank, i, seed), buffers->staging + i * type->size);
    }
    return repeat_period(buffers, env, type, operands, input.count);
}

/*
 * Returns how many of the first `count` elements of the staging area differ from the expected ones. The first element
 * is compared with element `phase` of the period, where `phase` is below PERIOD. Compares at most PERIOD elements at
 * a time, which always begin at the same phase, so the two periods in `expected` are long enough.
 */
static uint64_t count_wrong(const bench_buffers_t *buffers, size_t element_bytes, size_t phase, size_t count)
{
    const char *expected = buffers->expected + phase * element_bytes;
    uint64_t wrong = 0;

    for (size_t offset = 0; offset < count; offset += PERIOD) {
        size_t piece = count - offset < PERIOD ? count - offset : PERIOD;
        const char *data = buffers->staging + offset * element_bytes;
        if (0 == memcmp(data, expected, piece * element_bytes)) {
            continue;
        }
        for (size_t i = 0; i < piece; ++i) {
            wrong += 0 != memcmp(data + i * element_bytes, expected + i * element_bytes, element_bytes);
        }
    }
    return wrong;
}

/*
 * Compares `count` elements of the result, from `first` on, with the expected ones, and adds the number of wrong
 * elements to *wrong_p. The first element is compared with element `phase` of the period. So is the first element of
 * each piece, because pieces are whole periods. Returns false if a copy fails.
 */
static bool compare_with_expected(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation,
                                  size_t first, size_t count, size_t phase, uint64_t *wrong_p)
{
    const size_t element_bytes = operation->type->size, max_elements = staging_elements(buffers, operation->type);

    for (size_t offset = 0; offset < count; offset += max_elements) {
        size_t piece = count - offset < max_elements ? count - offset : max_elements;
        if (!copy_bytes(buffers, env, buffers->staging, operation->recv + (first + offset) * element_bytes,
                        piece * element_bytes) ||
            MSCCLPP_OK != env->gpu->stream_sync(env->stream)) {
            return false;
        }
        *wrong_p += count_wrong(buffers, element_bytes, phase, piece);
    }
    return true;
}

/*
 * Computes one period of a segment's expected elements, from index 0 of the operands on. Stores it twice, so that a
 * comparison can begin at any of its elements.
 */
static void compute_expected(bench_buffers_t *buffers, const bench_operation_t *operation,
                             const bench_segment_t *segment, int seed)
{
    const size_t element_bytes = operation->type->size;

    for (size_t i = 0; i < PERIOD; ++i) {
        long value = operand_at(operation, segment->first_rank, i, seed);
        for (int rank = segment->first_rank + 1; rank < segment->end_rank; ++rank) {
            value = combine_values(operation->op->op, value, operand_at(operation, rank, i, seed));
        }
        bench_type_encode(operation->type, value, buffers->expected + i * element_bytes);
    }
    memcpy(buffers->expected + PERIOD * element_bytes, buffers->expected, PERIOD * element_bytes);
}

/*
 * Compares each segment of the result with the value computed from its operands. If `strict`, also compares the
 * elements after the result with the poison, unless the collective may change them. A rank without a result has no
 * segments, so then its whole receive buffer is compared with the poison. The caller has waited for the end of the
 * call. Returns false if a copy fails.
 */
bool bench_buffers_verify(bench_buffers_t *buffers, const bench_env_t *env, const bench_operation_t *operation,
                          int seed, bool strict, uint64_t *wrong_p)
{
    const bench_layout_t *layout = operation->layout;
    const int segments = bench_layout_segments(layout, operation->in_place);
    size_t result_end = 0;

    *wrong_p = 0;
    for (int i = 0; i < segments; ++i) {
        const bench_segment_t segment = bench_layout_segment(layout, i);

        compute_expected(buffers, operation, &segment, seed);
        if (!compare_with_expected(buffers, env, operation, segment.first, segment.count,
                                   segment.operand_first % PERIOD, wrong_p)) {
            return false;
        }
        result_end = segment.first + segment.count;
    }
    if (!strict || !bench_layout_keeps_rest(layout, operation->in_place)) {
        return true;
    }
    /* bench_buffers_fill has poisoned the elements behind the result. */
    memset(buffers->expected, POISON, 2 * PERIOD * operation->type->size);
    return compare_with_expected(buffers, env, operation, result_end, layout->count - result_end, 0, wrong_p);
}
