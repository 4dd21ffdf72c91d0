# MSCCLPP_CHECK_CUDA: nvcc and the static CUDA runtime. The driver is found at run time by the runtime itself, so
# that the component loads where there is none.
#
# Sets NVCC, CUDA_CPPFLAGS, CUDA_LIBS, NVCC_ARCH_FLAGS, CUDA_ARCHES, and HAVE_CUDA.
AC_DEFUN([MSCCLPP_CHECK_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
            [kernels for NVIDIA GPUs, with nvcc under DIR (default: where nvcc is in PATH or /usr/local/cuda)])],
        [], [with_cuda=auto])
    AC_ARG_VAR([NVCC_CCBIN], [host compiler that nvcc is told to use (default: its own choice)])
    AC_ARG_VAR([NVCCFLAGS], [flags for nvcc (default: -O3)])
    AC_ARG_VAR([CUDA_ARCHES],
        [architectures to build kernels for, the last one also as PTX (default: "80 90 100" as far as nvcc knows them)])
    mscclpp_have_cuda=no
    mscclpp_cuda_why='not asked for'
    AS_IF([test "x$with_cuda" != xno], [_MSCCLPP_CUDA_PROBE])
    AS_IF([test "x$mscclpp_have_cuda" = xno], [
        AS_CASE([$with_cuda], [no|auto], [],
            [AC_MSG_ERROR([--with-cuda: $mscclpp_cuda_why])])
    ])
    AM_CONDITIONAL([HAVE_CUDA], [test "x$mscclpp_have_cuda" = xyes])
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_LIBS])
    AC_SUBST([NVCC_ARCH_FLAGS])
])

# Each step leaves mscclpp_cuda_why with the reason in case it is the last one.
AC_DEFUN([_MSCCLPP_CUDA_PROBE], [
    AS_CASE([$with_cuda],
        [yes|auto], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin])
                     mscclpp_cuda_why='no nvcc in PATH or /usr/local/cuda/bin'],
        [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])
         mscclpp_cuda_why="no nvcc in $with_cuda/bin"])
    : ${NVCCFLAGS="-O3"}
    AS_IF([test -n "$NVCC"], [
        # nvcc may be a link or a wrapper elsewhere: the folder above its bin is asked from nvcc itself.
        mscclpp_cuda_top=$("$NVCC" --dryrun -c -x cu /dev/null -o /dev/null 2>&1 | $SED -n 's/^#\$ TOP=//p')
        AS_IF([test -n "$mscclpp_cuda_top" && test -d "$mscclpp_cuda_top"],
            [mscclpp_cuda_top=$(cd "$mscclpp_cuda_top" && pwd)],
            [mscclpp_cuda_top=$(dirname "$(dirname "$NVCC")")])
        CUDA_VERSION=$("$NVCC" --version | $SED -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p')
        _MSCCLPP_CUDA_LIBRARY
    ])
    AS_IF([test -n "$CUDA_LIBS"], [
        _MSCCLPP_CUDA_ARCHES
        AC_MSG_CHECKING([whether $NVCC compiles a kernel])
        cat >conftest.cu <<_MSCCLPP_EOF
__global__ void kernel(int *p) { *p = 1; }
extern "C" int launch(int *p) { kernel<<<1, 1>>>(p); return (int)cudaGetLastError(); }
_MSCCLPP_EOF
        set "$NVCC" ${NVCC_CCBIN:+-ccbin "$NVCC_CCBIN"} $NVCCFLAGS -c -o conftest.$OBJEXT conftest.cu
        AS_IF([AC_TRY_COMMAND(["$[@]" >&AS_MESSAGE_LOG_FD 2>&1])],
            [AC_MSG_RESULT([yes])
             mscclpp_have_cuda=yes],
            [AC_MSG_RESULT([no])
             mscclpp_cuda_why="$NVCC cannot compile; the end of config.log tells why"])
        rm -f conftest.cu conftest.$OBJEXT
    ])
])

