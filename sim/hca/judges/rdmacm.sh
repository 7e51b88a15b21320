#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The connection manager's own programs, and one of ours: what comes before an end.
. "$(dirname "$0")/common.sh"
hosts_up

for LINK in roce ib; do
	for client in $A $B; do
		pair rdma_listen $A $client "stdbuf -oL rping -s -d -v -a $A_IP -C 20" "rping -c -v -a $A_IP -C 20"
		pair "starting server" $A $client "stdbuf -oL ucmatose -b $A_IP" "ucmatose -s $A_IP"
		pair "starting server" $A $client "stdbuf -oL udaddy -b $A_IP" "udaddy -s $A_IP"
	done
	for mode in --trap --poll; do
		OPTIONS=($mode)
		one $A $TENT_BUILD/sim/hca/judges/order $SIM
	done
	OPTIONS=()
done
echo "rdmacm: $passed runs passed"
