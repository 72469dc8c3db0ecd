#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 9: traffic between all nodes makes both ends of the cable count symbol errors; it is pulled.
. "$(dirname "$0")/lib.sh"
bad() {
	node 1 'ibqueryerrors 2>/dev/null; true' | sed -n '/^Errors for/{s/.*"\(.*\)".*/\1/;h}
		/port [0-9].*SymbolErrorCounter/{s/.*port \([0-9]*\):.*/\1/;G;s/\(.*\)\n\(.*\)/\2:\1/p}' | sed -n 1p
}
for p in "1 2" "2 3" "3 1" "2 1" "3 2" "1 3"; do
	# shellcheck disable=SC2086 # two words
	pair $p ib_write_bw -s 65536 -n 100
	cable=$(bad)
	[ -z "$cable" ] || break
done
fabric link down "$cable"
arrive() {
	local a b
	for a in host1 host3 host5; do
		for b in host1 host3 host5; do
			[ $a = $b ] || fabric trace $a $b || return 1
		done
	done
}
until_true 60 arrive
