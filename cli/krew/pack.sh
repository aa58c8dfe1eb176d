#!/bin/sh
# Packs the built plugin, and writes the krew manifest with its checksum. $1 is cargo's target directory.
set -eu
target=$1
here=$(dirname "$0")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
case "$(uname -m)" in
x86_64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) echo "error: no release for $(uname -m)" >&2; exit 1 ;;
esac
out=$target/krew
archive=$out/kubectl-vmpool-linux-$arch.tar.gz
mkdir -p "$out"
tar -czf "$archive" -C "$target/release" kubectl-vmpool -C "$(cd "$here/../.." && pwd)" LICENSE
sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
sed -e "s/VERSION/$version/g" -e "s/ARCH/$arch/g" -e "s/SHA256/$sum/g" -e '/^#/d' "$here/vmpool.yaml" >"$out/vmpool.yaml"
echo "Wrote $archive and $out/vmpool.yaml. Try: kubectl krew install --manifest=$out/vmpool.yaml --archive=$archive"
