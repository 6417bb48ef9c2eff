#!/bin/sh
# resume: fifty kills of each of two runs.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
KILLS=50
# shellcheck source=tests/cli/kills.sh
. "$ROOT/tests/cli/kills.sh"
