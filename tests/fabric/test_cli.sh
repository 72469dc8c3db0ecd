#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The command line of ohca-fabric: its output and its status. One line for each part.
#	test_cli.sh FABRIC
# shellcheck disable=SC2016,SC2317 # the inner shell expands it; expect calls functions

fabric=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

# expect NAME STATUS TEXT COMMAND...: exits with STATUS and prints TEXT
expect()
{
	local out rc
	out=$("${@:4}" 2>&1)
	rc=$?
	if [ "$rc" = "$2" ] && grep -q -- "$3" <<<"$out"; then
		echo "PASS: $1"
	else
		echo "FAIL: $1: status $rc: $(head -3 <<<"$out")"
		bad=1
	fi
}

# says TEXT FILE: the file contains TEXT within half a minute
says()
{
	for ((i = 0; i < 600; i++)); do
		grep -sq "$1" "$2" && return
		sleep 0.05
	done
	cat "$2"
	return 1
}

expect help 0 '^Usage: ohca-fabric' "$fabric" --help
# verbs: prints how many verbs the documentation has, and how many of these --help lacks
verbs()
{
	local doc
	doc=$(sed -n '/^In all commands/q; s/^``\([a-z]\+\)[ `].*/\1/p' \
		"$(dirname "$0")/../../Documentation/control.rst" | sort -u)
	echo "$(wc -w <<<"$doc") $(comm -23 <(echo "$doc") \
		<("$fabric" --help | sed -n 's/^  \([a-z]\+\) .*/\1/p' | sort -u) | wc -w)"
}
expect 'help has all documented verbs' 0 '^2[0-9] 0$' verbs
expect 'no argument' 2 'generate, check, hosts, serve' "$fabric"
expect 'no such verb' 2 'generate, check, hosts, serve' "$fabric" destroy
expect 'generate without SPEC' 2 'a SPEC' "$fabric" generate
expect 'generate, a wrong SPEC' 2 'fat-tree:K' "$fabric" generate circle:3
expect 'generate with another option' 2 'unknown option or argument' "$fabric" generate star:2 --fast
expect 'generate with names of nobody' 2 '--names must be nvidia' "$fabric" generate star:2 --names acme
expect 'generate what is no number' 2 'not a number' "$fabric" generate star:2 --slow 1x
expect 'generate what no product has' 2 'MSB7800 has 36 ports' "$fabric" generate star:37 --names nvidia
expect 'generate damage' 0 '^# damage: slow .* 1xEDR not 4xEDR ' "$fabric" generate --slow 9 star:9 --seed 2
expect 'generate says how' 0 '^# Topology file: ohca-fabric generate star:2 --names nvidia --speed NDR$' \
	"$fabric" generate --names nvidia star:2 --speed NDR
expect 'generate to a full disk' 1 'No space' bash -c '"$1" generate star:9 >/dev/full' x "$fabric"
"$fabric" generate fat-tree:8 >"$dir/tree"
# as_generated FILE: the second line of the file has the command that made the rest
as_generated()
{
	local words
	read -ra words < <(sed -n '2s/^# Topology file: ohca-fabric //p' "$1")
	diff <(sed 1d "$1") <("$fabric" "${words[@]}")
}
for f in "$TOPOLOGIES"/*; do
	grep -q '^# Topology file: ohca-fabric generate' "$f" || continue
	expect "${f##*/} is what generate writes" 0 '' as_generated "$f"
done
expect 'check what was generated' 0 '12 switches, 32 channel adapters, 0 routers, 64 cables' \
	"$fabric" check "$dir/tree"
expect 'check standard input' 0 '12 switches' bash -c '"$1" check - <"$2"' x "$fabric" "$dir/tree"
sed '/^Ca/,/^$/s/"S-5254020000000100"\[1\]/"S-5254020000000100"[2]/' "$dir/tree" >"$dir/wrong"
expect 'check says where' 1 "^$dir/wrong:[0-9]*: .*correct one" "$fabric" check "$dir/wrong"
expect 'check a file that is not there' 1 'cannot read it' "$fabric" check "$dir/none"
expect 'check a tree' 0 '^rank 1: 4 switches, 32 cables below' "$fabric" check --fat-tree "$dir/tree"
expect 'check the cables of a tree' 1 "^missing: 'MF0;leaf03:MSB7800/U1' has 0 cables to 'MF0;spine02" \
	"$fabric" check --fat-tree "$TOPOLOGIES/damaged.ibnetdiscover"
"$fabric" generate torus:3x3 >"$dir/torus"
expect 'check what is no tree' 1 '^18 findings' "$fabric" check --fat-tree "$dir/torus"
expect 'check no file' 2 'check needs topology files' "$fabric" check --fat-tree
expect 'check all of them' 1 '12 switches' "$fabric" check "$dir/none" "$dir/tree"
expect 'serve without a fabric' 2 'either --topology or --generate' "$fabric" serve --umad2sim
expect 'serve two' 2 'either --topology or --generate' "$fabric" serve -t "$dir/tree" -g star:2
expect 'serve with another option' 2 'unknown option or argument' "$fabric" serve -g star:2 --fast
expect 'a listener for nobody' 2 'needs --token, for programs, or --wire' "$fabric" serve -g star:2 --listen-tcp 0
expect 'a listener for everybody' 2 'needs --token' "$fabric" serve -g star:2 --wire switch1:1 \
	--listen-tcp 0.0.0.0:0
expect 'no address' 2 'is not HOST:PORT' "$fabric" serve -g star:2 --wire switch1:1 --listen-tcp a:b
expect 'no token' 2 'No such file' "$fabric" serve -g star:2 --wire switch1:1 --token "$dir/none"
echo 'fifteen letters' >"$dir/short"
expect 'a short token' 2 'fewer than 16' "$fabric" serve -g star:2 --token "$dir/short"
expect 'no wire' 2 'is not NODE:PORT' "$fabric" serve -g star:2 --wire =127.0.0.1:1
expect 'a wire from nowhere' 1 'there is no such port' "$fabric" serve -g star:2 --wire switch1:3
expect 'a wire from a host' 1 'not a port of a switch' "$fabric" serve -g star:2 --wire host1:1
expect 'a wire in the place of another cable' 1 'leads to a switch' "$fabric" serve -g ring:3 \
	--wire switch1:2
expect 'two wires' 1 'has a wire already' "$fabric" serve -g star:2 --wire switch1:1 --wire switch1:1
expect 'a way of no router' 1 'there is no router' "$fabric" serve -g star:2 --prefix-route switch1=1,0xf1
expect 'a site of a file' 2 'needs --generate' "$fabric" serve -t "$dir/short" --site 1
expect 'GUIDs of a site' 0 '^0x5254010700000100 .*host1$' "$fabric" hosts -g star:2 --site 7
expect 'memory of no machines' 2 'needs --listen' "$fabric" serve -g star:2 --disk-memory
for o in host1 host1= "=$dir/s"; do
	expect "a host's socket, $o" 2 'is not NODE=PATH' "$fabric" serve -g star:2 --listen-node "$o"
done
sockets=(--listen-node=host1=s{1..65})
expect 'sockets of 65 hosts' 2 'no more than 64' "$fabric" serve -g star:2 "${sockets[@]}"
expect 'a socket of no host' 1 'host3: there is no such node' "$fabric" serve -g star:2 \
	--listen-node "host3=$dir/s"
