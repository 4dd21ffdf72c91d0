# shellcheck shell=bash
# The cases of mscclpp_bench, for run.sh, which has the functions that run one, and sets what these read and count.
# shellcheck disable=SC2034,SC2154 # these

# The row of one size, in place only: what a call adds, the turn, and a base of at least so many thousand microseconds.
based() {
    echo "^ +8 +2 +float +sum \| +-?[0-9.]+ +[0-9.]+ +([$1-9]|[1-9][0-9])[0-9]{3}\.[0-9]+ +0"
}

cases_bench() {
    local program=$bindir/../../mscclpp_bench perf measure between file=$scratch/bench where kind
    perf=$(cd "$(dirname "$0")/../../contrib/perf" && pwd)
    measure=("$program" --device "$MSCCLPP_TEST_DEVICE" --warmup 1 --rounds 3 --check 2)
    between=("${measure[@]}" --iterations 5 --in-place --max 8)
    # Kernels that are not launched, or not waited for, leave the loop without calls shorter than they are.
    run_saying "bench:between:one after each call" "$(based 2)" 60 -n 2 "${forced[@]}" "${between[@]}" \
        --between waves:2000
    run_saying "bench:between:ahead of several calls" "$(based 6)" 60 -n 2 "${forced[@]}" "${between[@]}" \
        --between full:2000:4 --between-ahead 3 --json "$file.calls"
    run_saying "bench:between:in the calls' stream" "$(based 2)" 60 -n 2 "${forced[@]}" "${between[@]}" \
        --mode stream --between waves:2000:3
    run_saying "bench:between:none" '^ +8 +2 +float +sum \| +([0-9.]+) +\1 +0\.00 +0' 60 -n 2 "${forced[@]}" \
        "${between[@]}" --between none
    # A barrier takes some time, and a turn with a call takes longer by what the call adds.
    run_saying "bench:between:barrier" \
        '^ +8 +2 +float +sum \| +-?[0-9.]+ +[0-9.]+ +(0\.[0-9]*[1-9][0-9]*|[1-9][0-9]*\.[0-9]+) +0' 60 -n 2 \
        "${forced[@]}" "${between[@]}" --between barrier
    run_saying "bench:between:beside launched" "$(based 2) +-?[0-9.]+ +-?[0-9.]+ +([0-9.]+|N/A)" 60 -n 2 \
        "${forced[@]}" "${between[@]}" --between waves:2000 --compare launched --json "$file.launched"
    run_saying "bench:launched without kernels" '^ +8 +2 .* 0 +[0-9.]+ +[0-9.]+$' 60 -n 2 "${forced[@]}" \
        "${between[@]}" --compare launched
    if [ "$MSCCLPP_TEST_DEVICE" = cuda ]; then
        run_saying "bench:between:coop" "$(based 2)" 60 -n 2 "${forced[@]}" "${between[@]}" --between coop:2000
        if ldconfig -p 2>/dev/null | grep -q 'libcublas\.so'; then
            run_saying "bench:between:gemm" "^# .*: gemm of 200 us, [0-9]+ rows" 120 -n 2 "${forced[@]}" \
                "${between[@]}" --between gemm:200
        else
            skip "bench:between:gemm" "no cuBLAS"
        fi
    else
        for kind in coop gemm; do
            run_failing "bench:between:no $kind on the twin" "^mscclpp_bench: --between: '$kind' is not allowed" 30 \
                -n 1 "${between[@]}" --between "$kind:20"
        done
    fi
    for where in wave:20 waves waves:x waves:20:0 waves:20:2x waves:2000000; do
        run_failing "bench:between:bad $where" "^mscclpp_bench: --between: '$where' is not allowed; use KIND:MICRO" 30 \
            -n 2 "${between[@]}" --between "$where"
    done
    run_failing "bench:between:ahead of nothing" "^mscclpp_bench: --between-ahead: '3' is not allowed" 30 -n 2 \
        "${between[@]}" --between-ahead 3
    run_failing "bench:between:channels" "^mscclpp_bench: --mode: 'port' is not allowed; use blocking" 30 -n 2 \
        "$program" --mode port --between waves:20
    run_saying "bench:no memory for a set-up" '^test_bench_oob: rank 2 has no memory for a set-up$' 30 -n 3 \
        "${device[@]}" "$bindir/test_bench_oob"
    # A rank that cannot begin ends all of them.
    # shellcheck disable=SC2016 # the ranks' shells expand it
    run_failing "bench:a bad parameter on rank 1" 'parameter timeout: "soon" is not allowed' 30 -n 2 sh -c \
        '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export OMPI_MCA_coll_mscclpp_timeout=soon; exec "$@"' sh "${measure[@]}" \
        --mode library --max 8
    run_failing "bench:launched in a stream" "^mscclpp_bench: --mode: 'stream' is not allowed; use library" 30 -n 2 \
        "${between[@]}" --mode stream --compare launched
    for where in heap stack large; do
        run_saying "bench:host buffers:$where" '^# MPI_Init took [1-9][0-9.]* ms' 60 -n 2 "${forced[@]}" \
            "${measure[@]}" --factor 9 --max 64k --host-buffers "$where" --json "$file.$where"
    done
    run_saying "bench:host buffers:without the component" 'coll/mscclpp is NOT loaded' 60 -n 2 "${device[@]}" \
        --mca coll ^mscclpp "${measure[@]}" --factor 9 --max 64k --host-buffers --json "$file.without"
    run_failing "bench:host buffers:too large" "^mscclpp_bench: --host-buffers: 'stack' is not allowed" 30 -n 2 \
        "${measure[@]}" --max 65537 --host-buffers stack
    run_failing "bench:host buffers:queued" "^mscclpp_bench: --mode: 'stream' is not allowed" 30 -n 2 "${measure[@]}" \
        --mode stream --host-buffers
    cases_bench_collectives
    cases_bench_modes
    cases_bench_neighbors
    cases_bench_transpose
    cases_bench_compared
}

