#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fork, exec, dup, SIGKILL and waiting for events, trapped and polled; as root and as
# nobody, both on one host.
. "$(dirname "$0")/common.sh"
hosts_up
cc -std=gnu11 -O1 -g -Wall -o $LOG/life "$(dirname "$0")/life.c" -libverbs || exit 1
chmod 755 $LOG
for OPTIONS in --trap --poll; do
	one $A $LOG/life
	one $A setpriv --reuid 65534 --regid 65534 --clear-groups $LOG/life
done
echo "life: $passed runs passed"
