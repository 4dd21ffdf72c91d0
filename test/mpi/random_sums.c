/* Random reductions: operands of small numbers, and what they give. */
#include <string.h>

#include "test/mpi/random_call.h"

typedef struct {
    short value;
    int index;
} short_int_t;

typedef struct {
    double value;
    int index;
} double_int_t;

static const struct {
    MPI_Datatype type;
    int size;
    bool is_float, has_index;
} types[] = {
    {MPI_INT8_T, 1, false, false},   {MPI_INT16_T, 2, false, false},    {MPI_INT32_T, 4, false, false},
    {MPI_INT64_T, 8, false, false},  {MPI_FLOAT, 4, true, false},       {MPI_DOUBLE, 8, true, false},
    {MPI_SHORT_INT, 8, false, true}, {MPI_DOUBLE_INT, 16, false, true},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

MPI_Datatype random_sum_type(const random_call_t *call)
{
    return types[call->type % TYPES].type;
}

int random_sum_size(const random_call_t *call)
{
    return types[call->type % TYPES].size;
}

MPI_Op random_sum_op(const random_call_t *call)
{
    const MPI_Op with_index[] = {MPI_MINLOC, MPI_MAXLOC}, others[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BOR, MPI_BXOR};

    return types[call->type % TYPES].has_index ? with_index[call->op % 2]
                                               : others[call->op % (types[call->type % TYPES].is_float ? 3 : 5)];
}

int random_sum_count(const random_call_t *call, int rank)
{
    const uint64_t value = mt_mix(call->seed, 1, (uint64_t)rank);

    return RANDOM_REDUCE_SCATTER != call->coll ? call->count
           : value % 4 == 0                    ? 0
                                               : (int)(value / 4 % (uint64_t)(2 * call->count + 1));
}

int random_sum_total(const random_call_t *call)
{
    int total = 0;

    for (int rank = 0; rank < call->ranks.size; ++rank) {
        total += random_sum_count(call, rank);
    }
    return call->coll >= RANDOM_REDUCE_SCATTER_BLOCK ? total : call->count;
}

/* Element `index` of a rank's operand. */
static int operand_of(const random_call_t *call, int rank, int index)
{
    return (int)(mt_mix(call->seed + (uint64_t)call->turn, (uint64_t)rank, (uint64_t)index) % 4);
}

static void put(const random_call_t *call, char *data, int index, int value, int where)
{
    const size_t size = (size_t)random_sum_size(call);
    const short_int_t short_int = {(short)value, where};
    const double_int_t double_int = {value, where};
    const int64_t integer = value; /* its first bytes are the smaller types' */
    const float as_float = (float)value;
    const double as_double = value;
    const MPI_Datatype type = random_sum_type(call);

    memcpy(data + (size_t)index * size,
           MPI_SHORT_INT == type    ? (const void *)&short_int
           : MPI_DOUBLE_INT == type ? (const void *)&double_int
           : MPI_FLOAT == type      ? (const void *)&as_float
           : MPI_DOUBLE == type     ? (const void *)&as_double
                                    : (const void *)&integer,
           size);
}

void random_sum_fill(const random_call_t *call, char *operand)
{
    memset(operand, 0, (size_t)random_sum_total(call) * (size_t)random_sum_size(call)); /* paddings are equal */
    for (int i = 0; i < random_sum_total(call); ++i) {
        put(call, operand, i, operand_of(call, call->ranks.rank, i), call->ranks.rank);
    }
}

/* Combines element `index` of the ranks below `end`. */
static void combine(const random_call_t *call, int index, int end, int *value_p, int *where_p)
{
    const MPI_Op op = random_sum_op(call);

    *value_p = operand_of(call, 0, index);
    *where_p = 0;
    for (int rank = 1; rank < end; ++rank) {
        const int other = operand_of(call, rank, index);
        const bool wins = MPI_MAX == op || MPI_MAXLOC == op ? other > *value_p : other < *value_p;

        if (MPI_SUM == op || MPI_BOR == op || MPI_BXOR == op) {
            *value_p = MPI_SUM == op ? *value_p + other : MPI_BOR == op ? *value_p | other : *value_p ^ other;
        } else if (wins) {
            *value_p = other;
            *where_p = rank;
        }
    }
}

int random_sum_expect(const random_call_t *call, char *wanted)
{
    const int end = RANDOM_SCAN == call->coll     ? call->ranks.rank + 1
                    : RANDOM_EXSCAN == call->coll ? call->ranks.rank
                                                  : call->ranks.size;
    const int count = 0 == end || (RANDOM_REDUCE == call->coll && call->ranks.rank != call->root)
                          ? 0
                          : random_sum_count(call, call->ranks.rank);
    int first = 0;

    for (int rank = 0; call->coll >= RANDOM_REDUCE_SCATTER_BLOCK && rank < call->ranks.rank; ++rank) {
        first += random_sum_count(call, rank);
    }
    for (int i = 0; i < count; ++i) {
        int value, where;

        combine(call, first + i, end, &value, &where);
        put(call, wanted, i, value, where);
    }
    return count;
}

/* Padding does not count. */
bool random_sum_equal(const random_call_t *call, const char *some, const char *others, int index)
{
    const size_t size = (size_t)random_sum_size(call);
    const MPI_Datatype type = random_sum_type(call);
    short_int_t short_ints[2];
    double_int_t double_ints[2];

    some += (size_t)index * size;
    others += (size_t)index * size;
    if (MPI_SHORT_INT == type) {
        memcpy(&short_ints[0], some, size);
        memcpy(&short_ints[1], others, size);
        return short_ints[0].value == short_ints[1].value && short_ints[0].index == short_ints[1].index;
    }
    if (MPI_DOUBLE_INT == type) {
        memcpy(&double_ints[0], some, size);
        memcpy(&double_ints[1], others, size);
        return double_ints[0].value == double_ints[1].value && double_ints[0].index == double_ints[1].index;
    }
    return 0 == memcmp(some, others, size);
}
