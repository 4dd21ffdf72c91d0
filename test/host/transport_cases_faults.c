/* Cases about faults: invalid input that must be refused, peers that leave, and leaks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/host/process_state.h"
#include "test/host/transport_cases.h"

static bool is_refused(mscclpp_status_t status)
{
    return status != MSCCLPP_OK && status != MSCCLPP_IN_PROGRESS;
}

/* Addresses and keys are refused if they are truncated, too long, empty, or of another kind; so is a second connect. */
void case_refusals(end_t *end)
{
    unsigned char bytes[2 * MSCCLPP_TRANSPORT_ADDRESS_MAX], good[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    mscclpp_remote_t *remote = NULL;
    mscclpp_conn_t *conn;
    size_t length = 0, i;
    pair_t pair;
    int k;

    case_pair_create(end, &pair, 4096);
    end_tolerate(end);
    for (k = 0; k < 4; ++k) {
        END_CHECK_EQ(end->ops->conn_create(end->transport, end->peer, &conn), MSCCLPP_OK);
        END_CHECK_EQ(end->ops->conn_address(conn, good, &length), MSCCLPP_OK);
        END_CHECK(length > 0 && length <= MSCCLPP_TRANSPORT_ADDRESS_MAX);
        memset(bytes, 0x5a, sizeof(bytes));
        if (k != 3) {
            memcpy(bytes, good, length);
        }
        length = k == 0 ? length - 1 : k == 1 ? sizeof(bytes) : k == 2 ? 0 : length;
        END_CHECK(is_refused(end->ops->conn_connect(conn, bytes, length)));
        end->ops->conn_destroy(conn);
    }
    /* A connection is made once. */
    END_CHECK_EQ(end->ops->conn_address(pair.link.conn, good, &length), MSCCLPP_OK);
    END_CHECK(is_refused(end->ops->conn_connect(pair.link.conn, good, length)));
    END_CHECK_EQ(end->ops->region_key(pair.target.region, good, &length), MSCCLPP_OK);
    END_CHECK(length > 0 && length <= MSCCLPP_TRANSPORT_KEY_MAX);
    for (k = 0; k < 4; ++k) {
        for (i = 0; i < sizeof(bytes); ++i) {
            bytes[i] = k != 3 && i < length ? good[i] : 0xa5;
        }
        END_CHECK(is_refused(end->ops->remote_create(pair.link.conn, bytes,
                                                     k == 0   ? length - 1
                                                     : k == 1 ? sizeof(bytes)
                                                     : k == 2 ? 0
                                                              : length,
                                                     &remote)));
    }
    end_tolerate_no_more(end);
    /* The connection still works. */
    END_CHECK_EQ(end->ops->conn_status(pair.link.conn), MSCCLPP_OK);
    end_signal(end, &pair.link, 0);
    end_await(end, 0, 1);
    end_settle(end, &pair.link);
    case_pair_destroy(end, &pair);
}

/* Ends without tokens are connected once, too. No signal reaches them. */
void case_no_tokens(end_t *end)
{
    const mscclpp_transport_params_t params = {.config = end->config,
                                               .gpu = end->gpu,
                                               .device = end->device,
                                               .rank = end->rank,
                                               .size = 2,
                                               .one_host = end->alone && !process_state_sanitized(),
                                               .label = "an end without tokens",
                                               .tokens = end->tokens};
    unsigned char own[MSCCLPP_TRANSPORT_ADDRESS_MAX], theirs[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    mscclpp_transport_t *transport = NULL;
    mscclpp_conn_t *conn = NULL;
    size_t own_length = sizeof(own), their_length = 0;
    uint32_t flags = 0;

    if (strcmp(end->ops->name, "shm") != 0 && strcmp(end->ops->name, "cuda_ipc") != 0) {
        return; /* the other ones register the memory of tokens, and there is none */
    }
    END_CHECK_EQ(end->ops->create(&params, &flags, &transport), MSCCLPP_OK);
    END_CHECK_EQ(end->ops->conn_create(transport, end->peer, &conn), MSCCLPP_OK);
    END_CHECK_EQ(end->ops->conn_address(conn, own, &own_length), MSCCLPP_OK);
    end_exchange(end, own, own_length, theirs, sizeof(theirs), &their_length);
    END_CHECK_EQ(end->ops->conn_connect(conn, theirs, their_length), MSCCLPP_OK);
    end_tolerate(end);
    END_CHECK_EQ(end->ops->conn_connect(conn, theirs, their_length), MSCCLPP_ERR_INVALID);
    END_CHECK_EQ(end->ops->signal(conn, 0), MSCCLPP_ERR_INVALID);
    end_tolerate_no_more(end);
    end->ops->conn_destroy(conn);
    end->ops->destroy(transport);
}

/* A put of (to, from, length), or a signal on token `to` for a length of UINT64_MAX. */
typedef struct {
    uint64_t to, from, length;
} attempt_t;

#define SIGNAL UINT64_MAX

/* One step towards the end of an attempt and of a flush after it; *stage goes from 0 to 2. */
static mscclpp_status_t step(end_t *end, const pair_t *pair, const attempt_t *attempt, int *stage, uint64_t *ticket)
{
    const end_link_t *link = &pair->link;
    mscclpp_status_t status;

    if (*stage == 0) {
        status = attempt->length == SIGNAL ? end->ops->signal(link->conn, (uint32_t)attempt->to)
                                           : end->ops->put(link->conn, link->remote, attempt->to, pair->source.region,
                                                           attempt->from, attempt->length);
    } else if (*stage == 1) {
        status = end->ops->flush(link->conn, ticket);
    } else {
        return end->ops->test(link->conn, *ticket);
    }
    if (status == MSCCLPP_OK) {
        ++*stage;
        return MSCCLPP_IN_PROGRESS;
    }
    return status;
}

/* Returns how an attempt ends. A bad operation is refused at once, or breaks its connection before a flush ends. */
static mscclpp_status_t attempt_to(end_t *end, const pair_t *pair, const attempt_t *attempt)
{
    const double deadline = end_now() + end->timeout;
    mscclpp_status_t status;
    uint64_t ticket = 0;
    int stage = 0;

    while ((status = step(end, pair, attempt, &stage, &ticket)) == MSCCLPP_IN_PROGRESS) {
        end_turn(end);
        if (end_now() > deadline) {
            end_die(end, "waited %.0f s for the end of an operation", end->timeout);
        }
    }
    return status;
}

void case_ranges(end_t *end)
{
    const attempt_t attempts[] = {{4090, 0, 7},    {UINT64_MAX - 3, 0, 8}, {0, 4090, 7},
                                  {0, 0, 1 << 20}, {0, UINT64_MAX - 3, 8}, {END_TOKENS, 0, SIGNAL}};
    unsigned i;

    for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); ++i) {
        pair_t pair;

        case_pair_create(end, &pair, 4096);
        end_tolerate(end);
        end->may_fail = true;
        if (end->rank == 0) {
            END_CHECK(is_refused(attempt_to(end, &pair, &attempts[i])));
        }
        case_pair_destroy(end, &pair);
        end->may_fail = false;
        end_tolerate_no_more(end);
    }
}

