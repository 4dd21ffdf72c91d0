# shellcheck shell=bash
# How run.sh starts one job and judges how it ends. run.sh sets what these read and count.
# shellcheck disable=SC2154,SC2034 # these

wanted() {
    local pattern
    [ ${#patterns[@]} -gt 0 ] || return 0
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2254 # a pattern it is
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}

# report_failure NAME REASON: the reason with what a test or the component said first, then the job's output.
report_failure() {
    local said
    said=$(grep -aEm1 '^rank [0-9]+: |coll:mscclpp: error: ' "$log" | cut -c 1-300)
    failed=$((failed + 1))
    echo "FAIL $1: $2${said:+: $said}"
    # The cause stands first. What Open MPI says about the end of the job may be long.
    grep -avE '^-+$|^$' "$log" | awk '
        { line[NR] = $0 }
        END {
            for (i = 1; i <= NR; ++i) {
                if (i <= 15 || i > NR - 25) print "     " line[i]
                else if (i == 16) print "     ..."
            }
        }'
}

# Whether this case is to be run now.
begin() {
    if [ "${patterns[0]:-}" = --list ]; then
        echo "$1"
        return 1
    fi
    wanted "$1"
}

# launch LIMIT ARGUMENT...: the exit status of the job; 124 after LIMIT seconds. Sets `took` to the seconds by the clock
# and to those of processors, in user mode and in the kernel.
launch() {
    local limit=$1 asked=() TIMEFORMAT='%1R s, of processors %2U + %2S s' status
    shift
    # Imitated nodes that share a GPU have kernels only where they are asked for, under MPS, too.
    if [ "$mps" = 1 ] && [[ " $* " == *" coll_mscclpp_ranks_per_node "* ]] &&
        [[ " $* " != *" coll_mscclpp_shared_gpu "* ]]; then
        asked=(--mca coll_mscclpp_shared_gpu kernels)
    fi
    : >"$log"
    {
        time MSCCLPP_TEST_LOG=$log timeout -k 10 "$limit" "${launch[@]}" ${asked[@]+"${asked[@]}"} "$@" \
            >>"$log" 2>&1 </dev/null
    } 2>"$scratch/took"
    status=$?
    took=$(<"$scratch/took")
    return $status
}

# ranks_of [mpirun argument]...: how many they ask for.
ranks_of() {
    while [ $# -gt 1 ] && [ "$1" != -n ]; do shift; done
    echo "${2:-1}"
}

# few: whether few shapes stand for all by default: on the twin, which the host layer tries with all of them.
few() {
    [ "$MSCCLPP_TEST_DEVICE" = host ] && [ "$long" != 1 ]
}

# among SHAPE PATTERN: whether this shape is to be tried where those that match stand for all.
among() {
    # shellcheck disable=SC2053 # a pattern it is
    ! few || [[ $1 == $2 ]]
}

# leave_out NAME [mpirun argument]...: true, and a skip, if these are too many ranks for the GPUs, or exchange between
# nodes by what was not built in.
leave_out() {
    if [ "$(ranks_of "${@:2}")" -gt "$max_ranks" ]; then
        if [ "$mps" = 1 ]; then
            skip "$1" "more than 8 ranks on a GPU; set MSCCLPP_TEST_LONG=1"
        else
            skip "$1" "more than 4 ranks would take turns on a GPU, for minutes; use MPS or set MSCCLPP_TEST_LONG=1"
        fi
    elif [ "$ucx" = no ] &&
        grep -Fx -A1 coll_mscclpp_transport < <(printf '%s\n' "${@:2}") | grep -Eqx 'ucx|network'; then
        skip "$1" "built without UCX"
    else
        return 1
    fi
}

# run NAME LIMIT [mpirun argument]... PROGRAM [argument]...: must pass.
run() {
    local name=$1 limit=$2 status
    shift 2
    leave_out "$name" "$@" && return 0
    begin "$name" || return 0
    launch "$limit" "$@"
    status=$?
    case $status in
    0)
        passed=$((passed + 1))
        echo "ok   $name ($took)"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "SKIP $name: $(sed -n 's/^skipped: //p' "$log" | head -n 1)"
        ;;
    124 | 137) report_failure "$name" "not at its end after $limit s" ;;
    *) report_failure "$name" "exit status $status" ;;
    esac
}

