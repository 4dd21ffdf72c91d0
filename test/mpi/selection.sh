# shellcheck shell=bash
# The cases of what users set: components, parameters and rules, for run.sh, which has the functions that run one, and
# sets what these read.
# shellcheck disable=SC2154 # these

# Every list of components that a user might write.
cases_selection() {
    local list tool unsaid=idle settings widened='also loaded: tuned,libnbc,basic'
    [ "$MSCCLPP_TEST_DEVICE" = host ] || unsaid=served
    for list in mscclpp mscclpp,self self,mscclpp mscclpp,tuned mscclpp,basic mscclpp,libnbc mscclpp,libnbc,self \
        mscclpp,tuned,libnbc,self mscclpp,basic,libnbc mscclpp,basic,libnbc,self \
        mscclpp,tuned,libnbc,basic,self '^tuned'; do
        run "selection:$list" 60 -n 2 --mca coll "$list" "${device[@]}" "$bindir/test_basic" served
    done
    run "selection:mscclpp:one rank" 60 -n 1 --mca coll mscclpp "${device[@]}" "$bindir/test_basic" served
    run "selection:none" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
    run "selection:^mscclpp" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_basic" absent
    run "selection:without it" 60 -n 2 --mca coll basic,libnbc,self "$bindir/test_basic" absent
    run "selection:priority -1" 60 -n 2 --mca coll_mscclpp_priority -1 "${device[@]}" "$bindir/test_basic" idle
    run "selection:enable 0" 60 -n 2 --mca coll_mscclpp_enable 0 "${device[@]}" "$bindir/test_basic" idle
    if [ "$MSCCLPP_TEST_DEVICE" = host ] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
        run "selection:device auto, no GPU" 60 -n 2 --mca coll_mscclpp_device auto "$bindir/test_basic" idle
        run "selection:mscclpp, device auto, no GPU" 60 -n 2 --mca coll mscclpp --mca coll_mscclpp_device auto \
            "$bindir/test_basic" idle
    else
        skip "selection:device auto, no GPU" "here is a GPU"
    fi
    # However the list came, and whoever came before MPI_Init.
    for tool in stay leave; do
        export MSCCLPP_TEST_TOOL=$tool
        for list in mscclpp mscclpp,self mscclpp,basic mscclpp,basic,libnbc '^tuned'; do
            run "selection:tool:$tool:$list" 60 -n 2 --mca coll "$list" "${device[@]}" "$bindir/test_basic" served
        done
        OMPI_MCA_coll=mscclpp run "selection:tool:$tool:environment" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
        run "selection:tool:$tool:none" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
        run "selection:tool:$tool:^mscclpp" 60 -n 2 --mca coll '^mscclpp' "$bindir/test_basic" absent
        run "selection:tool:$tool:comms" 120 -n 2 "${forced[@]}" "$bindir/test_comms" --spawn
    done
    MSCCLPP_TEST_TOOL=stay run "selection:tool:stay:session" 60 -n 2 "${forced[@]}" "$bindir/test_session"
    MSCCLPP_TEST_TOOL=leave run "selection:tool:leave:session" 60 -n 2 "${forced[@]}" "$bindir/test_session"
    MSCCLPP_TEST_TOOL=mscclpp run "selection:tool:writes mscclpp" 60 -n 2 "${device[@]}" "$bindir/test_basic" served
    MSCCLPP_TEST_TOOL=^mscclpp run "selection:tool:writes ^mscclpp" 60 -n 2 "${device[@]}" "$bindir/test_basic" absent
    unset MSCCLPP_TEST_TOOL
    # Open MPI's own refusals; 5.0 prints nothing for more than one rank.
    run_failing "selection:misspelt" '' 60 -n 2 --mca coll mscclp "$bindir/test_basic" absent
    run_failing "selection:mscclpp, not widened" '' 60 -n 2 --mca coll mscclpp --mca coll_mscclpp_widen_selection 0 \
        "${device[@]}" "$bindir/test_basic" served
    # Of components that cannot do for a communicator, or are none, the default list is taken.
    for list in '' tuned tuned,libnbc 'tuned;libnbc;basic' '^tuned' mscclp; do
        run_saying "selection:bad widen_list '$list'" "widen_list: \"${list/^/\\^}\" is not allowed, .* without basic" \
            60 -n 2 "${forced[@]}" --mca coll_mscclpp_widen_list "$list" "$bindir/test_basic" served
    done
    run_saying "selection:widened" "$widened" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 2 \
        "$bindir/test_basic" served
    run_saying "selection:widened by default" "$widened" 60 -n 2 "${forced[@]}" --mca coll_mscclpp_verbose 2 \
        --mca coll_mscclpp_widen_list libnbc "$bindir/test_basic" served
    run_never_saying "selection:own widen_list" 'not allowed|tuned' 60 -n 2 "${forced[@]}" \
        --mca coll_mscclpp_verbose 2 --mca coll_mscclpp_widen_list basic,libnbc "$bindir/test_basic" served
    # A bad value of a parameter is named, and the job goes on as if nothing were said of it.
    run_saying "selection:bad device" 'device: "gpu" is not allowed; use one of auto\|cuda\|host' 60 -n 2 \
        --mca coll mscclpp "${device[@]:3}" --mca coll_mscclpp_device gpu "$bindir/test_basic" "$unsaid"
    # Open MPI itself reads this one as 5. Its own file may say what works on this machine.
    echo 'coll_mscclpp_max_blocks = 5foo' >"$scratch/settings"
    settings=$("$ompi_info" --path sysconfdir --parsable 2>/dev/null | sed 's/^path:sysconfdir://')
    settings=$scratch/settings,$settings/openmpi-mca-params.conf
    OMPI_MCA_mca_base_param_files=$settings run_saying "selection:bad number in a file" \
        'max_blocks: "5foo" is not allowed' 60 -n 2 --mca coll mscclpp "${device[@]}" "$bindir/test_basic" served
    # What has a choice of words is read by Open MPI, too, which takes no word for the first one.
    echo 'coll_mscclpp_linger =' >"$scratch/settings"
    OMPI_MCA_mca_base_param_files=$settings run_saying "selection:empty value in a file" \
        'linger: "" is not allowed; use one of auto\|on\|off' 60 -n 2 --mca coll mscclpp "${device[@]}" \
        "$bindir/test_basic" served
}

