/* SPDX-License-Identifier: Apache-2.0 */
/* directory_list.c - the servers of a configuration. */
#include <stdio.h>
#include <string.h>

#include "engine/directory_server.h"

#define SEPARATORS ",; "

bool server_list_read(struct server_list *l, const char *text, char why[WHY_SIZE])
{
	l->nr = l->at = 0;
	for (text += strspn(text, SEPARATORS); *text; text += strspn(text, SEPARATORS)) {
		size_t length = strcspn(text, SEPARATORS);

		if (l->nr == SERVERS_MAX || length >= SERVER_SIZE) {
			snprintf(why, WHY_SIZE, "metadata_servers has more than %u servers; "
				 "allowed: up to that", SERVERS_MAX);
			return false;
		}
		snprintf(l->names[l->nr++], SERVER_SIZE, "%.*s", (int)length, text);
		text += length;
	}
	if (!l->nr)
		snprintf(why, WHY_SIZE, "metadata_servers is empty; allowed: host:port, or "
			 "several, separated by commas");
	return l->nr;
}

const char *server_list_name(const struct server_list *l)
{
	return l->names[l->at];
}

void server_list_next(struct server_list *l)
{
	l->at = (l->at + 1) % l->nr;
}
