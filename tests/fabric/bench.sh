#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# OpenSM's first sweep of large fabrics, once against ohca-fabric and once against ibsim, on the
# same topology file in the same run. Seconds; CPU and memory are the simulator's, from /proc.
#	bench.sh FABRIC [SPEC...]

fabric=$1
lib=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
dir=$(mktemp -d) || exit 1
cd "$dir" || exit 1
export IBSIM_SOCKNAME=bench-$$ OSM_TMP_DIR=$dir OSM_CACHE_DIR=$dir
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT

ms()
{
	echo $(($(date +%s%N) / 1000000))
}

seconds()
{
	awk -v ms="$1" 'BEGIN { printf "%.3f", ms / 1000 }'
}

# cpu PID: milliseconds of user and system time
cpu()
{
	awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$1/stat"
}

# memory PID: MB at the most
memory()
{
	awk '/VmHWM/ { printf "%.1f", $2 * 1024 / 1000000 }' "/proc/$1/status"
}

# sweep NAME PID LOADED: OpenSM once; LOADED: ms that loading took
sweep()
{
	local begin after loaded_mb cpu0
	cpu0=$(cpu "$2")
	loaded_mb=$(memory "$2")
	begin=$(ms)
	LD_PRELOAD=$lib timeout -k 5 1800 opensm -o -f osm.log >/dev/null 2>&1
	after=$(ms)
	grep -q 'SUBNET UP' osm.log || { echo "bench.sh: $1: OpenSM did not set the subnet up"; exit 1; }
	printf '  %-12s load %7s s %6s MB   OpenSM %8s s   CPU %7s s   %6s MB\n' "$1" \
		"$(seconds "$3")" "$loaded_mb" "$(seconds $((after - begin)))" \
		"$(seconds $(($(cpu "$2") - cpu0)))" "$(memory "$2")"
	rm -f osm.log
}

with_fabric()
{
	local begin
	begin=$(ms)
	rm -f ready
	"$fabric" serve --topology topology --umad2sim="$IBSIM_SOCKNAME" --stats >ready 2>stats &
	pids=($!)
	until grep -qs . ready; do sleep 0.005; done
	sweep ohca-fabric "${pids[0]}" $(($(ms) - begin))
	kill "${pids[0]}"
	wait "${pids[0]}"
	sed 's/^ohca-fabric:/   /' stats
}

# ibsim reads commands from standard input.
with_ibsim()
{
	local begin
	mkfifo commands
	sleep 3600 >commands &
	pids=($!)
	begin=$(ms)
	ibsim -s -n -N 65536 -S 8192 -P 400000 -L 49151 -M 1024 topology >ready 2>&1 <commands &
	pids+=($!)
	until grep -q "@$IBSIM_SOCKNAME:ctl" /proc/net/unix; do sleep 0.005; done
	sweep ibsim "${pids[1]}" $(($(ms) - begin))
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	rm -f commands
}

shift
[ $# -gt 0 ] || set -- fat-tree:36 fat-tree:64 fat-tree:36,3
for spec; do
	"$fabric" generate "$spec" >topology || exit
	"$fabric" check topology | sed "s/^topology:/$spec:/"
	with_fabric
	with_ibsim
done