# A rules file changes what is chosen, a bad one changes nothing, and where ranks have different ones rank 0's counts.
cases_rules() {
    local file=$scratch/rules rule="ranks=3 device=$MSCCLPP_TEST_DEVICE bytes<=1m" verbose rules each
    local builtin=scratch
    [ "$MSCCLPP_TEST_DEVICE" = host ] || builtin=oneshot
    verbose=(-n 3 "${forced[@]}" --mca coll_mscclpp_verbose 3)
    rules=("${verbose[@]}" --mca coll_mscclpp_rules "$file")
    echo "$rule algorithm=oneshot_put" >"$file"
    run_saying "rules:none" "call 1: $builtin, " 60 "${verbose[@]}" "$bindir/test_basic" served
    run_saying "rules:obeyed" 'call 1: oneshot_put, ' 60 "${rules[@]}" "$bindir/test_basic" served
    printf '%s\n' "collective=bcast $rule algorithm=scratch" "collective=scan $rule algorithm=scratch" >>"$file"
    run_saying "rules:another collective" 'bcast call [0-9]+: scratch, blocks' 60 "${rules[@]}" \
        "$bindir/test_counters" kernels
    run_saying "rules:of the others none" 'gather call [0-9]+: packets, blocks' 60 "${rules[@]}" \
        "$bindir/test_counters" kernels
    run_saying "rules:parameter of a collective wins" 'bcast call [0-9]+: packets, blocks' 60 "${rules[@]}" \
        --mca coll_mscclpp_bcast_algorithm packets "$bindir/test_counters" kernels
    run_saying "rules:sizes by hand win" 'call 1: twophase, ' 60 "${rules[@]}" --mca coll_mscclpp_oneshot_max 1 \
        --mca coll_mscclpp_twophase_max 64k "$bindir/test_basic" served
    run_saying "rules:other ranks" "call 1: $builtin, " 60 -n 2 "${rules[@]:2}" "$bindir/test_basic" served
    printf '%s\n' "$rule algorithm=oneshot_put" "${rule/3/2} algorithm=fastest" >"$file"
    run_saying "rules:nonsense is named" 'error: rules .*rules:2: algorithm: "fastest" is not allowed; use one of' 60 \
        "${rules[@]}" "$bindir/test_basic" served
    run_saying "rules:nonsense is not used" "call 1: $builtin, " 60 "${rules[@]}" "$bindir/test_basic" served
    rm "$file"
    run_saying "rules:missing" 'error: rules .*rules: cannot be opened: No such file' 60 "${rules[@]}" \
        "$bindir/test_basic" served
    # shellcheck disable=SC2016 # each rank's own shell expands it
    each='export OMPI_MCA_coll_mscclpp_rules="$0.$OMPI_COMM_WORLD_RANK" && exec "$@"'
    echo "$rule algorithm=oneshot_put" | tee "$file.0" >"$file.2"
    echo "$rule algorithm=twophase" >"$file.1"
    run_saying "rules:rank 0's count" 'warning: .*the rules of rank 1 for 3 ranks differ from those of rank 0' 60 \
        "${verbose[@]}" sh -c "$each" "$file" "$bindir/test_basic" served
    run_never_saying "rules:on all ranks" "call 1: (twophase|$builtin), " 60 "${verbose[@]}" sh -c "$each" "$file" \
        "$bindir/test_basic" served
}

