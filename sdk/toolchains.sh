#!/usr/bin/env bash
# Installs what the guests of the SDKs are built with, where it is missing: clang and lld for C, cargo and the standard
# library for WebAssembly for Rust, Node.js and npm for AssemblyScript. Without root or apt-get it says what is missing
# and ends well: the tests that need it are skipped, or fail where CI is set.
set -euo pipefail

missing=()
command -v clang >/dev/null || missing+=(clang)
command -v wasm-ld >/dev/null || missing+=(lld)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)

# A Rust that has the target may be behind one in PATH that has not.
rust=
IFS=: read -ra dirs <<<"$PATH"
for dir in "${dirs[@]}"; do
  [ -x "$dir/rustc" ] || continue
  lib=$("$dir/rustc" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) || continue
  if compgen -G "$lib/libcore-*.rlib" >/dev/null; then rust=$dir/rustc; fi
done
[ -n "$rust" ] || missing+=(cargo libstd-rust-dev-wasm32 lld)
command -v cargo >/dev/null || missing+=(cargo)

[ "${#missing[@]}" -gt 0 ] || exit 0
sudo=
if [ "$(id -u)" != 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "not installed, for want of root: apt-get install ${missing[*]}" >&2
    exit 0
  fi
  sudo=sudo
fi
if ! command -v apt-get >/dev/null; then
  echo "not installed, for want of apt-get: ${missing[*]}" >&2
  exit 0
fi
echo "installing ${missing[*]}"
$sudo apt-get update -q
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
