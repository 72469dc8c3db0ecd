#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# check_tshark.sh WRITE_PCAP OUT: let tshark read the packets of our builders; every
# frame must match all the fields that write_pcap printed for it.
set -eu
pcap=$2/opcodes.pcap
"$1" "$pcap" > "$2/opcodes.txt"
if ! command -v tshark > /dev/null; then
	echo "SKIP: packets read by tshark: tshark is not installed"
	exit 0
fi
echo "== tshark $(tshark --version 2> /dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
filter=$(awk '{
	printf "%s(frame.number == %s", (NR == 1 ? "" : " || "), $1
	for (i = 2; i <= NF; i++) {
		split($i, a, "=")
		printf " && %s == %s", a[1], a[2]
	}
	printf " && !_ws.malformed)"
}' "$2/opcodes.txt")
tshark -r "$pcap" -Y "$filter" -T fields -e frame.number > "$2/opcodes.got" 2> "$2/tshark.err" ||
	{ cat "$2/tshark.err"; exit 1; }
cut -d' ' -f1 "$2/opcodes.txt" > "$2/opcodes.want"
if ! cmp -s "$2/opcodes.want" "$2/opcodes.got"; then
	echo "frames that tshark reads differently:"
	diff "$2/opcodes.want" "$2/opcodes.got" || true
	exit 1
fi
echo "$(wc -l < "$2/opcodes.want") frames read back as written"
