# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Shared by the scripts in tools/. Source it; it sets:
#   TOP    the checkout
#   BUILD  where everything built goes (OHCA_BUILD, default TOP/build)
#   ROOT   the Debian 13 build root
#   CACHE  a cache that may be deleted at any time
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
BUILD=${OHCA_BUILD:-$TOP/build}
ROOT=$BUILD/root
CACHE=${OHCA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/openhca}
SUITE=trixie
export TOP BUILD ROOT CACHE SUITE
unset ARCH TRIPLET

say() { printf '\033[1m[%s] %s\033[0m\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# apt's proxies of this host, for apt in the roots, which reads them from the environment.
if [ -z "${OHCA_PROXIES-}" ] && command -v apt-config >/dev/null; then
	eval "$(apt-config shell OHCA_HTTP Acquire::http::Proxy OHCA_HTTPS Acquire::https::Proxy)"
	case ${OHCA_HTTP:-DIRECT} in DIRECT) ;; *) export http_proxy=$OHCA_HTTP ;; esac
	case ${OHCA_HTTPS:-DIRECT} in DIRECT) ;; *) export https_proxy=$OHCA_HTTPS ;; esac
	export OHCA_PROXIES=1
fi

# Lets sudo ask for its password once, and keeps its credentials valid until this process exits.
keep_sudo() {
	if ! sudo -n true 2>/dev/null; then
		sudo ${SUDO_ASKPASS:+-A} -v ||
			die "sudo needs a password: run this on a terminal, or set SUDO_ASKPASS"
	fi
	while timeout 50 tail --pid=$$ -f /dev/null; [ $? = 124 ]; do
		sudo -n -v || break
	done </dev/null >/dev/null 2>&1 &
}

# Chroots and mounts need root: run the calling script again under sudo by tools/as-root, which
# gives the files it makes to the caller. Variables that the scripts read are passed on.
# Usage: need_root "$@"
need_root() {
	local name keep=()
	[ "$(id -u)" = 0 ] && return
	command -v sudo >/dev/null || die "this needs root, and sudo is not installed: install sudo, or run it as root"
	# Make them here, so that they belong to the caller.
	mkdir -p "$BUILD" "$CACHE"
	for name in "${!OHCA_@}" JOBS TERM {http,https,ftp,no}_proxy \
		{HTTP,HTTPS,FTP,NO}_PROXY; do
		[ -z "${!name-}" ] || keep+=("$name=${!name}")
	done
	keep_sudo
	exec sudo ${SUDO_ASKPASS:+-A} env "${keep[@]}" OHCA_BUILD="$BUILD" OHCA_CACHE="$CACHE" \
		"$TOP/tools/as-root" "$(id -u):$(id -g)" "$0" "$@"
}

# Lets one process build a part at a time; others wait. Usage: exclusive NAME
exclusive() {
	mkdir -p "$BUILD"
	exec 8>"$BUILD/.lock-$1"
	flock 8
}

# The directory of a build of QEMU, below BUILD and BUILD/src. Usage: qemu_name 10.0|VERSION|DIR
qemu_name() {
	local name
	name=$(basename "$1")
	name=${name#qemu-}
	[ "$name" = 10.0 ] && echo qemu || echo "qemu-$name"
}

# Applies a patch to a source, once. If the patch has changed, undoes the old one first, so that only
# files that differ are compiled again. Status 1: it does not apply. Usage: patch_once SRC FILE
patch_once() {
	local patch=("$TOP/tools/in-root" --dir "$1" patch -s -f -p1)
	! cmp -s "$2" "$1/.patch" || return 0
	if [ -f "$1/.patch" ]; then
		# If an earlier call ended after it had undone the patch, only the record is left.
		if "${patch[@]}" -R --dry-run -i .patch >/dev/null; then
			"${patch[@]}" -R -i .patch >&2 || return 1
		else
			"${patch[@]}" --dry-run -i .patch >&2 || return 1
		fi
		rm "$1/.patch"
	fi
	cp "$2" "$1/.patch.new"
	# If an earlier call ended after it had applied the patch, only the record is missing.
	if ! "${patch[@]}" -R --dry-run -i .patch.new >/dev/null; then
		"${patch[@]}" --dry-run -i .patch.new >&2 || return 1
		"${patch[@]}" -i .patch.new >&2 || return 1
	fi
	mv "$1/.patch.new" "$1/.patch"
}

# The package names in a list file, without its comments.
packages() { sed 's/#.*//' "$1" | tr -s ' \n' ' '; }

# Whether apt must refuse package lists that have expired: true or false. Lists of a release that is
# not out yet expire. The configuration of the host's apt decides.
valid_until() {
	local valid=true
	! command -v apt-config >/dev/null || eval "$(apt-config shell valid \
		Acquire::Check-Valid-Until/b)"
	echo "$valid"
}

# A guest by its name in tools/guests. Usage: guest_of NAME; it sets:
#   RELEASE   Debian's name of the release
#   ARCH      Debian's name of the architecture
#   TRIPLET   the compiler's name of the architecture, as in the paths of libraries
#   DRIVER    the directory in BUILD of its driver
#   PROVIDER  the directory in BUILD of its provider
#   OUT       the directory of the parts of this guest: guest, image, layer, kver
# shellcheck disable=SC2034 # the scripts read them
guest_of() {
	local name names=
	while read -r name RELEASE ARCH TRIPLET DRIVER PROVIDER; do
		case $name in
		"$1")
			if [ "$1" = debian13 ]; then OUT=$BUILD; else OUT=$BUILD/guests/$1; fi
			return 0 ;;
		'#'*) ;;
		*) names+=${names:+, }$name ;;
		esac
	done <"$TOP/tools/guests"
	die "'$1' is no guest: use one of $names"
}