# Collectives of neighbours, which have a line of their own for who served.
cases_bench_neighbors() {
    local n mode neighbors=("${measure[@]}" --iterations 5 --warmup 0 --factor 29 --min 48 --max 100k --coll neighbors)
    local damage=$bindir/.libs/libdamage.so
    for n in 1 2 3 5; do
        run_saying "bench:neighbors:$n" '^# 0 wrong elements$' 60 -n "$n" "${forced[@]}" "${neighbors[@]}" \
            --type char,double --json "$file.neighbors.$n"
    done
    for mode in nonblocking persistent; do
        run_saying "bench:neighbors:$mode" '^# 0 wrong elements$' 60 -n 3 "${forced[@]}" "${neighbors[@]}" \
            --mode "$mode"
    done
    run_saying "bench:neighbors:who served" \
        '^# neighbor_alltoallw: coll/mscclpp served [1-9][0-9]* .* staged 0 through' 60 -n 3 "${forced[@]}" \
        "${neighbors[@]}"
    if [ "$MSCCLPP_TEST_DEVICE" != host ] || { [ ! -e "$damage" ] && [ "${patterns[0]:-}" != --list ]; }; then
        skip "bench:neighbors:damaged" "no $damage, or buffers that it cannot touch"
    else
        run_failing "bench:neighbors:damaged" '^# [1-9][0-9]* wrong elements$' 60 -n 3 "${forced[@]}" \
            -x LD_PRELOAD="$damage" -x MSCCLPP_TEST_DAMAGE=skip "${neighbors[@]}" --mode persistent
    fi
    run_failing "bench:neighbors:by the library" "^mscclpp_bench: --mode: 'library' is not allowed; use blocking" 30 \
        -n 2 "${neighbors[@]}" --mode library
    run_failing "bench:neighbors:beside NCCL" "^mscclpp_bench: --compare: 'nccl' is not allowed" 30 -n 2 \
        "${neighbors[@]}" --compare nccl
    run_failing "bench:neighbors:in place" \
        "^mscclpp_bench: --coll: 'neighbor_[a-z]+' is not allowed; use collectives of all ranks with --in-place" 30 \
        -n 2 "${neighbors[@]}" --in-place
}

