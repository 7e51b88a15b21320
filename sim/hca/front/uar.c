/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uar.c - pages of doorbell registers: where the program has them, and what it rings.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/hca/doorbell/doorbell.h"
#include "sim/hca/front/card.h"
#include "sim/hca/front/descriptor.h"

/* Doorbells that rang on a stack too small to serve them. More are lost, as far as a send
 * doorbell can be: the next one for that queue takes all that its record says. */
#define MAX_DEFERRED 256

static struct deferred {
	struct card *card;
	enum doorbell_kind kind;
	uint8_t bytes[8];
} deferred[MAX_DEFERRED];
static unsigned nr_deferred;

static void serve(struct card *card, enum doorbell_kind kind, const uint8_t bytes[8])
{
	uint32_t qpn_ds;

	if (card->is_stale || card->uverbs.is_removed)
		return;
	if (kind == DOORBELL_CQ_ARM) {
		hca_cq_doorbell(card->uverbs.hca, bytes);
	} else {
		memcpy(&qpn_ds, &bytes[4], sizeof(qpn_ds));
		hca_send_doorbell(card->uverbs.hca, be32toh(qpn_ds) >> 8);
	}
}

void uar_run_deferred(void)
{
	for (unsigned i = 0; i < nr_deferred; i++)
		serve(deferred[i].card, deferred[i].kind, deferred[i].bytes);
	nr_deferred = 0;
}

static void defer(struct card *card, enum doorbell_kind kind, const uint8_t bytes[8])
{
	struct deferred *d = &deferred[nr_deferred];

	if (nr_deferred == MAX_DEFERRED)
		return;
	nr_deferred++;
	d->card = card;
	d->kind = kind;
	memcpy(d->bytes, bytes, sizeof(d->bytes));
}

static void ring(void *cookie, enum doorbell_kind kind, const uint8_t bytes[8], bool may_run)
{
	struct card *card = cookie;

	card_lock();
	if (may_run) {
		serve(card, kind, bytes);
		card_settle(card);
	} else {
		defer(card, kind, bytes);
		thread_kick();
	}
	card_unlock();
}

void uar_init(void)
{
	static const struct doorbell_ops ops = { .ring = ring, .poll = thread_kick };
	static bool is_done;

	if (!is_done)
		doorbell_init(&ops, doorbell_default_is_polled());
	is_done = true;
}

/* ---- mappings ------------------------------------------------------------------ */

int uar_mapped(struct card_file *f, void *address, uint64_t offset)
{
	struct uar_mapping *m = malloc(sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	rc = doorbell_watch(address, f->fd, offset, f->card);
	if (rc) {
		free(m);
		return rc;
	}
	m->address = address;
	m->page = (unsigned)(offset / UVERBS_PAGE - UVERBS_FIRST_UAR_PAGE);
	m->next = f->card->mappings;
	f->card->mappings = m;
	return 0;
}

static void forget(struct card *card, unsigned page, const char *start, const char *end)
{
	struct uar_mapping **at = &card->mappings, *m;

	while ((m = *at)) {
		const char *address = m->address;

		if (m->page != page && (address < start || address >= end)) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		doorbell_unwatch(m->address, UVERBS_PAGE);
		free(m);
	}
}

void uar_freed(void *card, unsigned page)
{
	forget(card, page, NULL, NULL);
}

void uar_range_goes(const void *start, size_t length)
{
	const char *from = start;

	for (int i = 0; i < HOST_MAX_DEVICES; i++)
		if (process.cards[i] && process.cards[i]->mappings)
			forget(process.cards[i], UINT32_MAX, from, from + length);
}

/* ---- mappings that were made past our mmap() ------------------------------------ */

static bool has_mapping(const struct card *card, unsigned page)
{
	for (const struct uar_mapping *m = card->mappings; m; m = m->next)
		if (m->page == page)
			return true;
	return false;
}

static bool has_unseen_page(const struct card *card)
{
	for (unsigned page = 0; page < UVERBS_MAX_UARS; page++)
		if (card->uverbs.uars[page / 64] & 1ULL << page % 64 && !has_mapping(card, page))
			return true;
	return false;
}

struct search {
	struct card *card;
	unsigned long long address, offset;
	unsigned long inode;
};

static void match_file(struct card_file *f, void *argument)
{
	const struct search *s = argument;
	unsigned page = (unsigned)(s->offset / UVERBS_PAGE - UVERBS_FIRST_UAR_PAGE);
	struct stat st;

	if (f->card == s->card && page < UVERBS_MAX_UARS && !has_mapping(f->card, page) &&
	    !fstat(f->fd, &st) && st.st_ino == s->inode)
		uar_mapped(f, (void *)(uintptr_t)s->address, s->offset);
}

void uar_find_mappings(void *card)
{
	struct search s = { .card = card };
	char line[512], mode[5];
	FILE *maps;

	if (!has_unseen_page(card))
		return;
	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return;
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:uverbs") &&
		    sscanf(line, "%llx-%*x %4s %llx %*s %lu", &s.address, mode, &s.offset,
			   &s.inode) == 4)
			descriptor_each_file(match_file, &s);
	fclose(maps);
}
