# shellcheck shell=bash
# The cases of ranks that come late or never, for run.sh, which has the functions that run one, and sets what these
# read and count.
# shellcheck disable=SC2154 # these

# Some launchers end all ranks where one is killed, whatever they are told.
lets_others_go_on() {
    # shellcheck disable=SC2016 # the ranks' shells expand it
    launch 30 --enable-recovery -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || kill -9 $$; sleep 1; echo alive'
    grep -q alive "$log"
}

cases_late() {
    local when named='ranks that have not (arrived|come): 2'
    for when in later first; do
        run_saying "late:warn:$when" "$named" 30 -n 3 "${forced[@]}" --mca coll_mscclpp_warn_after 1 \
            "$bindir/test_late" warn 3 $when
        run_saying "late:timeout:$when" "$named" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
            "$bindir/test_late" timeout 5 $when
    done
    # The late rank finds the others' parts, and would go on to wait for them.
    run_saying "late:timeout:first:told" 'rank [01] has ended the set-up because of rank [01]: ' 60 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_verbose 3 --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 first
    run_saying "late:warn:who waits" ': rank [01] has waited [0-9.]+ s; ranks that have not arrived: 2' 30 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 3 later
    # One line for all, whether they warn or end at the deadline, and nothing of the calls that follow.
    run_counting "late:warn:one line" 1 ' has waited ' 60 -n 6 "${forced[@]}" --mca coll_mscclpp_warn_after 1 \
        "$bindir/test_late" warn 3 later
    run_counting "late:timeout:one line" 1 'did not end on rank|failed in its call' 60 -n 6 "${forced[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 later
    # More ranks set up over a tree. One names the late rank, and ends the call for all. many:late has several levels.
    run_saying "late:warn:first:tree" 'rank 0 has waited [0-9.]+ s; ranks that have not arrived: 11$' 60 -n 12 \
        "${forced[@]}" --mca coll_mscclpp_warn_after 1 "$bindir/test_late" warn 4 first
    run_counting "late:timeout:first:tree" 1 'did not end on rank' 60 -n 12 "${forced[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 9 first
    # Rank 0 has sent the whole, which a neighbour does not take. So short a limit makes its send wait for the receiver.
    run_saying "late:stopped:tree" 'did not end on rank 0 .* arrived: 8;' 60 -n 9 "${forced[@]}" --mca btl vader,self \
        --mca pml ob1 --mca btl_vader_eager_limit 512 --mca coll_mscclpp_timeout 3 "$bindir/test_late" stopped 12 first
    # Ranks that connect ahead of an all-gather wait for the late rank, and not for one another.
    for when in 3/2 12/0 12/11; do
        run_saying "late:duplicate:${when/\//:}" "ranks that have not arrived: ${when#*/};" 60 -n "${when%/*}" \
            "${forced[@]}" --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_timeout 2 "$bindir/test_duplicates" \
            late "${when#*/}" 5
    done
    # The others tell rank 0 that they wait, which it does not read before it frees the communicator.
    # Not over UCX, whose messages belong to no communicator.
    run "late:freed" 60 -n 6 "${forced[@]}" --mca coll_mscclpp_ucx 0 --mca coll_mscclpp_ranks_per_node 1 \
        "$bindir/test_late" freed 2
    # Each rank calls three times more, and the one that has logged the failure says why. Names reach the terminal
    # without the characters that it obeys.
    run_counting "late:broken, said once" 1 ': an earlier call failed' 60 -n 3 "${forced[@]}" \
        --mca coll_mscclpp_timeout 2 "$bindir/test_late" timeout 5 later
    run_saying "late:name" '\?\[31mred\?: (all-reduce )?call' 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_late" timeout 5 first
    run_never_saying "late:name, as it is" $'\033\\[31m' 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
        "$bindir/test_late" timeout 5 later
    if { wanted late:killed:first || wanted late:killed:answered:tree || wanted late:killed:later; } &&
        ! lets_others_go_on; then
        skip late:killed:first "this mpirun ends all ranks where one is killed"
        skip late:killed:answered:tree "this mpirun ends all ranks where one is killed"
        skip late:killed:later "this mpirun ends all ranks where one is killed"
    else
        run_saying "late:killed:first" "$named" 60 -n 3 --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5 first
        # Rank 0 has told the others that it is in the set-up, and then is killed.
        run_saying "late:killed:answered:tree" 'set-up.* did not end on rank 1 .*arrived: 0(;|$)' 60 -n 12 \
            --enable-recovery "${forced[@]}" --mca coll_mscclpp_timeout 6 "$bindir/test_late" killed 12 waiting \
            allreduce 0 3000 16 first
        run_saying "late:killed:later" 'all that are left have ended well' 60 -n 3 --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 5
    fi
    run_failing "late:aborted" ': rank [01] has waited [0-9.]+ s; ranks that have not arrived: 2' 30 -n 3 \
        "${forced[@]}" --mca coll_mscclpp_warn_after 1 --mca coll_mscclpp_timeout 120 "$bindir/test_late" aborted 3
    run_saying "late:timeout:spawned" 'ranks that have not arrived: 1' 60 -n 1 "${forced[@]}" \
        --mca coll_mscclpp_timeout 1 "$bindir/test_late" spawned 3
    # This layer of Open MPI keeps messages that a communicator has left behind for the next one with its id.
    if "$ompi_info" --parsable 2>/dev/null | grep -q '^mca:pml:ucx:'; then
        UCX_TLS=tcp,self,sm run_saying "late:timeout:first:pml ucx" "$named" 60 -n 3 "${forced[@]}" \
            --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca coll_mscclpp_timeout 2 \
            "$bindir/test_late" timeout 5 first
    else
        skip "late:timeout:first:pml ucx" "Open MPI has no pml ucx"
    fi
    # Who waits for packets names whose they are.
    for when in oneshot twophase; do
        run_saying "late:timeout:$when" "$named" 60 -n 3 "${forced[@]}" --mca coll_mscclpp_timeout 2 \
            --mca coll_mscclpp_algorithm $when "$bindir/test_late" timeout 5 later
    done
}

