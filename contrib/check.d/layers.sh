# The layers of contrib/check, which reads this file in.
# shellcheck shell=bash disable=SC2154,SC2317 # what contrib/check and the other files set and read

# layer_NAME: runs the layer.
layer_gates() {
    aside gates-themselves gates_themselves
    run_test check-floors "$top/contrib/check-floors"
    run_test check-style "$top/contrib/check-style"
    run_test gen-params "$top/contrib/gen-params" --check
    run_test check-docs "$top/contrib/check-docs"
    run_test planted-edits "$top/test/host/planted_faults.sh" --edits
    run_script perf "$top/contrib/perf/check" "$(find_matplotlib)"
    run_test check-headers "$top/contrib/check-headers" --build "$top/build/main"
    joined gates-themselves
    need_main || return
    run_test check-symbols "$top/contrib/check-symbols" "$top/build/main/components/mca_coll_mscclpp.so" \
        "$top/build/main/mscclpp_bench" "$top/build/main/mscclpp_tune"
}

# The longest, beside the others.
gates_themselves() {
    run_test check-gates "$top/contrib/check-gates"
    run_script check-mps "$top/contrib/check-mps"
}

layer_models() {
    run_script models "$top/contrib/models/check"
}

layer_main() {
    need_main || return
    local mpi_lanes=1 tests
    # Jobs start, end, and wait for deadlines, and ranks that wait for one another leave the cores to others.
    [ "$(jobs)" -eq 1 ] || mpi_lanes=4
    export MPIRUN MSCCLPP_COMPONENT_DIR=$top/build/main/components MSCCLPP_TEST_BINDIR=$top/build/main/test/mpi
    MPIRUN=$(build_variable "$top/build/main" MPIRUN)
    # Several at once, but for lingering kernels, whose test is about times, and the mpi layer, which has lanes of its
    # own.
    tests=$(list_units main)
    tests=${tests/test\/host\/test_linger /} run_automake main env MAKEFLAGS="-j$(at_once)"
    tests=test/host/test_linger run_automake main env
    # Builds of later layers, in the time that the ranks of the mpi layer leave.
    begin_builds
    # Ranks of other hosts mostly wait.
    aside namespaces run_script main:namespaces "$top/test/mpi/namespaces.sh"
    # The gpu layer runs on GPUs what runs on the twin here.
    tests=test/mpi/run.sh run_automake main env MSCCLPP_TEST_DEVICE=host MSCCLPP_TEST_LANES=$mpi_lanes \
        MSCCLPP_TEST_PART=shared
    joined namespaces
    aside main-tools main_tools
    run_synth main
    joined main-tools
    # What measures times.
    end_builds
    MSCCLPP_TEST_DEVICE=host MSCCLPP_TEST_LANES=$mpi_lanes MSCCLPP_TEST_PART=alone \
        run_script main:mpi "$top/test/mpi/run.sh"
    MSCCLPP_TEST_DEVICE=host run_script main:examples "$top/examples/check" "$top/build/main" cg channels loop
    only_long "main:host layer, all calls" "each part runs, with half of its calls; the planted faults make all"
    only_long "main:sim, 4,096 nodes and 8 MiB" \
        "1,024 nodes pass 1 GiB on, and 2 MiB show that one node stands for all"
    only_long "main:synth, imitated messages of 32 MiB with 8 ranks" "those of 4 MiB, and of 32 MiB with 5, have passed"
    [ "$long" = yes ] || MSCCLPP_TEST_DEVICE=host MSCCLPP_TEST_LONG=1 \
        run_script main:long "$top/test/mpi/run.sh" 'many_comms:10000'
    ! only_long "main:transports, puts of 1 GiB" "puts of up to 64 MiB have passed" ||
        run_test main:transports "$top/build/main/test/host/test_transport" --large
    # In its own build folder, with everything from configure on.
    ! only_long "main:quickstart" "the same sources have just been built and run" ||
        run_test main:quickstart "$top/contrib/quickstart" --device host -- --max 4k
    unset MPIRUN MSCCLPP_COMPONENT_DIR MSCCLPP_TEST_BINDIR
}

# Tests of the tools that need neither MPI nor a GPU, but for those of synthesis, which take as long as all others.
main_tools() {
    run_plans main
    run_test "main:sim" "$top/test/sim/run" --tool "$top/build/main/mscclpp_sim"
}

layer_clang() {
    have clang || { skip clang "no clang" && return; }
    local tests program
    need_build clang || return
    tests=$(list_units clang)
    # What takes the most time, but for the matrix of all kernels, is tried as gcc compiles it, in main and under the
    # sanitizers.
    for program in stress enqueue faults linger transport nodes_faults engines port_channel coll_storm late_nodes \
        dead queue early many; do
        program=test/host/test_$program
        only_long "clang:$program" "gcc's compilations run it" || tests=${tests/$program /}
    done
    if [ "$(tsan_compiler)" = clang ] && [ -n "$(chosen_of tsan)" ]; then
        for program in allreduce collectives; do
            program=test/host/test_$program
            only_long "clang:$program" "clang's compilation runs it in tsan" || tests=${tests/$program /}
        done
    fi
    # Fewer of the random cases: they are the same as in main.
    MSCCLPP_TEST_SLOW=1 run_automake clang env MAKEFLAGS="-j$(at_once)"
    run_test "clang: check-symbols" "$top/contrib/check-symbols" "$top/build/clang/components/mca_coll_mscclpp.so"
}

