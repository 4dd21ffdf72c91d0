# shellcheck shell=bash
# Groups of cases side by side, for run.sh, which sets `scratch`, `log` and the counters, and has a function cases_NAME
# for each group. Reports stay in one order, and a group that breaks off loses no other one.
: "${scratch:?}"

# group NAME: the cases of one function, in the background and in a folder of their own.
group() {
    local folder=$scratch/group-$1
    mkdir "$folder"
    in_group "$1" "$folder" >"$folder/said" 2>&1 &
}

in_group() {
    # shellcheck disable=SC2034 # what run.sh's functions write to
    local scratch=$2 log=$2/log
    # Open MPI 4.1 removes the folder of its jobs with the last of them, also where another job is about to use it.
    export OMPI_MCA_orte_tmpdir_base=$2
    "cases_$1"
    echo "$passed $failed $skipped" >"$scratch/counts"
}

# tell NAME: prints and counts what a group has said.
tell() {
    local folder=$scratch/group-$1 counts=()
    cat "$folder/said"
    read -r -a counts <"$folder/counts"
    if [ ${#counts[@]} -ne 3 ]; then
        failed=$((failed + 1))
        echo "FAIL $1: this group of cases did not come to its end"
        return
    fi
    passed=$((passed + counts[0]))
    failed=$((failed + counts[1]))
    skipped=$((skipped + counts[2]))
}

# run_lanes LANES NAME...: groups begin in this order, LANES at once. Returns when all have ended.
run_lanes() {
    local lanes=$1 name
    shift
    for name in "$@"; do
        [ "$(jobs -pr | wc -l)" -lt "$lanes" ] || wait -n
        group "$name"
    done
    wait
}

# run_groups NAME...: groups, in lanes if there are several and no list is asked for.
run_groups() {
    local name
    if [ "${lanes:?}" -eq 1 ] || [ "${patterns[0]:-}" = --list ]; then
        for name in "$@"; do
            "cases_$name"
        done
        return
    fi
    run_lanes "$lanes" "$@"
    for name in "$@"; do
        tell "$name"
    done
}