# Transpositions, which kernels serve from buffer to buffer.
cases_bench_transpose() {
    local n transpose=("$program" --device "$MSCCLPP_TEST_DEVICE" --mode transpose --warmup 1 --rounds 2)
    transpose+=(--iterations 2)
    local damage=$bindir/.libs/libdamage.so row='^  [01] to [12] +[0-9.]+ +[0-9.]+ +[0-9.]+ +0 +[1-9][0-9]* +0$'
    for n in 2 3; do
        run_saying "bench:transpose:$n" "$row" 60 -n "$n" "${forced[@]}" "${transpose[@]}" --length 20 --check 2 \
            --json "$file.transpose.$n"
    done
    run_failing "bench:transpose:blocks that MPI cannot count" \
        "^mscclpp_bench: --length: '2048' is not allowed; use 1 to 2047 with 2 ranks" 60 -n 2 \
        "${forced[@]}" "${transpose[@]}" --length 2048
    run_saying "bench:transpose:empty parts" "$row" 60 -n 3 "${forced[@]}" "${transpose[@]}" --length 2
    if [ "$MSCCLPP_TEST_DEVICE" != host ] || { [ ! -e "$damage" ] && [ "${patterns[0]:-}" != --list ]; }; then
        skip "bench:transpose:damaged" "no $damage, or buffers that it cannot touch"
    else
        run_failing "bench:transpose:damaged" '^# [1-9][0-9]* wrong elements$' 60 -n 2 "${forced[@]}" \
            -x LD_PRELOAD="$damage" -x MSCCLPP_TEST_DAMAGE=skip "${transpose[@]}" --length 20
    fi
    run_failing "bench:transpose:a collective" "^mscclpp_bench: --mode: 'transpose' is not allowed; use it without" 30 \
        -n 2 "${transpose[@]}" --coll bcast
    run_failing "bench:transpose:a length of nothing" "^mscclpp_bench: --mode: 'blocking' is not allowed; use transp" \
        30 -n 2 "${measure[@]}" --length 7
}

# MPI's other calls and those of the extension library, of every collective, verified.
cases_bench_modes() {
    local kind mode all=("${forced[@]}" "${measure[@]}" --iterations 5 --warmup 0 --factor 29 --min 4 --max 100k)
    local damage=$bindir/.libs/libdamage.so
    for mode in nonblocking persistent queued graph; do
        run_saying "bench:modes:$mode" '^# 0 wrong elements$' 120 -n 3 "${all[@]}" --mode "$mode" --coll all \
            --type char,double --op sum,max --root 1
        run_saying "bench:modes:$mode:beside blocking" '^ +[0-9]+ .* [0-9.]+ +[0-9.]+$' 60 -n 2 "${all[@]}" \
            --mode "$mode" --compare blocking --json "$file.mode.$mode"
        run_failing "bench:modes:$mode:no such type" "^mscclpp_bench: --type: 'half' is not allowed; use types" 30 \
            -n 2 "${measure[@]}" --mode "$mode" --type half
    done
    for mode in nonblocking persistent; do
        if [ "$MSCCLPP_TEST_DEVICE" != host ] || { [ ! -e "$damage" ] && [ "${patterns[0]:-}" != --list ]; }; then
            skip "bench:modes:$mode damaged" "no $damage, or buffers that it cannot touch"
            continue
        fi
        run_failing "bench:modes:$mode damaged" '^# [1-9][0-9]* wrong elements$' 60 -n 2 \
            -x LD_PRELOAD="$damage" -x MSCCLPP_TEST_DAMAGE=skip "${all[@]}" --mode "$mode"
    done
    run_saying "bench:modes:who queued" '^# [1-9][0-9]* calls of rank 0 were queued, and 0 waited' 60 -n 2 "${all[@]}" \
        --mode queued
    run_saying "bench:modes:who waited" '^# 0 calls of rank 0 were queued, and [1-9][0-9]* waited' 60 -n 2 \
        --mca coll_mscclpp_ranks_per_node 1 "${all[@]}" --mode queued --coll gatherv
    run_saying "bench:modes:what nodes leave out" '^# gatherv cannot be captured in a graph; left out' 60 -n 2 \
        --mca coll_mscclpp_ranks_per_node 1 "${all[@]}" --mode graph --coll gatherv,alltoall
    for kind in gatherv alltoallw alltoall; do
        run_saying "bench:modes:graph of $kind" "^# $kind: [1-9][0-9]* calls of rank 0 were queued or captured, and 0" \
            60 -n 2 "${all[@]}" --mode graph --coll "$kind,bcast"
    done
    run_saying "bench:modes:queued between kernels" "$(based 2)" 60 -n 2 "${forced[@]}" "${between[@]}" --mode queued \
        --between waves:2000:3
    run_saying "bench:modes:graph on several nodes" '^# 0 wrong elements$' 60 -n 2 --mca coll_mscclpp_ranks_per_node 1 \
        "${all[@]}" --mode graph
    run_failing "bench:modes:graph of staged calls" '^mscclpp_bench: --mode graph: no call of these ranks can be' 60 \
        -n 2 --mca coll_mscclpp_algorithm stage "${all[@]}" --mode graph
    run_failing "bench:modes:graph between kernels" "^mscclpp_bench: --mode: 'graph' is not allowed; use blocking" 30 \
        -n 2 "${between[@]}" --mode graph --between waves:20
    run_failing "bench:modes:copies in a graph" "^mscclpp_bench: --compare: 'copies' is not allowed; use nccl" 30 -n 2 \
        "${measure[@]}" --mode graph --coll bcast --compare copies
    run_failing "bench:modes:blocking beside itself" "^mscclpp_bench: --compare: 'blocking' is not allowed" 30 -n 2 \
        "${measure[@]}" --compare blocking
}