expect 'a socket of a switch' 1 'switch1: it is no host at a switch' "$fabric" serve -g star:2 \
	--listen-node "switch1=$dir/s"
expect 'a socket of a host with a wire' 1 'host2: it is no host at a switch' "$fabric" serve -g star:2 \
	--wire switch1:2 --listen-node "host2=$dir/s"
expect 'two sockets of a host' 1 'it has a socket already' "$fabric" serve -g star:2 \
	--listen-node "host1=$dir/s" --listen-node "host1=$dir/t"
mkdir "$dir/a" "$dir/b"
expect 'sockets of hosts' 0 'ready' timeout --preserve-status 1 "$fabric" serve -g star:2 \
	--listen-node "host1=$dir/a/s" --listen-node "host2=$dir/b/s"
expect 'they are removed, each from its directory' 0 '' rmdir "$dir/a" "$dir/b"
expect 'serve UDP alone' 2 'needs --umad2sim' "$fabric" serve -g star:2 --umad2sim-udp 127.0.0.1:1
for o in 127.0.0.1 127.0.0.1: 127.0.0.1:0 127.0.0.1:65408 127.0.0.1:7x localhost:7070 127.0.0.256:7070; do
	expect "serve UDP at $o" 1 'port from 1 to 65407' \
		"$fabric" serve -g star:2 -u"cli-$$" --umad2sim-udp "$o"
done
expect 'serve with an argument' 2 'options only' "$fabric" serve -g star:2 something
expect 'serve, a wrong SPEC' 1 'fat-tree:K' "$fabric" serve -g circle:3
expect 'serve at a path that is not there' 1 'No such file' \
	"$fabric" serve -g star:2 -l "$dir/none/s"
expect 'serve at a path that is too long' 1 'the limit is 107' \
	"$fabric" serve -g star:2 -l "$dir/$(printf '%0120d' 0)"
expect 'serve at what is no socket' 1 'is not a socket' "$fabric" serve -g star:2 -l "$dir/tree"
# correct values are accepted, and the error is about the next mistake
for o in mtu=256 mtu=4096 pkeys=32 pkeys=128 vls=1 vls=8 vls=15 credit-shift=0 credit-shift=6 hoq-scale=0 rate-scale=0 rate-scale=1000000 \
	hoq-scale=1000000 spin-us=0 spin-us=1000000 spin-us=auto trace=ohca_err_* front-memory=1 front-memory=4T,64T \
	front-memory=8192M,1048576 hca-memory=1M hca-memory=1048576K; do
	expect "--$o" 2 'options only' "$fabric" serve -g star:2 "--$o" more
done
while read -r o text; do
	expect "--$o is refused" 2 "$text" "$fabric" serve -g star:2 "--$o"
done <<'EOF'
mtu=1500 none of 256
mtu=255 none of 256
mtu=0 none of 256
mtu=4097 number from 0 to 4096
mtu=2x not a number
pkeys=0 none of 32, 64
pkeys=33 none of 32, 64
pkeys=160 number from 0 to 128
vls=3 none of 1, 2, 4
vls=14 none of 1, 2, 4
vls=0 none of 1, 2, 4
vls=16 number from 0 to 15
credit-shift=7 number from 0 to 6
hoq-scale=1000001 number from 0 to 1000000
rate-scale=1000001 number from 0 to 1000000
spin-us=1000001 number from 0 to 1000000
spin-us=-3 not a number
spin-us=automatic not a number
front-memory=0 is not SIZE
front-memory=5T is not SIZE
front-memory=1G,65T is not SIZE
front-memory=1G, is not SIZE
front-memory=1G,0 is not SIZE
front-memory=1G,2G,3G is not SIZE
front-memory=1GB is not SIZE
front-memory=-1 is not SIZE
front-memory=16777216T is not SIZE
front-memory=18446744073709551616 is not SIZE
hca-memory=1023K a size from 1M to 1G
hca-memory=1025M a size from 1M to 1G
hca-memory=1M,1M a size from 1M to 1G
hca-memory=M a size from 1M to 1G
trace=ohca_wire_* no event of an HCA matches
EOF
expect version 0 'link protocol [0-9]*, front protocol [0-9]*, control protocol [0-9]*$' "$fabric" --version
expect 'serve a file that is not there' 1 'cannot read it' "$fabric" serve -t "$dir/none"
expect 'serve until a signal' 0 'ready, 12 switches, 32 other nodes' \
	timeout --preserve-status 1 "$fabric" serve -t "$dir/tree"
expect 'a capture without ports' 2 'needs --capture-port' \
	"$fabric" serve -g star:2 -l "$dir/s" --capture "$dir/c"
expect 'a capture of no port' 1 'write NODE:PORT' \
	"$fabric" serve -g star:2 -l "$dir/s" --capture "$dir/c" --capture-port host1:2
expect 'a capture' 0 'ready' timeout --preserve-status 1 \
	"$fabric" serve -g star:2 -l "$dir/s" --capture "$dir/c" --capture-port host1:1
expect 'is in the file' 0 'host1:1 received' strings "$dir/c"
expect 'traffic' 0 '^message_max: 0.660 us$' "$fabric" traffic -g star:4 --size 4K --messages 1 --pattern permutation
expect 'traffic with ACKs' 0 '^message_max: 0.666 us$' "$fabric" traffic -g star:4 --size 4K --messages 1 --pattern permutation --transport rc
expect 'traffic by none' 2 'none of rc, uc, ud' "$fabric" traffic -g star:4 --transport xrc
expect 'traffic, a rate' 0 '^host: 0.099 Gb/s$' "$fabric" traffic -g star:4 --pattern permutation --rate-scale 1000
expect 'traffic, the same once more' 0 '^same$' sh -c "
	\"$fabric\" traffic -g star:4 --seed 5 --load 60 >$dir/one && \"$fabric\" traffic -g star:4 --seed 5 --load 60 |
		cmp - $dir/one && echo same"
expect 'traffic, all-reduce' 0 '^bus: 88.294 Gb/s$' "$fabric" traffic -g star:8 --pattern all-reduce-ring --size 256K
expect 'traffic, a circle' 0 '^circle: switch[1-5]:[0-9], switch[1-5]:[0-9], .*, switch[1-5]:[0-9]$' "$fabric" traffic -g ring:5 --messages 1
expect 'traffic, no circle' 0 '^circle: none$' "$fabric" traffic -g ring:5 --messages 1 --routing updn
expect 'traffic, congestion control' 0 '^becn: [1-9][0-9]*$' "$fabric" traffic -g star:4 --pattern incast --congestion-control=threshold=15,ccti_timer=4
expect 'traffic, without it' 0 '^hot: 99.369 Gb/s$' "$fabric" traffic -g star:4 --pattern incast
expect 'traffic, each flow' 0 '^flow host3: 49.68[0-9] Gb/s$' "$fabric" traffic -g star:3 --pattern incast --flows
expect 'traffic, flows of one message' 1 'needs two messages' "$fabric" traffic -g star:3 --messages 1 --flows
expect 'traffic in time' 0 '^100.000,0.000,49.[0-9]*,49.[0-9]*$' sh -c "
	\"$fabric\" traffic -g star:3 --pattern incast --series $dir/series --interval 100us && cat $dir/series"