# libcudart_static.a and cuda_runtime.h: tool kits and Python wheels keep them in different folders.
AC_DEFUN([_MSCCLPP_CUDA_LIBRARY], [
    AC_MSG_CHECKING([for the static CUDA runtime])
    mscclpp_cuda_libdir= mscclpp_cuda_incdir=
    for mscclpp_one in lib64 lib targets/*/lib; do
        for mscclpp_dir in "$mscclpp_cuda_top"/$mscclpp_one; do
            AS_IF([test -z "$mscclpp_cuda_libdir" && test -e "$mscclpp_dir/libcudart_static.a"],
                [mscclpp_cuda_libdir=$mscclpp_dir])
        done
    done
    for mscclpp_dir in "$mscclpp_cuda_top/include" "$mscclpp_cuda_top"/targets/*/include; do
        AS_IF([test -z "$mscclpp_cuda_incdir" && test -e "$mscclpp_dir/cuda_runtime.h"],
            [mscclpp_cuda_incdir=$mscclpp_dir])
    done
    AS_IF([test -z "$mscclpp_cuda_libdir" || test -z "$mscclpp_cuda_incdir"],
        [AC_MSG_RESULT([no])
         mscclpp_cuda_why="no libcudart_static.a or cuda_runtime.h below $mscclpp_cuda_top"],
        [AC_MSG_RESULT([$mscclpp_cuda_libdir])
         mscclpp_save_LIBS=$LIBS
         mscclpp_cuda_libs="-L$mscclpp_cuda_libdir -lcudart_static $MSCCLPP_SYSTEM_LIBS"
         AS_CASE([$host_os], [linux*], [mscclpp_cuda_libs="$mscclpp_cuda_libs -ldl -lrt -lpthread"])
         LIBS="$mscclpp_cuda_libs $LIBS"
         AC_MSG_CHECKING([whether it links])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int cudaGetDeviceCount(int *), cudaLaunchKernelExC(void);]],
             [[int n; return cudaGetDeviceCount(&n) + cudaLaunchKernelExC();]])],
             [AC_MSG_RESULT([yes])
              CUDA_CPPFLAGS="-isystem $mscclpp_cuda_incdir"
              CUDA_LIBS=$mscclpp_cuda_libs],
             [AC_MSG_RESULT([no])
              mscclpp_cuda_why="cannot link with -lcudart_static of CUDA 11.8 or later; see the end of config.log"])
         LIBS=$mscclpp_save_LIBS])
])

# Machine code for each architecture, and the last one as PTX for the GPUs that come after it.
AC_DEFUN([_MSCCLPP_CUDA_ARCHES], [
    AC_MSG_CHECKING([which GPUs to build for])
    mscclpp_known=" $("$NVCC" --list-gpu-code | tr '\n' ' ')"
    AS_IF([test -z "$CUDA_ARCHES"],
        [for mscclpp_one in 80 90 100; do
            AS_CASE([$mscclpp_known], [*" sm_$mscclpp_one "*],
                [CUDA_ARCHES="$CUDA_ARCHES${CUDA_ARCHES:+ }$mscclpp_one"])
         done])
    NVCC_ARCH_FLAGS=
    mscclpp_last=
    for mscclpp_one in $CUDA_ARCHES; do
        AS_CASE([$mscclpp_known], [*" sm_$mscclpp_one "*], [],
            [AC_MSG_RESULT([$CUDA_ARCHES])
             AC_MSG_ERROR([CUDA_ARCHES: nvcc $CUDA_VERSION does not know "$mscclpp_one"; it knows$mscclpp_known])])
        NVCC_ARCH_FLAGS="$NVCC_ARCH_FLAGS -gencode arch=compute_$mscclpp_one,code=sm_$mscclpp_one"
        mscclpp_last=$mscclpp_one
    done
    NVCC_ARCH_FLAGS="$NVCC_ARCH_FLAGS -gencode arch=compute_$mscclpp_last,code=compute_$mscclpp_last"
    AC_MSG_RESULT([$CUDA_ARCHES])
])
