#include "test/host/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(bool exportable, uint64_t count)
{
    size_t size = (size_t)(count + 1) * sizeof(int32_t);
    void *address = NULL;

    if (exportable) {
        (void)mscclpp_gpu_host_ops.device_alloc(0, size, &address);
    } else {
        address = malloc(size);
    }
    if (address == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(1);
    }
    return address;
}

static void release(bool exportable, void *address)
{
    if (exportable) {
        mscclpp_gpu_host_ops.device_free(0, address);
    } else {
        free(address);
    }
}

void traffic_open(traffic_t *traffic, mscclpp_team_t *team, uint64_t max_count, bool exportable)
{
    memset(traffic, 0, sizeof(*traffic));
    traffic->team = team;
    traffic->max_count = max_count;
    traffic->exportable = exportable;
    traffic->in = allocate(exportable, max_count);
    traffic->out = allocate(exportable, max_count);
}

void traffic_close(traffic_t *traffic)
{
    mscclpp_team_destroy(traffic->team);
    release(traffic->exportable, traffic->in);
    release(traffic->exportable, traffic->out);
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
    traffic->out[count] = 0x5a5a5a5a;
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
    return traffic->out[count] == 0x5a5a5a5a;
}

mscclpp_status_t traffic_call(traffic_t *traffic, uint64_t count, bool *right_p)
{
    mscclpp_allreduce_args_t args;
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
    mscclpp_allreduce_args_t args;

    prepare(traffic, count, &args);
    return mscclpp_allreduce_enqueue(traffic->team, &args, stream);
}
