#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 5: SL 2 uses VL 1, and node 2 sends on SL 2.
. "$(dirname "$0")/lib.sh"
node 1 "printf '%s\n' 'qos TRUE' 'qos_max_vls 8' \
	'qos_sl2vl 0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,7' >/etc/opensm/opensm.conf"
restart_sm
mapped() { node 2 'smpquery sl2vl -D 0 | grep -qE "^ports: .*\| *0\| *0\| *1\|"'; }
until_true 60 mapped
pair 1 2 ib_write_bw -S 2 -s 65536 -n 400
