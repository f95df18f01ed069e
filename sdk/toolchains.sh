#!/usr/bin/env bash
# Installs what the guests of the SDKs are built with, where it is missing: clang and lld for C, cargo and the standard
# library for WebAssembly for Rust, Node.js and npm for AssemblyScript. Where it cannot, for want of root, of apt-get or
# of a package, it says what is missing and ends well: the tests that need it are skipped, or fail where CI is set.
set -euo pipefail

# rust_for_wasm is that a rustc in PATH has the target; it may be behind one that has not.
rust_for_wasm() {
  local dir lib dirs
  IFS=: read -ra dirs <<<"$PATH"
  for dir in "${dirs[@]}"; do
    [ -x "$dir/rustc" ] || continue
    lib=$("$dir/rustc" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) || continue
    ! compgen -G "$lib/libcore-*.rlib" >/dev/null || return 0
  done
  return 1
}

# missing sets packages to those of the tools that are not there.
missing() {
  packages=()
  command -v clang >/dev/null || packages+=(clang)
  command -v wasm-ld >/dev/null || packages+=(lld)
  rust_for_wasm && command -v cargo >/dev/null || packages+=(cargo libstd-rust-dev-wasm32)
  command -v node >/dev/null || packages+=(nodejs)
  # A Node.js that is not Debian's comes with npm, and conflicts with Debian's.
  ! command -v node >/dev/null || command -v npm >/dev/null || packages+=(npm)
}

sudo=()
install() {
  echo "installing ${packages[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${packages[@]}" </dev/null
}

missing
[ "${#packages[@]}" -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "not installed, for want of apt-get: ${packages[*]}" >&2
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "not installed, for want of root: apt-get install ${packages[*]}" >&2
    exit 0
  fi
  sudo=(sudo)
fi
"${sudo[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null || echo "apt-get update failed: trying with the lists there are" >&2
install || true
hash -r
missing
if [ "${packages[*]}" = npm ]; then # whether it is needed is known only now
  install || true
  hash -r
  missing
fi
[ "${#packages[@]}" = 0 ] || echo "still missing: ${packages[*]}" >&2
