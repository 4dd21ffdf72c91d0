# shellcheck shell=bash
# The cases of mscclpp_tune, for run.sh, which has the functions that run one, and sets what these read and count.
# shellcheck disable=SC2034,SC2154 # these

# interrupted NAME SIGNAL WHOM ARGUMENT...: a run of mscclpp_tune that gets a signal, sent to a rank or to mpirun, once
# it has measured something. It must end soon, a rank's with the signal's status and after a word of its own.
interrupted() {
    local name=$1 signal=$2 whom=$3 measured=$scratch/tuned.2-$MSCCLPP_TEST_DEVICE.measured start=$SECONDS pid target
    local status expected=$((128 + $(kill -l "$2")))
    shift 3
    command -v pgrep >/dev/null || { skip "$name" "no pgrep(1), which finds the process" && return 0; }
    begin "$name" || return 0
    timeout -k 10 120 "${launch[@]}" "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    until grep -q '^bytes=' "$measured" 2>/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
    target=$(pgrep -P $pid)
    [ "$whom" = mpirun ] || target=$(pgrep -P "$target" mscclpp_tune | tail -n 1)
    start=$SECONDS
    kill -s "$signal" "$target"
    wait $pid
    status=$?
    if [ $status -eq 0 ] || [ $((SECONDS - start)) -gt 20 ]; then
        report_failure "$name" "exit status $status after $((SECONDS - start)) s"
    elif [ "$whom" = rank ] && [ $status -ne $expected ]; then
        report_failure "$name" "exit status $status in place of $expected"
    elif [ "$whom" = rank ] && ! grep -q '^# interrupted after [1-9]' "$log"; then
        report_failure "$name" "no line that tells how far it came"
    elif [ "$whom" = rank ] && ! grep -q '^ranks=2 ' "$scratch/tuned"; then
        report_failure "$name" "no rules"
    else
        passed=$((passed + 1))
        echo "ok   $name ($((SECONDS - start)) s)"
    fi
}

# bar NAME ARGUMENT...: mpirun in a terminal, where mscclpp_tune has to draw a bar.
bar() {
    local name=$1
    shift
    command -v script >/dev/null || { skip "$name" "no script(1), which makes a terminal" && return 0; }
    begin "$name" || return 0
    printf '%q ' "${launch[@]}" "$@" >"$scratch/bar.sh"
    timeout -k 10 60 script -qefc "sh $scratch/bar.sh" /dev/null >"$log" 2>&1 </dev/null
    if grep -Eq $'\r\\[#+\\.+\\] 1 of 3 sizes' "$log" && ! grep -q 'mscclpp_tune: 1 of 3 sizes' "$log"; then
        passed=$((passed + 1))
        echo "ok   $name"
    else
        report_failure "$name" "no bar"
    fi
}

# meanwhile NAME RULE ARGUMENT...: a run of mscclpp_tune, in the course of which somebody else writes a rule into its
# file. The file must have it at the end.
meanwhile() {
    local name=$1 rule=$2 measured=$scratch/shared.2-$MSCCLPP_TEST_DEVICE.measured pid
    shift 2
    begin "$name" || return 0
    rm -f "$measured"
    timeout -k 10 120 "${launch[@]}" "$@" --output "$scratch/shared" >"$log" 2>&1 </dev/null &
    pid=$!
    until grep -q '^bytes=' "$measured" 2>/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
    echo "$rule" >"$scratch/shared"
    if ! wait $pid; then
        report_failure "$name" "no success"
    elif ! grep -qx "$rule" "$scratch/shared" || ! grep -q '^ranks=2 ' "$scratch/shared"; then
        report_failure "$name" "rules are lost: $(paste -sd, "$scratch/shared")"
    else
        passed=$((passed + 1))
        echo "ok   $name"
    fi
}

# damaged NAME EXPRESSION TEXT ARGUMENT...: what printf makes of TEXT, behind the times that there are, must be refused
# with a line that matches, and the file must stay as it is.
damaged() {
    local name=$1 expression=$2 measured=$scratch/tuned.2-$MSCCLPP_TEST_DEVICE.measured before=$passed
    if [ -e "$measured" ]; then
        cp "$measured" "$scratch/whole"
        # shellcheck disable=SC2059 # a format it is
        printf "$3" >>"$measured"
        cp "$measured" "$scratch/damaged"
    fi
    run_failing "$name" "$expression" 30 "${@:4}"
    if [ "$passed" -gt "$before" ] && ! cmp -s "$measured" "$scratch/damaged"; then
        passed=$((passed - 1))
        report_failure "$name" "refused, but changed"
    fi
    [ ! -e "$scratch/whole" ] || mv "$scratch/whole" "$measured"
}