# Every collective is verified, and none of them where its results are not right.
cases_bench_collectives() {
    local n kind damage=$bindir/.libs/libdamage.so
    local colls=("${measure[@]}" --iterations 5 --warmup 0 --coll) all=("${forced[@]}" "${measure[@]}")
    all+=(--iterations 5 --warmup 0 --factor 29 --min 4 --max 100k --coll all)
    run_saying "bench:collectives:calls of NCCL" '^[1-9][0-9]* calls, 0 failed$' 30 -n 1 "${device[@]}" \
        "$bindir/test_nccl_calls"
    for n in 1 2 3 5; do
        run_saying "bench:collectives:$n" '^# 0 wrong elements$' 120 -n "$n" "${all[@]}" --type char,float,double \
            --op sum,max --root $((n / 2)) --json "$file.colls.$n"
    done
    run_saying "bench:collectives:by the host library" '^# 0 wrong elements$' 120 -n 3 "${all[@]}" --mode library \
        --type int8,half,float --root 1
    run_saying "bench:collectives:without the component" '^# 0 wrong elements$' 60 -n 2 "${device[@]}" \
        --mca coll ^mscclpp "${measure[@]}" --iterations 5 --factor 29 --max 64k --host-buffers --coll all
    for kind in copies kernel launched; do
        run_saying "bench:collectives:beside $kind" '^# 0 wrong elements$' 120 -n 3 "${all[@]}" --compare "$kind" \
            --root 2 --json "$file.colls.$kind"
    done
    run_saying "bench:collectives:between kernels" "^ +8 +2 +float +none \| +-?[0-9.]+ +[0-9.]+ +[0-9]{4}" 60 -n 2 \
        "${forced[@]}" "${between[@]}" --between waves:2000 --coll allgather --compare copies
    run_saying "bench:collectives:who served" '^# bcast: coll/mscclpp served [0-9N]' 60 -n 2 "${forced[@]}" \
        "${colls[@]}" bcast,scan --max 64
    for kind in last skip beyond; do
        if [ "$MSCCLPP_TEST_DEVICE" != host ] || { [ ! -e "$damage" ] && [ "${patterns[0]:-}" != --list ]; }; then
            skip "bench:collectives:$kind damaged" "no $damage, or buffers that it cannot touch"
            continue
        fi
        local damaged=all
        [ "$kind" != beyond ] || damaged=reduce_scatter_block,reduce_scatter,reduce,gather,gatherv,scatter,scatterv
        run_failing "bench:collectives:$kind damaged" '^# [1-9][0-9]* wrong elements$' 60 -n 3 "${forced[@]}" \
            -x LD_PRELOAD="$damage" -x MSCCLPP_TEST_DAMAGE="$kind" "${colls[@]}" "$damaged" --out-of-place --min 4k \
            --max 4k --root 1 --json "$file.damaged.$kind"
    done
    for kind in allredcue '' allreduce,,scan; do
        run_failing "bench:collectives:bad '$kind'" "^mscclpp_bench: --coll: '[a-z]*' is not allowed; use allred" 30 \
            -n 2 "${colls[@]}" "$kind"
    done
    run_failing "bench:collectives:no such root" "^mscclpp_bench: --root: '2' is not allowed; use a rank from 0 to 1" \
        30 -n 2 "${colls[@]}" bcast --root 2
    run_failing "bench:collectives:a root of nothing" "^mscclpp_bench: --root: '1' is not allowed; use it with" 30 \
        -n 2 "${colls[@]}" scan --root 1
    run_failing "bench:collectives:copies of reductions" "^mscclpp_bench: --compare: 'copies' is not allowed" 30 -n 2 \
        "${colls[@]}" scan,reduce --compare copies
    run_failing "bench:collectives:queued" "^mscclpp_bench: --coll: 'bcast' is not allowed; use allreduce" 30 -n 2 \
        "${colls[@]}" bcast --mode stream
    run_failing "bench:collectives:operations of moves" "^mscclpp_bench: --op: 'max' is not allowed" 30 -n 2 \
        "${colls[@]}" bcast --op max
}

