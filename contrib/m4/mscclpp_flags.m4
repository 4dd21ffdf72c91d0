# Compiler flags: how much optimisation, which warnings, and when a warning is an error.

# MSCCLPP_ARG_DEBUG: --enable-debug, read before AC_PROG_CC chooses its default CFLAGS.
AC_DEFUN([MSCCLPP_ARG_DEBUG], [
    AC_ARG_ENABLE([debug],
        [AS_HELP_STRING([--enable-debug], [unoptimised, with assertions (default: no)])],
        [], [enable_debug=no])
    AS_IF([test "x$enable_debug" = xno], [],
        [enable_debug=yes
         : ${CFLAGS="-g3 -O0"}])
])

# MSCCLPP_TRY_CFLAG(FLAG, [VARIABLE = MSCCLPP_CFLAGS]): appends FLAG to the variable if the compiler takes it. -Werror
# makes clang refuse what it would only warn about.
AC_DEFUN([MSCCLPP_TRY_CFLAG], [
    mscclpp_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $1"
    AC_MSG_CHECKING([whether $CC takes $1])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
        [AC_MSG_RESULT([yes])
         AS_VAR_APPEND([m4_default([$2], [MSCCLPP_CFLAGS])], [" $1"])],
        [AC_MSG_RESULT([no])])
    CFLAGS=$mscclpp_save_CFLAGS
])

# MSCCLPP_CHECK_FLAGS: MSCCLPP_CFLAGS for every C file; MSCCLPP_NDEBUG for the library and the component, while tests
# keep their assertions; MSCCLPP_NVCC_WERROR for nvcc.
AC_DEFUN([MSCCLPP_CHECK_FLAGS], [
    MSCCLPP_CFLAGS="-std=gnu11"
    # The usual mistakes.
    MSCCLPP_TRY_CFLAG([-Wall])
    # Unused parameters, signed against unsigned, missing initialisers.
    MSCCLPP_TRY_CFLAG([-Wextra])
    # An inner variable that hides an outer one is read wrongly sooner or later.
    MSCCLPP_TRY_CFLAG([-Wshadow])
    # f() is not f(void) in C11.
    MSCCLPP_TRY_CFLAG([-Wstrict-prototypes])
    # A function that no header declares should be static.
    MSCCLPP_TRY_CFLAG([-Wmissing-prototypes])
    # Arithmetic on void pointers does not compile as CUDA C++, which shares the device headers.
    MSCCLPP_TRY_CFLAG([-Wpointer-arith])
    # Sizes come from users and peers: no array of a run-time size on the stack.
    MSCCLPP_TRY_CFLAG([-Wvla])
    # A format from a variable is a hole.
    MSCCLPP_TRY_CFLAG([-Wformat -Wformat-security])
    # Nothing leaves the component but its structure; see also the export list.
    MSCCLPP_TRY_CFLAG([-fvisibility=hidden])
    # A tentative definition in a header would be merged silently.
    MSCCLPP_TRY_CFLAG([-fno-common])

    # MPI programs only: MPI_UNWEIGHTED and its like are small addresses, which gcc takes for arrays without elements.
    MSCCLPP_MPI_CFLAGS=
    MSCCLPP_TRY_CFLAG([-Wno-stringop-overread], [MSCCLPP_MPI_CFLAGS])

    # Users must not be stopped by the new warnings of a compiler that nobody here knows.
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [warnings of the compilers are errors (default: no)])],
        [], [enable_werror=no])
    MSCCLPP_NVCC_WERROR=
    AS_IF([test "x$enable_werror" != xno],
        [MSCCLPP_TRY_CFLAG([-Werror])
         MSCCLPP_NVCC_WERROR="-Werror all-warnings"])

    MSCCLPP_NDEBUG=
    AS_IF([test "x$enable_debug" = xno], [MSCCLPP_NDEBUG=-DNDEBUG])
    AC_SUBST([MSCCLPP_CFLAGS])
    AC_SUBST([MSCCLPP_MPI_CFLAGS])
    AC_SUBST([MSCCLPP_NDEBUG])
    AC_SUBST([MSCCLPP_NVCC_WERROR])
])
