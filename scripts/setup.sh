# What ./run and ./test share: the tools that a build needs, and the build. Sourced by bash.

CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/jarvis/target}"
# cargo means a relative one from the root of the repository, where this is sourced.
case "$CARGO_TARGET_DIR" in /*) ;; *) CARGO_TARGET_DIR="$PWD/$CARGO_TARGET_DIR" ;; esac
export CARGO_TARGET_DIR

say() {
    if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then
        printf '\033[1m==>\033[0m %s\n' "$*" >&2
    else
        printf '==> %s\n' "$*" >&2
    fi
}

fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf ' hint: %s\n' "$2" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# rustup installs cargo there; a shell that was not restarted since does not know it.
need_toolchain() {
    if ! have cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    have cargo || fail "cargo (Rust 1.95 or newer) is not installed" "install it from https://rustup.rs, then run this again"
    local version
    version=$(rustc --version | sed -E 's/^rustc 1\.([0-9]+).*/\1/')
    if [ "$version" -lt 95 ] 2>/dev/null; then
        fail "this needs Rust 1.95 or newer, and here is $(rustc --version)" "rustup update stable"
    fi
    have cc || have gcc || have clang || install_packages build-essential ||
        fail "a C compiler is missing" "install gcc (Debian and Ubuntu: apt-get install build-essential)"
    have python3 || say "python3 is not installed: the model can be fetched from the model hub only"
}

# As root or through sudo without a password; says what it does. Fails quietly where it may not.
install_packages() {
    local as=()
    have apt-get || return 1
    if [ "$(id -u)" -ne 0 ]; then
        have sudo && sudo -n true 2>/dev/null || return 1
        as=(sudo -n)
    fi
    say "installing with apt-get: $*"
    # Lists that are there may be enough, and an update may not be possible.
    ${as[@]+"${as[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    ${as[@]+"${as[@]}"} apt-get update >/dev/null 2>&1 || true
    ${as[@]+"${as[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null
}

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    # Not libclang-cpp, which many machines have and which is of no use here.
    ldconfig -p 2>/dev/null | grep -Eq 'libclang(-[0-9.]+)?\.so' && return 0
    compgen -G '/usr/lib/llvm*/lib/libclang[.-][s0-9]*' >/dev/null && return 0
    compgen -G '/usr/lib/*/libclang[.-][s0-9]*' >/dev/null && return 0
    compgen -G '/Library/Developer/CommandLineTools/usr/lib/libclang.dylib' >/dev/null
}

# Sets JARVIS_FEATURES: empty for the build with the embedded model, --no-default-features where its C++ part cannot be built
# (JARVIS_ENGINE is no then).
jarvis_features() {
    JARVIS_FEATURES=()
    JARVIS_ENGINE=yes
    local missing=()
    have cmake || missing+=(cmake)
    has_libclang || missing+=(libclang-dev)
    have c++ || have g++ || have clang++ || missing+=(g++)
    if [ ${#missing[@]} -gt 0 ]; then
        say "the embedded model needs ${missing[*]}, which is not installed"
        if ! install_packages "${missing[@]}"; then
            say "it cannot be installed here (no apt-get, or neither root nor sudo without a password)."
            say "Building without the embedded model: for use with a provider (a key such as ANTHROPIC_API_KEY, or a server such as Ollama)."
            say "For the embedded model install ${missing[*]} and run this again."
            JARVIS_FEATURES=(--no-default-features --features postgres)
            JARVIS_ENGINE=no
        fi
    fi
    # Cargo features that a person wants on top, for example JARVIS_CARGO_FEATURES=cuda.
    if [ -n "${JARVIS_CARGO_FEATURES:-}" ]; then
        JARVIS_FEATURES+=(--features "$JARVIS_CARGO_FEATURES")
    fi
}

# Builds the binary and sets JARVIS_BIN. A build that has nothing to do says nothing.
build_jarvis() {
    JARVIS_BIN="$CARGO_TARGET_DIR/release/jarvis"
    if [ ! -x "$JARVIS_BIN" ]; then
        say "building jarvis into $CARGO_TARGET_DIR (once; some minutes, more on a small machine)"
        cargo build --release --locked -p jarvis ${JARVIS_FEATURES[@]+"${JARVIS_FEATURES[@]}"} >&2
    else
        cargo build --release --locked --quiet -p jarvis ${JARVIS_FEATURES[@]+"${JARVIS_FEATURES[@]}"} >&2
    fi
}