# What a name may lead to, and what of it stays.
cases_tune_kinds() {
    local file=$scratch/kinds tune
    tune=(-n 2 "${forced[@]}" "$bindir/../../mscclpp_tune" --device "$MSCCLPP_TEST_DEVICE" --max 64 --rounds 1)
    mkfifo "$file.fifo" "$file.times.2-$MSCCLPP_TEST_DEVICE.measured"
    run_failing "tune:rules in a FIFO" "cannot write '.*kinds.fifo': neither a regular file nor a link" 30 \
        "${tune[@]}" --output "$file.fifo"
    run_failing "tune:times in a FIFO" "cannot write '.*measured': neither a regular file nor a link" 30 \
        "${tune[@]}" --output "$file.times"
    echo 'no newline' | tr -d '\n' >"$file.foreign.2-$MSCCLPP_TEST_DEVICE.measured"
    run_failing "tune:times of another program" "measured' does not begin with '# mscclpp_tune '" 30 \
        "${tune[@]}" --output "$file.foreign"
    run_failing "tune:times of another program, --fresh" "measured' does not begin with '# mscclpp_tune '" 30 \
        "${tune[@]}" --output "$file.foreign" --fresh
    run "tune:leaves those alone" 30 -n 1 grep -qx 'no newline' "$file.foreign.2-$MSCCLPP_TEST_DEVICE.measured"
    mkdir "$file.folder"
    : >"$file.folder/rules"
    chmod 640 "$file.folder/rules"
    ln -s kinds.folder/rules "$file.link"
    run_saying "tune:by way of a link" '^# [1-9][0-9]* rules' 60 "${tune[@]}" --output "$file.link"
    # shellcheck disable=SC2016 # the rank's own shell expands it
    run "tune:keeps link and mode" 30 -n 1 sh -c \
        '[ -L "$0.link" ] && [ "$(stat -c %a "$0.folder/rules")" = 640 ] && grep "^ranks=2 " "$0.folder/rules"' "$file"
    # shellcheck disable=SC2016
    run "tune:leaves nothing else" 30 -n 1 sh -c '[ "$(ls "$0.folder")" = rules ]' "$file"
}

# Command line and standard output of both programs.
cases_tune_program() {
    local program
    for program in mscclpp_tune mscclpp_bench; do
        run_failing "tune:$program:bad letter of several" "^$program: -z: no such option" 30 -n 2 \
            "$bindir/../../$program" --device host -zq
        run_failing "tune:$program:bad letter" "^$program: -z: no such option" 30 -n 2 "$bindir/../../$program" -z
        run_failing "tune:$program:bad word" "^$program: --hel=3: no such option, or a value" 30 -n 2 \
            "$bindir/../../$program" --hel=3
        run_failing "tune:$program:no value" "^$program: -b: needs a value" 30 -n 2 "$bindir/../../$program" -b
        # A rank other than 0 waits, so that the launcher does not end the others before they have printed.
        # shellcheck disable=SC2016 # the rank's own shell expands it
        run_saying "tune:$program:no GPU, another rank waits" "waited for [1-9]" 30 -n 1 env OMPI_COMM_WORLD_RANK=1 \
            CUDA_VISIBLE_DEVICES= bash -c '"$0" --device cuda; echo "waited for $SECONDS"' "$bindir/../../$program"
        # shellcheck disable=SC2016
        run_failing "tune:$program:help, standard output full" "^$program: standard output cannot be written" 30 -n 1 \
            sh -c 'exec "$0" --help >/dev/full' "$bindir/../../$program"
    done
    # shellcheck disable=SC2016
    run_failing "tune:mscclpp_bench:standard output full" "^mscclpp_bench: standard output cannot be written" 30 -n 1 \
        "${forced[@]}" sh -c 'exec "$@" >/dev/full' sh "$bindir/../../mscclpp_bench" --device "$MSCCLPP_TEST_DEVICE" \
        --max 64 --rounds 1
}

# Figures of the transport between imitated nodes, which the cost model takes.
cases_tune_between() {
    local file=$scratch/between tune
    tune=("${forced[@]}" "$bindir/../../mscclpp_tune" --device "$MSCCLPP_TEST_DEVICE" --output "$file" --warmup 1
        --rounds 1 --between)
    echo 'ranks=2 device=host bytes<=1k algorithm=oneshot' >"$file"
    run_saying "tune:between" '^# shm: latency [0-9.e+-]+ us' 120 -n 2 --mca coll_mscclpp_ranks_per_node 1 \
        --mca coll_mscclpp_transport shm "${tune[@]}"
    run "tune:between:keeps rules" 30 -n 1 grep -q '^ranks=2 ' "$file"
    run "tune:between:figures" 30 -n 1 grep -q '^transport=shm latency=' "$file"
    # shellcheck disable=SC2016 # the rank's own shell expands it
    run "tune:between:obeyed" 60 -n 1 sh -c '
        sed "s/ latency=[^ ]*/ latency=12345/" "$0" >"$0.slow"' "$file"
    run_saying "tune:between:counts" 'by the cost model nodes .*latency 12345.00 us' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport shm --mca coll_mscclpp_verbose 2 \
        --mca coll_mscclpp_rules "$file.slow" "$bindir/test_basic" served
    run_failing "tune:between:one node" 'these ranks are on one node' 60 -n 2 "${tune[@]}"
}