/* Goes on for a while after the peer has gone. Flushes end, well or with an error. */
static void work_on(end_t *end, pair_t *pair)
{
    const attempt_t attempt = {0, 0, 65536};
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 0; i < 20 && status >= 0; ++i) {
        status = attempt_to(end, pair, &attempt);
    }
    case_note(end, status < 0 ? "noticed that the peer is gone" : "did not notice that the peer is gone", 1);
    if (status < 0) {
        END_CHECK(is_refused(end->ops->conn_status(pair->link.conn)));
    }
}

/* The peer closes its connection and frees its memory while operations are under way. */
void case_closed_peer(end_t *end)
{
    pair_t pair;

    case_pair_create(end, &pair, MIB);
    end_tolerate(end);
    end->may_fail = true;
    if (end->rank == 1) {
        end->ops->remote_destroy(pair.link.remote);
        end->ops->conn_destroy(pair.link.conn);
        end_memory_destroy(end, &pair.target);
        end_memory_destroy(end, &pair.source);
        end_meet(end);
    } else {
        end_put(end, &pair.link, 0, &pair.source, 0, MIB);
        end_meet(end);
        work_on(end, &pair);
        end->ops->remote_destroy(pair.link.remote);
        end->ops->conn_destroy(pair.link.conn);
        end_memory_destroy(end, &pair.target);
        end_memory_destroy(end, &pair.source);
    }
    end->may_fail = false;
    end_tolerate_no_more(end);
    /* The instances still work: a new connection can be used. */
    case_pair_create(end, &pair, 4096);
    end_signal(end, &pair.link, 0);
    end_await(end, 0, 1);
    end_settle(end, &pair.link);
    case_pair_destroy(end, &pair);
}

static int open_files(void)
{
    process_state_t state;

    process_state_read(&state);
    return state.descriptors;
}

/* Connections and regions are created and destroyed, used or not, connected or not. Nothing leaks. */
void case_cycles(end_t *end)
{
    int i, files = 0;

    for (i = 0; i < 24; ++i) {
        mscclpp_conn_t *unconnected = NULL;
        pair_t pair;

        case_pair_create(end, &pair, 8192);
        END_CHECK_EQ(end->ops->conn_create(end->transport, end->peer, &unconnected), MSCCLPP_OK);
        end->ops->conn_destroy(unconnected);
        if (i % 2 == 0) {
            end_put(end, &pair.link, 0, &pair.source, 0, 8192);
            end_signal(end, &pair.link, 0);
            end_await(end, 0, 1);
            end_settle(end, &pair.link);
        }
        case_pair_destroy(end, &pair);
        if (i == 11) {
            files = open_files();
        }
    }
    if (end->alone) {
        END_CHECK_EQ(open_files(), files);
    }
    end->ops->conn_destroy(NULL);
}

/*
 * The peer dies. This case is the last one, and runs with processes only. First each end hears from the other, because
 * UCX 1.13 aborts a process whose peer dies during wire-up.
 */
void case_dead_peer(end_t *end)
{
    pair_t pair;
    int result;

    case_pair_create(end, &pair, MIB);
    end_put(end, &pair.link, 0, &pair.source, 0, MIB);
    end_signal(end, &pair.link, 0);
    end_await(end, 0, 1);
    end_settle(end, &pair.link);
    end_tolerate(end);
    end->may_fail = true;
    if (end->rank == 1) {
        end_put(end, &pair.link, 0, &pair.source, 0, MIB);
        result = end_result("rank 1");
        fflush(NULL);
        _exit(result);
    }
    while (end_meet_or_gone(end)) {
    }
    work_on(end, &pair);
    end->ops->remote_destroy(pair.link.remote);
    end->ops->conn_destroy(pair.link.conn);
    end_memory_destroy(end, &pair.target);
    end_memory_destroy(end, &pair.source);
}