expect 'hosts of traffic in time' 0 '^us,"host1","host2","host3"$' cat "$dir/series"
expect 'traffic in time, no file' 1 'series.csv: No such file' "$fabric" traffic -g star:3 --series "$dir/none/series.csv"
expect 'traffic in no time' 2 'not a time such as' "$fabric" traffic -g star:3 --series "$dir/series" --interval 0ns
printf 'at 100us link down leaf1:4\nat 200us expect leaf1:4 Down\n' >"$dir/faults"
expect 'traffic with faults' 0 "^$dir/faults:2: 0.000200 s: at 200us expect leaf1:4 Down\$" "$fabric" traffic -g fat-tree:6 --script "$dir/faults"
expect 'traffic that loses messages by them' 0 '^lost: [1-9]' "$fabric" traffic -g fat-tree:6 --messages 50 --script "$dir/faults"
expect 'traffic with faults of none' 1 'none: No such file' "$fabric" traffic -g star:3 --script "$dir/none"
printf 'at 1us expect links_up is 3\nat 2us pull\n' >"$dir/faults"
expect 'traffic with a fault that is none' 1 "line 2: 'pull' is not a fault" "$fabric" traffic -g star:3 --script "$dir/faults"
printf 'at 1us expect links_up is 4\n' >"$dir/faults"
expect 'traffic that is not as expected' 1 'FAILED: links_up is 3' "$fabric" traffic -g star:3 --script "$dir/faults"
expect 'traffic, adaptive routing in a circle' 1 'wait for each other for ever' "$fabric" traffic -g ring:5 --adaptive
expect 'traffic, an order of nobody' 2 'neither any nor kept' "$fabric" traffic -g star:4 --adaptive=some
expect 'traffic, no setting' 2 'threshold is a number from 0 to 15' "$fabric" traffic -g star:4 --congestion-control=threshold=16
expect 'traffic, no routing' 2 'neither minhop nor updn' "$fabric" traffic -g star:4 --routing dor
expect 'traffic, shares' 0 '^sl1: 49.574 Gb/s, 50.00 %$' "$fabric" traffic -g star:3 --pattern incast --sl 0,1
printf '# SLID DLID SL\n0x2 1 5\n\n' >"$dir/paths"
expect 'traffic, an SL of a path' 0 '^sl5: 49.574 Gb/s, 50.00 %$' "$fabric" traffic -g star:3 --pattern incast --path-sl "$dir/paths"
for line in '2 1' '2 1 16' '2 1 0 7' '65536 1 0' '-2 1 0'; do
	echo "$line" >"$dir/paths"
	expect "traffic, no path: $line" 2 "paths:1: a line has three numbers" "$fabric" traffic -g star:3 --path-sl "$dir/paths"
done
expect 'traffic, no paths' 2 'No such file' "$fabric" traffic -g star:3 --path-sl "$dir/none"
expect 'traffic where none runs' 1 'give the PATH' "$fabric" traffic --control "$dir/none"
expect 'traffic of two fabrics' 2 'one of --topology, --generate and --control' "$fabric" traffic --control "$dir/none" -g star:3
expect 'traffic with other tables' 2 'the running fabric has its own' "$fabric" traffic --control "$dir/none" --routing updn
expect 'traffic of nothing' 2 'one of --topology, --generate and --control' "$fabric" traffic
"$fabric" serve -g star:3 --control "$dir/runs" >"$dir/runs.log" 2>&1 &
runs=$!
says ready "$dir/runs.log"
expect 'traffic without a subnet manager' 1 'no two hosts with LIDs' "$fabric" traffic --control "$dir/runs"
kill $runs
wait $runs
expect 'traffic of one' 1 'no two hosts' "$fabric" traffic -g star:1
# virtual time advances only when it is asked to
serve_virtual()
{
	rm -f "$dir/virtual.out"
	"$fabric" serve -q --virtual -g fat-tree:4 --seed 3 -c "$dir/virtual" --rate-scale 1000 \
		--capture "$dir/virtual.pcapng" --capture-port leaf1:1 >"$dir/virtual.out" 2>&1 &
	virtual=$!
	says ready "$dir/virtual.out"
}
printf 'every 1s for 3600s link flap leaf1:any --down 100ms\nat 7200s node kill leaf2\n' >"$dir/hours"
for run in one two; do
	serve_virtual
	expect "hours of virtual time, $run" 0 '' "$fabric" script "$dir/hours" -c "$dir/virtual"
	expect "it stands, $run" 0 '^script_left: 3600$' "$fabric" status -c "$dir/virtual"
	expect "it runs, $run" 0 '"now_ns": 7202000000000' "$fabric" run 7201s -j -c "$dir/virtual"
	expect "it has run, $run" 0 '^script_left: 0$' "$fabric" status -c "$dir/virtual"
	expect "its log, $run" 0 '^7201.000000 s script 1 line 2: node kill leaf2$' "$fabric" log -c "$dir/virtual"
	{ "$fabric" counters -c "$dir/virtual"; "$fabric" log -c "$dir/virtual" | grep -v pid; } >"$dir/virtual.$run"
	kill "$virtual"
	wait "$virtual"
done
expect 'the same seed, the same bytes' 0 '^$' diff "$dir/virtual.one" "$dir/virtual.two"
expect 'a capture says how slow wires are' 0 'rates of wires are divided by 1000 (--rate-scale)' cat "$dir/virtual.pcapng"
expect 'run what' 2 'write run TIME' "$fabric" run 7 -c "$dir/virtual"
expect 'virtual time with machines' 2 'excludes --listen' "$fabric" serve --virtual -g star:2 -l "$dir/listen"
expect 'virtual time with programs of others' 2 'excludes --listen' \
	"$fabric" serve --virtual -g star:2 -c "$dir/virtual" --listen-tcp 127.0.0.1:1
expect 'virtual time that nobody lets run' 2 'needs --control' "$fabric" serve --virtual -g star:2
expect 'virtual time, waiting awake' 2 'excludes --spin-us' "$fabric" serve --virtual -g star:2 -c "$dir/virtual" --spin-us 50
expect 'traffic, no pattern' 2 'none of uniform' "$fabric" traffic -g star:4 --pattern ring
expect 'traffic, no size' 2 'not a size from 1' "$fabric" traffic -g star:4 --size 0
expect 'traffic, no load' 2 'at least 1' "$fabric" traffic -g star:4 --load 0
expect 'traffic, no SL' 2 'from 0 to 15' "$fabric" traffic -g star:4 --sl 16
expect 'serve with a pattern' 2 'are options of traffic' "$fabric" serve -g star:4 --pattern incast
expect 'ask without a fabric' 2 'give the control socket of the fabric: --control PATH' "$fabric" status
expect 'ask where none is' 1 "$dir/none: No such file.* give the PATH" \
	"$fabric" lft leaf1 -c "$dir/none"
expect 'ask with another option' 2 'use --control PATH' "$fabric" status --all
expect 'adaptive without a state' 2 'write adaptive on' "$fabric" adaptive -c "$dir/none"
expect 'adaptive, no service level' 2 'options of adaptive are --order' "$fabric" adaptive on --sls 16 -c "$dir/none"
expect 'lft without a switch' 2 'write lft NODE, a switch' "$fabric" lft -c "$dir/none"
expect 'status of a switch' 2 'write status' "$fabric" status -c "$dir/none" leaf1
expect 'serve with a control socket in no directory' 1 'use another PATH' \
	"$fabric" serve -g star:2 -c "$dir/none/control"