# run_queued RUNNER NAME ARGUMENT...: a case with queued calls of 3 ranks, by run or its like. Without MPS, kernels of
# ranks that share a GPU take turns, and no call is queued.
run_queued() {
    if [ "$MSCCLPP_TEST_DEVICE" = host ] || [ "$mps" = 1 ] || [ "$gpus" -ge 3 ]; then
        "$@"
    else
        skip "$2" "needs MPS or 3 GPUs, and has $gpus; ranks that share one take turns"
    fi
}

# The job must pass and print a line that matches.
run_saying() {
    local name=$1 expression=$2 before=$passed
    shift 2
    run "$name" "$@"
    if [ "$passed" -gt "$before" ] && ! grep -aEq "$expression" "$log"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but no line matches: $expression"
    fi
}

# The job must pass and print no line that matches.
run_never_saying() {
    local name=$1 expression=$2 before=$passed
    shift 2
    run "$name" "$@"
    if [ "$passed" -gt "$before" ] && grep -aEq "$expression" "$log"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but a line matches: $expression"
    fi
}

# The job must pass and print so many lines that match.
run_counting() {
    local name=$1 count=$2 expression=$3 before=$passed found
    shift 3
    run "$name" "$@"
    [ "$passed" -gt "$before" ] || return 0
    found=$(grep -aEc "$expression" "$log")
    if [ "$found" -ne "$count" ]; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but $found lines in place of $count match: $expression"
    fi
}

# The job must pass, and log so many warnings and errors in all, of which one matches.
run_logging() {
    local name=$1 count=$2 expression=$3 before=$passed
    shift 3
    run_counting "$name" "$count" 'coll:mscclpp: (error|warning): ' "$@"
    if [ "$passed" -gt "$before" ] && ! grep -aEq "coll:mscclpp: (error|warning): .*$expression" "$log"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but no warning or error matches: $expression"
    fi
}

# The job must pass, and all calls that it tells of, of which there are some, must be served by algorithms that match.
run_by() {
    local name=$1 expression=$2 before=$passed served
    shift 2
    run "$name" "$@"
    [ "$passed" -gt "$before" ] || return 0
    served=$(grep -aEo 'call [0-9]+: [a-z_]+, ' "$log" | sed 's/.*: \(.*\), /\1/' | sort -u)
    if [ -z "$served" ] || grep -Evxq "$expression" <<<"$served"; then
        passed=$((passed - 1))
        report_failure "$name" "passed, but by $(paste -sd, <<<"${served:-no kernel}") in place of $expression"
    fi
}

# The job must fail by itself within LIMIT, and print a line that matches; or, if any will do, not die of a signal.
run_failing() {
    local name=$1 expression=$2 limit=$3 status
    shift 3
    leave_out "$name" "$@" && return 0
    begin "$name" || return 0
    launch "$limit" "$@"
    status=$?
    if [ $status -eq 0 ]; then
        report_failure "$name" "passed, but must end with an error"
    elif [ $status -eq 124 ] || [ $status -eq 137 ]; then
        report_failure "$name" "no error within $limit s"
    elif ! grep -aEq "$expression" "$log"; then
        report_failure "$name" "exit status $status, but no line matches: $expression"
    elif [ -z "$expression" ] && grep -aq 'exited on signal' "$log"; then
        report_failure "$name" "ended by a signal"
    else
        passed=$((passed + 1))
        echo "ok   $name ($took)"
    fi
}

skip() {
    begin "$1" || return 0
    skipped=$((skipped + 1))
    echo "SKIP $1: $2"
}
