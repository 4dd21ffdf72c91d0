# What contrib/check does in the background; contrib/check reads this file in. What a command in the background prints
# and counts is kept in files, until `joined` prints and counts it.
# shellcheck shell=bash disable=SC2154 # `top` and `start` are the reader's

# {name: id of the process that runs the command, or 0 if it has run in this shell already}
declare -A asides=()

# aside NAME COMMAND...: runs a command in the background or, with --jobs 1, in this shell. What it prints and counts is
# kept for `joined`.
aside() {
    local name=$1
    clear_aside "$name"
    if [ "$(jobs)" -eq 1 ]; then
        asides[$name]=0
        in_aside "$@"
        return
    fi
    set -m # a process group of its own, to be ended with what it has started
    in_aside "$@" </dev/null &
    asides[$name]=$!
    set +m
}

# in_gaps COMMAND...: in an aside, runs a command, which may compute but has no deadlines, only while nothing else wants
# the processors. Ranks that wait for one another lose a time slice to a program of their own priority at each turn.
in_gaps() {
    [ "$BASHPID" = $$ ] || chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 -p "$BASHPID" >/dev/null 2>&1
    "$@"
}

# ended NAME: waits until this aside has ended, but prints and counts nothing yet.
ended() {
    while [ ! -e "$top/build/log/$1.aside.counts" ] && kill -0 "${asides[$1]}" 2>/dev/null; do
        sleep 0.2
    done
}

# begin_asides COMMAND NAME...: runs COMMAND with all the names in the background; it calls in_aside for each of them.
begin_asides() {
    local name
    for name in "${@:2}"; do
        clear_aside "$name"
    done
    set -m
    "$@" </dev/null &
    set +m
    for name in "${@:2}"; do
        asides[$name]=$!
    done
}

# clear_aside NAME: removes what an earlier run has kept.
clear_aside() {
    mkdir -p "$top/build/log"
    rm -f "$top/build/log/$1.aside".*
}

# in_aside NAME COMMAND...: runs a command in this shell, which is in the background or has no background. Keeps in
# files what the command prints, its exit status and counts, and the seconds that it took.
in_aside() {
    local place=$top/build/log/$1.aside passed=0 failed=0 skipped=0 failures=() used=0 began=$SECONDS before
    shift
    read_used
    before=$used
    {
        "$@"
        printf '%s\n' $? "$passed" "$failed" "$skipped" "${failures[@]}" >"$place.new"
    } >"$place.said" 2>&1
    read_used
    echo "$((began - start)) $((SECONDS - began)) $((used - before))" >"$place.took"
    mv "$place.new" "$place.counts"
}

# read_used: sets `used` to the processor seconds of this shell and of all its children that have ended.
read_used() {
    local file=$top/build/log/times.$BASHPID
    mkdir -p "$top/build/log"
    times >"$file"
    used=$(tr 'ms' '  ' <"$file" | awk '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f", sum }')
    rm -f "$file"
}

# joined NAME: waits for the end of an aside, prints what it has printed, and adds its counts to those of this shell.
# Returns the status of its command; 1, after a failure that is counted, if it did not come to its end.
joined() {
    local place=$top/build/log/$1.aside counts pid=${asides[$1]}
    ended "$1"
    unset "asides[$1]"
    # With the last aside of a lane the lane's process ends, and read_used then counts what it has used.
    [[ $pid -eq 0 || " ${asides[*]} " == *" $pid "* ]] || wait "$pid" 2>/dev/null
    [ ! -e "$place.said" ] || cat "$place.said"
    mapfile -t counts < <(cat "$place.counts" 2>/dev/null)
    if [ ${#counts[@]} -lt 4 ]; then
        fail "$1: did not come to its end"
        return 1
    fi
    passed=$((passed + counts[1]))
    failed=$((failed + counts[2]))
    skipped=$((skipped + counts[3]))
    failures+=("${counts[@]:4}")
    return "${counts[0]}"
}

# interrupted: for SIGINT and SIGTERM: ends all that runs in the background, and then this script.
interrupted() {
    local pid
    trap - INT TERM
    for pid in "${asides[@]}"; do
        [ "$pid" -eq 0 ] || kill -- "-$pid" 2>/dev/null
    done
    die "interrupted"
}
trap interrupted INT TERM
