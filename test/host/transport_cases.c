#include "test/host/transport_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void case_note(const end_t *end, const char *what, uint64_t count)
{
    if (end->rank == 0) {
        printf("    %s: %llu\n", what, (unsigned long long)count);
    }
}

unsigned char *case_allocate(const end_t *end, size_t length)
{
    unsigned char *bytes = malloc(length > 0 ? length : 1);

    if (bytes == NULL) {
        end_die(end, "out of memory for %zu bytes", length);
    }
    return bytes;
}

/* The byte at `at` of a message. It depends on the message and on every byte of `at`. */
static unsigned char case_value(uint64_t message, uint64_t at)
{
    uint64_t x = at + message * UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned char)(x ^ x >> 8 ^ x >> 16 ^ x >> 24 ^ x >> 40);
}

void case_fill(end_t *end, const end_memory_t *memory, uint64_t at, uint64_t message, size_t length)
{
    unsigned char *bytes = case_allocate(end, length);
    size_t i;

    for (i = 0; i < length; ++i) {
        bytes[i] = case_value(message, i);
    }
    end_write(end, memory, at, bytes, length);
    free(bytes);
}

/* Looks at the message and at the guards around it. */
bool case_is_there(end_t *end, const end_memory_t *memory, uint64_t at, uint64_t message, size_t length)
{
    unsigned char *bytes = case_allocate(end, length + 2 * GUARD);
    bool right = true;
    size_t i;

    end_read(end, memory, at - GUARD, bytes, length + 2 * GUARD);
    for (i = 0; i < length && right; ++i) {
        right = bytes[GUARD + i] == case_value(message, i);
        if (!right) {
            fprintf(stderr, "    message %llu of %zu bytes at %llu: byte %zu is %u, not %u\n",
                    (unsigned long long)message, length, (unsigned long long)at, i, bytes[GUARD + i],
                    case_value(message, i));
        }
    }
    for (i = 0; i < GUARD && right; ++i) {
        right = bytes[i] == 0 && bytes[GUARD + length + i] == 0;
        if (!right) {
            fprintf(stderr, "    message %llu of %zu bytes at %llu: byte %zu before it is %u, %zu after it %u\n",
                    (unsigned long long)message, length, (unsigned long long)at, GUARD - i, bytes[i], i + 1,
                    bytes[GUARD + length + i]);
        }
    }
    free(bytes);
    return right;
}

void case_clear(end_t *end, const end_memory_t *memory, uint64_t at, size_t length)
{
    unsigned char *bytes = case_allocate(end, length);

    memset(bytes, 0, length);
    end_write(end, memory, at, bytes, length);
    free(bytes);
}

/* In each turn one end sends and the other one receives. */
void case_take_turns(end_t *end, void (*act)(end_t *end, void *context, bool sends), void *context)
{
    int turn;

    for (turn = 0; turn < 2; ++turn) {
        act(end, context, turn == end->rank);
        end_meet(end);
    }
}

void case_pair_create(end_t *end, pair_t *pair, size_t length)
{
    end_memory_create(end, length, &pair->source);
    end_memory_create(end, length, &pair->target);
    end_link(end, &pair->target, &pair->link);
}

void case_pair_destroy(end_t *end, pair_t *pair)
{
    end_unlink(end, &pair->link);
    end_memory_destroy(end, &pair->target);
    end_memory_destroy(end, &pair->source);
}
