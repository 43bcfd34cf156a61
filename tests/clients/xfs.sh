#!/usr/bin/env bash
# An XFS file system on the export (of at least 300 MiB); see filesystem.sh.
exec "$(dirname "$0")/filesystem.sh" "${1:-}" xfs