"$fabric" serve -t "$dir/tree" -c "$dir/control" -l "$dir/machines" --rate-scale 250 >"$dir/ready" &
says ready "$dir/ready"
expect 'status' 0 'cables: 64' "$fabric" status -c "$dir/control"
expect 'what the data path has counted' 0 'data delivered: 0$' "$fabric" status -c "$dir/control"
expect 'nothing is marked' 0 'data fecns: 0$' "$fabric" status -c "$dir/control"
expect 'wires have rates' 0 'data rate_scale: 250$' "$fabric" status -c "$dir/control"
expect 'what machines have' 0 'hosted machines: 0$' "$fabric" status -c "$dir/control"
expect 'what machines were refused' 0 'hosted objects_refused: 0$' "$fabric" status -c "$dir/control"
expect 'what it has given up' 0 'sandbox seccomp: yes$' "$fabric" status -c "$dir/control"
expect 'status --json' 0 '^{"switches": 12, ' "$fabric" status -j -c "$dir/control"
expect 'topology' 0 '^Switch.*# "spine4" enhanced port 0' "$fabric" topology -c "$dir/control"
expect 'topology --json' 0 '"description": "spine4"' "$fabric" topology --json -c "$dir/control"
"$fabric" topology -c "$dir/control" >"$dir/again"
sed 1d "$dir/tree" >"$dir/once"
expect 'it is the topology that is served' 0 '' diff "$dir/once" "$dir/again"
# converted: in one more format, from where --control, --topology or --generate says
converted()
{
	"$fabric" topology --format "$1" "${@:2}"
}
# same_as FILE COMMAND...: the command prints the contents of the file
same_as()
{
	diff "$1" <("${@:2}")
}
for f in ibnetdiscover ports lst slurm dot; do
	converted $f --topology "$dir/again" >"$dir/converted"
	expect "the topology that is served as $f" 0 '' \
		same_as "$dir/converted" converted $f --control "$dir/control"
	expect "it as $f is something" 0 '' test -s "$dir/converted"
done
expect 'the topology of no fabric as lst' 1 "$dir/none: No such file.* give the PATH" \
	converted lst --control "$dir/none"
expect 'the topology of no file as lst' 1 'cannot read it' converted lst --topology "$dir/none"
expect 'a wrong SPEC as lst' 1 'fat-tree:K' converted lst --generate circle:3
expect 'a format that is none' 2 '--format must be ibnetdiscover' converted xml --generate star:2
expect 'a format of nothing' 2 'one of --control PATH, --topology FILE' converted lst
expect 'a format of two' 2 'one of --control PATH, --topology FILE' \
	converted lst --generate star:2 --topology "$dir/again"
expect 'a format to a full disk' 1 'No space' \
	bash -c '"$1" topology --format lst --generate star:9 >/dev/full' x "$fabric"
expect 'counters' 0 '^switch "spine4" 0x' "$fabric" counters -c "$dir/control"
expect 'lft, before a subnet manager wrote it' 0 '"lft": \[\]' \
	"$fabric" lft -j leaf1 -c "$dir/control"
expect 'lft of a host' 1 'is not a switch: give' "$fabric" lft host1 -c "$dir/control"
expect 'the way from a host to itself, before it has a LID' 1 'has no LID: start a subnet manager' \
	"$fabric" trace host1 host1 -c "$dir/control"
expect 'the way to a LID that nobody has' 1 'the link is not Active' \
	"$fabric" trace host1 7 -c "$dir/control"
expect 'as JSON' 1 '"arrives": false' "$fabric" trace --json host1 7 -c "$dir/control"
expect 'the way of a group' 1 'the link is not Active' \
	"$fabric" trace host1 host2 --multicast 0xc001 -c "$dir/control"
expect 'the way of no group' 2 'write --multicast MLID' \
	"$fabric" trace host1 host2 --multicast 0xc001x -c "$dir/control"
expect 'the way to nobody' 1 'give a LID, a GUID' "$fabric" trace host1 host99 -c "$dir/control"
expect 'the way to nowhere' 2 'write trace FROM TO' "$fabric" trace host1 -c "$dir/control"
expect 'a capture without a file' 2 'write capture NODE:PORT... -w FILE' \
	"$fabric" capture host1:1 -c "$dir/control"
expect 'a capture of nothing' 2 'write capture NODE:PORT... -w FILE' \
	"$fabric" capture -w "$dir/c" -c "$dir/control"
expect 'a capture for a second' 0 '^ohca-fabric: [0-9]* packets, 0 lost$' \
	"$fabric" capture host1:1 leaf1:1 -w "$dir/c" -s 1 -c "$dir/control"
expect 'what it has written' 0 '^ 0a 0d 0d 0a$' od -An -tx1 -N4 "$dir/c"
expect 'a capture to standard output' 0 '^ 0a 0d 0d 0a$' bash -c \
	'"$1" capture leaf1:1 --link-packets -w - -s 1 -c "$2" | od -An -tx1 -N4' x "$fabric" \
	"$dir/control"
expect 'a capture to a directory' 1 'Is a directory' \
	"$fabric" capture host1:1 -w "$dir" -s 1 -c "$dir/control"
expect 'a capture to a full disk' 1 '/dev/full: No space' \
	"$fabric" capture host1:1 -w /dev/full -s 1 -c "$dir/control"
expect 'a capture of no packets' 2 'from 1' \
	"$fabric" capture host1:1 -w "$dir/c" --count 0 -c "$dir/control"
expect 'a capture of no port of a fabric' 1 'write NODE:PORT' \
	"$fabric" capture host1:7 -w "$dir/c" -c "$dir/control"
expect 'a capture to a full disk' 1 'No space' \
	"$fabric" capture host1:1 -w /dev/full -c "$dir/control"
expect 'link down' 0 '' "$fabric" link down leaf1:1 -c "$dir/control"
expect 'it is down' 0 'links_up: 63' "$fabric" status -c "$dir/control"
expect 'link up' 0 '' "$fabric" link up leaf1:1 -c "$dir/control"
expect 'it is up' 0 'links_up: 64' "$fabric" status -c "$dir/control"
expect 'node kill' 0 '' "$fabric" node kill spine1 -c "$dir/control"
expect 'its links are down' 0 'links_up: 56' "$fabric" status -c "$dir/control"
expect 'node revive' 0 '"done": true' "$fabric" node revive spine1 -j -c "$dir/control"
expect 'its links are up' 0 'links_up: 64' "$fabric" status -c "$dir/control"
expect 'swap' 0 '' "$fabric" swap leaf1:8 leaf2:7 -c "$dir/control"
"$fabric" topology -c "$dir/control" >"$dir/swapped"
expect 'what was swapped' 1 "^miswired: 'leaf2' port 7 leads to 'spine4' port 1, and should lead to 'spine3'" "$fabric" check --fat-tree "$dir/swapped"
expect 'swap back' 0 '' "$fabric" swap leaf1:8 leaf2:7 -c "$dir/control"
"$fabric" topology -c "$dir/control" >"$dir/swapped"
expect 'it is as it was' 0 '' "$fabric" check --fat-tree "$dir/swapped"
expect 'loss' 0 '' "$fabric" loss leaf1:1 1e-4 7 -c "$dir/control"
expect 'corrupt' 0 '' "$fabric" corrupt leaf1:1 0.5 -c "$dir/control"
expect 'delay' 0 '' "$fabric" delay leaf1:1 20us -c "$dir/control"
expect 'a delay without a unit' 2 'a TIME is as' "$fabric" delay leaf1:1 20 -c "$dir/control"
expect 'no delay' 0 '' "$fabric" delay leaf1:1 0 -c "$dir/control"
expect 'link degrade' 0 '' "$fabric" link degrade leaf1:1 --width 1 --speed=DDR -c "$dir/control"
expect 'it is slower' 0 '"rate": "1xDDR"' "$fabric" topology --json -c "$dir/control"
expect 'no such speed' 1 'SDR, DDR, QDR' "$fabric" link degrade leaf1:1 --speed WDR -c "$dir/control"
expect 'link restore' 0 '' "$fabric" link restore leaf1:1 -c "$dir/control"
expect 'it is as it was' 1 '' \
	bash -c '"$1" topology --json -c "$2" | grep 1xDDR' x "$fabric" "$dir/control"
