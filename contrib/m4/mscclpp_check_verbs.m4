# MSCCLPP_CHECK_VERBS: the header of libibverbs; the library itself is opened at run time.
AC_DEFUN([MSCCLPP_CHECK_VERBS], [
    AC_ARG_WITH([verbs],
        [AS_HELP_STRING([--with-verbs@<:@=DIR@:>@], [InfiniBand verbs under DIR (default: where they are found)])],
        [], [with_verbs=auto])
    mscclpp_have_verbs=no
    VERBS_CPPFLAGS=
    AS_IF([test "x$with_verbs" != xno], [
        AS_CASE([$with_verbs], [yes|auto], [],
            [AS_IF([test -e "$with_verbs/include/infiniband/verbs.h"], [],
                [AC_MSG_ERROR([--with-verbs: no infiniband/verbs.h in $with_verbs/include])])
             VERBS_CPPFLAGS="-isystem $with_verbs/include"])
        mscclpp_save_CPPFLAGS=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $VERBS_CPPFLAGS"
        AC_MSG_CHECKING([for infiniband/verbs.h])
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]],
            [[struct ibv_gid_entry entry = {{{0}}}; return (int)entry.gid_type + (NULL == ibv_reg_dmabuf_mr);]])],
            [mscclpp_have_verbs=yes])
        AC_MSG_RESULT([$mscclpp_have_verbs])
        CPPFLAGS=$mscclpp_save_CPPFLAGS
        AS_CASE([$mscclpp_have_verbs.$with_verbs], [yes.*|no.auto], [],
            [AC_MSG_ERROR([--with-verbs: no infiniband/verbs.h of rdma-core 34 or newer (package libibverbs-dev)])])
    ])
    AM_CONDITIONAL([HAVE_VERBS], [test "x$mscclpp_have_verbs" = xyes])
    AC_SUBST([VERBS_CPPFLAGS])
])