# Rules for ranks on several nodes, which name algorithms between nodes, and leave those of one node alone.
cases_tune_nodes() {
    local file=$scratch/nodes tune coll count
    tune=(-n 3 "${forced[@]}" --mca coll_mscclpp_ranks_per_node 2 "$bindir/../../mscclpp_tune"
        --device "$MSCCLPP_TEST_DEVICE" --output "$file" --warmup 1 --rounds 1 --max 16k --factor 16)
    echo "ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1k algorithm=oneshot" >"$file"
    run_saying "tune:nodes" '^# mscclpp_tune .* 3 ranks on 2 nodes, ' 120 "${tune[@]}"
    run_saying "tune:nodes:colls" '^# [1-9][0-9]* rules' 120 "${tune[@]}" --coll bcast,allgather
    run_saying "tune:nodes:goes on" '^# 3 of 3 sizes were measured by earlier runs .*3-on-2-nodes-' 60 "${tune[@]}"
    for coll in '' collective=bcast collective=allgather; do
        count="$coll${coll:+ }ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=[0-9]* nodes=2 algorithm=nodes"
        run "tune:nodes:rules:$coll" 30 -n 1 grep -q "^$count" "$file"
    done
    run "tune:nodes:keeps rules" 30 -n 1 grep -q '^ranks=3 .* bytes<=1024 algorithm=oneshot$' "$file"
    run_saying "tune:nodes:one node" '^# [1-9][0-9]* rules' 120 -n 3 "${forced[@]}" "${tune[@]:$((${#forced[@]} + 5))}"
    run "tune:nodes:are kept" 30 -n 1 grep -q '^ranks=3 .* nodes=2 algorithm=nodes' "$file"
    # The rule is obeyed: a ring is never chosen by itself over shm.
    echo "ranks=3 nodes=3 device=$MSCCLPP_TEST_DEVICE bytes<=1m algorithm=nodes_ring" >"$file"
    run_saying "tune:nodes:obeyed" 'all-reduce of [0-9]* bytes over 3 nodes: nodes_ring' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport shm --mca coll_mscclpp_verbose 2 \
        --mca coll_mscclpp_rules "$file" "$bindir/test_basic" served
}

# Rules of other collectives than all-reduce, which are about blocks, and which keep one another.
cases_tune_collectives() {
    local file=$scratch/colls no_list=$bindir/.libs/libno_list.so tune
    tune=(-n 3 "${forced[@]}" "$bindir/../../mscclpp_tune" --device "$MSCCLPP_TEST_DEVICE" --output "$file" --warmup 1
        --rounds 1 --max 6k --factor 8)
    echo 'ranks=3 device=host bytes<=1k algorithm=oneshot' >"$file"
    run_saying "tune:collectives" '^mscclpp_tune: gatherv [(]3 of 3[)]: [1-9] of [1-9] sizes' 120 "${tune[@]}" \
        --progress lines --coll reduce,alltoall,gatherv
    # The largest buffer of three blocks of floats has 4092 bytes.
    run "tune:collectives count blocks" 30 -n 1 grep -q '^collective=alltoall ranks=3 device=.* bytes<=1364 ' "$file"
    run_saying "tune:all collectives" '^# mscclpp_tune .*: exclusive scan of float' 240 "${tune[@]}" --coll all --max 64
    # shellcheck disable=SC2016 # the rank's own shell expands it
    run "tune:collectives keep one another" 30 -n 1 sh -c '
        for coll in reduce alltoall gatherv exscan bcast; do grep "^collective=$coll ranks=3 " "$0" || exit 1; done
        grep "^ranks=3 " "$0"' "$file"
    run_never_saying "tune:rules of collectives are obeyed" 'rules .*(not allowed|differ)' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_rules "$file" "$bindir/test_basic" served
    run_saying "tune:collectives go on" '^# [1-9] of [1-9] sizes were measured by earlier runs .*alltoall[.]3-' 60 \
        "${tune[@]}" --coll alltoall
    if [ "$MSCCLPP_TEST_DEVICE" != host ] || { [ ! -e "$no_list" ] && [ "${patterns[0]:-}" != --list ]; }; then
        skip "tune:no memory on one rank" "no $no_list, or another runtime, which may have such lists, too"
    else
        # The fourth list is the first one of the first algorithm's call; the three before are of the table of sizes.
        run_failing "tune:no memory on one rank" '^mscclpp_tune: out of memory' 30 -x LD_PRELOAD="$no_list" \
            -x MSCCLPP_TEST_NO_LIST=4 "${tune[@]}" --coll allgatherv --min 64 --max 64
    fi
    run_failing "tune:no such collective" "mscclpp_tune: --coll: 'allred' is not allowed; use allreduce, allgather" 30 \
        "${tune[@]}" --coll allred
    run_failing "tune:between and a collective" "mscclpp_tune: --coll: 'bcast' is not allowed; use it without" 30 \
        "${tune[@]}" --coll bcast --between
}

