# MSCCLPP_SUMMARY: what configure found, and what that means for the user.
AC_DEFUN([MSCCLPP_SUMMARY], [
    AS_IF([test "x$mscclpp_have_ompi" = xyes],
        [mscclpp_say_ompi="$OMPI_VERSION ($MPICC)"
         mscclpp_say_component=$componentdir],
        [mscclpp_say_ompi="no: only the host library and its tests are built"
         mscclpp_say_component="not built"])
    AS_IF([test "x$mscclpp_have_mpirun" = xyes],
        [mscclpp_say_mpirun=$MPIRUN],
        [mscclpp_say_mpirun="no: make check skips the mpi layer"])
    AS_IF([test "x$mscclpp_have_cuda" = xyes],
        [mscclpp_say_cuda="$CUDA_VERSION ($NVCC), kernels for sm $CUDA_ARCHES and PTX"],
        [mscclpp_say_cuda="no ($mscclpp_cuda_why): device=host only, no GPU is used"])
    AS_IF([test "x$mscclpp_have_ucx" = xyes],
        [mscclpp_say_ucx="yes: control messages go over UCX where it is at run time"],
        [mscclpp_say_ucx="no: control messages go over the communicator's point-to-point"])
    AS_IF([test "x$mscclpp_have_verbs" = xyes],
        [mscclpp_say_verbs="yes: the transport verbs, where libibverbs and an HCA are at run time"],
        [mscclpp_say_verbs="no: no transport verbs"])
    AS_IF([test "x$mscclpp_have_yajl" = xyes],
        [mscclpp_say_yajl="yes: execution plans serve calls, and mscclpp_plan checks them"],
        [mscclpp_say_yajl="no: no execution plans, no mscclpp_plan (Debian, Ubuntu: libyajl-dev)"])
    AS_IF([test "x$mscclpp_have_cadical" = xyes],
        [mscclpp_say_cadical="yes: mscclpp_synth searches for algorithms"],
        [mscclpp_say_cadical="no: mscclpp_synth has polynomial methods only (Debian, Ubuntu: libcadical-dev)"])
    AS_IF([test "x$enable_debug" = xyes],
        [mscclpp_say_debug="debug, with assertions"],
        [mscclpp_say_debug="optimised, without assertions"])
    cat <<_MSCCLPP_EOF

coll/mscclpp $PACKAGE_VERSION
  Open MPI      $mscclpp_say_ompi
  component     $mscclpp_say_component
  mpirun        $mscclpp_say_mpirun
  CUDA          $mscclpp_say_cuda
  host twin     yes: --mca coll_mscclpp_device host runs the same algorithms on the CPU
  UCX           $mscclpp_say_ucx
  verbs         $mscclpp_say_verbs
  yajl          $mscclpp_say_yajl
  CaDiCaL       $mscclpp_say_cadical
  sanitizers    $enable_sanitizers
  build         $mscclpp_say_debug ($CC)

_MSCCLPP_EOF
])
