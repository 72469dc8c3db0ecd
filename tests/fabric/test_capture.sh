#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# test_capture.sh TEST_CAPTURE OUT FABRIC: let tshark read a written capture, and the packets of a fabric
# that runs.
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
# count FILTER [FILE]: frames
count() {
	tshark -r "${2-$file}" -Y "$1" -T fields -e frame.number 2> /dev/null | wc -l
}
expect "malformed frames" "$(count _ws.malformed)" 0
expect "data packets at three interfaces" "$(count 'infiniband.bth.opcode == 36')" 22
expect "their lengths" "$(count 'infiniband.bth.opcode == 36 && frame.len == 66')" 4
expect "MADs of the performance class" "$(count 'infiniband.mad.mgmtclass == 4')" 4
expect "comments" "$(count 'frame.comment == "dropped: no route"')" 1
names=$(tshark -r "$file" -T fields -e frame.interface_name 2> /dev/null | sort -u | wc -l)
expect "interfaces with packets" "$names" 4
# link INTERFACE: FCTBS and FCCL of the last flow control packet of VL 0
link() {
	tshark -r "$file.links" -Y "frame.interface_name == \"$1\" && infiniband_link.op == 0 && infiniband_link.vl == 0" \
		-T fields -e infiniband_link.fctbs -e infiniband_link.fccl 2> /dev/null | tail -n 1
}
expect "malformed link packets" "$(count _ws.malformed "$file.links")" 0
# ten packets of 70 blocks in all; each end has room for 2,048 blocks
expect "link packets of the sender" "$(link 'leaf1:3 sent')" "70	2048"
expect "link packets of the receiver" "$(link 'spine1:1 sent')" "0	2118"
expect "what the sender receives" "$(link 'leaf1:3 received')" "0	2118"
expect "link packets without a CRC" "$(count 'infiniband_link && !infiniband_link.lpcrc' "$file.links")" 0
expect "lanes with link packets" "$(count 'infiniband_link.vl == 7' "$file.links")" 4
echo "$(count frame) frames of a capture and $(count infiniband_link "$file.links") link packets, as tshark has them"

# While a fabric runs: the capture has the SMPs of a program on the host.
fabric=$3
lib=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
dir=$(mktemp -d)
cd "$dir"			# the library makes directories where it is started
export IBSIM_SOCKNAME=capture-$$
"$fabric" serve -g star:4 --umad2sim="$IBSIM_SOCKNAME" -c control >ready \
	--capture all.pcapng --capture-port host1:1 --capture-port switch1:1 &
served=$!
trap 'kill -9 $(jobs -p) 2>/dev/null || :; rm -rf "$dir"' EXIT

# soon COMMAND...: the command succeeds within half a minute
soon() {
	for ((i = 0; i < 300; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "not within 30 s: $*"
	return 1
}

ask() {
	SIM_HOST=host1 LD_PRELOAD=$lib timeout -k 1 20 smpquery -D nodedesc 0,1,2 2>err | grep -q host2 ||
		{ cat err; return 1; }
}

soon grep -q ready ready
"$fabric" capture -c control switch1:1 host1:1 -w - 2>live.err | tshark -l -i - -T fields -e frame.interface_name \
	-e infiniband.mad.attributeid >live 2>tshark.err &
live=$!
"$fabric" capture -c control switch1:1 switch1:2 -w some --count 4 2>some.err &
some=$!
"$fabric" capture -c control switch1:1 -w until 2>until.err &
until=$!
soon [ -s some ] && soon [ -s until ] && soon grep -q 'Capturing on' tshark.err
ask
soon grep -q 'switch1:1 sent.*0x0010' live
wait "$some"
expect "the packets that were asked for" "$(cat some.err)" 'ohca-fabric: 4 packets, 0 lost'
expect "in the file" "$(count infiniband some)" 4
ask
kill -INT "$until"
wait "$until"
n=$(count infiniband until)
expect "as many as the fabric says" "$(cat until.err)" "ohca-fabric: $n packets, 0 lost"
expect "malformed frames, live" "$(count _ws.malformed until)" 0
"$fabric" capture -c control switch1:1 -w short --seconds 1 2>/dev/null
expect "packets when nobody sends" "$(count infiniband short)" 0
rc=0
"$fabric" capture -c control switch1:7 -w none 2>err || rc=$?
expect "a port that is not there" "$rc $(cut -c -45 err)" \
	"1 ohca-fabric: there is no port 'switch1:7': wr"
expect "its file" "$(ls none 2>/dev/null)" ''
"$fabric" capture -c control switch1:1 -w full 2>full.err &
full=$!
soon [ -s full ]
rc=0
kill "$served"
wait "$served" || rc=$?
expect "the fabric's end" "$rc" 0
wait "$full" "$live"
grep -q ' 0 lost' full.err live.err
expect "malformed frames from the beginning" "$(count _ws.malformed all.pcapng)" 0
expect "packets from the beginning" "$(count infiniband all.pcapng)" $((2 * n))
echo "$n frames of a live capture, as tshark has them"
