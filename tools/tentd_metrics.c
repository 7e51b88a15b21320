/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_metrics.c - the engine's numbers in Prometheus' text format. Names are those of
 * the existing engine where it has them; tentd(8) lists all. Labels are words of ours or
 * numbers of pollers, never what a client chose.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tentd_metrics.h"

#define LABELS_SIZE 96

/* One number of one section of the answer. */
static const struct plain {
	const char *section, *member, *name, *type, *help;
} plains[] = {
	{ "totals", "batches", "tent_batches_total", "counter", "Batches that were accepted." },
	{ "totals", "rejected_batches", "tent_rejected_batches_total", "counter",
	  "Batches that were refused." },
	{ "totals", "requests", "tent_requests_total", "counter",
	  "Requests that were accepted." },
	{ "totals", "completed", "tent_completed_total", "counter",
	  "Requests that ended COMPLETED." },
	{ "totals", "failed", "tent_failed_total", "counter", "Requests that ended FAILED." },
	{ "totals", "canceled", "tent_canceled_total", "counter",
	  "Requests that ended CANCELED." },
	{ "totals", "timed_out", "tent_timed_out_total", "counter",
	  "Requests that ended in TIMEOUT." },
	{ "totals", "in_flight", "tent_in_flight_requests", "gauge",
	  "Requests that were accepted and have not ended." },
	{ "totals", "deadlines_met", "tent_deadlines_met_total", "counter",
	  "Requests that completed before their deadline." },
	{ "totals", "deadlines_missed", "tent_deadlines_missed_total", "counter",
	  "Requests that completed after their deadline." },
	{ "totals", "deadlines_infeasible", "tent_deadline_infeasible_total", "counter",
	  "Requests whose deadline had passed when they came." },
	{ "totals", "downgrades_intent", "tent_downgrades_intent_total", "counter",
	  "Requests whose intent was downgraded." },
	{ "totals", "downgrades_priority", "tent_downgrades_priority_total", "counter",
	  "Requests whose priority was downgraded." },
	{ "totals", "downgrades_policy", "tent_downgrades_policy_total", "counter",
	  "Requests whose policy was downgraded." },
	{ "totals", "tails_ignored", "tent_tails_ignored_total", "counter",
	  "Requests with bytes beyond the known fields." },
	{ "totals", "promotions", "tent_promotions_total", "counter",
	  "Times that a waiting request rose one level." },
	{ "totals", "held", "tent_held_requests_total", "counter",
	  "Requests that waited for others of their tenant to end." },
	{ "totals", "path_pauses", "tent_path_pauses_total", "counter",
	  "Times that a transport to some engine was paused, or for longer." },
	{ "usage", "clients", "tent_clients", "gauge", "Clients attached." },
	{ "usage", "clients_max", "tent_clients_max", "gauge", "Clients that may attach." },
	{ "usage", "clients_ended", "tent_clients_ended_total", "counter",
	  "Clients that have ended." },
	{ "usage", "names", "tent_segment_names", "gauge",
	  "Names of segments, kept ones of dead owners too." },
	{ "usage", "descriptors", "tent_descriptors", "gauge",
	  "Descriptors held for clients." },
	{ "usage", "descriptors_max", "tent_descriptors_max", "gauge",
	  "Descriptors that may be held for clients." },
	{ "usage", "mappings", "tent_mappings", "gauge", "Mappings held for clients." },
	{ "usage", "mappings_max", "tent_mappings_max", "gauge",
	  "Mappings that may be held for clients." },
	{ "private_pages", "huge_bytes", "tent_private_huge_bytes", "gauge",
	  "Memory of the engine's own on huge pages." },
	{ "private_pages", "base_bytes", "tent_private_base_bytes", "gauge",
	  "Memory of the engine's own on base pages." },
	{ "peers", "known", "tent_peers_known", "gauge", "Engines that are, or were, called." },
	{ "peers", "up", "tent_peers_up", "gauge", "Engines that are called and answer." },
	{ "peers", "callers", "tent_peer_callers", "gauge", "Engines that call this one." },
	{ "peers", "accepted", "tent_peer_connections_total", "counter",
	  "Connections that other engines opened." },
	{ "peers", "refused", "tent_peer_connections_refused_total", "counter",
	  "Connections of other engines that were refused." },
	{ "notifications", "delivered", "tent_notifications_delivered_total", "counter",
	  "Notifications that clients of this engine were handed." },
	{ "notifications", "sent", "tent_notifications_sent_total", "counter",
	  "Notifications that other engines confirmed." },
	{ "notifications", "refused", "tent_notifications_refused_total", "counter",
	  "Notifications that nobody took, or confirmed, as far as is known." },
	{ "directory", "published", "tent_directory_published", "gauge",
	  "Names of ours that the directory has." },
	{ "directory", "waiting", "tent_directory_waiting", "gauge",
	  "Names of ours that are not there yet, or not gone yet." },
	{ "directory", "lookups", "tent_directory_lookups_total", "counter",
	  "Names that were looked up." },
	{ "directory", "failures", "tent_directory_failures_total", "counter",
	  "Times that the directory's server did not answer." },
	{ "engine", "uptime_ms", "tent_uptime_milliseconds", "gauge",
	  "Time since the engine's start." },
};

