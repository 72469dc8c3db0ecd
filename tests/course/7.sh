#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 7: nodes 2 and 3 wait in the group for messages.
. "$(dirname "$0")/lib.sh"
for k in 2 3; do
	node $k "setsid stdbuf -oL mckey -m 239.1.2.3 -b 10.77.0.$k >/tmp/mckey 2>&1 </dev/null &"
done
# the subnet manager makes the tree after the joins
until_true 60 "$LAB" course 7 --check || { node 2 'cat /tmp/mckey'; exit 1; }
