/*
 * The cases that every transport goes through, and what they share. Each is collective: both ends call it at the same
 * time. A case leaves the end as it found it.
 */
#ifndef TEST_HOST_TRANSPORT_CASES_H
#define TEST_HOST_TRANSPORT_CASES_H

#include "test/host/transport_end.h"

/* Bytes before and behind a message that must stay 0; no message lies closer to its memory's ends. */
#define GUARD 64
#define MIB ((size_t)1 << 20)

/* A connection, with memory to put from and memory that the peer puts into, of one length on both ends. */
typedef struct {
    end_memory_t source;
    end_memory_t target;
    end_link_t link;
} pair_t;

void case_pair_create(end_t *end, pair_t *pair, size_t length);
void case_pair_destroy(end_t *end, pair_t *pair);

/* Rank 0 prints a number for information. */
void case_note(const end_t *end, const char *what, uint64_t count);

unsigned char *case_allocate(const end_t *end, size_t length);

/* Writes message number `message` of `length` bytes into own memory. */
void case_fill(end_t *end, const end_memory_t *memory, uint64_t at, uint64_t message, size_t length);

/* True if that message lies at `at` and nothing is written around it. Otherwise says what is wrong. */
bool case_is_there(end_t *end, const end_memory_t *memory, uint64_t at, uint64_t message, size_t length);

/* Zeroes own memory. */
void case_clear(end_t *end, const end_memory_t *memory, uint64_t at, size_t length);

/* Each end in turn sends while the other one receives. */
void case_take_turns(end_t *end, void (*act)(end_t *end, void *context, bool sends), void *context);

/* transport_cases_data.c */
void case_sizes(end_t *end);
void case_outstanding(end_t *end);
void case_stream(end_t *end);
void case_tokens(end_t *end);
void case_flush(end_t *end);
void case_leaving(end_t *end);
void case_two_connections(end_t *end);
void case_add(end_t *end);
void case_mapped(end_t *end);

/* transport_cases_faults.c */
void case_refusals(end_t *end);
void case_no_tokens(end_t *end);
void case_ranges(end_t *end);
void case_closed_peer(end_t *end);
void case_cycles(end_t *end);

/* In this case rank 1's process ends. */
void case_dead_peer(end_t *end);

#endif
