#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a user does: installs, builds with pkg-config's flags, runs. C99, C++17 and C++20,
# shared and static, in-process and against a tentd; and a program that was linked
# with the existing engine's libtent_shared.so starts on ours. The manual and the
# service are there too, and tent-sim preloads the library that was installed with it.
set -eu
. tests/tentd.sh
unset MAKEFLAGS MFLAGS MAKELEVEL

root=$work/root
make -s B="$B" DEPS=no DESTDIR="$root" PREFIX=/opt/tent install > /dev/null
export PKG_CONFIG_PATH=$root/opt/tent/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export LD_LIBRARY_PATH=$root/opt/tent/lib
flags="-pedantic -Wall -Wextra -Werror -O2"

for page in docs/*.[1-9]; do
	cmp "$page" "$root/opt/tent/share/man/man${page##*.}/${page##*/}"
done
unit=$root/opt/tent/lib/systemd/system/tentd.service
grep -qx 'ExecStart=/opt/tent/bin/tentd \$TENTD_ARGS' "$unit" ||
	{ echo "installed: tentd.service does not start the installed tentd"; exit 1; }
if command -v systemd-analyze > /dev/null; then
	# It looks for the program and the man pages that the unit names.
	sed "s|=/opt/tent/|=$root/opt/tent/|" "$unit" > "$work/tentd.service"
	said=$(MANPATH=$root/opt/tent/share/man systemd-analyze verify "$work/tentd.service" 2>&1) ||
		said="${said:-systemd-analyze verify fails}"
	[ -z "$said" ] || { echo "installed: $said"; exit 1; }
else
	echo "installed: SKIPPED systemd-analyze verify, it is not here"
fi

"$root/opt/tent/bin/tent-sim" grep -q "$(realpath "$root")/opt/tent/lib/libtent-hca.so" /proc/self/maps ||
	{ echo "installed: the installed tent-sim does not preload its libtent-hca.so"; exit 1; }

build() { # OUT COMPILER SOURCE PACKAGE [pkg-config option]
	$2 $flags -o "$work/$1" $3 $(pkg-config --cflags ${5:-} --libs "$4") ||
		{ echo "installed: $2 $3 fails against the installed $4"; exit 1; }
}

build ring_c99 "gcc -std=c99" tests/compat/ring_client.c tentring
build ring_static "gcc -std=c99 -static" tests/compat/ring_client.c tentring --static
build api_c99 "gcc -std=c99" tests/compat/api_client.c tent
build api_cxx17 "g++ -std=c++17 -x c++" tests/compat/api_client.c tent
for std in 17 20; do
	build "hpp_gcc$std" "g++ -std=c++$std" tests/examples/cpp_api.cpp tent
	build "hpp_clang$std" "clang++ -std=c++$std" tests/examples/cpp_api.cpp tent
done
build api_static "gcc -std=c99 -static" tests/compat/api_client.c tent --static

start_tentd '{}'
"$work/ring_c99" "$socket" 5
"$work/ring_static" "$socket" 5
for program in api_c99 api_cxx17 api_static hpp_gcc17 hpp_gcc20 hpp_clang17 hpp_clang20; do
	"$work/$program"
	TENT_ENGINE=unix:$socket "$work/$program"
done

# The fixture: linked against a library whose soname is libtent_shared.so, as the
# existing engine builds it, and never linked again.
mkdir "$work/theirs"
nm -D --defined-only "$B/libtent.so.1" | awk '$2 == "T" { sub("@.*", "", $3); print "int " $3 "(void) { return -1; }" }' |
	gcc -shared -fPIC -Wl,-soname,libtent_shared.so -o "$work/theirs/libtent_shared.so" -x c -
gcc -std=c99 $flags -I"$root/opt/tent/include" -o "$work/legacy" tests/compat/legacy_client.c \
	-L"$work/theirs" -ltent_shared
readelf -d "$work/legacy" | grep -q 'NEEDED.*\[libtent_shared\.so\]'
"$work/legacy"
ldd "$work/legacy" | grep -q "libtent_shared.so => $root/opt/tent/lib/libtent_shared.so"

echo "installed: C99, C++17, C++20, static and a libtent_shared.so program run; manual, service and tent-sim are there"
