#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing: tests/deps.sh demo|all|hca|python
# Not root: prints the one line to run. DEPS=no: does nothing.
set -eu

demo="gcc libc6-dev make pkg-config libjansson-dev liburing-dev libibverbs-dev gnuplot-nox
	fonts-dejavu-core valgrind iproute2 libssl3"
check="libcmocka-dev g++ clang libclang-rt-14-dev binutils strace abigail-tools libhugetlbfs0
	universal-ctags mandoc python3 qemu-user-static gcc-12-multilib libc6-dev-i386
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross librdmacm-dev
	libssl-dev libmicrohttpd-dev libcurl4-openssl-dev
	libhiredis-dev etcd-server redis-server iptables tshark"
# Programs that nobody here wrote, to judge the software ConnectX.
hca="ibverbs-providers ibverbs-utils rdmacm-utils rdma-core perftest ucx-utils libfabric-bin
	python3-pyverbs"
# The Python module, built and tested.
python="g++ python3 python3-dev pybind11-dev python3-pytest python3-numpy"

[ "${DEPS:-yes}" = no ] && exit 0
case $1 in
demo) want=$demo ;;
all) want="$demo $check" ;;
hca) want="$demo $check $hca" ;;
python) want="$demo $python" ;;
*) echo "usage: $0 demo|all|hca|python" >&2; exit 2 ;;
esac
if ! command -v dpkg-query > /dev/null; then
	echo "# no dpkg here: these are needed: $(echo $want)"
	exit 0
fi

have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
missing=
for package in $want; do
	echo "$have" | grep -qx "$package" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

line="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ]; then
	echo "# packages are missing; run this once (or say DEPS=no):"
	echo "sudo $line"
	exit 1
fi
echo "# installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$line > /dev/null 2>&1 || { apt-get update && $line; }