# mmdebstrap's options for the apt of a root of a guest's release. Usage: apt_of NAME, after guest_of;
# it sets APT_OPTIONS.
# shellcheck disable=SC2034 # the scripts read it
apt_of() {
	APT_OPTIONS=(--aptopt="Acquire::Check-Valid-Until \"$(valid_until)\"")
	[ "$1" = backports ] || return 0
	# From the same mirror as the other packages. apt installs from backports only what is pinned here.
	# shellcheck disable=SC2016 # mmdebstrap's shell expands $1
	APT_OPTIONS+=(--setup-hook="sed -n 's/ $SUITE main/ $SUITE-backports main/p' "'"$1/etc/apt/sources.list" \
			>"$1/etc/apt/sources.list.d/backports.list"'
		--setup-hook="printf '%s\n' 'Package: linux-*' 'Pin: release n=$SUITE-backports' \
			'Pin-Priority: 500' "'>"$1/etc/apt/preferences.d/backports"')
}

# The version of a source tree of rdma-core. Usage: rdma_core_of TREE
rdma_core_of() {
	sed -n 's/^set(PACKAGE_VERSION "\([0-9]*\)\..*/\1/p' "$1/CMakeLists.txt"
}

# Download the package of a kernel, and those of the same version that it depends on: in Debian 14,
# the modules are in a package of their own. Usage: fetch_kernel DIR KVER [in-root's option...]
fetch_kernel() {
	local dir=$1 kver=$2 more
	local get=("$TOP/tools/in-root" "${@:3}" --dir "$dir" apt-get -o APT::Sandbox::User=root
		download -qq)
	rm -rf "$dir"
	mkdir -p "$dir"
	"${get[@]}" "linux-image-$kver"
	more=$(dpkg-deb -f "$dir"/*.deb Depends | tr -s ', ' '\n' | grep -e "-${kver//./\\.}$" || :)
	# shellcheck disable=SC2086 # several names
	[ -z "$more" ] || "${get[@]}" $more
}

# Make a Debian root. Usage: make_root [--release RELEASE] DIR LISTFILE
# [mmdebstrap option...]; RELEASE is Debian 13 by default. The words ARCH and TRIPLET in the list are
# replaced by those of guest_of. mmdebstrap mounts the host's /dev/shm and more in the root. It runs in a
# mount namespace of its own, so that no mount remains if it is killed: otherwise, removing the root
# would remove the host's files.
make_root() {
	local release=$SUITE dir list debs=$CACHE/debs names
	if [ "$1" = --release ]; then
		release=$2
		shift 2
	fi
	dir=$1 list=$2
	shift 2
	[ "$release" = "$SUITE" ] || debs+=-$release
	names=$(packages "$list" | sed "s/ARCH/${ARCH-}/g; s/TRIPLET/$(tr _ - <<<"${TRIPLET-}")/g"'
		s/^ *//; s/ *$//; s/  */,/g')
	mkdir -p "$debs"
	rm -rf --one-file-system "$dir"
	# shellcheck disable=SC2016 # mmdebstrap's shell expands $1
	unshare --mount mmdebstrap --variant=apt --mode=root --include="$names" \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Retries "5"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*/LC_MESSAGES/*' \
		--skip=download/empty --skip=essential/unlink \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
		--setup-hook="cp -n '$debs'/*.deb \"\$1/var/cache/apt/archives/\" 2>/dev/null || :" \
		--customize-hook="cp -n \"\$1\"/var/cache/apt/archives/*.deb '$debs/' || :" \
		"$@" "$release" "$dir"
}

# Install the packages of tools/packages/LIST in the build root, from $CACHE/debs if they are there.
# Usage: install_list LIST
install_list() {
	local list=$1 log=$BUILD/log-$1.txt archives=$ROOT/var/cache/apt/archives debs=$CACHE/debs deb uris
	local install=("$TOP/tools/in-root" apt-get -o DPkg::Lock::Timeout=600 install -y -qq
		--no-install-recommends)
	# shellcheck disable=SC2046 # several names
	set -- $(packages "$TOP/tools/packages/$list")
	mkdir -p "$debs" "$archives"
	# set -e has no effect in commands before ||, so && joins them
	{
		uris=$("${install[@]}" --print-uris "$@") &&
		while read -r _ deb _; do
			[ ! -f "$debs/$deb" ] || cp "$debs/$deb" "$archives/"
		done <<<"$uris" &&
		"${install[@]}" "$@"
	} >"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		die "packages cannot be installed in the build root: see $log, or start over by 'make distclean'"
	}
	cp -n "$archives"/*.deb "$debs/" 2>/dev/null || :
	rm -f "$archives"/*.deb
}
