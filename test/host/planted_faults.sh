#!/usr/bin/env bash
# Plants one fault at a time into a copy of the sources and demands that the tests of the twin catch it under
# ThreadSanitizer: that they fail, or that a race is reported. The sources as they are must pass the same runs.
# Usage: planted_faults.sh [--keep] [--faults-only] [--covering] [--edits] [NAME]..., of faults or "unmodified"
#   --keep         leaves the copies and logs where they are
#   --faults-only  leaves out the runs of the sources as they are
#   --covering     of the faults only so many that each set of runs has one: first those that are also the first of
#                  their file, then the first of each set without one
#   --edits        compiles nothing; only checks that each fault still finds its line in the sources
# The faults are in faults/, a file for each subject; faults/runs.sh has what they are looked for with.
# shellcheck disable=SC2317 # runs are called by name
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cc=${CC:-gcc}
# Most runs last a second or two, and optimising takes longer than it saves. Line numbers are what reports tell; the
# rest of what debuggers want takes a third of the time of compiling.
flags=(-std=gnu11 -D_GNU_SOURCE -O0 -g1 -fsanitize=thread -fno-omit-frame-pointer -pthread)
passed=0
failed=0
skipped=0
keep=no
faults_only=no
covering=no
edits_only=no

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$keep" = yes ] || rm -rf "$work"
    [ "$failed" -eq 0 ]
    exit
}

skip_all() {
    echo "skipped: $1"
    exit 77
}

chosen=()
for argument in "$@"; do
    case $argument in
    --keep) keep=yes ;;
    --faults-only) faults_only=yes ;;
    --covering) covering=yes ;;
    --edits) edits_only=yes ;;
    -*)
        echo "planted_faults.sh: unknown option '$argument'; use --keep, --faults-only, --covering or --edits" >&2
        exit 2
        ;;
    *) chosen+=("$argument") ;;
    esac
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' INT TERM
tree=$work/tree
objects=$work/objects
mkdir -p "$tree" "$objects"
(cd "$top" && tar cf - device mca/common mpix test/host test/unit/unit.h test/unit/test_fifo.c \
    test/unit/linger_ranks.h test/unit/test_linger_kernel.c test/unit/test_linger_lists.c) |
    tar xf - -C "$tree" || exit 1

# selected NAME: true if it is to be run.
selected() {
    [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $1 "* ]]
}

# choose_both NAME RUNS FILE, choose_runs NAME RUNS FILE: choose a fault if its runs and its file have none yet, or if
# its runs have none.
declare -A covered=() covering_faults=()
choose_both() {
    [ -n "${covered[runs $2]:-}${covered[file $3]:-}" ] || choose "$@"
}

choose_runs() {
    [ -n "${covered[runs $2]:-}" ] || choose "$@"
}

choose() {
    covered[runs $2]=yes
    covered[file $3]=yes
    covering_faults[$1]=yes
}

# plant NAME RUNS FILE COMPILED SED: edits FILE, compiles COMPILED again and expects RUNS to fail.
plant() {
    if [ -n "$choosing" ]; then
        "choose_$choosing" "$@"
        return
    fi
    selected "$1" && [[ $covering = no || -n "${covering_faults[$1]:-}" ]] || return
    if [ "$edits_only" = yes ]; then
        check_edit "$1" "$3" "$5"
    else
        lane plant_one "$@"
    fi
}

# check_edit NAME FILE SED: whether the edit changes FILE.
check_edit() {
    if sed -E "$3" "$tree/$2" | cmp -s - "$tree/$2"; then
        echo "FAIL $1: the edit changes nothing in $2 any more"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

plant_faults() {
    local subject
    for subject in allreduce engines nodes collectives linger start leases user ports; do
        # shellcheck source=/dev/null
        . "$here/faults/$subject.sh"
    done
}

# shellcheck source=test/host/faults/runs.sh
. "$here/faults/runs.sh"

choosing=
if [ "$covering" = yes ]; then
    for choosing in both runs; do
        plant_faults
    done
    choosing=
fi

if [ "$edits_only" = yes ]; then
    plant_faults
    finish
fi

# The runtime of older compilers cannot live with the address layout of newer kernels.
runner=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
fi
printf '%s\n' '#include <pthread.h>' 'static void *f(void *a) { return a; }' \
    'int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }' >"$work/probe.c"
"$cc" "${flags[@]}" "$work/probe.c" -o "$work/probe" 2>/dev/null || skip_all "$cc has no ThreadSanitizer"
"${runner[@]}" "$work/probe" || skip_all "programs of $cc with ThreadSanitizer do not run here"

# compile SOURCE: SOURCE of the tree, to its place among the objects.
compile() {
    "$cc" "${flags[@]}" -I"$tree" -c "$tree/$1" -o "$objects/${1//\//_}.o"
}

# link PROGRAM: from all objects.
link() {
    local object shared=()
    for object in "$objects"/*.o; do
        case $object in
        */test_host_test_* | */test_unit_*) ;;
        *) shared+=("$object") ;;
        esac
    done
    "$cc" "${flags[@]}" "$objects"/test_*_"$1.c.o" "${shared[@]}" -lm -o "$work/$1"
}

