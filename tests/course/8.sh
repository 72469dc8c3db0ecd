#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 8: node 2's OpenSM has the higher priority and becomes the master; node 1's stands by.
. "$(dirname "$0")/lib.sh"
for k in 1 2; do
	node $k 'pkill -x opensm; while pgrep -x opensm >/dev/null; do sleep 0.1; done'
done
node 2 'opensm -B -p 5 -f /var/log/opensm.log >/dev/null'
lid=$(node 2 'ibstat ohca_0 1' | sed -n 's/.*Base lid: //p')
master() { node 3 "sminfo | grep -q 'sm lid $lid .*SMINFO_MASTER'"; }
until_true 60 master
node 1 'opensm -B -f /var/log/opensm.log >/dev/null'
lid1=$(node 1 'ibstat ohca_0 1' | sed -n 's/.*Base lid: //p')
standby() { node 3 "sminfo $lid1 | grep -q SMINFO_STANDBY"; }
until_true 60 standby
