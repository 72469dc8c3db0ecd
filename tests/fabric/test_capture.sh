#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# test_capture.sh TEST_CAPTURE OUT: let tshark read what a capture wrote.
set -eu
file=$2/capture.pcapng
"$1" "$file" > "$2/capture.log" 2>&1
if ! command -v tshark > /dev/null; then
	echo "SKIP: a capture read by tshark: tshark is not installed"
	exit 0
fi
expect() {
	[ "$2" = "$3" ] || { echo "$1: '$2' instead of '$3'"; exit 1; }
}
count() {
	tshark -r "$file" -Y "$1" -T fields -e frame.number 2> /dev/null | wc -l
}
expect "malformed frames" "$(count _ws.malformed)" 0
expect "data packets at three interfaces" "$(count 'infiniband.bth.opcode == 36')" 22
expect "their lengths" "$(count 'infiniband.bth.opcode == 36 && frame.len == 66')" 4
expect "MADs of the performance class" "$(count 'infiniband.mad.mgmtclass == 4')" 4
expect "comments" "$(count 'frame.comment == "dropped: no route"')" 1
names=$(tshark -r "$file" -T fields -e frame.interface_name 2> /dev/null | sort -u | wc -l)
expect "interfaces with packets" "$names" 4
echo "$(count frame) frames of a capture, as tshark has them"
