/* Cases about data: what arrives, when, and in what order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/host/transport_cases.h"

/* Offsets of source and destination from aligned addresses. */
static const struct {
    uint64_t from, to;
} shifts[] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}, {8, 4}};
#define SHIFTS (sizeof(shifts) / sizeof(shifts[0]))

/* Every size and alignment. When the signal arrives, the bytes are there. */
static void send_sizes(end_t *end, void *context, bool sends)
{
    static const size_t sizes[] = {0,     1,     2,     3,       4,       7,        8,        9,
                                   15,    16,    17,    63,      64,      65,       255,      256,
                                   257,   1000,  4095,  4096,    4097,    8191,     32767,    65535,
                                   65536, 65537, 99991, 1048575, 1048577, 16777213, 67108864, 1073741824};
    pair_t *pair = context;
    uint64_t message = 1;
    size_t i, s;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= end->largest; ++i) {
        const size_t size = sizes[i];

        /* A large message has one alignment, and each large message another. */
        for (s = 0; s < SHIFTS; ++s, ++message) {
            const uint64_t from = GUARD + shifts[s].from, to = GUARD + shifts[s].to;

            if (size > MIB && s != i % SHIFTS) {
                continue;
            }
            if (sends) {
                case_fill(end, &pair->source, from, message, size);
                if (message % 2 == 0) {
                    end_put(end, &pair->link, to, &pair->source, from, size);
                    end_signal(end, &pair->link, 0);
                } else {
                    end_put_signal(end, &pair->link, to, &pair->source, from, size, 0);
                }
                end_settle(end, &pair->link);
                END_CHECK(end->ops->has_left == NULL || end->ops->has_left(pair->link.conn));
                end_await(end, 1, 1);
            } else {
                end_await(end, 0, 1);
                END_CHECK(case_is_there(end, &pair->target, to, message, size));
                case_clear(end, &pair->target, to, size);
                end_signal(end, &pair->link, 1);
            }
        }
    }
    if (!sends) {
        end_settle(end, &pair->link);
    }
}

void case_sizes(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, end->largest + 4 * GUARD);
    case_take_turns(end, send_sizes, &pair);
    case_pair_destroy(end, &pair);
}

/* 64 messages of all sizes under way at once before one signal. */
static void send_many(end_t *end, void *context, bool sends)
{
    static const size_t sizes[] = {1, 100, 4096, 70000, 333, 8, 0, 262144};
    pair_t *pair = context;
    uint64_t at, full = 0;
    int i, round;

    for (round = 0; round < 3; ++round) {
        for (i = 0, at = GUARD; i < 64; ++i) {
            if (sends) {
                case_fill(end, &pair->source, at, (uint64_t)(round * 64 + i), sizes[i % 8]);
            }
            at += sizes[i % 8] + GUARD;
        }
        for (i = 0, at = GUARD; i < 64 && sends; ++i) {
            full += end_put(end, &pair->link, at, &pair->source, at, sizes[i % 8]);
            at += sizes[i % 8] + GUARD;
        }
        if (sends) {
            full += end_signal(end, &pair->link, 2);
            end_await(end, 3, 1);
            end_settle(end, &pair->link);
        } else {
            end_await(end, 2, 1);
            for (i = 0, at = GUARD; i < 64; ++i) {
                END_CHECK(case_is_there(end, &pair->target, at, (uint64_t)(round * 64 + i), sizes[i % 8]));
                at += sizes[i % 8] + GUARD;
            }
            case_clear(end, &pair->target, 0, at);
            end_signal(end, &pair->link, 3);
            end_settle(end, &pair->link);
        }
    }
    if (sends) {
        case_note(end, "answers that there was no room", full);
    }
}

void case_outstanding(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, 4 * MIB);
    case_take_turns(end, send_many, &pair);
    case_pair_destroy(end, &pair);
}

/*
 * A stream of small puts, each with its signal, without a flush in between, more than 16 bits count. An end that sees
 * the nth signal must see the first n puts.
 */
#define STREAM 70000u

