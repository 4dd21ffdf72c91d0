/*
 * Channels in kernels of the application: headers alone, for CUDA C++11 and later (nvcc, clang, NVRTC; no -rdc), and
 * for C11 and C++11 on the host twin. The host's part, which makes the handles, is mpix_mscclpp_channels.h.
 *
 *     __global__ void exchange(mpix_memory_channel_t channel)
 *     {
 *         mpix_group_t block = mpix_block();
 *
 *         mpix_put(&block, &channel, 0, 0, 4096);
 *         mpix_signal(&block, &channel);
 *         mpix_wait(&block, &channel);
 *     }
 *
 * mpix_mscclpp/memory.h declares memory channels, mpix_mscclpp/port.h port channels, mpix_mscclpp/room.h barriers and
 * small all-reduces, and mpix_mscclpp/partitions.h marks of partitions. mpix_mscclpp/host_kernel.h, which this header
 * does not include, runs such kernels on the twin.
 *
 * A kernel that waits for peers can only end if the kernels for which it waits run at the same time. So all its blocks
 * that wait must fit on the GPU at once, together with all other kernels that run there.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_DEVICE_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_DEVICE_H

#include "mpix_mscclpp/memory.h"
#include "mpix_mscclpp/partitions.h"
#include "mpix_mscclpp/port.h"
#include "mpix_mscclpp/room.h"

#endif
