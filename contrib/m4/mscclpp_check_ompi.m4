# MSCCLPP_CHECK_OMPI: an Open MPI with its development headers, 4.1 or newer. --without-ompi builds the host library,
# its tests and nothing else.
#
# Sets OMPI_CPPFLAGS, OMPI_CFLAGS and OMPI_COMPONENT_LIBS for the component, OMPI_PROGRAM_CPPFLAGS and
# OMPI_PROGRAM_LIBS for MPI programs, OMPI_PKGLIBDIR, componentdir, MPIRUN, MPIFC, and HAVE_OMPI, HAVE_MPIRUN,
# HAVE_MPIFC.
AC_DEFUN([MSCCLPP_CHECK_OMPI], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=DIR],
            [Open MPI under DIR (default: the one of mpicc in PATH); --without-ompi: only the host library])],
        [], [with_ompi=yes])
    AC_ARG_WITH([componentdir],
        [AS_HELP_STRING([--with-componentdir=DIR],
            [where the component is installed (default: the folder of Open MPI's own components)])],
        [], [with_componentdir=default])
    mscclpp_have_mpirun=no
    mscclpp_have_mpifc=no
    AS_IF([test "x$with_ompi" = xno], [mscclpp_have_ompi=no], [
        mscclpp_have_ompi=yes
        _MSCCLPP_OMPI_PROGRAMS
        _MSCCLPP_OMPI_FLAGS
        _MSCCLPP_OMPI_HEADERS
        _MSCCLPP_OMPI_CX16
        _MSCCLPP_OMPI_LINK
        _MSCCLPP_OMPI_FORTRAN
    ])
    AS_CASE([$with_componentdir],
        [default], [componentdir=$OMPI_PKGLIBDIR],
        [/*|'$'*], [componentdir=$with_componentdir],
        [AC_MSG_ERROR([--with-componentdir=$with_componentdir is not allowed; use an absolute path])])
    AM_CONDITIONAL([HAVE_OMPI], [test "x$mscclpp_have_ompi" = xyes])
    AM_CONDITIONAL([HAVE_MPIRUN], [test "x$mscclpp_have_mpirun" = xyes])
    AM_CONDITIONAL([HAVE_MPIFC], [test "x$mscclpp_have_mpifc" = xyes])
    AC_SUBST([componentdir])
    AC_SUBST([OMPI_PKGLIBDIR])
    AC_SUBST([OMPI_CPPFLAGS])
    AC_SUBST([OMPI_CFLAGS])
    AC_SUBST([OMPI_COMPONENT_LIBS])
    AC_SUBST([OMPI_PROGRAM_CPPFLAGS])
    AC_SUBST([OMPI_PROGRAM_LIBS])
    AC_SUBST([OMPI_VERSION])
])

# Where "install Open MPI" is the answer, say how once.
m4_define([_MSCCLPP_OMPI_ADVICE],
    [install Open MPI 4.1 or newer with its development headers (Debian, Ubuntu: libopenmpi-dev openmpi-bin), ]dnl
[name it with --with-ompi=DIR, or build only the host library with --without-ompi])

AC_DEFUN([_MSCCLPP_OMPI_PROGRAMS], [
    AS_IF([test "x$with_ompi" = xyes],
        [mscclpp_ompi_path=$PATH mscclpp_ompi_where=PATH],
        [mscclpp_ompi_path=$with_ompi/bin mscclpp_ompi_where=$with_ompi/bin])
    # Debian's alternatives may point the plain names at MPICH.
    AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc], [], [$mscclpp_ompi_path])
    AC_PATH_PROGS([OMPI_INFO], [ompi_info.openmpi ompi_info], [], [$mscclpp_ompi_path])
    AC_PATH_PROGS([MPIRUN], [mpirun.openmpi mpirun], [], [$mscclpp_ompi_path])
    AS_IF([test -z "$MPICC" || test -z "$OMPI_INFO"],
        [AC_MSG_ERROR([no mpicc and ompi_info in $mscclpp_ompi_where: _MSCCLPP_OMPI_ADVICE])])
    AS_IF([test -n "$MPIRUN"], [mscclpp_have_mpirun=yes])
    AC_MSG_CHECKING([the version of Open MPI])
    OMPI_VERSION=$("$OMPI_INFO" --version 2>/dev/null | $SED -n 's/^Open MPI v//p')
    AC_MSG_RESULT([${OMPI_VERSION:-unknown}])
    AC_MSG_CHECKING([where Open MPI keeps its components])
    OMPI_PKGLIBDIR=$("$OMPI_INFO" --path pkglibdir --parsable 2>/dev/null | $SED -n 's/^path:pkglibdir://p')
    AC_MSG_RESULT([$OMPI_PKGLIBDIR])
    AS_IF([test -z "$OMPI_PKGLIBDIR"], [AC_MSG_ERROR([$OMPI_INFO does not tell its pkglibdir])])
])

AC_DEFUN([_MSCCLPP_OMPI_FLAGS], [
    # As system headers: our warnings are for our own sources.
    OMPI_CPPFLAGS=
    for mscclpp_one in $("$MPICC" --showme:incdirs); do
        AS_CASE([$mscclpp_one], [/usr/include], [],
            [OMPI_CPPFLAGS="$OMPI_CPPFLAGS -isystem $mscclpp_one"])
    done
    OMPI_PROGRAM_CPPFLAGS=$OMPI_CPPFLAGS
    # Headers that Open MPI's own headers name and its installation lacks; -idirafter lets a real one win.
    OMPI_CPPFLAGS="$OMPI_CPPFLAGS -idirafter \$(top_srcdir)/mca/coll/mscclpp/ompi/stubs"
    OMPI_PROGRAM_LIBS=$("$MPICC" --showme:link)
    OMPI_COMPONENT_LIBS=
    for mscclpp_one in $("$MPICC" --showme:libdirs); do
        OMPI_COMPONENT_LIBS="$OMPI_COMPONENT_LIBS -L$mscclpp_one"
    done
    for mscclpp_one in $("$MPICC" --showme:libs) open-pal; do
        OMPI_COMPONENT_LIBS="$OMPI_COMPONENT_LIBS -l$mscclpp_one"
    done
])

# _MSCCLPP_OMPI_TRY_HEADERS(IF-YES, IF-NO): the headers that the component includes, compiled as it compiles them.
AC_DEFUN([_MSCCLPP_OMPI_TRY_HEADERS], [
    mscclpp_save_CPPFLAGS=$CPPFLAGS
    mscclpp_shimmed=$(AS_ECHO(["$OMPI_CPPFLAGS"]) | $SED "s,[\$](top_srcdir),$srcdir,g")
    CPPFLAGS="$CPPFLAGS $mscclpp_shimmed"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
        #include "ompi_config.h"
        #include "ompi/mca/coll/base/base.h"
        #include "ompi/mca/coll/coll.h"
        #include "ompi/communicator/communicator.h"
        #include "ompi/datatype/ompi_datatype.h"
        #include "ompi/op/op.h"
        #include "ompi/request/request.h"
    ]], [[]])], [$1], [$2])
    CPPFLAGS=$mscclpp_save_CPPFLAGS
])

AC_DEFUN([_MSCCLPP_OMPI_HEADERS], [
    AC_MSG_CHECKING([for the headers that components of Open MPI need])
    mscclpp_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $OMPI_PROGRAM_CPPFLAGS"
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include "ompi_config.h"
        ]])], [],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([the Open MPI of $MPICC has no development headers (ompi_config.h): its configure option ]dnl
[--with-devel-headers or a package such as libopenmpi-dev installs them])])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include "ompi_config.h"
        #if OMPI_MAJOR_VERSION < 4 || (OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION < 1)
        #error too old
        #endif
        ]])], [],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([Open MPI $OMPI_VERSION is too old: _MSCCLPP_OMPI_ADVICE])])
    # The shims stand in for POSIX thread headers only; Open MPI 4 knows no others.
    AC_EGREP_CPP([threads/@<:@a-z@:>@*/threads_(argobots|qthreads)], [#include "ompi_config.h"
        MCA_threads_base_include_HEADER
        ],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([Open MPI $OMPI_VERSION was not built on POSIX threads, which coll/mscclpp needs])])
    CPPFLAGS=$mscclpp_save_CPPFLAGS
    _MSCCLPP_OMPI_TRY_HEADERS([mscclpp_headers=yes], [mscclpp_headers=no])
    # A PMIx of its own package, as Debian has it, is found by its pkg-config file only.
    AS_IF([test $mscclpp_headers = no],
        [AC_CHECK_PROGS([PKG_CONFIG], [pkgconf pkg-config])
         mscclpp_pmix=$(${PKG_CONFIG:-false} --cflags pmix 2>/dev/null | $SED 's/-I */-isystem /g')
         OMPI_CPPFLAGS="$OMPI_CPPFLAGS $mscclpp_pmix"
         _MSCCLPP_OMPI_TRY_HEADERS([mscclpp_headers=yes], [])])
    AC_MSG_RESULT([$mscclpp_headers])
    AS_IF([test $mscclpp_headers = no],
        [AC_MSG_ERROR([the headers of Open MPI $OMPI_VERSION do not compile; the end of config.log tells why (the ]dnl
[development packages of PMIx, hwloc and libevent, and pkg-config, may be missing)])])
])

# The headers inline a 16-byte compare-and-swap, for which x86-64 compilers want a flag. Without it the component loads
# and the first program with MPI_THREAD_MULTIPLE dies, so the answer comes from linking and not from a processor's name.
AC_DEFUN([_MSCCLPP_OMPI_CX16], [
    OMPI_CFLAGS=
    mscclpp_save_CFLAGS=$CFLAGS
    for mscclpp_one in '' -mcx16; do
        CFLAGS="$mscclpp_save_CFLAGS $mscclpp_one"
        AC_MSG_CHECKING([whether $CC links a 16-byte compare-and-swap${mscclpp_one:+ with $mscclpp_one}])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[static __int128 value;]],
            [[return __sync_bool_compare_and_swap(&value, value, (__int128)1) ? 0 : 1;]])],
            [AC_MSG_RESULT([yes])
             OMPI_CFLAGS=$mscclpp_one
             break],
            [AC_MSG_RESULT([no])])
    done
    CFLAGS=$mscclpp_save_CFLAGS
])

