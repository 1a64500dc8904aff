# shellcheck shell=bash
# What the scripts share: strict mode, the repository's root as current directory, cargo on PATH.
# Sourced, never run.

set -euo pipefail

# Kept for messages; the scripts themselves use paths relative to it.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$repository"

# rustup installs here, and a shell without its start files does not know it.
cargo_bin=${CARGO_HOME:-${HOME:-}/.cargo}/bin
if ! command -v cargo >/dev/null && [ -x "$cargo_bin/cargo" ]; then
    PATH=$PATH:$cargo_bin
    export PATH
fi

say() { printf '%s\n' "$*"; }
complain() { printf '%s\n' "$*" >&2; }

# mcp_peers — makes and prints the directory that scripts/mcp-peers installs into.
mcp_peers() {
    local place=${HELVE_PEERS:-${CARGO_TARGET_DIR:-target}/mcp-peers}
    mkdir -p "$place" && (cd "$place" && pwd)
}

# real_model — makes and prints the directory that scripts/real-model installs into.
real_model() {
    local place=${HELVE_REAL_MODEL:-${CARGO_TARGET_DIR:-target}/real-model}
    mkdir -p "$place" && (cd "$place" && pwd)
}

# llvm_major — the LLVM that the compiler is made with, whose profiles it reads.
llvm_major() { rustc --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# profdata — prints the program that joins profiles for this compiler: that of rustup, or the system's of the same LLVM.
profdata() {
    local host own
    host=$(rustc --version --verbose | sed -n 's/^host: //p')
    own=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
    if [ -x "$own" ]; then
        say "$own"
    else
        command -v "llvm-profdata-$(llvm_major)"
    fi
}

# version_at_least HAVE WANT — compares dotted version numbers.
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# step TITLE COMMAND... — runs one step under a heading and says how long it took; a failure ends the script.
step() {
    local title=$1 begin=$SECONDS status=0
    shift
    printf '\n== %s\n' "$title"
    "$@" || status=$?
    if [ "$status" -ne 0 ]; then
        complain "== $title: FAILED after $((SECONDS - begin)) s (exit code $status)"
        exit "$status"
    fi
    say "== $title: $((SECONDS - begin)) s"
}
