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

# made DIRECTORY — makes a directory and prints where it is.
made() { mkdir -p "$1" && (cd "$1" && pwd); }

# build_directory — the directory that is built into.
build_directory() { made "${CARGO_TARGET_DIR:-target}"; }

# mcp_peers — the one that scripts/mcp-peers installs into.
mcp_peers() { made "${HELVE_PEERS:-${CARGO_TARGET_DIR:-target}/mcp-peers}"; }

# real_model — the one that scripts/real-model installs into.
real_model() { made "${HELVE_REAL_MODEL:-${CARGO_TARGET_DIR:-target}/real-model}"; }

# host — the kind of machine that the compiler builds for.
host() { rustc --version --verbose | sed -n 's/^host: //p'; }

# counted — prints the file with what Helve has counted of itself (scripts/count); nothing if that was with another compiler,
# which would not find it again.
counted() {
    local kept counts
    kept=counts/$(host)
    rustc --version --verbose | cmp --silent - "$kept.compiler" || return 0
    # Only where the name is another one cargo builds with other counts.
    counts=$(build_directory)/counts-$(cksum <"$kept.gz" | tr ' ' '-').profdata
    [ -e "$counts" ] || { gzip --decompress --stdout "$kept.gz" >"$counts.part" && mv "$counts.part" "$counts"; } || return
    say "$counts"
}

# flags FLAG... — those for the compiler beside the ones that are wanted already, as cargo takes them whatever is in them.
flags() {
    local wanted
    read -r -a wanted <<<"${RUSTFLAGS:-}"
    (IFS=$'\x1f' && printf '%s' "${wanted[*]:+${wanted[*]}$IFS}$*")
}

# build_helve — builds the program, with what it has counted of itself where that is known. A target is named so that this
# is for the program alone, not for what runs while it is built.
build_helve() {
    local counts
    counts=$(counted) || return
    if [ -n "$counts" ]; then
        # Of a function that is new since then there are no counts, and that is no news.
        CARGO_ENCODED_RUSTFLAGS=$(flags "-Cprofile-use=$counts" -Cllvm-args=-no-pgo-warn-mismatch)
        export CARGO_ENCODED_RUSTFLAGS
    else
        say "Built without counts, which are not kept for this compiler: the program is somewhat slower."
        say "scripts/count makes them, in half an hour."
    fi
    cargo build --release --locked --target "$(host)" --package helve-cli
}

# helve — where that program is.
helve() { say "$(build_directory)/$(host)/release/helve"; }

# llvm_major — the LLVM that the compiler is made with, whose profiles it reads.
llvm_major() { rustc --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# profdata — prints the program that joins profiles for this compiler: that of rustup, or the system's of the same LLVM.
profdata() {
    local own
    own=$(rustc --print sysroot)/lib/rustlib/$(host)/bin/llvm-profdata
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
