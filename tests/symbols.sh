#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The libraries export exactly the functions their public headers declare, static
# and shared, and load nothing but what we promise.
set -eu
CC=${CC:-gcc}
failed=0

# Every function a header declares outside static inline bodies, from the compiler's
# own debug-free view: the preprocessed text, one declaration per line.
declared() {
	printf '#include <tent/%s>\n' "$@" | $CC -Iuapi -x c -E -P - | tr '\n' ' ' |
		sed 's/static inline[^{]*{[^}]*}//g' | grep -oE '\<tent_[a-z0-9_]+ *\(' |
		tr -d ' (' | sort -u
}
globals() { awk 'NF == 3 && $2 ~ /^[TDBRVW]$/ { sub("@.*", "", $3); print $3 }' | sort -u; }

same() { # WHAT EXPECTED GOT
	diff -u <(echo "$2") <(echo "$3") > "$B/symbols.diff" && return
	echo "symbols: $1 differs from its headers (-declared +exported):"
	cat "$B/symbols.diff"
	failed=1
}

api=$(declared tent.h $(test -e uapi/tent/transfer_engine.h && echo transfer_engine.h))
ring=$(comm -23 <(declared tentring.h) <(declared tent.h))
[ "$(echo "$api" | wc -l)" -ge 38 ] || { echo "symbols: too few declarations found"; exit 1; }

same libtent.so.1 "$api" "$(nm -D --defined-only "$B/libtent.so.1" | globals)"
same libtent.a "$api" "$(nm -g --defined-only "$B/libtent.a" | globals)"
same libtentring.so.1 "$ring" "$(nm -D --defined-only "$B/libtentring.so.1" | globals)"
same libtentring.a "$ring" "$(nm -g --defined-only "$B/libtentring.a" | globals)"

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
soname() { readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; }
loads() { # LIBRARY, allowed names as a pattern
	extra=$(needed "$B/$1" | grep -vE "^($2)$" || true)
	[ -z "$extra" ] || { echo "symbols: $1 loads" $extra; failed=1; }
	[ "$(soname "$B/$1")" = "$1" ] || { echo "symbols: $1 has a wrong soname"; failed=1; }
}
libc='libc\.so\.6|libm\.so\.6|ld-linux.*'
loads libtentring.so.1 "$libc"
loads libtent.so.1 "$libc|libjansson\.so\.4|liburing\.so\.2|libmlx5\.so\.1|libibverbs\.so\.1"
! ldd "$B/libtent.so" | grep -iE 'cuda|nvidia' ||
	{ echo "symbols: libtent.so needs CUDA to start"; failed=1; }
[ "$(readlink "$B/libtent_shared.so")" = libtent.so.1 ] ||
	{ echo "symbols: libtent_shared.so is no link to libtent.so.1"; failed=1; }

[ $failed = 0 ] && echo "symbols: $(echo "$api" | wc -l) of libtent, $(echo "$ring" | wc -l) of libtentring"
exit $failed
