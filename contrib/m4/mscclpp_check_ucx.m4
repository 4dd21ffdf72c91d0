# MSCCLPP_CHECK_UCX: the library for control messages between nodes. Nothing is linked before a source needs it.
AC_DEFUN([MSCCLPP_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx@<:@=DIR@:>@], [UCX under DIR (default: where it is found)])],
        [], [with_ucx=auto])
    mscclpp_have_ucx=no
    UCX_CPPFLAGS= UCX_LIBS=
    AS_IF([test "x$with_ucx" != xno], [
        AS_CASE([$with_ucx], [yes|auto], [],
            [UCX_CPPFLAGS="-isystem $with_ucx/include"
             UCX_LIBS="-L$with_ucx/lib"])
        UCX_LIBS="$UCX_LIBS -lucp"
        mscclpp_save_CPPFLAGS=$CPPFLAGS
        mscclpp_save_LIBS=$LIBS
        CPPFLAGS="$CPPFLAGS $UCX_CPPFLAGS"
        LIBS="$UCX_LIBS $LIBS"
        AC_MSG_CHECKING([for UCX])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <ucp/api/ucp.h>]],
            [[unsigned a, b, c; ucp_get_version(&a, &b, &c); return 0;]])],
            [mscclpp_have_ucx=yes])
        AC_MSG_RESULT([$mscclpp_have_ucx])
        CPPFLAGS=$mscclpp_save_CPPFLAGS
        LIBS=$mscclpp_save_LIBS
        AS_CASE([$mscclpp_have_ucx.$with_ucx], [yes.*|no.auto], [],
            [AC_MSG_ERROR([--with-ucx: no ucp/api/ucp.h with libucp (Debian, Ubuntu: libucx-dev)])])
    ])
    AM_CONDITIONAL([HAVE_UCX], [test "x$mscclpp_have_ucx" = xyes])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LIBS])
])
