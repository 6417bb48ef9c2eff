# shellcheck shell=sh disable=SC2034
# What the tests of the command share: sourced with MPTRUN and ROOT set by the caller's
# arguments. `try` runs the command and keeps its status, stdout and stderr; the `want_` words
# say what must hold of them and end the test where it does not.
set -eu
MPTRUN=$1
ROOT=$2
RECIPES=$ROOT/recipes
WORK=$(mktemp -d)
trap 'chmod -R u+rwx "$WORK"; rm -rf "$WORK"' EXIT
cd "$WORK"

try() {
    tried=$*
    status=0
    "$MPTRUN" "$@" >out 2>err || status=$?
}

wrong() {
    echo "mptrun $tried"
    echo "  $1; status $status"
    sed 's/^/  stdout: /' out | head -n 20
    sed 's/^/  stderr: /' err | head -n 20
    exit 1
}

want_status() { [ "$status" -eq "$1" ] || wrong "wanted status $1"; }
# Extended regular expressions.
want_out() { grep -qE -- "$1" out || wrong "wanted on stdout: $1"; }
want_err() { grep -qE -- "$1" err || wrong "wanted on stderr: $1"; }
want_no_out() { [ ! -s out ] || wrong "wanted nothing on stdout"; }
# What is said where the module for GPUs was built and there is no GPU is the machine's, not the test's.
want_no_err() {
    if grep -qv '^mptrun: warning: the device is the CPU: ' err; then wrong "wanted nothing on stderr"; fi
}

# recipe FILE: writes a small sound recipe, quick to train and easy to spoil.
recipe() {
    cat >"$1" <<'END'
local mlp = require "models.mlp"
return recipe {
  version = 1,
  name = "small",
  model = mlp "tiny",
  precision = {
    rules = { rule { "linear", use = e4m3 { rounding = "nearest" } } },
  },
  train = { steps = 3, batch = 2, sequence = 16, lr = constant { peak = 1e-3 } },
}
END
}

# stored FILE JSON: a safetensors file with this header, and standard input as its data.
stored() {
    printf '\370\001\0\0\0\0\0\0%-504s' "$2" >"$1"
    cat >>"$1"
}

# checkpoint FILE: two matrices, a vector and a list of integers. Text makes good BF16 numbers:
# "0?" is 0.69, "1>" is 0.17.
checkpoint() {
    header='{"a.weight":{"dtype":"BF16","shape":[4,32],"data_offsets":[0,256]},'
    header=$header'"b.weight":{"dtype":"BF16","shape":[2,2,16],"data_offsets":[256,384]},'
    header=$header'"c.bias":{"dtype":"BF16","shape":[8],"data_offsets":[384,400]},'
    header=$header'"d.ids":{"dtype":"U8","shape":[8],"data_offsets":[400,408]}}'
    { yes '0?1>2=3?4>5=6>a' | head -n 25 | tr '\n' '?'; printf '12345678'; } | stored "$1" "$header"
}
