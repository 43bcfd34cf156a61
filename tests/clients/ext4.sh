#!/usr/bin/env bash
# An ext4 file system on the export; see filesystem.sh.
exec "$(dirname "$0")/filesystem.sh" "${1:-}" ext4
