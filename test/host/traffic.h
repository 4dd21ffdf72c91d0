/* Calls whose results are known without a reference, for the stress and fault tests. */
#ifndef TEST_HOST_TRAFFIC_H
#define TEST_HOST_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "test/host/rank_threads.h"
#include "test/host/user_buffer.h"

/* One rank's end of a team, with buffers of its own. */
typedef struct {
    mscclpp_team_t *team;
    int32_t *in;
    int32_t *out;
    user_pool_t in_pool;
    user_pool_t out_pool;
    user_buffer_t in_buffer;
    user_buffer_t out_buffer;
    uint64_t call;
} traffic_t;

/* Takes over the team; traffic_close destroys it. Buffers hold `max_count` numbers. Zero-copy needs USER_DEVICE. */
void traffic_open(traffic_t *traffic, mscclpp_team_t *team, uint64_t max_count, user_kind_t kind);
void traffic_close(traffic_t *traffic);

/* One blocking sum of `count` numbers, with the result verified. */
mscclpp_status_t traffic_call(traffic_t *traffic, uint64_t count, bool *right_p);

/* traffic_call in two halves: queues the sum, and verifies its result once the stream's work has ended. */
mscclpp_status_t traffic_enqueue(traffic_t *traffic, uint64_t count, mscclpp_gpu_stream_t *stream);
bool traffic_verify(const traffic_t *traffic, uint64_t count);

#endif
