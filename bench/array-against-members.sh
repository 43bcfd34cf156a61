#!/usr/bin/env bash
# Races real arrays against their own members: what the member I/Os that a level needs would allow.
#
#   bench/array-against-members.sh [ROUNDS] [MEMBERS,...] [FOLDER,...]
#
# For each load, fio (io_uring, direct, registered files and buffers, one thread as the array has) does on the same number of
# files the member I/Os that the level needs for it: a random write of RAID 5 is two reads and two writes, a full stripe is
# as many strips as it has members. From its rate follows the rate that the array could reach if all else were free. By turns
# with it the array does the load itself, without a cache and, where parity is written in sequence, with one (write-back),
# since only a cache makes full stripes of requests that are none. Prints medians over the rounds of array / limit.
# Needs fio and Python. Folders default to a tmpfs and the current disk.
set -euo pipefail
rounds=${1:-3} members=${2:-6,8} folders=${3:-/dev/shm,.}
cd "$(dirname "$0")/.."
cargo build --release --locked -q -p raidlab-cli
python3 bench/array_against_members.py "$rounds" "$members" "$folders"
