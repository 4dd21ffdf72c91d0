# MSCCLPP_CHECK_YAJL: the JSON parser that reads execution plans, and the file that it is in when programs run.
AC_DEFUN([MSCCLPP_CHECK_YAJL], [
    AC_ARG_WITH([yajl],
        [AS_HELP_STRING([--with-yajl@<:@=DIR@:>@], [yajl 2 under DIR (default: where it is found)])],
        [], [with_yajl=auto])
    mscclpp_have_yajl=no
    YAJL_CPPFLAGS=
    mscclpp_yajl_file=libyajl.so.2
    AS_IF([test "x$with_yajl" != xno], [
        mscclpp_yajl_libs=-lyajl
        AS_CASE([$with_yajl], [yes|auto], [],
            [AS_IF([test -e "$with_yajl/include/yajl/yajl_parse.h"], [],
                [AC_MSG_ERROR([--with-yajl: no yajl/yajl_parse.h in $with_yajl/include])])
             YAJL_CPPFLAGS="-isystem $with_yajl/include"
             mscclpp_yajl_libs="-L$with_yajl/lib -lyajl"
             mscclpp_yajl_file="$with_yajl/lib/libyajl.so.2"])
        mscclpp_save_CPPFLAGS=$CPPFLAGS
        mscclpp_save_LIBS=$LIBS
        CPPFLAGS="$CPPFLAGS $YAJL_CPPFLAGS"
        LIBS="$mscclpp_yajl_libs $LIBS"
        AC_MSG_CHECKING([for yajl])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <yajl/yajl_parse.h>]],
            [[yajl_callbacks callbacks = {.yajl_number = 0};
              yajl_handle handle = yajl_alloc(&callbacks, 0, 0);
              return yajl_complete_parse(handle) == yajl_status_ok;]])],
            [mscclpp_have_yajl=yes])
        AC_MSG_RESULT([$mscclpp_have_yajl])
        CPPFLAGS=$mscclpp_save_CPPFLAGS
        LIBS=$mscclpp_save_LIBS
        AS_CASE([$mscclpp_have_yajl.$with_yajl], [yes.*], [],
            [no.auto], [],
            [AC_MSG_ERROR([--with-yajl: no yajl 2 (Debian, Ubuntu: libyajl-dev)])])
    ])
    AM_CONDITIONAL([HAVE_YAJL], [test "x$mscclpp_have_yajl" = xyes])
    AC_SUBST([YAJL_CPPFLAGS])
    AC_SUBST([YAJL_FILE], [$mscclpp_yajl_file])
])
