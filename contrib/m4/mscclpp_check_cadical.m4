# MSCCLPP_CHECK_CADICAL: the solver that mscclpp_synth searches with. Debian has a static library, written in C++.
AC_DEFUN([MSCCLPP_CHECK_CADICAL], [
    AC_ARG_WITH([cadical],
        [AS_HELP_STRING([--with-cadical@<:@=DIR@:>@], [CaDiCaL under DIR (default: where it is found)])],
        [], [with_cadical=auto])
    mscclpp_have_cadical=no
    CADICAL_CPPFLAGS=
    CADICAL_LIBS=
    AS_IF([test "x$with_cadical" != xno], [
        CADICAL_LIBS="-lcadical -lstdc++"
        AS_CASE([$with_cadical], [yes|auto], [],
            [AS_IF([test -e "$with_cadical/include/ccadical.h"], [],
                [AC_MSG_ERROR([--with-cadical: no ccadical.h in $with_cadical/include])])
             CADICAL_CPPFLAGS="-isystem $with_cadical/include"
             CADICAL_LIBS="-L$with_cadical/lib $CADICAL_LIBS"])
        mscclpp_save_CPPFLAGS=$CPPFLAGS
        mscclpp_save_LIBS=$LIBS
        CPPFLAGS="$CPPFLAGS $CADICAL_CPPFLAGS"
        LIBS="$CADICAL_LIBS $LIBS -lm"
        AC_MSG_CHECKING([for CaDiCaL])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <ccadical.h>]],
            [[CCaDiCaL *solver = ccadical_init();
              ccadical_set_option(solver, "quiet", 1);
              ccadical_add(solver, 0);
              return ccadical_solve(solver);]])],
            [mscclpp_have_cadical=yes])
        AC_MSG_RESULT([$mscclpp_have_cadical])
        CPPFLAGS=$mscclpp_save_CPPFLAGS
        LIBS=$mscclpp_save_LIBS
        AS_CASE([$mscclpp_have_cadical.$with_cadical],
            [yes.*], [CADICAL_CPPFLAGS="$CADICAL_CPPFLAGS -DMSCCLPP_HAVE_CADICAL=1"],
            [no.auto], [CADICAL_LIBS=],
            [AC_MSG_ERROR([--with-cadical: no CaDiCaL (Debian, Ubuntu: libcadical-dev)])])
    ])
    AC_SUBST([CADICAL_CPPFLAGS])
    AC_SUBST([CADICAL_LIBS])
])
