# What contrib/check does in the background, read in by it: what that says and counts waits for who joins it.
# shellcheck shell=bash disable=SC2154 # `top` and `start` are the reader's

# By name, the process that runs it, or 0: it has run here.
declare -A asides=()

# aside NAME COMMAND...: in the background, but now and here with --jobs 1. What it says and counts waits for `joined`.
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

clear_aside() {
    mkdir -p "$top/build/log"
    rm -f "$top/build/log/$1.aside".*
}

# in_aside NAME COMMAND...: the same where all is in the background already.
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

# read_used: sets `used` to the processor seconds of this shell and of what has ended below it.
read_used() {
    local file=$top/build/log/times.$BASHPID
    mkdir -p "$top/build/log"
    times >"$file"
    used=$(tr 'ms' '  ' <"$file" | awk '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f", sum }')
    rm -f "$file"
}

# joined NAME: prints and counts what an aside has said, once it has ended; its command's status.
joined() {
    local place=$top/build/log/$1.aside counts pid=${asides[$1]}
    while [ ! -e "$place.counts" ] && kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
    done
    unset "asides[$1]"
    # The last of its lane ends with it, and what it has used is counted from here on.
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

interrupted() {
    local pid
    trap - INT TERM
    for pid in "${asides[@]}"; do
        [ "$pid" -eq 0 ] || kill -- "-$pid" 2>/dev/null
    done
    die "interrupted"
}
trap interrupted INT TERM
