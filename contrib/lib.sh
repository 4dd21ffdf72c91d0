# shellcheck shell=bash
# What contrib/quickstart, contrib/check and .ci/run share; they set `top` and source this file.
: "${top:?}"

# say WORD...: prints a line.
say() {
    printf '%s\n' "$*"
}

# die WORD...: prints a line with the script's name on standard error, and ends the script with status 1.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# jobs: prints how many compilers run at once: `wanted_jobs` if it is set, else one a core.
wanted_jobs=
jobs() {
    [ -z "$wanted_jobs" ] || { echo "$wanted_jobs" && return; }
    nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}

# have PROGRAM: tells whether the shell finds it.
have() {
    command -v "$1" >/dev/null 2>&1
}

# find_nvcc: prints where nvcc is; nothing if it is neither in PATH nor where CUDA installs it.
find_nvcc() {
    command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }
}

# find_matplotlib: prints the Python that has matplotlib: python3, or else Debian's. If neither has it, prints python3.
find_matplotlib() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import matplotlib' >/dev/null 2>&1 && echo "$python" && return
    done
    echo python3
}

# gpu_count: prints how many GPUs the driver shows, or how many of them CUDA_VISIBLE_DEVICES leaves. Opens none.
gpu_count() {
    local count=0 gpu visible
    for gpu in /dev/nvidia[0-9]*; do
        [ -e "$gpu" ] && count=$((count + 1))
    done
    if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
        visible=$(tr ',' '\n' <<<"${CUDA_VISIBLE_DEVICES%%-*}" | grep -c .) # a negative number ends the list
        [ "$visible" -gt "$count" ] || count=$visible
    fi
    echo "$count"
}

# mps_answers: tells whether an MPS daemon serves CUDA_MPS_PIPE_DIRECTORY, or the default folder where that is unset.
mps_answers() {
    have nvidia-cuda-mps-control && timeout -k 1 10 nvidia-cuda-mps-control >/dev/null 2>&1 <<<get_server_list
}

# The words before a command that is to run without MPS, whichever daemon there is: none answers in that folder.
# shellcheck disable=SC2034 # for those who read this file in
without_mps=(env CUDA_MPS_PIPE_DIRECTORY=/nonexistent MSCCLPP_TEST_MPS=0)

# missing_build_packages: prints the packages that the build needs and that are not there, by their names in Debian and
# Ubuntu. Open MPI's own headers include those of PMIx, hwloc and libevent, which come with it.
missing_build_packages() {
    local pair
    for pair in gcc:gcc make:make pkg-config:pkg-config mpicc:libopenmpi-dev mpirun:openmpi-bin tar:tar; do
        have "${pair%%:*}" || echo "${pair#*:}"
    done
    # A tarball brings its configure.
    if [ ! -x "$top/configure" ]; then
        for pair in autoreconf:autoconf automake:automake libtoolize:libtool; do
            have "${pair%%:*}" || echo "${pair#*:}"
        done
    fi
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    if [ -n "$(find_nvcc)" ]; then
        have g++ || echo g++
    fi
    if have mpicc; then
        printf '#include "ompi_config.h"\n' | mpicc -E -x c - >/dev/null 2>&1 || echo libopenmpi-dev
    fi
}

# install_optional_packages DIR: tries to install what the build can do without, as root where apt-get is, unless DIR
# has been configured already. Without them nothing carries all-reduces between nodes that have no HCA, no execution
# plan can be read, or mscclpp_synth does not search. Never fails.
install_optional_packages() {
    local -a missing=()
    [ ! -e "$1/Makefile" ] || return 0
    [ -e /usr/include/ucp/api/ucp.h ] || pkg-config --exists ucx 2>/dev/null || missing+=(libucx-dev)
    [ -e /usr/include/yajl/yajl_parse.h ] || pkg-config --exists yajl 2>/dev/null || missing+=(libyajl-dev)
    [ -e /usr/include/ccadical.h ] || missing+=(libcadical-dev)
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! have apt-get || [ "$(id -u)" -ne 0 ]; then
        say "Building without what the headers are missing for (Debian: ${missing[*]}): UCX, plans, or synthesis."
    elif ! install_packages "transports between nodes, execution plans and synthesis" "${missing[@]}"; then
        say "Going on without ${missing[*]}."
    fi
}

# clang_has_tsan: tells whether clang can link with ThreadSanitizer. In some distributions it brings the runtimes of its
# sanitizers, in others they are in a package of their own.
clang_has_tsan() {
    local program status
    program=$(mktemp) || return
    printf 'int main(void) { return 0; }\n' | clang -fsanitize=thread -x c - -o "$program" 2>/dev/null
    status=$?
    rm -f "$program"
    return $status
}

# tsan_compiler: prints the compiler for ThreadSanitizer: CC if it is set, else clang if it can, as its programs take
# less time, else gcc.
tsan_compiler() {
    if [ -n "${CC:-}" ]; then
        echo "$CC"
    elif clang_has_tsan; then
        echo clang
    else
        echo gcc
    fi
}

