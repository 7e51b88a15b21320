#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# For a machine with NVIDIA GPUs and their driver: builds, holds our declarations against
# its cuda.h where a toolkit has one, and reports what its GPUs are to tent. It needs no
# NIC. Options go to gpu_report. The report is also left in build/gpu/report.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${B:-build}

make -j"$(nproc)" "$B/perf/gpu_report" "$B/tests/test_cuda_api"
"$B/tests/test_cuda_api"
mkdir -p "$B/gpu"
"$B/perf/gpu_report" --check "$@" | tee "$B/gpu/report.txt"
