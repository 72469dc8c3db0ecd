#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 3: node 2 writes 200 MiB to node 3; the counters of the spine on the path increase.
. "$(dirname "$0")/lib.sh"
received() {
	node 1 "perfquery -x -G $1 255 | sed -n 's/^PortRcvData:\\.*//p'"
}
guids=$(node 1 ibswitches | sed -n 's/.*: \(0x[0-9a-f]*\) .*"\(spine[0-9]*\)".*/\2 \1/p')
declare -A before
while read -r name guid; do before[$name]=$(received "$guid"); done <<<"$guids"
pair 3 2 ib_write_bw -s 1048576 -n 200
while read -r name guid; do
	[ $((($(received "$guid") - before[$name]) * 4)) -lt $((64 << 20)) ] || found=$name
done <<<"$guids"
node 1 "echo spine=$found >/root/counters"
