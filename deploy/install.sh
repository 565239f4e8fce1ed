#!/bin/sh
# Installs the program of a release archive: install.sh ARCHIVE [PREFIX]
# ARCHIVE is a .tar.gz or .tar.xz with the program `callboard`; ARCHIVE.sha256 beside it is compared. PREFIX is
# ~/.local unless it is given. Nothing is downloaded.
set -eu

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

archive=${1:-}
prefix=${2:-${HOME:?HOME is not set}/.local}
[ -n "$archive" ] || fail "usage: install.sh ARCHIVE [PREFIX]"
[ -f "$archive" ] || fail "$archive is not a file"
[ -f "$archive.sha256" ] || fail "$archive.sha256 is missing; download it beside the archive"

wanted=$(cut -d ' ' -f 1 "$archive.sha256")
if command -v sha256sum >/dev/null 2>&1; then
    found=$(sha256sum "$archive" | cut -d ' ' -f 1)
else
    found=$(shasum -a 256 "$archive" | cut -d ' ' -f 1)
fi
[ "$wanted" = "$found" ] || fail "the checksum of $archive is $found, not $wanted"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xf "$archive" -C "$folder"
program=$(find "$folder" -type f -name callboard | head -n 1)
[ -n "$program" ] || fail "$archive has no program callboard"
"$program" --version >/dev/null || fail "the program does not run on this machine"

mkdir -p "$prefix/bin" "$prefix/share/man/man1"
# The new file takes the place of the old one in one step, also while the old one runs.
install -m 755 "$program" "$prefix/bin/.callboard.new"
mv -f "$prefix/bin/.callboard.new" "$prefix/bin/callboard"
"$prefix/bin/callboard" man "$prefix/share/man/man1" >/dev/null
echo "installed $("$prefix/bin/callboard" --version) in $prefix/bin"
case ":$PATH:" in
*":$prefix/bin:"*) ;;
*) echo "note: $prefix/bin is not on the PATH" ;;
esac