static void send_stream(end_t *end, void *context, bool sends)
{
    const double deadline = end_now() + end->timeout;
    uint64_t *numbers = (uint64_t *)(void *)case_allocate(end, STREAM * sizeof(*numbers));
    uint64_t i, full = 0, seen = 0, checked = 0, wrong = 0;
    pair_t *pair = context;

    if (sends) {
        for (i = 0; i < STREAM; ++i) {
            numbers[i] = i + 1;
        }
        end_write(end, &pair->source, 0, numbers, STREAM * sizeof(*numbers));
        for (i = 0; i < STREAM; ++i) {
            if (i % 3 != 0) {
                full += end_put(end, &pair->link, i * 8, &pair->source, i * 8, 8);
                full += end_signal(end, &pair->link, 4);
            } else {
                full += end_put_signal(end, &pair->link, i * 8, &pair->source, i * 8, 8, 4);
            }
        }
        end_settle(end, &pair->link);
        case_note(end, "answers that there was no room", full);
    } else {
        while (checked < STREAM) {
            seen = end_token(end, 4) - end->seen[4];
            if (seen > checked) {
                end_read(end, &pair->target, checked * 8, numbers, (seen - checked) * 8);
                for (i = checked; i < seen; ++i) {
                    wrong += numbers[i - checked] != i + 1;
                }
                checked = seen;
            }
            end_turn(end);
            if (end_now() > deadline) {
                end_die(end, "%llu of %u signals came", (unsigned long long)checked, STREAM);
            }
        }
        END_CHECK_EQ(wrong, 0);
        END_CHECK_EQ(seen, STREAM);
        end->seen[4] += STREAM;
    }
    free(numbers);
}

void case_stream(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, STREAM * 8);
    case_take_turns(end, send_stream, &pair);
    /* No signal came twice, and none went to another token. */
    END_CHECK_EQ(end_token(end, 4), end->seen[4]);
    END_CHECK_EQ(end_token(end, 5), 0);
    case_pair_destroy(end, &pair);
}

/* Each token counts for itself. */
void case_tokens(end_t *end)
{
    uint32_t token, i;
    pair_t pair;

    case_pair_create(end, &pair, 4096);
    for (token = 6; token < END_TOKENS; ++token) {
        for (i = 0; i < token; ++i) {
            end_signal(end, &pair.link, token);
        }
    }
    for (token = END_TOKENS; token-- > 6;) {
        end_await(end, token, token);
    }
    end_settle(end, &pair.link);
    end_meet(end);
    for (token = 6; token < END_TOKENS; ++token) {
        END_CHECK_EQ(end_token(end, token), end->seen[token]);
    }
    case_pair_destroy(end, &pair);
}

/* After a flush the bytes are in the peer's memory, and the source may be overwritten. */
static void send_flushed(end_t *end, void *context, bool sends)
{
    static const size_t sizes[] = {1, 8, 60, 500, 5000, 65536, 1000003, 5};
    uint64_t message = 1000, ticket, older = 0;
    pair_t *pair = context;
    int i;

    for (i = 0; i < 64; ++i, ++message) {
        const size_t size = sizes[i % 8];

        if (sends) {
            case_fill(end, &pair->source, GUARD, message, size);
            end_put(end, &pair->link, GUARD, &pair->source, GUARD, size);
            ticket = end_flush(end, &pair->link);
            end_test(end, &pair->link, ticket);
            END_CHECK_EQ(end->ops->test(pair->link.conn, ticket), MSCCLPP_OK);
            if (i > 0) {
                END_CHECK_EQ(end->ops->test(pair->link.conn, older), MSCCLPP_OK);
            }
            older = ticket;
            case_fill(end, &pair->source, GUARD, message + 500, size);
            end_meet(end);
        } else {
            end_meet(end);
            END_CHECK(case_is_there(end, &pair->target, GUARD, message, size));
            case_clear(end, &pair->target, GUARD, size);
        }
        end_meet(end);
    }
    /* Several tickets at once, tested in reverse order, and one with nothing under way. */
    if (sends) {
        uint64_t tickets[8];

        for (i = 0; i < 8; ++i) {
            end_put(end, &pair->link, GUARD, &pair->source, GUARD, 100);
            tickets[i] = end_flush(end, &pair->link);
        }
        for (i = 8; i-- > 0;) {
            end_test(end, &pair->link, tickets[i]);
        }
        end_settle(end, &pair->link);
    }
    end_meet(end);
    case_clear(end, &pair->target, GUARD, 100);
}