# A rank is killed while kernels run. Under MPS the driver may then end the work of the others on its GPU with an error,
# so that these cases come after all others; what it did is printed.
cases_killed() {
    local name before n=3 within=late:killed:within amid=late:killed:amid large=late:killed:amid:large
    local next=late:killed:next_job
    local -a busy
    [ "$mps" = 0 ] || n=8
    if { wanted $within || wanted $amid || wanted $large; } && ! lets_others_go_on; then
        for name in $within $amid $large $next; do
            skip "$name" "this mpirun ends all ranks where one is killed"
        done
        cases_killed_queued
        cases_killed_requests
        return
    fi
    for name in $within $amid $large; do
        before=$passed
        busy=(amid 100)
        [ "$name" != $within ] || busy=(within 100)
        [ "$name" != $large ] || busy=(amid 2000000)
        run_saying "$name" 'all that are left have ended well' 60 -n "$n" --enable-recovery "${forced[@]}" \
            --mca coll_mscclpp_timeout 2 "$bindir/test_late" killed 6 "${busy[@]}"
        [ "$passed" -eq "$before" ] || grep -a '^note: ' "$log" | sort | sed 's/^/     /'
    done
    cases_killed_queued
    cases_killed_requests
    run $next 60 -n 2 "${forced[@]}" "$bindir/test_basic" served
}

# The same with nonblocking and persistent calls on mapped buffers, by kernels and by copy engines.
cases_killed_requests() {
    local way
    local -a shared=()
    [ "$MSCCLPP_TEST_DEVICE" != host ] || shared=(--mca coll_mscclpp_twin_shared_only 1)
    for way in zerocopy engines; do
        if [ "$mps" = 1 ] || { wanted "late:killed:requests:$way" && ! lets_others_go_on; }; then
            skip "late:killed:requests:$way" "MPS serves the GPU, or this mpirun ends all ranks where one is killed"
            continue
        fi
        run_saying "late:killed:requests:$way" 'all that are left have ended well' 60 -n 3 --enable-recovery \
            "${forced[@]}" ${shared[@]+"${shared[@]}"} --mca coll_mscclpp_timeout 2 \
            --mca coll_mscclpp_allgather_algorithm "$way" "$bindir/test_known" --killed
    done
}

# The same with queued calls, or with replays of a graph of them, on one node and on two. A client of MPS that is killed
# may take the others' work with it. The last two: a rank stops making calls, or calls MPI_Abort.
cases_killed_queued() {
    local name before nodes=(--mca coll_mscclpp_ranks_per_node 2) on
    local -a names=(late:killed:{queued,graph}{,:nodes})
    for name in "${names[@]}"; do
        if wanted "$name" && { [ "$mps" = 1 ] || ! lets_others_go_on; }; then
            skip "$name" "MPS serves the GPU, or this mpirun ends all ranks where one is killed"
            continue
        fi
        on=()
        [[ $name != *:nodes ]] || on=("${nodes[@]}")
        before=$passed
        run_saying "$name" 'all that are left have ended well' 60 -n 4 --enable-recovery "${forced[@]}" \
            ${on[@]+"${on[@]}"} --mca coll_mscclpp_timeout 2 "$bindir/test_killed" "$(cut -d: -f3 <<<"$name")" 8
        [ "$passed" -eq "$before" ] || grep -a '^note: ' "$log" | sort | sed 's/^/     /'
    done
    for name in graph graph:nodes; do
        on=()
        [[ $name != *:nodes ]] || on=("${nodes[@]}")
        run "late:stops:$name" 60 -n 4 "${forced[@]}" ${on[@]+"${on[@]}"} --mca coll_mscclpp_timeout 2 \
            "$bindir/test_killed" graph 8 stops
        run_failing "late:aborts:$name" 'note: rank 3 aborts' 60 -n 4 "${forced[@]}" ${on[@]+"${on[@]}"} \
            --mca coll_mscclpp_timeout 0 "$bindir/test_killed" graph 8 aborts
    done
}
