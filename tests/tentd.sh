# SPDX-License-Identifier: Apache-2.0
# For test scripts: a tentd of their own in a temporary folder, gone at exit.
#   start_tentd '{"engine": {...}}'   sets $socket

work=$(mktemp -d)
socket=$work/tentd.sock
tentd_pid=

cleanup() {
	[ -z "$tentd_pid" ] || { kill "$tentd_pid" && wait "$tentd_pid"; } 2> /dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

start_tentd() {
	printf '%s\n' "$1" > "$work/tentd.json"
	"$B/tools/tentd" --config "$work/tentd.json" --socket "$socket" > "$work/tentd.log" 2>&1 &
	tentd_pid=$!
	# Its socket is the sign that it is ready, once that listens (__SO_ACCEPTCON); a tentd that
	# died will never make one.
	until grep -q " 00010000 .* $socket\$" /proc/net/unix; do
		kill -0 "$tentd_pid" 2> /dev/null ||
			{ cat "$work/tentd.log"; echo "tentd did not start"; exit 1; }
		sleep 0.02
	done
}