void case_flush(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, 2 * MIB);
    case_take_turns(end, send_flushed, &pair);
    case_pair_destroy(end, &pair);
}

/*
 * A sender whose transport makes no progress once all has left, as in a program that computes after its call. The other
 * end looks only later, so that sockets fill up, each time at another message.
 */
#define LEAVING_MAX 8
#define LEAVING_SIZE 4000

static void send_and_rest(end_t *end, void *context, bool sends)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    pair_t *pair = context;
    int puts, i;

    for (puts = 1; puts <= LEAVING_MAX; ++puts) {
        if (sends) {
            const double deadline = end_now() + end->timeout;

            for (i = 0; i < puts; ++i) {
                end_put(end, &pair->link, 0, &pair->source, 0, LEAVING_SIZE);
            }
            end_signal(end, &pair->link, 12);
            while (!end->ops->has_left(pair->link.conn)) {
                end_turn(end);
                if (end_now() > deadline) {
                    end_die(end, "%d puts have not left after %.0f s", puts, end->timeout);
                }
            }
        } else {
            nanosleep(&nap, NULL);
            end_await(end, 12, 1);
        }
        end_meet_at_rest(end);
    }
    end_settle(end, &pair->link);
}

void case_leaving(end_t *end)
{
    pair_t pair;

    if (end->ops->has_left == NULL) {
        return;
    }
    case_pair_create(end, &pair, LEAVING_SIZE);
    case_take_turns(end, send_and_rest, &pair);
    case_pair_destroy(end, &pair);
}

/* The flush of a connection with little to do ends while another one is busy. */
void case_two_connections(end_t *end)
{
    uint64_t busy, quick, independent = 0;
    end_memory_t small;
    end_link_t other;
    pair_t pair;
    uint64_t k;
    int i;

    case_pair_create(end, &pair, 32 * MIB);
    end_memory_create(end, 4096, &small);
    end_link(end, &small, &other);
    for (i = 0; i < 4; ++i) {
        for (k = 0; k < 16; ++k) {
            end_put(end, &pair.link, k * 2 * MIB, &pair.source, k * 2 * MIB, 2 * MIB);
        }
        busy = end_flush(end, &pair.link);
        end_put(end, &other, 0, &pair.source, 0, 8);
        quick = end_flush(end, &other);
        end_test(end, &other, quick);
        independent += end->ops->test(pair.link.conn, busy) == MSCCLPP_IN_PROGRESS;
        end_test(end, &pair.link, busy);
    }
    case_note(end, "small flushes that ended before a large one begun earlier, of 4", independent);
    end_meet(end);
    end->ops->remote_destroy(other.remote);
    end->ops->conn_destroy(other.conn);
    end_meet(end);
    /* The remaining connection still works. */
    end_signal(end, &pair.link, 0);
    end_await(end, 0, 1);
    end_settle(end, &pair.link);
    end_meet(end);
    end_memory_destroy(end, &small);
    case_pair_destroy(end, &pair);
}

#define ADDS 3000u

static void send_adds(end_t *end, void *context, bool sends)
{
    static const uint64_t values[] = {1, 0, UINT64_C(0x8000000000000000), UINT64_MAX, UINT64_C(0x123456789abcdef0)};
    const double deadline = end_now() + end->timeout;
    pair_t *pair = context;
    uint64_t expected = 0, found;
    unsigned i;

    for (i = 0; i < sizeof(values) / sizeof(values[0]); ++i) {
        expected += values[i];
        if (sends) {
            end_add(end, &pair->link, 16, values[i]);
            end_signal(end, &pair->link, 0);
            end_await(end, 1, 1);
        } else {
            end_await(end, 0, 1);
            end_read(end, &pair->target, 16, &found, sizeof(found));
            END_CHECK(found == expected);
            end_signal(end, &pair->link, 1);
        }
    }
    if (sends) {
        for (i = 0; i < ADDS; ++i) {
            end_add(end, &pair->link, 24, 3);
        }
        end_signal(end, &pair->link, 0);
    } else {
        end_await(end, 0, 1);
        end_read(end, &pair->target, 24, &found, sizeof(found));
        END_CHECK_EQ(found, ADDS * 3);
    }
    end_settle(end, &pair->link);
    end_meet(end);
    if (end_now() > deadline) {
        end_die(end, "additions took more than %.0f s", end->timeout);
    }
    case_clear(end, &pair->target, 0, 64);
}

