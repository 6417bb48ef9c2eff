#!/bin/sh
# resume: five kills of each of two runs. test_resume_kills_slow.sh has fifty.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
KILLS=5
# shellcheck source=tests/cli/kills.sh
. "$ROOT/tests/cli/kills.sh"
