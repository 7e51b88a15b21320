/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/mem/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ADDRESSES "/memfd:tent-gpu-addresses"
#define PLACE_BITS 44		/* of an offset: the place; above, the descriptor + 1 */
#define PLACE_MASK ((1ull << PLACE_BITS) - 1)

struct mapping {
	uint64_t from, to, offset;
};

/* Of such a file, and with address in it? */
static bool is_around(const char *line, uint64_t address, struct mapping *m)
{
	return strstr(line, ADDRESSES) &&
	       sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &m->from, &m->to,
		      &m->offset) == 3 && address >= m->from && address < m->to;
}

static bool find(uint64_t address, struct mapping *m)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = is_around(line, address, m);
	if (maps)
		fclose(maps);
	return found;
}

int peer_find(uint64_t address, uint64_t length, uint64_t *offset)
{
	struct mapping m;

	if (!find(address, &m) || length > m.to - address || !(m.offset >> PLACE_BITS))
		return -EFAULT;
	*offset = (m.offset & PLACE_MASK) + (address - m.from);
	return (int)(m.offset >> PLACE_BITS) - 1;
}