expect 'link flap' 0 '' "$fabric" link flap leaf1:1 --down 1ms --count 2 -c "$dir/control"
expect 'a flap without end' 1 'from 1 to 1000000' \
	"$fabric" link flap leaf1:1 --count 0 -c "$dir/control"
expect 'options that are for others' 1 'leave out "width"' \
	"$fabric" link up leaf1:1 --width 1 -c "$dir/control"
expect 'a rate above 1' 1 'a number from 0 to 1' "$fabric" loss leaf1:1 2 -c "$dir/control"
expect 'a port without a cable' 1 'has a cable' "$fabric" link down leaf1:0 -c "$dir/control"
expect 'drop' 0 '' "$fabric" drop leaf1 NodeInfo 3 -c "$dir/control"
expect 'preset' 0 '' "$fabric" preset leaf1:2 SymbolErrorCounter 77 -c "$dir/control"
expect 'what was preset' 0 'SymbolErrorCounter 77' "$fabric" counters -c "$dir/control"
"$fabric" metrics -c "$dir/control" >"$dir/metrics"
port1='{node="leaf1",guid="0x5254020000000[0-9]*",port="2"'
expect 'metrics, a counter' 0 "^infiniband_symbol_error_total$port1} 77$" cat "$dir/metrics"
expect 'metrics, a counter that is 0' 0 "^infiniband_link_downed_total$port1} 0$" cat "$dir/metrics"
expect 'metrics, a state' 0 "^infiniband_port_state$port1} [1-4]$" cat "$dir/metrics"
expect 'metrics, a cable' 0 "^infiniband_port_info$port1,peer=\"0x[0-9a-f]*\",peer_port=\"1\"," \
	cat "$dir/metrics"
expect 'metrics, the fabric' 0 '^ohca_fabric_switches 12$' cat "$dir/metrics"
expect 'metrics end' 0 '^# EOF$' tail -n 1 "$dir/metrics"
# of_families: each sample is behind the TYPE line of its family, of which there is one; the types
# are those that the older text format has, too
of_families()
{
	awk '/^# TYPE/ { if (seen[$3]++ || $4 !~ /^(counter|gauge)$/) exit 1; family = $3; next }
	     /^#/ { next } { sub(/[{ ].*/, ""); sub(/_total$/, ""); if ($0 != family) exit 1 }' "$1"
}
expect 'metrics, each family in one piece' 0 '' of_families "$dir/metrics"
expect 'metrics of a node' 2 'metrics --control PATH' "$fabric" metrics leaf1 -c "$dir/control"
expect 'metrics to a full disk' 1 'No space' \
	bash -c '"$1" metrics -c "$2" >/dev/full' x "$fabric" "$dir/control"
expect 'preset of more than bytes can be counted' 0 '' \
	"$fabric" preset leaf1:2 PortXmitData 9223372036854775807 -c "$dir/control"
expect 'metrics, more bytes than 64 bits' 0 "^infiniband_port_xmit_data_bytes_total$port1} 36893488147419103232$" \
	"$fabric" metrics -c "$dir/control"
expect 'preset of nothing' 0 '' "$fabric" preset leaf1:2 PortXmitData 0 -c "$dir/control"
expect 'no such counter' 1 'as counters shows it' \
	"$fabric" preset leaf1:2 Errors 77 -c "$dir/control"
expect 'no such node' 1 'as topology shows it' "$fabric" node kill leaf99 -c "$dir/control"
expect 'words of link' 2 'write link up|down|restore NODE:PORT' "$fabric" link down leaf1 -c "$dir/control"
cat >"$dir/script" <<EOF
# one of each kind
at 0 link down 'leaf1':1
every 1ms from 1ms for 3ms preset leaf1:2 SymbolErrorCounter 78
at 1h link up leaf1:1
EOF
expect 'a script that is wrong' 1 "$dir/script:4: '1h' is not a time" \
	"$fabric" script "$dir/script" -c "$dir/control"
sed -i s/1h/1000s/ "$dir/script"
expect 'script' 0 '"ends_ns": 1000000000000' "$fabric" script "$dir/script" -j -c "$dir/control"
expect 'it plays' 0 'links_up: 63' "$fabric" status -c "$dir/control"
expect 'another one' 1 'script --replace FILE' "$fabric" script "$dir/script" -c "$dir/control"
expect 'that replaces it' 0 '' "$fabric" script --replace "$dir/script" -c "$dir/control"
sleep 0.1
expect 'it has played' 0 'script_left: 1$' "$fabric" status -c "$dir/control"
expect 'script --stop' 0 '' "$fabric" script --stop -c "$dir/control"
expect 'it has stopped' 0 'script_left: 0$' "$fabric" status -c "$dir/control"
expect 'what it has done stays' 0 'links_up: 63' "$fabric" status -c "$dir/control"
expect 'what is expected' 0 '^$' "$fabric" expect leaf2:1 Init -c "$dir/control"
expect 'what is not' 1 'links_active is 0' "$fabric" expect links_active above 0 -c "$dir/control"
printf '# a script\nat 0 link up leaf1:1\nat 5ms link down leaf1:1\n  at 1ms expect leaf1:1 Down --within 20ms\n' >"$dir/good"
expect 'a script to its end' 0 "^$dir/good:4: 0.005000 s: at 1ms expect leaf1:1 Down --within 20ms\$" \
	"$fabric" script --wait "$dir/good" -c "$dir/control"
printf 'at 0 link up leaf1:1\nat 1ms expect leaf1:1 Down\n' >"$dir/fails"
expect 'a script that fails' 1 "^$dir/fails:2: 0.001000 s: at 1ms expect leaf1:1 Down: FAILED: it is Init, which was not expected\$" \
	"$fabric" script --wait "$dir/fails" -c "$dir/control"
