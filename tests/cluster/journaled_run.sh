#!/bin/sh
# A run that costs nearly nothing and notes what happens to it: journaled_run.sh FOLDER STEPS MODE [ENDING_S].
#
# It takes half a second for each step. With the mode `keeps` it saves after each one, atomically,
# and begins where the last attempt was; with `forgets` it begins anew. It lives on for ENDING_S
# seconds after SIGTERM. While the file FOLDER/hold is there it works on, however many steps it
# takes. In a gang the nodes after the first work until the first has ended. The lines of the
# journal are those of tests/support/run_journal.py.
folder=$1 steps=$2 mode=$3 ending_s=${4:-0}
run=$PREFECT__FLOW_RUN_ID attempt=$PREFECT_GPU_ATTEMPT rank=${NODE_RANK-}
saved=$folder/saved-$run
# The pod's uid is in the paths that the kubelet mounts.
pod=$(sed -n 's|.*/pods/\([-0-9a-f]*\)/.*|\1|p' /proc/self/mountinfo | head -n 1)

note() {
    read -r now _ < /proc/uptime
    echo "$now $1 $run $attempt $pod $step${rank:+ $rank}" >> "$folder/journal"
}

# The first node works for so many steps, and the others for as long as it does.
has_work() {
    [ "${rank:-0}" = 0 ] && [ -e "$folder/hold" ] && return 0
    [ "${rank:-0}" = 0 ] && [ "$step" -lt "$steps" ] && return 0
    [ "${rank:-0}" != 0 ] && ! grep -qs " end $run $attempt " "$folder/journal"
}

step=0
[ "${rank:-0}" = 0 ] || mode=forgets
[ "$mode" = keeps ] && [ -f "$saved" ] && read -r step < "$saved"
trap 'sleep "$ending_s"; note stopped; exit 143' TERM
note begin
while has_work; do
    sleep 0.5 &
    wait $!
    next=$((step + 1))
    if [ "$mode" = keeps ]; then
        echo "$next" > "$saved.$pod"
        mv "$saved.$pod" "$saved"
    fi
    # Not before it is saved: a signal may come between any two commands, and then this is noted.
    step=$next
    note step
done
note end
