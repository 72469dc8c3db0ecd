# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the solutions of the lessons have in common. LAB is ohca-lab, FABRIC is ohca-fabric, CONTROL
# the control socket of the lab's fabric; tests/apps/lessons.py sets them.
set -euo pipefail

# Usage: node K COMMAND; runs a shell's command line on a node
node() { "$LAB" exec --no-stdin "$@"; }

# Usage: fabric VERB ARGUMENT...
fabric() { "$FABRIC" "$@" --control "$CONTROL"; }

# Usage: until_true SECONDS COMMAND...; waits until a command succeeds
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { echo "not in time: $*" >&2; return 1; }
		sleep 0.5
	done
}

# Usage: restart_sm; OpenSM of node 1 again, with the configuration that is there now
restart_sm() {
	node 1 'pkill -x opensm; while pgrep -x opensm >/dev/null; do sleep 0.1; done
		opensm -B -f /var/log/opensm.log >/dev/null'
}

# Usage: pair SERVER CLIENT PROGRAM...; a program of perftest between two nodes
pair() {
	local server=$1 client=$2
	shift 2
	node "$server" "$*" >/dev/null &
	until_true 60 node "$server" "ss -Hltn 'sport = :18515' | grep -q ."
	node "$client" "$* node$server"
	wait $!
}
