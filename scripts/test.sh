#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, then builds and runs the test suites: all, or those named.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh build test
exec python3 scripts/test_suites.py "$@"