layer_asan() {
    local synth=(bad cache discover imports nccl pictures plans programs) sim=(bad chance dead known networks pictures)
    need_build asan || return
    only_long "asan:host layer, all calls" "an eighth of the calls of each part; main makes half"
    only_long "asan:matrices of collectives" \
        "each collective by each algorithm, and an eighth of the other cases; main covers all pairs"
    ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
        tests=$(list_units asan) run_automake asan env MAKEFLAGS="-j$(at_once)"
    aside asan-plans run_plans asan
    # What takes the most time searches, or simulates many sizes, and allocates no more than the others.
    only_long "asan:synth, packed trees" "main runs them, and plans are made of them here" || synth+=(trees)
    only_long "asan:sim, bounds" "main runs them, and each algorithm's known time is simulated here" || sim+=(bounds)
    run_synth asan "${synth[@]}"
    run_test "asan:sim" "$top/test/sim/run" --tool "$top/build/asan/mscclpp_sim" "${sim[@]}"
    joined asan-plans
    ! only_long "asan:plans, 100,000 mutants" "2,000 have passed" || run_plans asan --long
}

# run_plans NAME ARGUMENT...: execution plans, as build/NAME reads them.
run_plans() {
    local name=$1
    shift
    run_test "$name:plans" "$top/test/plans/run" --tool "$top/build/$name/mscclpp_plan" \
        --programs "$top/build/$name/test/plans" "$@"
}

# run_synth NAME ARGUMENT...: the synthesis of algorithms, as built in build/NAME.
run_synth() {
    local name=$1 long_too=()
    shift
    [ "$long" = no ] || long_too=(--long)
    run_test "$name:synth" "$top/test/synth/run" --tool "$top/build/$name/mscclpp_synth" \
        --programs "$top/build/$name/test/synth" --plan-tool "$top/build/$name/mscclpp_plan" \
        --plan-programs "$top/build/$name/test/plans" "${long_too[@]}" "$@"
}

layer_tsan() {
    local wrapper=()
    # The runtimes of older compilers cannot live with the address layout of newer kernels.
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        wrapper=(setarch "$(uname -m)" -R)
    fi
    need_build tsan || return
    local before=$failed options=()
    only_long "tsan:host layer, all calls" \
        "an eighth of the calls of each part; the planted faults make all"
    only_long "tsan:matrices of collectives" \
        "each collective by each algorithm, and an eighth of the other cases; main covers all pairs"
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 tests=$(list_units tsan) \
        run_automake tsan env MAKEFLAGS="-j$(at_once)" "${wrapper[@]}"
    # Plans of two ranks on the twin.
    run_test tsan:plans env TSAN_OPTIONS=halt_on_error=1 "${wrapper[@]}" "$top/test/plans/run" \
        --tool "$top/build/tsan/mscclpp_plan" --programs "$top/build/tsan/test/plans" '*_2' '*_2_1'
    # Where these have passed, the sources as they are pass the runs of the faults, too.
    if [ "$failed" -eq "$before" ] && ! only_long "tsan:planted:the sources without a fault" \
        "the programs of the host layer have just passed"; then
        options=(--faults-only)
    fi
    only_long "tsan:planted:all faults" "each set of runs has one" ||
        options+=(--covering)
    run_script tsan:planted env CC="$(tsan_compiler)" "$top/test/host/planted_faults.sh" "${options[@]}"
}

layer_dist() {
    need_main || return
    # The mpi layer runs in main and, from a tarball, in ompi5. All programs of the host layer are built here, too.
    # The tarball is built without CUDA, and so without the program that needs it, and not optimised, to save time.
    local programs=print-unit
    ! only_long "dist:host layer" "the same compiler runs it in main" || programs=print-units
    run_test "make distcheck" env MSCCLPP_TEST_SLOW=1 DISTCHECK_CONFIGURE_FLAGS=CFLAGS=-O0 \
        make -j"$(jobs)" -C "$top/build/main" distcheck \
        TESTS="$(make -s --no-print-directory -C "$top/build/main" $programs | sed 's,test/unit/test_gpu_later,,')"
}

layer_mpi4py() {
    need_main || return
    run_test mpi4py "$top/test/mpi4py/run" "$top/build/main"
    if only_long "mpi4py:the tests of MPICH" "they take an hour"; then
        run_test mpich:65 "$top/test/mpich/run" "$top/build/main" 65
        run_test mpich:100 "$top/test/mpich/run" "$top/build/main" 100
    fi
    # Their Python is the one that has just been made.
    MSCCLPP_TEST_DEVICE=host run_script mpi4py:examples "$top/examples/check" "$top/build/main" train tensors fft
}

layer_ompi5() {
    need_main || return
    # What differs between the series of Open MPI: its interfaces, communicators, types, selection. Algorithms do not.
    local patterns=('types_ops:2' 'comms:*' 'memory:2' 'userop:2' 'errors:2' session 'threads:*' 'many_comms:*'
        'stage:2' 'stage_layout:2' 'stage_async:2' 'native:2' 'request:2' 'persistent:2' 'algorithm:*:3'
        'nodes:basic:*' 'nodes:comms:4/2' 'mixed:*'
        'late:timeout:first*' late:timeout:spawned 'late:killed:*' 'selection:*')
    ! only_long "ompi5:the rest of the mpi layer" "it runs in main, with Open MPI 4.1" || patterns=('*')
    JOBS=$(jobs) run_script ompi5 "$top/test/ompi5/run" "$top/build/main" "${patterns[@]}"
}

layer_verbs() {
    need_main || return
    run_script verbs "$top/test/verbs/run" "$top/build/main"
}

layer_gpu() {
    if [ "$(gpu_count)" -eq 0 ]; then
        skip gpu "no GPU here"
        return
    fi
    need_main || return
    run_script gpu "$top/test/gpu/run" "$top/build/main"
}