# The program that writes rules: whole, interrupted and gone on, and what it refuses.
cases_tune() {
    local file=$scratch/tuned tune
    tune=(-n 2 "${forced[@]}" "$bindir/../../mscclpp_tune" --device "$MSCCLPP_TEST_DEVICE" --output "$file"
        --warmup 2 --rounds 5)
    interrupted "tune:SIGINT to a rank" INT rank "${tune[@]}" --max 64k --factor 4
    run_saying "tune:goes on" '^# [1-5] of 6 sizes were measured by earlier runs' 240 \
        "${tune[@]}" --max 64k --factor 4
    run_saying "tune:goes on, all measured" '^# 6 of 6 sizes were measured by earlier runs' 240 \
        "${tune[@]}" --max 64k --factor 4
    run_never_saying "tune:anew" 'by earlier runs' 240 "${tune[@]}" --max 64k --factor 8 --rounds 1 --fresh
    rm -f "$file.2-$MSCCLPP_TEST_DEVICE.measured"
    interrupted "tune:SIGTERM to mpirun" TERM mpirun "${tune[@]}" --max 64k --factor 4
    # mpirun may take longer to pass it on than the ranks to measure the rest.
    run_saying "tune:goes on after mpirun" '^# [1-6] of 6 sizes were measured by earlier runs' 240 \
        "${tune[@]}" --max 64k --factor 4 --progress lines
    # Half of a line, as a run that is killed can leave it, is forgotten.
    [ ! -e "$file.2-$MSCCLPP_TEST_DEVICE.measured" ] || printf 'bytes=6553' >>"$file.2-$MSCCLPP_TEST_DEVICE.measured"
    run_saying "tune:more sizes" '^mscclpp_tune: 7 of 7 sizes' 240 "${tune[@]}" --max 256k --factor 4
    run_saying "tune:other ranks" '^# [1-9][0-9]* rules' 240 -n 3 "${tune[@]:2}" --max 1k --factor 16 --rounds 1
    run "tune:keeps the rules of others" 30 -n 1 grep -q '^ranks=2 ' "$file"
    run_never_saying "tune:rules are obeyed" 'rules .*(not allowed|differ)' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_rules "$file" --mca coll_mscclpp_verbose 3 "$bindir/test_basic" served
    run_failing "tune:another run's times" 'holds the times of another run; --fresh' 30 "${tune[@]}" --rounds 4
    damaged "tune:nonsense in the times" 'measured:[0-9]+: .*fastest.* is no time; use' \
        'bytes=8 algorithm=fastest seconds=1\n' "${tune[@]}"
    damaged "tune:several nodes in the times" 'measured:[0-9]+: .*nodes.* is no time; use .* that is measured here' \
        'bytes=8 algorithm=nodes seconds=1\n' "${tune[@]}"
    damaged "tune:zero byte in the times" "measured:[0-9]+: 'bytes=8 ' has a zero byte" \
        'bytes=8 \0\nbytes=8 algorithm=oneshot seconds=1\n' "${tune[@]}"
    damaged "tune:long line in the times" "measured:[0-9]+: 'bytes=00*' is too long" 'bytes=%0400d\n' "${tune[@]}"
    echo 'ranks=2' >>"$file"
    run_failing "tune:no rules file" 'rules .*:[0-9]+: device= is missing; use ranks=N' 30 "${tune[@]}" --fresh
    run_failing "tune:one rank" 'rules are for 2 to 64 ranks on a node' 30 -n 1 "${tune[@]:2}"
    run_failing "tune:bad option" "mscclpp_tune: --rounds: '0' is not allowed; use a whole number from 1 to" 30 \
        "${tune[@]}" --rounds 0
    bar "tune:bar" "${tune[@]}" --max 256 --rounds 2 --output "$file.bar"
    meanwhile "tune:rules of another run" "ranks=5 device=cuda bytes<=1024 algorithm=scratch" "${tune[@]}" --max 4k \
        --factor 4
    cases_tune_kinds
    cases_tune_program
    cases_tune_between
    cases_tune_nodes
    cases_tune_collectives
}
