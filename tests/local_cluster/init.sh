#!/usr/bin/env bash
# Process 1 of a cluster, in a process and mount namespace of its own (see namespace.py): when it
# ends, the kernel ends everything that runs in the cluster, and its mounts go with it.
# It ends when its standard input does.
set -euo pipefail
state=$1

read -r pid _ </proc/self/stat # /proc is still the machine's: this is the number seen from there

mount -t proc proc /proc
# The kubelet sets these for the whole machine unless it finds them so.
while read -r setting value; do
	[ -e "/proc/sys/$setting" ] || continue
	file=$state/sysctl/$setting
	mkdir -p "$(dirname "$file")"
	echo "$value" >"$file"
	mount --bind "$file" "/proc/sys/$setting"
done <<-SETTINGS
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
SETTINGS

echo "$pid" >"$state/init.pid.new"
mv "$state/init.pid.new" "$state/init.pid"
cat <&0 >/dev/null & # in the background, so that the shell reaps whatever else ends meanwhile
wait $!
