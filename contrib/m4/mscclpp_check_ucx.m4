# MSCCLPP_CHECK_UCX: the headers of UCX, which carries control messages. The library itself is opened at run time, so
# that the component loads where there is none.
AC_DEFUN([MSCCLPP_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx@<:@=DIR@:>@], [headers of UCX under DIR (default: where they are found)])],
        [], [with_ucx=auto])
    mscclpp_have_ucx=no
    UCX_CPPFLAGS=
    AS_IF([test "x$with_ucx" != xno], [
        AS_CASE([$with_ucx], [yes|auto], [],
            [AS_IF([test -e "$with_ucx/include/ucp/api/ucp.h"], [],
                [AC_MSG_ERROR([--with-ucx: no ucp/api/ucp.h in $with_ucx/include])])
             UCX_CPPFLAGS="-isystem $with_ucx/include"])
        mscclpp_save_CPPFLAGS=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $UCX_CPPFLAGS"
        AC_MSG_CHECKING([for ucp/api/ucp.h])
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <ucp/api/ucp.h>]],
            [[ucp_am_handler_param_t param = {0}; return (int)param.id;]])],
            [mscclpp_have_ucx=yes])
        AC_MSG_RESULT([$mscclpp_have_ucx])
        CPPFLAGS=$mscclpp_save_CPPFLAGS
        AS_CASE([$mscclpp_have_ucx.$with_ucx], [yes.*|no.auto], [],
            [AC_MSG_ERROR([--with-ucx: no ucp/api/ucp.h of UCX 1.10 or newer (Debian, Ubuntu: libucx-dev)])])
    ])
    AM_CONDITIONAL([HAVE_UCX], [test "x$mscclpp_have_ucx" = xyes])
    AC_SUBST([UCX_CPPFLAGS])
])
