#!/usr/bin/env bash
# A release without publishing anything: the configuration is checked, all
# targets are built, archives and packages are unpacked and this machine's
# program is tried, and a second build has to come to the same bytes.
#
#   .github/release/dryrun.sh [CONFIG]
#
# Needs goreleaser, of the version in release.yml; GORELEASER names another.
set -euo pipefail
cd "$(dirname "$0")/../.."
config=${1:-.goreleaser.yaml}
version=0.0.0
GOTOOLCHAIN=$(sed -n 's/^toolchain //p' go.mod)
export GOTOOLCHAIN GORELEASER_CURRENT_TAG=v$version
read -r -a goreleaser <<<"${GORELEASER:-goreleaser}"

build() { "${goreleaser[@]}" release --config "$config" --timeout 3h --snapshot --clean --skip=publish,announce,sbom,ko,validate; }

"${goreleaser[@]}" check "$config"
build
LC_ALL=C sort -k 2 dist/checksums.txt >bin/first.txt
cat bin/first.txt
(cd dist && find . -type f \( -name '*.rb' -o -name '*.json' -o -path '*/krew/*' \) ! -name artifacts.json ! -name metadata.json)

host=$(go env GOOS)_$(go env GOARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for archive in dist/*.tar.gz dist/*.zip; do
  [ -f "$archive" ] || continue
  name=$(basename "${archive%.tar.gz}")
  to=$work/${name%.zip}
  mkdir "$to"
  case $archive in
  *.zip) unzip -q "$archive" -d "$to" ;;
  *) tar -xzf "$archive" -C "$to" ;;
  esac
  for f in LICENSE README.md completions/preadmit.bash completions/_preadmit completions/preadmit.fish completions/preadmit.ps1 man/preadmit.1 man/preadmit-check.1; do
    [ -s "$to/$f" ] || { echo "$archive has no $f" >&2; exit 1; }
  done
done
tried=$work/preadmit_${version}_$host
"$tried/preadmit" version | grep -F "preadmit $version "
code=0
(cd testdata/repos/shop && "$tried/preadmit" check apps charts -p policies --with infra -o json="$tried/report.json") || code=$?
[ "$code" -eq 1 ] && grep -q '"schema": "preadmit.report/v1"' "$tried/report.json"
if command -v dpkg-deb >/dev/null && [ -f "dist/preadmit_${version}_$host.deb" ]; then
  dpkg-deb -x "dist/preadmit_${version}_$host.deb" "$work/deb"
  "$work/deb/usr/bin/preadmit" version
fi

build
diff bin/first.txt <(LC_ALL=C sort -k 2 dist/checksums.txt) || { echo 'a second build comes to other bytes' >&2; exit 1; }
echo "the same bytes twice: $(wc -l <bin/first.txt) files"
