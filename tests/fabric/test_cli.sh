#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The command line of ohca-fabric: what it says and its status. One line for each part.
#	test_cli.sh FABRIC
# shellcheck disable=SC2016 # the inner shell expands it

fabric=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

# expect NAME STATUS TEXT COMMAND...: exits with STATUS and says TEXT
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

expect help 0 '^Usage: ohca-fabric' "$fabric" --help
expect 'no argument' 2 'generate, check, serve' "$fabric"
expect 'no such verb' 2 'generate, check, serve' "$fabric" destroy
expect 'generate without SPEC' 2 'a SPEC' "$fabric" generate
expect 'generate, a wrong SPEC' 2 'fat-tree:K' "$fabric" generate circle:3
expect 'generate to a full disk' 1 'No space' bash -c '"$1" generate star:9 >/dev/full' x "$fabric"
"$fabric" generate fat-tree:8 >"$dir/tree"
expect 'check what was generated' 0 '12 switches, 32 channel adapters, 0 routers, 64 cables' \
	"$fabric" check "$dir/tree"
expect 'check standard input' 0 '12 switches' bash -c '"$1" check - <"$2"' x "$fabric" "$dir/tree"
sed '/^Ca/,/^$/s/"S-5254020000000100"\[1\]/"S-5254020000000100"[2]/' "$dir/tree" >"$dir/wrong"
expect 'check says where' 1 "^$dir/wrong:[0-9]*: .*correct one" "$fabric" check "$dir/wrong"
expect 'check a file that is not there' 1 'cannot read it' "$fabric" check "$dir/none"
expect 'check all of them' 1 '12 switches' "$fabric" check "$dir/none" "$dir/tree"
expect 'serve without a fabric' 2 'either --topology or --generate' "$fabric" serve --umad2sim
expect 'serve two' 2 'either --topology or --generate' "$fabric" serve -t "$dir/tree" -g star:2
expect 'serve with another option' 2 'other options' "$fabric" serve -g star:2 --fast
expect 'serve a file that is not there' 1 'cannot read it' "$fabric" serve -t "$dir/none"
expect 'serve until a signal' 0 'ready, 12 switches, 32 other nodes' \
	timeout --preserve-status 1 "$fabric" serve -t "$dir/tree"
expect 'ask without a fabric' 2 'say which fabric: --control PATH' "$fabric" status
expect 'ask where none is' 1 "$dir/none: No such file.* give the PATH" \
	"$fabric" lft leaf1 -c "$dir/none"
expect 'ask with another option' 2 'use --control PATH' "$fabric" status --all
expect 'lft without a switch' 2 'one argument, a switch' "$fabric" lft -c "$dir/none"
expect 'status of a switch' 2 'leave out' "$fabric" status -c "$dir/none" leaf1
expect 'serve with a control socket in no directory' 1 'use another PATH' \
	"$fabric" serve -g star:2 -c "$dir/none/control"
"$fabric" serve -t "$dir/tree" -c "$dir/control" >/dev/null &
until [ -S "$dir/control" ]; do sleep 0.05; done
expect 'status' 0 'cables: 64' "$fabric" status -c "$dir/control"
expect 'status --json' 0 '^{"switches": 12, ' "$fabric" status -j -c "$dir/control"
expect 'topology' 0 '^switch "spine4" 0x' "$fabric" topology -c "$dir/control"
expect 'counters' 0 '^switch "spine4" 0x' "$fabric" counters -c "$dir/control"
expect 'lft, before a subnet manager wrote it' 0 '"lft": \[\]' \
	"$fabric" lft -j leaf1 -c "$dir/control"
expect 'lft of a host' 1 'no such switch: give' "$fabric" lft host1 -c "$dir/control"
expect 'topology to a full disk' 1 'No space' \
	bash -c '"$1" topology -c "$2" >/dev/full' x "$fabric" "$dir/control"
kill $!
wait $!
exit $bad
