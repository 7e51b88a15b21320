#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests of the Python module as it was built, and of the module as it is installed.
set -eu
cd "$(dirname "$0")/../.."
unset MAKEFLAGS MFLAGS MAKELEVEL
export PYTHONDONTWRITEBYTECODE=1 TENT_BUILD=${TENT_BUILD:-$(realpath "$B")}

LD_LIBRARY_PATH=$TENT_BUILD PYTHONPATH=$TENT_BUILD/python \
	"$PYTHON" -m pytest -p no:cacheprovider -q python/tests

tests/vectors.sh pybind transfer

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make -s B="$B" DEPS=no PYTHON="$PYTHON" DESTDIR="$root" PREFIX=/opt/tent install > /dev/null
module=$(dirname "$(find "$root" -path '*/tent/__init__.py')")
LD_LIBRARY_PATH=$root/opt/tent/lib PYTHONPATH=$(dirname "$module") \
	"$PYTHON" python/examples/transfer.py
echo "python: the module passes its tests, and works where it is installed"