# replaced: by one that plays more lines in the same time
replaced()
{
	printf 'at 0 link up leaf1:1\nat 300s link up leaf1:1\n' >"$dir/long"
	"$fabric" script --wait "$dir/long" -c "$dir/control" >"$dir/waits" 2>&1 &
	says "$dir/long:1" "$dir/waits" && "$fabric" script --replace "$dir/good" -c "$dir/control" && wait $!
	local rc=$?
	cat "$dir/waits"
	return "$rc"
}
expect 'a script that is replaced' 1 "^$dir/long: another client has stopped or replaced it\$" replaced
expect 'a script that fails, unwatched' 0 '' "$fabric" script "$dir/fails" -c "$dir/control"
printf 'when leaf1:1 Down for 1s do link up leaf1:1\nwhen traps above 1000000 for 5ms do link down leaf1:1\nat 2ms link down leaf1:1\n' >"$dir/when"
expect 'a script with conditions' 0 "^$dir/when:1: 0.00[2-9]000 s: when leaf1:1 Down for 1s do link up leaf1:1\$" \
	"$fabric" script --wait "$dir/when" -c "$dir/control"
expect 'what was never so' 0 'do link down leaf1:1: the condition was never true$' "$fabric" script --wait "$dir/when" -c "$dir/control"
expect 'what was done' 0 "^20[0-9-]* [0-9:.]* pid [0-9]*: link down leaf1:1\$" "$fabric" log -c "$dir/control"
expect 'what scripts have done' 0 "^20[0-9-]* [0-9:.]* script [0-9]* line 1: link up leaf1:1\$" "$fabric" log -c "$dir/control"
expect 'what was done, as JSON' 0 '"text": "script --stop"' "$fabric" log -j -c "$dir/control"
expect 'log of something' 2 'write log' "$fabric" log leaf1 -c "$dir/control"
expect 'a script that is not there' 1 'No such file' \
	"$fabric" script "$dir/none" -c "$dir/control"
head -c 70000 /dev/zero | tr '\0' '#' >"$dir/long"
expect 'a script that is too long' 1 'less than 64 KiB' \
	"$fabric" script "$dir/long" -c "$dir/control"
printf 'at 1s link down leaf1:1\0\n' >"$dir/zero"
expect 'a script that is no text' 1 "$dir/zero: this is not text" \
	"$fabric" script "$dir/zero" -c "$dir/control"
expect 'words of script' 2 'write script' "$fabric" script -c "$dir/control"
expect 'topology to a full disk' 1 'No space' \
	bash -c '"$1" topology -c "$2" >/dev/full' x "$fabric" "$dir/control"
kill $!
wait $!

# Random choices depend on the seed, before any script runs.
# downs SEED: prints the ports of a switch whose links go down when they are chosen at random
downs()
{
	local pid i

	rm -f "$dir/ready"
	"$fabric" serve -g star:12 --seed "$1" -c "$dir/control" >"$dir/ready" &
	pid=$!
	says ready "$dir/ready"
	for ((i = 0; i < 4; i++)); do
		"$fabric" link down switch1:any -c "$dir/control" || break
	done
	"$fabric" topology --json -c "$dir/control" | grep -o '"port": [0-9]*, "state": "[A-Za-z]*"'
	kill $pid
	wait $pid
}
downs 7 >"$dir/downs"
expect 'ports by chance' 0 'Down' cat "$dir/downs"
expect 'the same seed, the same ports' 0 '' same_as "$dir/downs" downs 7
expect 'another seed, other ports' 1 'Down' same_as "$dir/downs" downs 4294967295

# A server that is no fabric of this version: each connection gets the next line as its reply, and is
# closed. PATH.asked has the requests.
cat >"$dir/other.py" <<'EOF'
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
# a program that finds the socket can connect
os.rename(sys.argv[1] + ".new", sys.argv[1])
for line in sys.argv[2:]:
    c = s.accept()[0]
    with open(sys.argv[1] + ".asked", "ab") as asked:
        asked.write(c.makefile("rb").readline())
    c.sendall(line.encode() + b"\n")
    c.close()
EOF
# it prints that within half a minute, or has ended
other_listens()
{
	local i
	for ((i = 0; i < 600; i++)); do
		[ ! -S "$dir/other" ] || return 0
		sleep 0.05
	done
	echo 'FAIL: the server of replies does not listen'
	bad=1
}

none='there is no such command: use status'
version=$("$fabric" --version | sed -n 's/.*control protocol \([0-9]*\)$/\1/p')
python3 "$dir/other.py" "$dir/other" "{\"error\": \"$none\", \"version\": 1}" \
	"{\"error\": \"$none\", \"version\": $version}" "{\"error\": \"$none\"}" '{}' '{}' '{}' '{}' '{}' '{}' '[1]' \
	'HTTP/1.0 400 Bad Request' '{"done": true}' &
other_listens
expect 'a fabric of another version' 1 "^ohca-fabric: $none (the fabric has version 1 of the control \
protocol, this program has $version: use the same release of both)\$" "$fabric" status -c "$dir/other"
for o in 'of this version' 'that says no version'; do
	expect "a fabric $o" 1 "^ohca-fabric: $none\$" "$fabric" status -c "$dir/other"
done
while IFS=: read -r o text; do
	# shellcheck disable=SC2086 # words
	expect "$o: a reply that lacks what is printed" 1 "no \"$text\": .* use the same release of both" \
		"$fabric" $o -c "$dir/other"
done <<'EOF'
status:switches
topology:text
counters:nodes
metrics:nodes
lft leaf1:lft
trace 1 2:hops
EOF
for o in list text; do
	expect "no fabric: a $o" 1 'reply is not from a fabric: give the PATH' \
		"$fabric" status -c "$dir/other"
done
expect 'a fault has no more to say' 0 '' "$fabric" link up leaf1:1 -c "$dir/other"
wait $!

# all_of COMMAND...: its output and status are exactly those in the standard input
all_of()
{
	diff - <("$@" 2>&1; echo "status $?")
}

# as_other REPLY...: the next connections get these replies; $dir/asked has their requests
as_other()
{
	rm -f "$dir/other" "$dir/other.asked"
	python3 "$dir/other.py" "$dir/other" "$@" &
	other_listens
}

as_other '{"switches": 3, "share": 0.25, "yes": true, "no": false, "sm": [{"guid": "0x1", "lid": 4}, 7], '\
'"smps": {"Node": {"Get": 5, "Set": 0}, "more": 9}, "text": "a"}'
expect 'all of a status' 0 '' all_of "$fabric" status -c "$dir/other" <<'EOF'
switches: 3
share: 0.250
yes: yes
no: no
sm: guid 0x1, lid 4
sm: 7
smps Node: Get 5, Set 0
smps more: 9
text: a
status 0
EOF
as_other '{"nodes": [{"type": "switch", "description": "s", "guid": "0x2", "ports": [{"port": 0}, '\
'{"port": 1, "a": 2}]}, {"type": "router", "description": "r", "guid": "0x3", "ports": []}]}'
expect 'all of counters' 0 '' all_of "$fabric" counters -c "$dir/other" <<'EOF'
switch "s" 0x2
  port 0
  port 1, a 2
