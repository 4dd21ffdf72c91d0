# MSCCLPP_CHECK_SANITIZERS: --enable-sanitizers=LIST. Sets MSCCLPP_SANITIZER_CFLAGS for compiling and linking.
AC_DEFUN([MSCCLPP_CHECK_SANITIZERS], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [build with address, undefined, leak or thread sanitizers, separated by commas (default: none)])],
        [], [enable_sanitizers=no])
    MSCCLPP_SANITIZER_CFLAGS=
    AS_CASE([$enable_sanitizers],
        [no], [],
        [yes], [AC_MSG_ERROR([--enable-sanitizers needs a list, such as address,undefined or thread])],
        [for mscclpp_one in $(AS_ECHO(["$enable_sanitizers"]) | tr ',' ' '); do
            AS_CASE([$mscclpp_one], [address|undefined|leak|thread], [],
                [AC_MSG_ERROR([--enable-sanitizers: "$mscclpp_one" is none of address, undefined, leak, thread])])
         done
         MSCCLPP_SANITIZER_CFLAGS="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
         # Without it UBSan prints its finding and the test passes.
         AS_CASE([",$enable_sanitizers,"], [*,undefined,*],
             [MSCCLPP_SANITIZER_CFLAGS="$MSCCLPP_SANITIZER_CFLAGS -fno-sanitize-recover=undefined"])
         mscclpp_save_CFLAGS=$CFLAGS
         CFLAGS="$CFLAGS $MSCCLPP_SANITIZER_CFLAGS"
         AC_MSG_CHECKING([whether $CC links with $MSCCLPP_SANITIZER_CFLAGS])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
             [AC_MSG_RESULT([yes])],
             [AC_MSG_RESULT([no])
              AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: $CC cannot link with it])])
         CFLAGS=$mscclpp_save_CFLAGS])
    AM_CONDITIONAL([HAVE_SANITIZERS], [test -n "$MSCCLPP_SANITIZER_CFLAGS"])
    AC_SUBST([MSCCLPP_SANITIZER_CFLAGS])
])