# What files say, and what the scripts make of them; their own cases are in contrib/perf/check.
cases_bench_compared() {
    local list=${patterns[0]:-}
    command -v python3 >/dev/null || { skip "bench:compared" "no python3" && return 0; }
    if [ -e "$file.calls" ] || [ "$list" = --list ]; then
        run "bench:between:added by calls" 30 -n 1 python3 -c '
import json, sys
row = json.load(open(sys.argv[1]))["results"][0]
sides = zip(*(row[key]["rounds"] for key in ("added_us", "turn_us", "base_us")))
sys.exit(any(abs(added - (turn - base) / 4) > 0.001 for added, turn, base in sides))' "$file.calls"
    fi
    if [ -e "$file.launched" ] || [ "$list" = --list ]; then
        run "bench:compared:launched" 30 -n 1 python3 -B "$perf/regress.py" --most-over 1000000 "$file.launched"
        run "bench:compared:table" 30 -n 1 python3 -B "$perf/table.py" "$file.launched"
    fi
    if [ -e "$file.damaged.last" ] || [ "$list" = --list ]; then
        run "bench:collectives:damage in every row" 30 -n 1 python3 -c '
import json, sys
for path, colls in zip(sys.argv[1:], (16, 16, 7)):
    rows = json.load(open(path))["results"]
    sys.exit("a row is right") if not all(row["wrong"] for row in rows) else None
    sys.exit("a collective is missing") if len({row["coll"] for row in rows}) != colls else None' \
            "$file.damaged.last" "$file.damaged.skip" "$file.damaged.beyond"
    fi
    if { [ -e "$file.colls.copies" ] && [ -e "$file.colls.2" ]; } || [ "$list" = --list ]; then
        run "bench:compared:collectives" 30 -n 1 python3 -B "$perf/regress.py" --most-over 1000000 \
            "$file.colls.copies"
        run "bench:compared:table of collectives" 30 -n 1 python3 -B "$perf/table.py" "$file.colls.copies"
        run "bench:compared:collectives of two runs" 30 -n 1 python3 -B "$perf/regress.py" --most-over 1000000 \
            "$file.colls.2" "$file.colls.2"
    fi
    if { [ -e "$file.mode.graph" ] && [ -e "$file.mode.queued" ]; } || [ "$list" = --list ]; then
        run "bench:compared:modes" 30 -n 1 python3 -B "$perf/regress.py" --most-over 1000000 "$file.mode.graph"
        run "bench:compared:table of modes" 30 -n 1 python3 -B "$perf/table.py" "$file.mode.queued"
        run "bench:modes:calls of a graph" 30 -n 1 python3 -c '
import json, sys
data = json.load(open(sys.argv[1]))
sys.exit(data["results"][0]["iterations"] % 5 or not data["collectives"][0]["queued"])' "$file.mode.graph"
    fi
    if { [ -e "$file.heap" ] && [ -e "$file.without" ]; } || [ "$list" = --list ]; then
        run "bench:compared:host buffers" 30 -n 1 python3 -B "$perf/regress.py" --most-over 1000000 \
            --init-over 100000 "$file.without" "$file.heap"
    fi
}
