/* SPDX-License-Identifier: Apache-2.0 */
/* tentd_pair.c - see tentd_pair.h. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/tentd_pair.h"
#include "tests/common/wire.h"

void tentd_pair_open(struct tentd_pair *p)
{
	wire_secret_file(p->secret, "two-hosts-that-know-each-other-0123456789");
	p->permitted = hosts_open(&p->hosts);
}

void tentd_pair_close(struct tentd_pair *p)
{
	if (p->permitted)
		hosts_close(&p->hosts);
	unlink(p->secret);
}

void tentd_pair_start(struct tentd_pair *p, int host, const char *form, const char *peers,
		      const char *more)
{
	char json[1280], address[64], secret[96];

	snprintf(address, sizeof(address), form, host + 1);
	snprintf(secret, sizeof(secret), "\"secret_file\": \"%s\"", p->secret);
	snprintf(json, sizeof(json), "{\"peers\": {\"enable\": true, %s}, \"rpc_server_hostname\": "
		 "\"%s\", \"rpc_server_port\": %d%s%s}", peers ? peers : secret, address,
		 TENTD_PAIR_PORT, more ? ", " : "", more ? more : "");
	tentd_prepare(&p->daemons[host]);
	tentd_configure(&p->daemons[host], json);
	p->daemons[host].sim = p->sims[host];
	hosts_enter(&p->hosts, host);
	tentd_start_ready(&p->daemons[host], NULL);
	hosts_enter(&p->hosts, -1);
}

void tentd_pair_end(struct tentd_pair *p)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tentd_end(&p->daemons[i], SIGTERM), 0);
		tentd_cleanup(&p->daemons[i]);
	}
}