/* One number of each transport, once for reads and once for writes. */
static const struct {
	const char *member, *suffix, *help;
} transfers[] = {
	{ "bytes", "bytes_total", "Bytes moved" },
	{ "requests", "requests_total", "Requests that ended, however" },
	{ "failures", "failures_total", "Requests that did not end COMPLETED" },
};
static const struct {
	const char *member, *suffix, *help;
} transfer_histograms[] = {
	{ "latency", "latency_us", "Time to completion of those that COMPLETED" },
	{ "size", "size_bytes", "Bytes asked for" },
};
static const struct {
	const char *member, *name, *help;
} attempts[] = {
	{ "attempts", "tent_transport_attempts_total", "Attempts to move a request." },
	{ "attempt_failures", "tent_transport_attempt_failures_total",
	  "Attempts that did not complete their request." },
}, histograms[] = {
	{ "queue_wait", "tent_stage_queue_wait_us", "From a request's arrival to its posting." },
	{ "transport", "tent_stage_transport_us", "From its posting to the transport's end." },
	{ "load", "tent_deadline_mlu_permille",
	  "Share that a completed request took of the time to its deadline." },
}, pollers[] = {
	{ "turns", "tent_poller_turns_total", "Turns of a poller's loop." },
	{ "sleeps", "tent_poller_sleeps_total", "Sleeps of a poller." },
	{ "rings", "tent_poller_rings", "Rings that a poller serves." },
};

#define NR(list) (sizeof(list) / sizeof(list[0]))

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* labels: "" or {a="b"}. */
static void sample(FILE *f, const char *name, const char *labels, const json_t *from,
		   const char *member)
{
	fprintf(f, "%s%s %lld\n", name, labels,
		(long long)json_integer_value(json_object_get(from, member)));
}

static void put_plains(FILE *f, const json_t *root)
{
	for (size_t i = 0; i < NR(plains); i++) {
		const struct plain *p = &plains[i];

		head(f, p->name, p->type, p->help);
		sample(f, p->name, "", json_object_get(root, p->section), p->member);
	}
}

static const char *word(const json_t *row, const char *member)
{
	const char *text = json_string_value(json_object_get(row, member));

	return text ? text : "";
}

/* label: what comes before le, with its comma, or "". */
static void put_histogram(FILE *f, const char *name, const char *label, const json_t *h)
{
	const json_t *bounds = json_object_get(h, "bounds"), *bucket;
	char labels[LABELS_SIZE] = "";
	long long sum = 0;
	size_t i;

	json_array_foreach(json_object_get(h, "buckets"), i, bucket) {
		const json_t *bound = json_array_get(bounds, i);

		sum += json_integer_value(bucket);
		fprintf(f, "%s_bucket{%sle=\"", name, label);
		if (bound)
			fprintf(f, "%lld", (long long)json_integer_value(bound));
		else
			fputs("+Inf", f);
		fprintf(f, "\"} %lld\n", sum);
	}
	if (*label)
		snprintf(labels, sizeof(labels), "{%.*s}", (int)strlen(label) - 1, label);
	fprintf(f, "%s_sum%s %lld\n%s_count%s %lld\n", name, labels,
		(long long)json_integer_value(json_object_get(h, "sum")), name, labels, sum);
}

