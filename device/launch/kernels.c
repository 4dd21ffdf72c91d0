/* Shared by both launchers: sizes of arguments and elements, and the supported combinations of type and operation. */
#include "device/launch/launch.h"

#include "device/types/coll.h"
#include "device/types/coll_nodes.h"
#include "device/types/linger.h"
#include "device/types/nodes.h"
#include "device/types/plan.h"
#include "device/types/reduce.h"

/* Bytes of one element of each type: with and without the padding after its last member. */
static const struct {
    uint8_t extent;
    uint8_t true_extent;
} element_sizes[MSCCLPP_DTYPE_LAST] = {
    [MSCCLPP_DTYPE_INT8] = {1, 1},          [MSCCLPP_DTYPE_UINT8] = {1, 1},
    [MSCCLPP_DTYPE_INT16] = {2, 2},         [MSCCLPP_DTYPE_UINT16] = {2, 2},
    [MSCCLPP_DTYPE_INT32] = {4, 4},         [MSCCLPP_DTYPE_UINT32] = {4, 4},
    [MSCCLPP_DTYPE_INT64] = {8, 8},         [MSCCLPP_DTYPE_UINT64] = {8, 8},
    [MSCCLPP_DTYPE_FLOAT16] = {2, 2},       [MSCCLPP_DTYPE_BFLOAT16] = {2, 2},
    [MSCCLPP_DTYPE_FLOAT32] = {4, 4},       [MSCCLPP_DTYPE_FLOAT64] = {8, 8},
    [MSCCLPP_DTYPE_LONG_DOUBLE] = {16, 16}, [MSCCLPP_DTYPE_COMPLEX64] = {8, 8},
    [MSCCLPP_DTYPE_COMPLEX128] = {16, 16},  [MSCCLPP_DTYPE_SHORT_INT] = {8, 8},
    [MSCCLPP_DTYPE_INT_INT] = {8, 8},       [MSCCLPP_DTYPE_LONG_INT] = {16, 12},
    [MSCCLPP_DTYPE_FLOAT_INT] = {8, 8},     [MSCCLPP_DTYPE_DOUBLE_INT] = {16, 12},
    [MSCCLPP_DTYPE_FLOAT_FLOAT] = {8, 8},   [MSCCLPP_DTYPE_DOUBLE_DOUBLE] = {16, 16},
};

size_t mscclpp_dev_dtype_extent(mscclpp_dtype_t dtype)
{
    return (unsigned)dtype < MSCCLPP_DTYPE_LAST ? element_sizes[dtype].extent : 0;
}

size_t mscclpp_dev_dtype_true_extent(mscclpp_dtype_t dtype)
{
    return (unsigned)dtype < MSCCLPP_DTYPE_LAST ? element_sizes[dtype].true_extent : 0;
}

/* Relies on the order of types and operations in device/types/dtype.h. */
bool mscclpp_dev_supports(mscclpp_dtype_t dtype, mscclpp_op_t op, bool on_twin)
{
    if ((unsigned)dtype >= MSCCLPP_DTYPE_LAST || (unsigned)op >= MSCCLPP_OP_LAST) {
        return false;
    }
    if (dtype >= MSCCLPP_DTYPE_SHORT_INT) { /* pairs of a value and an index */
        return op == MSCCLPP_OP_MAXLOC || op == MSCCLPP_OP_MINLOC;
    }
    /* GPUs have no long double. Elements of another size than 16 bytes might be split by the end of a unit. */
    if (dtype == MSCCLPP_DTYPE_LONG_DOUBLE && (!on_twin || sizeof(long double) != 16)) {
        return false;
    }
    if (dtype == MSCCLPP_DTYPE_COMPLEX64 || dtype == MSCCLPP_DTYPE_COMPLEX128) {
        return op == MSCCLPP_OP_SUM || op == MSCCLPP_OP_PROD;
    }
    if (dtype >= MSCCLPP_DTYPE_FLOAT16) { /* floating-point numbers: no logical operations, and none on bits */
        return op <= MSCCLPP_OP_PROD;
    }
    return op <= MSCCLPP_OP_BXOR;
}

size_t mscclpp_dev_args_size(mscclpp_dev_kernel_t kernel)
{
    switch (kernel) {
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY:
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT:
        return sizeof(mscclpp_dev_zerocopy_args_t);
    case MSCCLPP_KERNEL_CHANNEL_RING:
        return sizeof(mscclpp_dev_ring_args_t);
    case MSCCLPP_KERNEL_LL128_PROBE:
        return sizeof(mscclpp_dev_ll128_probe_args_t);
    case MSCCLPP_KERNEL_LINGER:
        return sizeof(mscclpp_dev_linger_args_t);
    case MSCCLPP_KERNEL_REDUCE_CHUNK:
        return sizeof(mscclpp_dev_reduce_args_t);
    case MSCCLPP_KERNEL_PORT_RING:
        return sizeof(mscclpp_dev_port_ring_args_t);
    case MSCCLPP_KERNEL_PORT_PAIR:
        return sizeof(mscclpp_dev_port_pair_args_t);
    case MSCCLPP_KERNEL_ALLREDUCE_NODES:
    case MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS:
        return sizeof(mscclpp_dev_nodes_args_t);
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
    case MSCCLPP_KERNEL_COLL_COMBINE_PACKETS:
        return sizeof(mscclpp_dev_coll_args_t);
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
    case MSCCLPP_KERNEL_COLL_MOVE_UNSIZED:
    case MSCCLPP_KERNEL_COLL_TILES:
    case MSCCLPP_KERNEL_COLL_PUTS:
        return sizeof(mscclpp_dev_blocks_args_t);
    case MSCCLPP_KERNEL_COLL_MOVE_STRIDED:
        return sizeof(mscclpp_dev_strided_args_t);
    case MSCCLPP_KERNEL_COLL_PACK:
        return sizeof(mscclpp_dev_pack_args_t);
    case MSCCLPP_KERNEL_COLL_NODES:
    case MSCCLPP_KERNEL_COLL_NODES_PACKETS:
        return sizeof(mscclpp_dev_coll_nodes_args_t);
    case MSCCLPP_KERNEL_COLL_MOVE_DIRECT:
    case MSCCLPP_KERNEL_COLL_COMBINE_DIRECT:
        return sizeof(mscclpp_dev_direct_args_t);
    case MSCCLPP_KERNEL_PLAN:
    case MSCCLPP_KERNEL_PLAN_WIDE:
        return sizeof(mscclpp_dev_plan_args_t);
    case MSCCLPP_KERNEL_BARRIER:
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT:
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8:
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT:
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE:
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128:
    case MSCCLPP_KERNEL_ALLREDUCE_SCRATCH:
    case MSCCLPP_KERNEL_LAST:
        break;
    }
    return sizeof(mscclpp_dev_args_t);
}