AC_DEFUN([_MSCCLPP_OMPI_LINK], [
    mscclpp_save_LIBS=$LIBS
    LIBS="$OMPI_COMPONENT_LIBS $LIBS"
    AC_MSG_CHECKING([whether components link with the libraries of Open MPI])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int opal_progress(void);
        extern int MPI_Finalize(void);]], [[return opal_progress() + MPI_Finalize();]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([cannot link with $OMPI_COMPONENT_LIBS; the end of config.log tells why])])
    # Macros of Open MPI 5 call PMIx, a library of its own, which is loaded with Open MPI in any case.
    AS_CASE([$OMPI_VERSION], [[[0-4].*]], [], [_MSCCLPP_OMPI_PMIX])
    LIBS=$mscclpp_save_LIBS
])

AC_DEFUN([_MSCCLPP_OMPI_PMIX], [
    AC_MSG_CHECKING([for the library of PMIx])
    mscclpp_pmix=none
    for mscclpp_libs in '' "$(${PKG_CONFIG:-pkg-config} --libs pmix 2>/dev/null)" -lpmix; do
        LIBS="$OMPI_COMPONENT_LIBS $mscclpp_libs $mscclpp_save_LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int PMIx_Initialized(void);]], [[return PMIx_Initialized();]])],
            [mscclpp_pmix=$mscclpp_libs
             break])
    done
    AS_IF([test "x$mscclpp_pmix" = xnone],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([cannot link with PMIx, which Open MPI $OMPI_VERSION uses; is its development package missing?])])
    OMPI_COMPONENT_LIBS="$OMPI_COMPONENT_LIBS $mscclpp_pmix"
    AC_MSG_RESULT([${mscclpp_pmix:-with Open MPI's}])
])

# Only the test of the Fortran module needs a compiler. It is not linked with sanitizers, whose libraries are the C
# compiler's.
AC_DEFUN([_MSCCLPP_OMPI_FORTRAN], [
    AC_PATH_PROGS([MPIFC], [mpifort.openmpi mpifort], [], [$mscclpp_ompi_path])
    AC_MSG_CHECKING([whether Fortran programs can use the module of Open MPI])
    AS_IF([test -n "$MPIFC" && test -z "$MSCCLPP_SANITIZER_CFLAGS"],
        [cat >conftest.f90 <<_MSCCLPP_EOF
program conftest
    use mpi
    integer :: ierror
    call MPI_Init(ierror)
end program
_MSCCLPP_EOF
         AS_IF(["$MPIFC" -o conftest conftest.f90 >&AS_MESSAGE_LOG_FD 2>&1], [mscclpp_have_mpifc=yes])
         rm -f conftest conftest.f90 conftest.o])
    AC_MSG_RESULT([$mscclpp_have_mpifc])
])