static void put_transfer_counter(FILE *f, const json_t *rows, const char *operation, size_t what)
{
	char name[64], help[128], labels[LABELS_SIZE];
	const json_t *row;
	size_t i;

	snprintf(name, sizeof(name), "tent_%s_%s", operation, transfers[what].suffix);
	snprintf(help, sizeof(help), "%s (%s).", transfers[what].help, operation);
	head(f, name, "counter", help);
	json_array_foreach(rows, i, row) {
		if (strcmp(word(row, "operation"), operation) != 0)
			continue;
		snprintf(labels, sizeof(labels), "{transport=\"%s\"}", word(row, "transport"));
		sample(f, name, labels, row, transfers[what].member);
	}
}

static void put_transfer_histogram(FILE *f, const json_t *rows, const char *operation,
				   size_t what)
{
	char name[64], help[128], label[LABELS_SIZE];
	const json_t *row;
	size_t i;

	snprintf(name, sizeof(name), "tent_%s_%s", operation, transfer_histograms[what].suffix);
	snprintf(help, sizeof(help), "%s (%s).", transfer_histograms[what].help, operation);
	head(f, name, "histogram", help);
	json_array_foreach(rows, i, row) {
		if (strcmp(word(row, "operation"), operation) != 0)
			continue;
		snprintf(label, sizeof(label), "transport=\"%s\",", word(row, "transport"));
		put_histogram(f, name, label,
			      json_object_get(row, transfer_histograms[what].member));
	}
}

static void put_transfers(FILE *f, const json_t *rows)
{
	static const char *const operations[] = { "read", "write" };

	for (size_t op = 0; op < NR(operations); op++) {
		for (size_t i = 0; i < NR(transfers); i++)
			put_transfer_counter(f, rows, operations[op], i);
		for (size_t i = 0; i < NR(transfer_histograms); i++)
			put_transfer_histogram(f, rows, operations[op], i);
	}
}

static void put_attempts(FILE *f, const json_t *rows)
{
	for (size_t what = 0; what < NR(attempts); what++) {
		const json_t *row;
		size_t i;

		head(f, attempts[what].name, "counter", attempts[what].help);
		json_array_foreach(rows, i, row) {
			char labels[LABELS_SIZE];

			snprintf(labels, sizeof(labels), "{transport=\"%s\",operation=\"%s\"}",
				 word(row, "transport"), word(row, "operation"));
			sample(f, attempts[what].name, labels, row, attempts[what].member);
		}
	}
}

static void put_failovers(FILE *f, const json_t *rows)
{
	static const char name[] = "tent_transport_failover_total";
	const json_t *row;
	size_t i;

	head(f, name, "counter", "Requests that one transport failed and another was given.");
	json_array_foreach(rows, i, row) {
		char labels[LABELS_SIZE];

		snprintf(labels, sizeof(labels), "{from=\"%s\",to=\"%s\"}", word(row, "from"),
			 word(row, "to"));
		sample(f, name, labels, row, "failovers");
	}
}

static void put_pollers(FILE *f, const json_t *rows)
{
	for (size_t what = 0; what < NR(pollers); what++) {
		bool is_counter = strstr(pollers[what].name, "_total");
		const json_t *row;
		size_t i;

		head(f, pollers[what].name, is_counter ? "counter" : "gauge",
		     pollers[what].help);
		json_array_foreach(rows, i, row) {
			char labels[LABELS_SIZE];

			snprintf(labels, sizeof(labels), "{poller=\"%zu\"}", i);
			sample(f, pollers[what].name, labels, row, pollers[what].member);
		}
	}
}

static void put_all(FILE *f, const json_t *root)
{
	const json_t *rows = json_object_get(root, "transfers");

	head(f, "tent_build_info", "gauge", "1, with the version of tentd.");
	fputs("tent_build_info{version=\"" TENT_VERSION "\"} 1\n", f);
	put_plains(f, root);
	put_transfers(f, rows);
	put_attempts(f, rows);
	put_failovers(f, json_object_get(root, "failovers"));
	for (size_t i = 0; i < NR(histograms); i++) {
		head(f, histograms[i].name, "histogram", histograms[i].help);
		put_histogram(f, histograms[i].name, "",
			      json_object_get(root, histograms[i].member));
	}
	put_pollers(f, json_object_get(root, "pollers"));
}

char *metrics_text(const char *json)
{
	json_t *root = json_loads(json, 0, NULL);
	char *text = NULL;
	size_t size;
	FILE *f = root ? open_memstream(&text, &size) : NULL;

	if (f) {
		put_all(f, root);
		if (fclose(f) != 0) {
			free(text);
			text = NULL;
		}
	}
	json_decref(root);
	return text;
}
