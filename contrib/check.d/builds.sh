# What contrib/check builds, and when; contrib/check reads this file in.
# shellcheck shell=bash disable=SC2034,SC2154 # what contrib/check and the other files set and read

# build NAME ARGUMENT...: configures and builds in build/NAME, and counts that as one test. Returns 1 if nothing can be
# used there.
build() {
    local name=$1
    shift
    if ! configure_in "$top/build/$name" "$@"; then
        fail "$name: configure"
        return 1
    fi
    if ! make_in "$top/build/$name" all; then
        fail "$name: build"
        return 1
    fi
    pass "$name: build"
    no_warnings "$name: build"
}

# no_warnings NAME: counts a failure if the last call of make for the build folder has printed warnings of a compiler.
# What was built stays usable, since compilers that are newer than the sources warn of new things.
no_warnings() {
    local log=$top/build/${1%%:*}.make.log warning='^[^ ]+(:[0-9]+:[0-9]+: |\([0-9]+\): )warning\b'
    grep -Eq "$warning" "$log" || return 0
    fail "$1: warnings" "$(grep -Ec "$warning" "$log") in build/${log##*/}"
    grep -E -m 10 "$warning" "$log" | sed 's/^/      /'
}

# main_arguments: prints the arguments of configure for build/main, one a line. They are those of contrib/gpu-check, so
# that one build serves both where there are GPUs.
main_arguments() {
    printf '%s\n' --prefix="$top/install" --with-componentdir="$top/install/lib/openmpi"
    one_architecture && echo CUDA_ARCHES=90
}

# one_architecture: tells whether kernels are compiled for one architecture only. Without a GPU they run nowhere, and
# what the architectures share is checked by any of them.
one_architecture() {
    [ "$long" = no ] && [ "$(gpu_count)" -eq 0 ] && [ -n "$(find_nvcc)" ] && [ -z "${CUDA_ARCHES:-}" ]
}

# begin_main: configures build/main now, and builds it in the background, since nvcc uses one core for minutes.
begin_main() {
    local arguments
    mapfile -t arguments < <(main_arguments)
    configure_in "$top/build/main" "${arguments[@]}" >/dev/null
    aside build-main build_main "${arguments[@]}"
}

# build_main ARGUMENT...: builds everything in build/main, with the tests.
build_main() {
    build main "$@" || return
    make_in "$top/build/main" check TESTS= || {
        fail "main: build of the tests"
        return 1
    }
    no_warnings "main: build of the tests"
    ! one_architecture || skip "main: kernels for sm 80 and 100" \
        "no GPU here that would run them; CUDA_ARCHES='80 90 100' contrib/check, or contrib/check --long, compiles them"
}

# need_main: waits until build/main is built, which it begins if that was not done. Returns 1 if the build failed.
main_built=
need_main() {
    if [ -z "$main_built" ]; then
        [ -n "${asides[build-main]:-}" ] || begin_main
        main_built=no
        joined build-main && main_built=yes
        add_row "build of main" "$(cat "$top/build/log/build-main.aside.took" 2>/dev/null)"
    fi
    [ $main_built = yes ]
}

# build_NAME: builds build/NAME and its tests.
build_clang() {
    have clang || return 0 # layer_clang tells
    CC=clang build_with_tests clang --without-cuda
}

build_asan() {
    build_with_tests asan --without-cuda --without-ompi --enable-debug --enable-sanitizers=address,undefined \
        CFLAGS="-g1 -O1"
}

build_tsan() {
    CC=$(tsan_compiler) build_with_tests tsan --without-cuda --without-ompi --enable-debug \
        --enable-sanitizers=thread CFLAGS="-g1 -O1"
}

# build_with_tests NAME ARGUMENT...: returns 1 if the build failed.
build_with_tests() {
    local name=$1
    build "$@" || return
    make_in "$top/build/$name" check TESTS= || {
        fail "$name: build of the tests"
        return 1
    }
    no_warnings "$name: build of the tests"
}

# begin_builds: begins the builds of the chosen layers in the background.
begin_builds() {
    local name
    [ "$(jobs)" -gt 1 ] || return
    for name in $(chosen_of clang asan tsan); do
        aside "build-$name" build_in_gaps "$name"
    done
}

build_in_gaps() {
    wanted_jobs=1
    in_gaps "build_$1"
}

# end_builds: waits for the end of these builds, and adds their rows to the table; need_build tells how they ended.
end_builds() {
    local name
    for name in clang asan tsan; do
        [ -n "${asides[build-$name]:-}" ] || continue
        ended "build-$name"
        add_row "build of $name" "$(cat "$top/build/log/build-$name.aside.took" 2>/dev/null)"
    done
}

# need_build NAME: builds build/NAME, or waits for that if it has begun. Returns 1 if it failed.
need_build() {
    if [ -n "${asides[build-$1]:-}" ]; then
        joined "build-$1"
    else
        "build_$1"
    fi
}
