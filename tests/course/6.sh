#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lesson 6: node 2 reads the secret, first with a wrong R_Key.
. "$(dirname "$0")/lib.sh"
read_secret() {
	node 1 'python3 /root/read.py' >/dev/null &
	until_true 60 node 1 "ss -Hltn 'sport = :4000' | grep -q ."
	node 2 "python3 /root/$1 node1" || true
	wait $! || true
}
for k in 1 2; do
	node $k 'cd; sed "s/IBV_WR_RDMA_WRITE/IBV_WR_RDMA_READ/; s/ACCESS_REMOTE_WRITE/ACCESS_REMOTE_READ/" \
		verbs.py >read.py; sed "s/other\[\"rkey\"\]/other[\"rkey\"] ^ 255/" read.py >wrong.py'
done
read_secret wrong.py
secret=$(read_secret read.py | sed -n 's/^my memory: //p')
node 2 "echo $secret >/root/secret"
