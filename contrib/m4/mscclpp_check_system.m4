# MSCCLPP_CHECK_SYSTEM: threads, POSIX shared memory and dlopen, all of which glibc before 2.34 keeps in libraries of
# their own. Sets MSCCLPP_SYSTEM_LIBS.
AC_DEFUN([MSCCLPP_CHECK_SYSTEM], [
    mscclpp_save_LIBS=$LIBS
    LIBS=
    AC_SEARCH_LIBS([pthread_create], [pthread], [],
        [AC_MSG_ERROR([POSIX threads are missing (pthread_create)])])
    AC_SEARCH_LIBS([shm_open], [rt], [],
        [AC_MSG_ERROR([POSIX shared memory is missing (shm_open)])])
    AC_SEARCH_LIBS([dlopen], [dl], [],
        [AC_MSG_ERROR([dlopen is missing])])
    MSCCLPP_SYSTEM_LIBS=$LIBS
    LIBS=$mscclpp_save_LIBS
    AC_SUBST([MSCCLPP_SYSTEM_LIBS])
])
