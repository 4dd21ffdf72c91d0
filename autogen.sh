#!/bin/sh
# Makes configure and the Makefile templates, which the repository does not hold.
set -e
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize; do
    command -v "$tool" >/dev/null 2>&1 || {
        echo "autogen.sh: $tool is missing; install autoconf, automake and libtool" >&2
        exit 1
    }
done
mkdir -p build-aux/m4
exec autoreconf --install --force --warnings=all "$@"
