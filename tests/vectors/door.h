/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.h - what the doors share that are written in C or C++: each reads a file of vectors,
 * asks its library what becomes of every row, and prints the answers, one line of JSON a
 * row. check.py compares them, with each other and with what the rows say.
 *
 * A row's batch starts from a request that passes: 64 bytes from a to b. The row says what
 * is different; check.py has the words.
 */
#ifndef TENT_TESTS_VECTORS_DOOR_H
#define TENT_TESTS_VECTORS_DOOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tent/tent.h>

#define DOOR_SIZE 65536u	/* bytes of a, and of b */
#define DOOR_LENGTH 64u		/* bytes that a request moves */

/* Where the door's memory and segments are. */
struct door_places {
	uint64_t a, b;		/* registered, in this order, nothing between them */
	uint64_t stray;		/* memory that is not registered */
	uint64_t file;		/* handle of a segment; 0: there is none */
	uint64_t peer;		/* another program's; its memory follows */
	uint64_t peer_read, peer_write, peer_own;
};

struct door_batch {
	const json_t *row;
	bool legacy;		/* entries of the older API */
	unsigned char *entries;	/* as the row has them: perhaps misaligned, or NULL */
	size_t count, stride;
	uint32_t schema;
	uint64_t now_ns;	/* what the row's times count from */
	unsigned char *block;	/* owned: where entries lie */
};

struct door {
	/* Makes memory and segments; ends the program when it cannot. peer: of the file. */
	void (*open)(struct door_places *places, bool peer);
	/* door_refused(), or door_accepted(). */
	json_t *(*ask)(const struct door_batch *b);
	void (*close)(void);
};

extern struct door_places door_places;

/* What main() is: the file of vectors is the only argument. */
int door_main(int argc, char **argv, const struct door *d);

/* Ends the program. */
void door_die(const char *what, const char *why) __attribute__((noreturn));

/* A path of a file, and its segment's name, that the door opens; NULL: none. */
const char *door_file_segment(void);
/* Memory of the neighbour: fills the addresses in and returns its segment's name. */
const char *door_peer_segment(struct door_places *places);

/* The i-th entry of the row, as it is written there. */
const json_t *door_entry(const struct door_batch *b, size_t i);
/* A number of the row, by its words: 7, "a+64", "now-1". */
uint64_t door_number(const struct door_batch *b, const json_t *token);
/* An entry as tent.h has it. */
tent_request_v1_t door_request(const struct door_batch *b, const json_t *e);

json_t *door_refused(int error, const char *field, uint32_t index);
/* explain: the answer of the engine to the same batch, owned by the caller. normalized:
 * takes a list, one for each entry, or NULL: explain's. ended: a list of door_end(). */
json_t *door_accepted(const struct door_batch *b, const json_t *explain, json_t *normalized,
		      json_t *ended);
json_t *door_end(int status, int error, const char *field, uint32_t flags);
json_t *door_normalized(const struct door_batch *b, size_t i, const struct tent_normalized *n);

/* NULL, or how explain's answer differs from a refusal, or from none (error 0). */
json_t *door_explain_differs(const json_t *explain, int error, const char *field,
			     uint32_t index);
bool door_is_compat(const json_t *explain);

#endif /* TENT_TESTS_VECTORS_DOOR_H */