# MPI_Init loads UCX, which takes it some milliseconds, where it may be needed. Open MPI's own users of it stay away,
# but some builds are linked with it.
cases_init() {
    local count others=(--mca pml ob1 --mca osc '^ucx' --mca btl '^uct') job
    job=("${others[@]}" "${forced[@]}")
    if [ "$ucx" = no ] || ! ldconfig -p 2>/dev/null | grep -q 'libucp\.so\.0 '; then
        skip "init:ucx" "needs UCX, in the build and on this machine"
        return
    fi
    if [ "${patterns[0]:-}" != --list ] && { wanted "init:ucx:one node" || wanted init:ucx:refused; } &&
        ! { launch 60 -n 1 "${others[@]}" --mca coll '^mscclpp' "$bindir/test_init" &&
            grep -aq '^UCX: loaded by 0 ' "$log"; }; then
        skip "init:ucx" "this Open MPI loads UCX by itself"
        return
    fi
    run_saying "init:ucx:one node" '^UCX: loaded by 0 of 2 ranks$' 60 -n 2 "${job[@]}" "$bindir/test_init"
    for count in 1 2; do
        run_saying "init:ucx:nodes of $count" '^UCX: loaded by 4 of 4 ranks$' 60 -n 4 "${job[@]}" \
            --mca coll_mscclpp_ranks_per_node "$count" "$bindir/test_init"
    done
    run_saying "init:ucx:network" '^UCX: loaded by 2 of 2 ranks$' 60 -n 2 "${job[@]}" \
        --mca coll_mscclpp_transport network "$bindir/test_init"
    run_saying "init:ucx:no launcher" '^UCX: loaded by 1 of 1 ranks$' 60 -n 1 "${job[@]}" \
        env -u OMPI_COMM_WORLD_LOCAL_SIZE "$bindir/test_init"
    run_saying "init:ucx:elsewhere, too" '^UCX: loaded by 2 of 2 ranks$' 60 -n 2 "${job[@]}" \
        env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$bindir/test_init"
    run_saying "init:ucx:refused" '^UCX: loaded by 0 of 2 ranks$' 60 -n 2 "${job[@]}" \
        --mca coll_mscclpp_ranks_per_node 1 --mca coll_mscclpp_transport shm --mca coll_mscclpp_ucx 0 \
        "$bindir/test_init"
}