# linked PROGRAM: sees to it that it stands for the objects as they are.
linked() {
    [ -x "$work/$1" ] || link "$1" || {
        unlinked=yes
        return 1
    }
}

mapfile -t sources < <(cd "$tree" && find device mca/common mpix/handles.c test/host test/unit -name '*.c' |
    grep -v -e /gpu/cuda/ -e /ctrl/ucx -e /libucp -e /verbs/ -e /ucx/ -e test/host/test_faults \
        -e test/host/test_no_memory -e test/host/test_short_calls | sort)
cores=$(nproc)
for source in "${sources[@]}"; do
    [ "$(jobs -pr | wc -l)" -lt "$cores" ] || wait -n
    compile "$source" &
done
wait
for source in "${sources[@]}"; do
    [ -e "$objects/${source//\//_}.o" ] || exit 1
done

# run PROGRAM ARGUMENT...: false if it fails or hangs. With a fault, the rest of a program that has said what is wrong,
# and so fails at its end, is left out: it may consist of calls that run into their deadlines.
run() {
    local program
    linked "$1" || return
    : >"$work/log"
    # With all calls, since some faults show only now and then.
    MSCCLPP_TEST_LONG=1 TSAN_OPTIONS=${tsan_options:-halt_on_error=1:exitcode=66} timeout -k 5 "$limit" \
        "${runner[@]}" "$work/$1" "${@:2}" >"$work/log" 2>&1 &
    program=$!
    while [ "$has_fault" = yes ] && kill -0 "$program" 2>/dev/null; do
        if grep -Eq "$complaint" "$work/log"; then
            kill "$program" 2>/dev/null
            break
        fi
        sleep 0.2
    done
    wait "$program"
    status=$?
    return "$status"
}

# What programs say of a check that failed.
complaint='^FAIL|failed: '
has_fault=no

# lane COMMAND...: in the background, each with a folder of its own for `work`. One more at once than there are cores,
# since some wait for deadlines.
lanes=0
lane() {
    [ "$(jobs -pr | wc -l)" -le "$cores" ] || wait -n
    lanes=$((lanes + 1))
    in_lane "$(printf '%s/lane%03d' "$work" $lanes)" "$@" &
}

in_lane() {
    local work=$1
    mkdir "$work"
    "${@:2}" >"$work.said" 2>&1
    [ "$keep" = yes ] || rm -rf "$work"
}