/* Two connections add to one word; no addition is lost. */
static void add_from_two(end_t *end, pair_t *pair)
{
    end_link_t other;
    uint64_t found;
    unsigned i;

    end_link(end, &pair->target, &other);
    for (i = 0; i < ADDS; ++i) {
        end_add(end, &pair->link, 32, 1);
        end_add(end, &other, 32, UINT64_C(1) << 32);
    }
    end_settle(end, &pair->link);
    end_settle(end, &other);
    end_meet(end);
    end_read(end, &pair->target, 32, &found, sizeof(found));
    END_CHECK_EQ(found, ADDS + ((uint64_t)ADDS << 32));
    end_unlink(end, &other);
}

void case_add(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, 4096);
    if ((end->flags & MSCCLPP_CAN_ADD) != 0) {
        case_take_turns(end, send_adds, &pair);
        add_from_two(end, &pair);
        end_tolerate(end);
        END_CHECK(end->ops->add(pair.link.conn, pair.link.remote, 4, 1) < 0); /* not aligned */
        end_tolerate_no_more(end);
    } else {
        case_note(end, "no additions: skipped", 1);
        END_CHECK_EQ(end->ops->add(pair.link.conn, pair.link.remote, 0, 1), MSCCLPP_ERR_NOT_SUPPORTED);
    }
    case_pair_destroy(end, &pair);
}

/* The device's own stores into a peer's region; here its copies make them. */
static void store_mapped(end_t *end, void *context, bool sends)
{
    static const uint64_t at = 4096 + 777;
    enum { LENGTH = 5000 };
    pair_t *pair = context;
    end_link_t other;
    void *device = NULL, *more;
    mscclpp_status_t status = MSCCLPP_OK;

    end_link(end, &pair->target, &other);
    case_fill(end, &pair->source, at, 5, LENGTH);
    if (sends) {
        end_tolerate(end);
        END_CHECK_EQ(end->ops->remote_map(other.remote, 0, 3 * (uint64_t)LENGTH + 1, &more), MSCCLPP_ERR_INVALID);
        end_tolerate_no_more(end);
        status = end->ops->remote_map(other.remote, at, LENGTH, &device);
        /* Ends in one process share the only mapping of the memory, which its owner has pinned. */
        if (status == MSCCLPP_ERR_NOT_SUPPORTED && !end->alone && strcmp(end->gpu->name, "host") != 0) {
            case_note(end, "no mapping within one process: skipped", 1);
            status = MSCCLPP_OK;
        } else {
            END_CHECK_EQ(status, MSCCLPP_OK);
            END_CHECK_EQ(end->ops->remote_map(other.remote, at, LENGTH, &more), MSCCLPP_ERR_NOT_SUPPORTED);
        }
        if (device != NULL) {
            END_CHECK_EQ(end->gpu->copy(end->stream, device, pair->source.address + at, LENGTH), MSCCLPP_OK);
            END_CHECK_EQ(end->gpu->stream_sync(end->stream), MSCCLPP_OK);
        } else {
            end_put(end, &other, at, &pair->source, at, LENGTH);
            end_settle(end, &other);
        }
    } else {
        end_tolerate(end); /* the other end provokes errors */
        end_tolerate_no_more(end);
    }
    end_meet(end);
    if (!sends) {
        END_CHECK(case_is_there(end, &pair->target, at, 5, LENGTH));
        case_clear(end, &pair->target, at, LENGTH);
    }
    end_unlink(end, &other);
}

void case_mapped(end_t *end)
{
    pair_t pair;

    if (end->ops->remote_map == NULL) {
        case_note(end, "no mapping of a peer's memory: skipped", 1);
        return;
    }
    case_pair_create(end, &pair, 15000);
    case_take_turns(end, store_mapped, &pair);
    case_pair_destroy(end, &pair);
}