router "r" 0x3
status 0
EOF
as_other '{"lft": [0, 255, 7], "first": 40}'
expect 'all of an lft' 0 '' all_of "$fabric" lft leaf1 -c "$dir/other" <<'EOF'
40 0
42 7
status 0
EOF
as_other '{"lid": 9, "hops": [{"type": "router", "description": "h", "guid": "0x4", "lid": 1, "out": 2, '\
'"state": "Active"}, {"type": "switch", "description": "s", "guid": "0x2", "lid": 3, "in": 5, "out": 6, '\
'"state": "Init"}, {"type": "switch", "description": "t", "guid": "0x5", "in": 7}], "arrives": true, '\
'"end": "it arrives"}'
expect 'all of a way' 0 '' all_of "$fabric" trace 1 2 -c "$dir/other" <<'EOF'
LID 9
router "h" 0x4 lid 1 [2] Active ->
[5] switch "s" 0x2 lid 3 [6] Init ->
[7] switch "t" 0x5 lid 0
it arrives
status 0
EOF
as_other '{"errors": [{"line": 3, "error": "no"}, {"line": 12, "error": "not"}], "error": "bad"}'
expect 'all errors of a script' 0 '' all_of "$fabric" script "$dir/script" -c "$dir/other" <<EOF
$dir/script:3: no
$dir/script:12: not
status 1
EOF
# a reply that lacks members, one that repeats a part, and none
as_other '{"text": "a\n", "next": 0}' '{"nodes": [], "next": 0}' '{"capture": "pcapng"}' '{"text": 1}'
expect 'a part that does not go on' 0 '' all_of "$fabric" topology -c "$dir/other" <<'EOF'
a
status 0
EOF
expect 'a list that does not go on' 0 '' all_of "$fabric" counters -j -c "$dir/other" <<'EOF'
{"nodes": [], "next": 0}
status 0
EOF
expect 'a capture that has no end' 0 '' \
	all_of "$fabric" capture a:1 b:2 --count 3 --link-packets -w "$dir/c" -c "$dir/other" <<EOF
ohca-fabric: $dir/c: the fabric has ended: the last packets are missing
status 1
EOF
expect 'a topology that is no text' 1 '' converted lst --control "$dir/other"
expect 'what these have asked' 0 '' diff - "$dir/other.asked" <<'EOF'
{"command":"topology","first":0,"file":true}
{"command":"counters","first":0}
{"command":"capture","ports":["a:1","b:2"],"count":3,"link_packets":true}
{"command":"topology","first":0,"file":true}
EOF
# requests: words, and the request that is sent
printf 'at 0 \303\266\n' >"$dir/words"
cat >"$dir/says" <<EOF
link up a:b:3
link down a:any
link flap a:1 --down 5ms --interval 1.5s --count 0x10
link degrade a:254 --width 4 --speed=NDR
node kill a:b
node revive 0x12
swap a:1 b:c:2
loss a:1 0.25
loss a:1 1e-3 7
ber a:1 1e-3 7
corrupt a:1 0 0
delay a:1 0
delay a:1 20us
delay a:1 1.5ns
delay a:1 1000000s
stall a:1
stall a:1 2s
resume a:1
credits a:1 3 1000
drop a Subn:0x11 3
delay a PathRecord 200ms
refuse a PortCounters unsupported
refuse a PortCounters 0x300
refuse a Perf none
guid a b:c
guid a 0
preset a:0 Sym 077
preset a:0 Sym stuck
script $dir/words
script --replace $dir/words
script --stop
lft a -j
EOF
mapfile -t dones < <(yes '{"done": true}' | head -n "$(wc -l <"$dir/says")")
as_other "${dones[@]}"
while read -ra words; do
	expect "${words[*]}" 0 '' "$fabric" "${words[@]}" -c "$dir/other"
done <"$dir/says"
expect 'what they ask' 0 '' diff - "$dir/other.asked" <<'EOF'
{"command":"link","state":"up","node":"a:b","port":3}
{"command":"link","state":"down","node":"a","port":"any"}
{"command":"link","down_ns":5000000,"interval_ns":1500000000,"count":16,"state":"flap","node":"a","port":1}
{"command":"link","width":4,"speed":"NDR","state":"degrade","node":"a","port":254}
{"command":"node","state":"kill","node":"a:b"}
{"command":"node","state":"revive","node":"0x12"}
{"command":"swap","node":"a","port":1,"with":"b:c:2"}
{"command":"loss","node":"a","port":1,"rate":0.25}
{"command":"loss","node":"a","port":1,"rate":0.001,"seed":7}
{"command":"ber","node":"a","port":1,"rate":0.001,"seed":7}
{"command":"corrupt","node":"a","port":1,"rate":0.0,"seed":0}
{"command":"delay","node":"a","port":1,"time_ns":0}
{"command":"delay","node":"a","port":1,"time_ns":20000}
{"command":"delay","node":"a","port":1,"time_ns":2}
{"command":"delay","node":"a","port":1,"time_ns":1000000000000000}
{"command":"stall","node":"a","port":1}
{"command":"stall","node":"a","port":1,"time_ns":2000000000}
{"command":"resume","node":"a","port":1}
{"command":"credits","node":"a","port":1,"vl":3,"blocks":1000}
{"command":"drop","node":"a","attribute":"Subn:0x11","nth":3}
{"command":"delay","node":"a","attribute":"PathRecord","time_ns":200000000}
{"command":"refuse","node":"a","attribute":"PortCounters","status":12}
{"command":"refuse","node":"a","attribute":"PortCounters","status":768}
{"command":"refuse","node":"a","attribute":"Perf","status":0}
{"command":"guid","node":"a","as":"b:c"}
{"command":"guid","node":"a","as":"0"}
{"command":"preset","node":"a","port":0,"counter":"Sym","value":63}
{"command":"preset","node":"a","port":0,"counter":"Sym","value":"stuck"}
{"command":"script","replace":false,"text":"at 0 ö\n"}
{"command":"script","replace":true,"text":"at 0 ö\n"}
{"command":"script","stop":true}
{"command":"lft","first":0,"node":"a"}
EOF
while read -ra words; do
	expect "${words[*]} is refused" 2 '; see ohca-fabric --help$' "$fabric" "${words[@]}" -c "$dir/other"
done <<EOF
link up a
link up a:
link up :1
link up a:1x
link up
link up a:1 b:2
link flap a:1 --down 5
link flap a:1 --down 5ms --down 5ms
link flap a:1 --count 5x
link flap a:1 --count 99999999999999999999
node kill
node kill a b
loss a:1
loss a:1 x
loss a:1 0.5x
loss a:1 0.5 x
loss a:1 0.5 1 2
delay a:1 5m
delay a:1 .
delay a:1 -1s
delay a:1 1000001s
swap a:1
swap a b:1
stall a
stall a:1 2
resume a:1 2s
credits a:1 3
drop a 1
drop a 1 2 3
drop a x y
delay a x 2
delay a x 2s 3
refuse a Perf
refuse a Perf never
guid a
guid a b c
preset a:1 Sym
preset a:1 Sym x
script
script a b
script --stop a
script --stop --replace
script --stop --wait
expect leaf1:1
status a
topology a b
counters a b
lft
lft a b
trace a
trace a b c
trace a b --multicast x
capture a:1
capture -w c
capture a:1 -w c --count 0
capture a:1 -w c --count 1x
capture a:1 -w c --count 1000000000
capture a:1 -w c --seconds 0
capture a:1 -w c --odd
status --multicast 0xc000
EOF