# tell: what the lanes have said, in their order, once all have ended.
tell() {
    local said
    wait
    for said in "$work"/lane*.said; do
        [ -e "$said" ] || continue
        cat "$said"
        case $(head -n 1 "$said") in
        ok*) passed=$((passed + 1)) ;;
        *) failed=$((failed + 1)) ;;
        esac
    done
    rm -f "$work"/lane*.said
}

plant_one() {
    local name=$1 runs=$2 file=$3 compiled=$4 edit=$5 start=$SECONDS unlinked=no has_fault=yes status=0
    local original=$tree tree=$work/tree built=$objects objects=$work/objects
    # Far more than without a fault: who is only slow is not caught.
    limit=$((20 + 3 * $(cat "$took/$runs" 2>/dev/null || echo 100)))
    cp -r "$original" "$tree"
    sed -i -E "$edit" "$tree/$file"
    if cmp -s "$tree/$file" "$original/$file"; then
        echo "FAIL $name: the edit changes nothing in $file any more"
        return
    fi
    cp -rs "$built" "$objects"
    rm "$objects/${compiled//\//_}.o"
    if ! compile "$compiled"; then
        echo "FAIL $name: does not compile"
    elif passes_again "$runs"; then
        echo "FAIL not caught $name"
        diff "$original/$file" "$tree/$file"
    elif [ "$unlinked" = yes ]; then
        echo "FAIL $name: does not link"
    else
        echo "ok caught $name: $(reason) ($((SECONDS - start)) s)"
    fi
}

# passes_again RUNS: true if RUNS pass three times. Most faults are races, which a run meets by chance.
passes_again() {
    "run_$1" && "run_$1" && "run_$1"
}

# reason: what caught the fault.
reason() {
    if grep -q 'ThreadSanitizer: ' "$work/log"; then
        grep -E -m 1 -o 'ThreadSanitizer: [A-Za-z]+( [a-z]+)*' "$work/log"
    elif grep -Eq "$complaint" "$work/log"; then
        grep -E -m 1 "$complaint" "$work/log" | sed 's|[^ ]*/tree/||' | cut -c 1-100
    elif [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        echo "no end within $limit s"
    else
        echo "exit status $status"
    fi
}

# unmodified RUNS: the sources as they are. Time is no issue here: a machine may be slow.
unmodified() {
    local start=$SECONDS
    if "run_$1"; then
        echo "ok unmodified $1 ($((SECONDS - start)) s)"
    else
        echo "FAIL unmodified $1"
        tail -n 40 "$work/log"
    fi
    echo $((SECONDS - start)) >"$took/$1"
}

limit=900
deadline=120
took=$work/took
mkdir "$took"
for runs in barriers scratch put late zerocopy engines unsettled nodes ring packets storms lines schedule chains \
    renewal queue stale overlap outlived user partitions stream linger linger_kernel linger_lists room early apart \
    apart_engines mapped known fifo ports transport collectives collectives_in_place strided unsized pair \
    collectives_nodes collectives_ring collectives_merging collectives_reduce collectives_trees collectives_storm \
    collectives_rounds collectives_sparse collectives_prefixes collectives_rung collectives_rung_wide \
    collectives_halving; do
    [ $faults_only = no ] && selected unmodified && lane unmodified $runs
done
tell

# A fault may hang, so calls end soon.
deadline=5

# hurry FILE SED: the same for what a test waits for by itself.
hurry() {
    cp "$tree/$1" "$work/patient"
    sed -i -E "$2" "$tree/$1"
    if cmp -s "$tree/$1" "$work/patient"; then
        echo "FAIL the edit of what $1 waits for changes nothing any more"
        failed=$((failed + 1))
    else
        compile "$1" || exit 1
    fi
}

hurry test/unit/test_fifo.c "s/(#define PATIENCE) 15/\1 $deadline/"
hurry test/host/test_schedule.c "s/(#define LOST) 10\.0/\1 $deadline.0/"
hurry test/host/test_engines.c "s/(config->timeout) = 60;/\1 = $deadline;/"

plant_faults
tell
finish
