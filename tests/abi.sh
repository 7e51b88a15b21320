#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the two libraries promise to programs that are built already: their functions, and
# every type that these reach, against the dumps in tests/abi. What is gone or changed needs
# another soname, or a reason why no program notices, and then a dump made anew: remove the
# old one first. What was only added is stored, so that it stays:
#
#   tests/abi.sh            compares; what make check runs
#   tests/abi.sh renew      stores additions (make abi-renew)
set -eu
failed=0

# abidiff's exit status: 4, it differs; 8 more, programs would not even start; else it failed.
compare() { # LIBRARY: same, more or other, with the report in $B
	local rc=0
	abidiff --hd2 uapi/tent --drop-private-types --no-architecture --no-corpus-path \
		"tests/abi/$1.abi" "$B/$1" > "$B/$1.abidiff" || rc=$?
	if [ $rc = 4 ] && ! grep -qE 'summary: ([1-9]|[0-9]+ Removed, [1-9])' "$B/$1.abidiff"; then
		echo more
	else
		[ $rc = 0 ] && echo same || echo other
	fi
}

store() { # LIBRARY
	abidw --headers-dir uapi/tent --exported-interfaces-only --drop-undefined-syms \
		--no-show-locs --no-comp-dir-path --no-corpus-path --no-elf-needed \
		--no-architecture --type-id-style hash "$B/$1" > "tests/abi/$1.abi"
}

for library in libtent.so.1 libtentring.so.1; do
	is=missing
	[ ! -e tests/abi/$library.abi ] || is=$(compare $library)
	case $is,${1:-} in
	same,*) ;;
	missing,renew | more,renew)
		store $library ;;
	missing,*)
		echo "abi: there is no tests/abi/$library.abi; make abi-renew makes it"
		failed=1 ;;
	more,*)
		cat "$B/$library.abidiff"
		echo "abi: this $library has more than is stored; make abi-renew stores it"
		failed=1 ;;
	*)
		cat "$B/$library.abidiff"
		echo "abi: programs that are built already may not run on this $library"
		failed=1 ;;
	esac
done
[ $failed = 0 ] && echo "abi: $(grep -h '<elf-symbol ' tests/abi/*.abi | wc -l) functions as stored"
exit $failed