cat >"$dir/hosts" <<'EOF'
Rt 1 "r"
[1] "s"[3]
Switch 4 "s"
[1] "b"[2]
[2] "a"[1] # 4xEDR
[3] "r"[1]
Ca 2 "a"
[1] "s"[2] # 1xSDR
caguid=0x77
Ca 2 "b" # "the b"
[2] "s"[1]
EOF
expect 'hosts' 0 '' all_of "$fabric" hosts -t "$dir/hosts" <<EOF
$dir/hosts:5: warning: this end of the cable has 4xEDR, the other in line 8 1xSDR: it gets 1xSDR
0x5254010000000100 2 1xSDR 0x5254020000000100 a
0x0000000000000077 2 - - the b
status 0
EOF
expect 'hosts --quiet' 0 '' all_of "$fabric" hosts --topology "$dir/hosts" --quiet <<EOF
0x5254010000000100 2 1xSDR 0x5254020000000100 a
0x0000000000000077 2 - - the b
status 0
EOF
expect 'check' 0 '' all_of "$fabric" check "$dir/hosts" <<EOF
$dir/hosts:5: warning: this end of the cable has 4xEDR, the other in line 8 1xSDR: it gets 1xSDR
$dir/hosts: 1 switches, 2 channel adapters, 1 routers, 3 cables
status 0
EOF
# The lines in a page after "$ ohca-fabric" generate or traffic are the command's output. Usage: as_printed PAGE
as_printed() {
	local line command='' want='' n=0
	while IFS= read -r line; do
		case $line in
		"   $ "* | [!\ ]* | "")
			if [ -n "$command" ]; then
				diff <(printf %s "$want") <(eval "${command//ohca-fabric /\"\$fabric\" }") || return 1
				n=$((n + 1))
			fi
			command='' want=''
			;;
		"   "?*) want+=${line#   }$'\n' ;;
		esac
		case $line in
		"   $ ohca-fabric traffic"* | "   $ ohca-fabric generate"*) command=${line#*$ } ;;
		esac
	done <"$1"
	echo "$n commands"
}
expect 'a page has what traffic prints' 0 '^5 commands' as_printed ../../Documentation/slow-job.rst
expect 'a page has what cables can carry' 0 '^12 commands' as_printed ../../Documentation/bisection.rst
expect 'check what cables carry' 1 'there are no two hosts' sh -c "\"$fabric\" generate star:1 | \"$fabric\" check --bisection -"
expect 'check something else' 2 'unknown option or argument' "$fabric" check --bisect "$dir/hosts"
expect 'so has that of adaptive routing' 0 '^3 commands' as_printed ../../Documentation/adaptive.rst
expect 'check nothing' 2 'check needs topology files' "$fabric" check
expect 'hosts of nothing' 2 'either --topology or --generate' "$fabric" hosts
expect 'hosts of two' 2 'either --topology or --generate' "$fabric" hosts -t "$dir/hosts" -g star:2
expect 'a largest seed' 0 '' "$fabric" hosts -g star:2 --seed 4294967295
expect 'a seed that is too large' 2 'a number from 0 to 4294967295' "$fabric" hosts -g star:2 --seed 4294967296
# capture_ports N: that many ports
capture_ports()
{
	local i
	for ((i = 0; i < $1; i++)); do
		printf '%s ' --capture-port host1:1
	done
}
# shellcheck disable=SC2046 # words
expect 'a capture of 32 ports' 2 'options only' \
	"$fabric" serve -g star:2 --capture "$dir/c" $(capture_ports 32) more
# shellcheck disable=SC2046
expect 'a capture of 33 ports' 2 'no more than 32' \
	"$fabric" serve -g star:2 --capture "$dir/c" $(capture_ports 33)
expect 'a capture without a file' 2 'needs --capture-port' "$fabric" serve -g star:2 --capture-port host1:1
expect 'a capture to a directory' 1 "^ohca-fabric: --capture $dir: Is a directory$" \
	"$fabric" serve -g star:2 --capture "$dir" --capture-port host1:1

for o in INT HUP TERM; do
	rm -f "$dir/out"
	"$fabric" serve -g ring:2 --stats --quiet --no-sandbox >"$dir/out" 2>&1 &
	says ready "$dir/out"
	kill -$o $!
	wait $!
	echo "status $?" >>"$dir/out"
	expect "serve --stats until SIG$o" 0 '' diff - "$dir/out" <<'EOF'
ohca-fabric: ready, 2 switches, 2 other nodes
MADs in 0 out 0 dropped 0, stopped accepting 0 times
packets delivered 0, over 0 wires, forks 0, that waited 0; buffers 0 bytes, stood 0 ns, late 0 ns
status 0
EOF
done

# with a soft limit of 64 descriptors, which is raised
bash -c "ulimit -Sn 64; exec \"\$@\"" - \
	"$fabric" serve -g star:12 -l "$dir/s" --hosts-off >"$dir/out" 2>"$dir/err" &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
expect 'serve at a socket' 0 '' says 'ready, 1 switches, 12 other nodes' "$dir/out"
expect 'serve where another one does' 1 'another process listens' \
	"$fabric" serve -g star:2 -l "$dir/s"
expect 'the soft limit of descriptors is the hard one' 0 '' \
	[ "$(awk '/Max open files/ { print $4 }' /proc/$pid/limits)" = "$(ulimit -Hn)" ]
expect 'it gets no new privileges' 0 'NoNewPrivs:.*1' cat /proc/$pid/status
expect 'nor has it all system calls' 0 'Seccomp:.*2' cat /proc/$pid/status
kill -USR1 $pid
expect 'SIGUSR1 prints counts' 0 '' says 'MADs in 0' "$dir/err"
before=$(awk '{ print $14 + $15 }' /proc/$pid/stat)
sleep 1
expect 'nothing to do takes no time' 0 '' \
	[ "$before" = "$(awk '{ print $14 + $15 }' /proc/$pid/stat)" ]
kill -TERM $pid
wait $pid
ended=$?
expect 'SIGTERM ends it' 0 '' [ $ended = 0 ]
expect 'the socket is gone' 1 '' test -e "$dir/s"
"$fabric" serve -g star:2 -c "$dir/control" --no-sandbox >"$dir/open" &
pid=$!
says ready "$dir/open"
expect 'with --no-sandbox it has all system calls' 0 'Seccomp:.*0' cat /proc/$pid/status
expect 'and says so' 0 'sandbox seccomp: no$' "$fabric" status -c "$dir/control"
kill $pid
wait $pid

# a full pipe without a reader that reads
mkfifo "$dir/full"
exec 7<>"$dir/full"
timeout 1 dd if=/dev/zero bs=4096 count=1024 >&7 2>/dev/null
"$fabric" serve -g star:12 -l "$dir/s" >"$dir/piped" 2>&7 &
pid=$!
says ready "$dir/piped"
kill -USR1 $pid
sleep 0.2
kill -TERM $pid
for ((i = 0; i < 200; i++)); do
	kill -0 $pid 2>/dev/null || break
	sleep 0.05
done
expect 'a standard error that nobody reads stops nothing' 1 '' kill -0 $pid
kill -9 $pid 2>/dev/null
exec 7>&-

# a pipe whose reader closes it
mkfifo "$dir/gone"
exec 7<>"$dir/gone"
rm -f "$dir/control" "$dir/piped"
"$fabric" serve -g star:12 -c "$dir/control" >"$dir/piped" 2>"$dir/gone" 7>&- &
pid=$!
says ready "$dir/piped"
exec 7>&-
kill -USR1 $pid
"$fabric" status -c "$dir/control" >/dev/null
expect 'nor does one whose reader has gone' 0 'switches: 1' "$fabric" status -c "$dir/control"
kill -TERM $pid
wait $pid
exit $bad
