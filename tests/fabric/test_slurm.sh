#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Slurm's own plugin topology/tree reads what ohca-fabric topology --format slurm writes. slurmctld
# is unpacked in a directory, from packages that apt-get downloads, and is not installed. One line
# for each topology.
#	test_slurm.sh FABRIC DIRECTORY

fabric=$(realpath "$1")
mkdir -p "$2/x" && cd "$2" || exit 1
dir=$PWD
bad=0

# The packages that slurmctld needs and that are not installed.
unpack()
{
	local list
	list=$(apt-get -s install --no-install-recommends slurmctld | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
	# shellcheck disable=SC2086 # a list of words
	apt-get download $list >/dev/null 2>&1 || return
	for deb in *.deb; do
		dpkg -x "$deb" x || return
	done
	# its name decides where it looks for plugins
	cp x/usr/sbin/slurmctld-wlm slurmctld
}

# read_by_slurm NAME ARGUMENT...: slurmctld reads the topology, and each of its nodes is below one switch
read_by_slurm()
{
	local nodes log=$dir/log
	"$fabric" topology --format slurm "${@:2}" >topology.conf 2>/dev/null || return
	nodes=$(sed -n 's/.* Nodes=//p' topology.conf | paste -sd, -)
	cat >slurm.conf <<-END
		ClusterName=test
		SlurmctldHost=$(hostname)(127.0.0.1)
		SlurmUser=root
		AuthType=auth/slurm
		AuthInfo=use_client_ids
		CredType=cred/slurm
		SlurmctldPort=17817
		SlurmdPort=17818
		StateSaveLocation=$dir/state
		SlurmctldPidFile=$dir/pid
		PluginDir=$plugins
		MailProg=/bin/true
		TopologyPlugin=topology/tree
		SelectType=select/cons_tres
		ProctrackType=proctrack/pgid
		NodeName=$nodes CPUs=1
		PartitionName=all Nodes=ALL Default=YES
	END
	rm -rf state
	mkdir state
	# it has read the whole file when it logs the last switch
	SLURM_CONF=$dir/slurm.conf ./slurmctld -D -c -vvvv -f "$dir/slurm.conf" >"$log" 2>&1 &
	for _ in $(seq 100); do
		grep -q 'switches_dist\|fatal:' "$log" && break
		sleep 0.1
	done
	# it would resolve the addresses of all nodes before it ends
	kill -9 $! 2>/dev/null
	wait $! 2>/dev/null
	! grep -E 'fatal:|TOPOLOGY:|topology.*(error|warning):' "$log" &&
		[ "$(grep -c '_log_switches: Switch level:' "$log")" = "$(grep -c '^SwitchName=' topology.conf)" ]
}

plugins=$(echo "$dir"/x/usr/lib/*/slurm-wlm)
[ -x slurmctld ] || unpack || { echo 'FAIL: slurmctld cannot be downloaded'; exit 1; }
plugins=$(echo "$dir"/x/usr/lib/*/slurm-wlm)
export LD_LIBRARY_PATH=${plugins%/slurm-wlm}:$plugins
head -c 1024 /dev/urandom >slurm.key
chmod 600 slurm.key
for t in fat-tree:4 fat-tree:8,3 torus:2x2x2 dragonfly:2,1,1 rails:2,4,4 random:1,12 \
	 "$TOPOLOGIES"/{ndr,xdr,full,cluster}.ibnetdiscover "$TOPOLOGIES"/{two-level.topo,ibdiagnet2.lst}; do
	option=--generate
	[ -e "$t" ] && option=--topology
	if read_by_slurm "$t" "$option" "$t"; then
		echo "PASS: ${t##*/}: $(grep -c '^SwitchName' topology.conf) switches"
	else
		echo "FAIL: ${t##*/}: $(grep -E 'fatal:|error:' log | tail -3)"
		bad=1
	fi
done
exit $bad
