# How contrib/check runs and counts tests; contrib/check reads this file in.
# shellcheck shell=bash disable=SC2154 # what contrib/check and the other files set and read

passed=0
failed=0
skipped=0

# pass NAME, fail NAME [WHY] and skip NAME WHY: count a test, and print its line.
pass() {
    passed=$((passed + 1))
    say "PASS  $1"
}

failures=()
fail() {
    failed=$((failed + 1))
    failures+=("$1")
    say "FAIL  $1${2:+: $2}"
}

skip() {
    skipped=$((skipped + 1))
    say "SKIP  $1: $2"
}

# only_long NAME WHAT: returns 0 with --long. Else counts a skip, which says by WHAT the test can be left out, and
# returns 1.
only_long() {
    [ "$long" = no ] || return 0
    skip "$1" "$2; contrib/check --long --only ${1%%:*}"
    return 1
}

# run_test NAME COMMAND...: runs a command that is one test, and counts it. Its output goes to a log, whose end is shown
# if the command fails. Exit status 77 is a skip, and the last line says why. Returns 0 if the test passed.
run_test() {
    local name=$1 log status
    shift
    log=$top/build/log/${name//[^[:alnum:]]/-}.log
    mkdir -p "$top/build/log"
    "$@" >"$log" 2>&1
    status=$?
    case $status in
    0)
        pass "$name"
        grep -E '^[a-z-]+: .*(not checked|not compiled|skipped)' "$log" | sed 's/^/      note: /'
        ;;
    77) skip "$name" "$(tail -n 1 "$log")" ;;
    *)
        fail "$name" "exit status $status, log build/log/${log##*/}"
        tail -n 25 "$log" | sed 's/^/      /'
        ;;
    esac
    [ $status -eq 0 ]
}

# count_cases NAME LOG: counts the lines of a script that prints "ok", "FAIL" or "SKIP" for each of its cases.
count_cases() {
    local word rest line
    while IFS= read -r line; do
        read -r word rest <<<"$line"
        case $word in
        ok) pass "$1:${rest% (*)}" ;;
        SKIP) skip "$1:${rest%%: *}" "${rest#*: }" ;;
        FAIL) fail "$1:$rest" ;;
        esac
    done < <(grep -aE '^(ok|FAIL|SKIP) ' "$2")
    # What stands below a failed case.
    grep -aE -A 25 '^FAIL ' "$2" | grep -E '^(     |FAIL )' | sed 's/^/      /'
}

# run_script NAME COMMAND...: runs a script that prints a line for each of its cases, and counts these. If it fails
# without a case that failed, that is a failure of its own, and the end of its output is shown.
run_script() {
    local name=$1 log=$top/build/log/${1//:/-}.log before=$failed status
    shift
    mkdir -p "$top/build/log"
    "$@" >"$log" 2>&1
    status=$?
    if [ $status -eq 77 ] && ! grep -q '^SKIP ' "$log"; then
        skip "$name" "$(tail -n 1 "$log")"
        return
    fi
    count_cases "$name" "$log"
    if [ $status -ne 0 ] && [ $status -ne 77 ] && [ $failed -eq "$before" ]; then
        fail "$name" "exit status $status, log build/log/${log##*/}"
        tail -n 25 "$log" | sed 's/^/      /'
    fi
}

# Host programs that take the most time. With these first, the cores end together.
longest=(test/host/test_enqueue test/host/test_stress test/host/test_allreduce test/host/test_collectives
    test/host/test_coll_storm test/host/test_dead test/host/test_late_nodes test/host/test_nodes_faults
    test/host/test_linger test/host/test_transport test/host/test_faults test/host/test_engines
    test/unit/test_transport_ucx_regions)

# at_once: prints how many programs of the unit and host layers run at once: one more than there are cores, since some
# wait for deadlines.
at_once() {
    echo $(($(jobs) == 1 ? 1 : $(jobs) + 1))
}

# list_units NAME: prints the programs of the unit and host layers in build/NAME, in the order in which they are to
# begin.
list_units() {
    local programs program first=
    programs=" $(make -s --no-print-directory -C "$top/build/$1" print-units) "
    for program in "${longest[@]}"; do
        [[ $programs != *" $program "* ]] || first+="$program "
        programs=${programs/ $program / }
    done
    echo "$first${programs# }"
}

# run_automake NAME WRAPPER...: runs make check in build/NAME, behind the words of the wrapper, of the programs in
# `tests`. Each program counts as one test, but the mpi layer as one for each case. Programs run one at a time unless
# the wrapper sets MAKEFLAGS, as most have as many threads as there are cores, and some measure times.
run_automake() {
    local name=$1 dir=$top/build/$1 trs test result seen=0
    shift
    find "$dir" -name '*.trs' -delete
    # The programs are built by all cores in any case.
    make_in "$dir" check TESTS= || {
        fail "$name: build of the tests"
        return
    }
    no_warnings "$name: build of the tests"
    "$@" make -C "$dir" -k check TESTS="$tests" >"$dir.check.log" 2>&1
    while IFS= read -r trs; do
        seen=$((seen + 1))
        test=${trs#"$dir"/}
        if [[ $test == test/mpi/run.sh.trs ]]; then
            count_cases "$name:mpi" "${trs%.trs}.log"
            continue
        fi
        test=$name:${test%.trs}
        result=$(sed -n 's/^:global-test-result: *//p' "$trs")
        case $result in
        PASS | XFAIL)
            pass "$test"
            # Parts that it has left out.
            grep -hE '[Ss]kipped: .*[[:alpha:]]' "${trs%.trs}.log" | sed 's/^ */      note: /' | sort -u
            ;;
        SKIP) skip "$test" "$(grep -v '^SKIP .*(exit status: 77)$' "${trs%.trs}.log" | grep . | tail -n 1)" ;;
        *)
            fail "$test" "$result, log ${trs%.trs}.log"
            tail -n 25 "${trs%.trs}.log" | sed 's/^/      /'
            ;;
        esac
    done < <(find "$dir" -name '*.trs' | sort)
    if [ $seen -eq 0 ]; then
        fail "$name: make check ran no test" "log build/$name.check.log"
        grep -nE 'error|\*\*\*' "$dir.check.log" | head -n 15 | sed 's/^/      /'
    fi
}
