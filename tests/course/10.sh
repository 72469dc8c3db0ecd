#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 10: both cables above node 2's switch lose packets while node 2 writes; a NAK is captured.
. "$(dirname "$0")/lib.sh"
file=$(mktemp)
trap 'rm -f "$file"' EXIT
fabric loss leaf2:3 0.02 1
fabric loss leaf2:4 0.02 2
"$FABRIC" capture leaf2:1 -w "$file" --count 1000 --control "$CONTROL" 2>/dev/null &
capture=$!
until_true 30 test -s "$file"
# 4,000 packets and more, so the capture ends
pair 1 2 ib_write_bw -s 16384 -n 1000
wait $capture
"$LAB" exec --stdin 1 'cat >/root/wire.pcapng' <"$file"
# RC Acknowledge with the syndrome of a NAK, PSN sequence error
psn=$("$(dirname "$0")/../../tools/in-root" tshark -r - -Y 'infiniband.bth.opcode == 0x11 && infiniband.aeth.syndrome == 0x60' \
	-T fields -e infiniband.bth.psn <"$file" | sed -n 1p)
node 1 "echo psn=$psn >/root/capture"