# missing_check_packages: prints the packages that only tests need and that are not there, as missing_build_packages
# does.
missing_check_packages() {
    local pair
    for pair in g++:g++ gfortran:gfortran clang:clang python3:python3 shellcheck:shellcheck nm:binutils ps:procps \
        setarch:util-linux spin:spin debootstrap:debootstrap xz:xz-utils qemu-system-x86_64:qemu-system-x86 \
        rdma:iproute2; do
        have "${pair%%:*}" || echo "${pair#*:}"
    done
    compgen -G '/usr/lib/*/libibverbs/librxe-*.so' >/dev/null || echo ibverbs-providers
    [ -e /usr/include/infiniband/verbs.h ] || echo libibverbs-dev
    have clang-format-14 || clang-format --version 2>/dev/null | grep -q 'version 14\.' || echo clang-format-14
    "$(find_matplotlib)" -c 'import matplotlib' >/dev/null 2>&1 || echo python3-matplotlib
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || echo python3-venv
    python3 -c 'import os, sysconfig; open(os.path.join(sysconfig.get_path("include"), "Python.h"))' \
        >/dev/null 2>&1 || echo python3-dev
}

# install_packages PURPOSE PACKAGE...: installs packages with apt-get as root. Otherwise says what is missing, and
# fails.
install_packages() {
    local purpose=$1
    shift
    [ $# -gt 0 ] || return 0
    if ! have apt-get; then
        say "Missing for $purpose (names of Debian's packages): $*"
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        say "Missing for $purpose: $*"
        say "Install them as root: apt-get install --no-install-recommends $*"
        return 1
    fi
    say "Installing for $purpose, with apt-get: $*"
    DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null || say "apt-get update failed; trying what is known"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null
}

# make_configure: makes configure, unless it is newer than everything that it is made from. On failure shows the log.
make_configure() {
    if [ -x "$top/configure" ] && [ -e "$top/Makefile.in" ] &&
        [ -z "$(find "$top" -path "$top/build" -prune -o -path "$top/build-aux" -prune -o \
            \( -name 'Makefile.am' -o -name 'Makefile.inc' -o -name 'configure.ac' -o -name '*.m4' \) \
            -newer "$top/configure" -not -name aclocal.m4 -print -quit)" ]; then
        return 0
    fi
    mkdir -p "$top/build"
    "$top/autogen.sh" >"$top/build/autogen.log" 2>&1 || {
        tail -n 20 "$top/build/autogen.log"
        return 1
    }
}

# configure_in DIR ARGUMENT...: configures in DIR, unless that was done with the same arguments, compiler and configure.
# After other arguments what was built is removed. On failure shows the end of the log, DIR.configure.log.
configure_in() {
    local dir=$1 wanted
    shift
    case $top in
    *[[:space:]]*)
        say "The path of this clone, '$top', has white space in it, which Autoconf cannot do with; move it elsewhere."
        return 1
        ;;
    esac
    make_configure || return 1
    mkdir -p "$dir"
    wanted="CC=${CC:-} CFLAGS=${CFLAGS:-} $*"
    if [ ! -e "$dir/Makefile" ] || [ "$top/configure" -nt "$dir/config.status" ] ||
        [ "$(cat "$dir/configured" 2>/dev/null)" != "$wanted" ]; then
        (cd "$dir" && "$top/configure" --silent "$@") >"$dir.configure.log" 2>&1 || {
            tail -n 20 "$dir.configure.log"
            return 1
        }
        # What was built with other arguments may look up to date.
        [ ! -e "$dir/configured" ] || [ "$(cat "$dir/configured")" = "$wanted" ] || make -C "$dir" clean >/dev/null 2>&1
        printf '%s\n' "$wanted" >"$dir/configured"
    fi
}

# make_in DIR TARGET...: makes targets in DIR, quietly. On failure shows the errors of the log, DIR.make.log.
make_in() {
    local dir=$1
    shift
    make -C "$dir" -j"$(jobs)" "$@" >"$dir.make.log" 2>&1 || {
        grep -nE 'error|undefined|\*\*\*' "$dir.make.log" | head -n 20
        say "(the whole log: $dir.make.log)"
        return 1
    }
}

# build_variable DIR NAME: prints a variable of the Makefile in DIR, which configure has set.
build_variable() {
    sed -n "s/^$2 = //p" "$1/Makefile"
}

# mpirun_options DIR: prints the options that mpirun needs on this machine, for the series of Open MPI that DIR was
# configured with. They let ranks outnumber cores, and let root run programs, as in containers.
mpirun_options() {
    local version
    version=$(build_variable "$1" OMPI_VERSION)
    [ "$(id -u)" -ne 0 ] || printf '%s ' --allow-run-as-root
    if [ "${version%%.*}" -ge 5 ]; then
        printf '%s ' --map-by :OVERSUBSCRIBE
    else
        printf '%s ' --oversubscribe
    fi
    printf '%s\n' '--bind-to none'
}

# component_path DIR FOLDER: prints the value of mca_base_component_path: FOLDER, which has our component, before the
# folder of Open MPI's. Naming the path also gets past the PMIx of Debian 13, whose settings make mpirun look elsewhere.
component_path() {
    printf '%s:%s\n' "$2" "$(build_variable "$1" OMPI_PKGLIBDIR)"
}

# find_library NAME...: tells whether the loader would find one of the libraries, in LD_LIBRARY_PATH or where it looks
# itself.
find_library() {
    local name place
    for name in "$@"; do
        for place in ${LD_LIBRARY_PATH+${LD_LIBRARY_PATH//:/ }}; do
            [ ! -e "$place/$name" ] || return 0
        done
        ! { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -qF "$name " || return 0
    done
    return 1
}
