#include "test/host/traffic.h"

#include <stdio.h>
#include <string.h>

void traffic_open(traffic_t *traffic, mscclpp_team_t *team, uint64_t max_count, user_kind_t kind)
{
    size_t size = (size_t)max_count * sizeof(int32_t);

    memset(traffic, 0, sizeof(*traffic));
    traffic->team = team;
    user_pool_create(&traffic->in_pool, size);
    user_pool_create(&traffic->out_pool, size);
    user_buffer_open(&traffic->in_buffer, kind, &traffic->in_pool, 0, size);
    user_buffer_open(&traffic->out_buffer, kind, &traffic->out_pool, 0, size);
    traffic->in = traffic->in_buffer.data;
    traffic->out = traffic->out_buffer.data;
}

void traffic_close(traffic_t *traffic)
{
    mscclpp_team_destroy(traffic->team);
    user_buffer_close(&traffic->in_buffer);
    user_buffer_close(&traffic->out_buffer);
    user_pool_destroy(&traffic->in_pool);
    user_pool_destroy(&traffic->out_pool);
}

/* Element `i` of a rank's operand in a call. */
static int32_t operand(uint64_t call, int rank, uint64_t i)
{
    return (int32_t)((uint32_t)call * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)i * 97u);
}

static void prepare(traffic_t *traffic, uint64_t count, mscclpp_allreduce_args_t *args)
{
    int rank = mscclpp_team_rank(traffic->team);
    uint64_t i;

    ++traffic->call;
    for (i = 0; i < count; ++i) {
        traffic->in[i] = operand(traffic->call, rank, i);
        traffic->out[i] = -1;
    }
    args->sendbuf = traffic->in;
    args->recvbuf = traffic->out;
    args->count = count;
    args->dtype = MSCCLPP_DTYPE_INT32;
    args->op = MSCCLPP_OP_SUM;
    args->call = traffic->call;
}

bool traffic_verify(const traffic_t *traffic, uint64_t count)
{
    uint32_t n = (uint32_t)mscclpp_team_size(traffic->team), ranks = n * (n - 1) / 2;
    uint64_t i;

    for (i = 0; i < count; ++i) {
        uint32_t wanted = n * (uint32_t)operand(traffic->call, 0, i) + ranks * 40503u;

        if ((uint32_t)traffic->out[i] != wanted) {
            fprintf(stderr, "FAIL rank %d of %u, call %llu, %s, %llu numbers: number %llu is %u, not %u\n",
                    mscclpp_team_rank(traffic->team), n, (unsigned long long)traffic->call,
                    mscclpp_team_last_algorithm(traffic->team), (unsigned long long)count, (unsigned long long)i,
                    (uint32_t)traffic->out[i], wanted);
            return false;
        }
    }
    return user_buffer_intact(&traffic->in_buffer) && user_buffer_intact(&traffic->out_buffer);
}

mscclpp_status_t traffic_call(traffic_t *traffic, uint64_t count, bool *right_p)
{
    mscclpp_allreduce_args_t args = {.early = false};
    mscclpp_status_t status;

    prepare(traffic, count, &args);
    status = mscclpp_allreduce(traffic->team, &args);
    if (status == MSCCLPP_OK) {
        *right_p = traffic_verify(traffic, count);
    }
    return status;
}

mscclpp_status_t traffic_enqueue(traffic_t *traffic, uint64_t count, mscclpp_gpu_stream_t *stream)
{
    mscclpp_allreduce_args_t args = {.early = false};

    prepare(traffic, count, &args);
    return mscclpp_allreduce_enqueue(traffic->team, &args, stream);
}
