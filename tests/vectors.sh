#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every row of tests/vectors at the doors that need no Python module, or at those named.
set -eu
export PYTHONDONTWRITEBYTECODE=1
[ $# -gt 0 ] || set -- thread caller tentd notified notified-tentd ring cpp
exec "${PYTHON:-/usr/bin/python3}" tests/vectors/check.py "$@"
