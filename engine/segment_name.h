/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_name.h - every form that a segment's name can have, read and written in one
 * place. Pure: nothing is looked up.
 *
 *   ""			the caller's own segment
 *   text		one of this engine, 1..63 of [A-Za-z0-9._-]
 *   host:port		of the engine there: the program that runs it
 *   host:port/text	of the engine there: its client of that name
 *   file:///path	a file of this host
 *
 * host: an IPv4 address; an IPv6 address in brackets, where it has a scope also without
 * them (fe80::1%eth0:15000); or a host name. Without brackets and scope an IPv6 address
 * is refused: nobody could tell its end from the port.
 *
 * Addresses are compared as text once segment_name_read() has brought them into their
 * one spelling: small letters, an IPv6 address as RFC 5952 has it.
 */
#ifndef TENT_ENGINE_SEGMENT_NAME_H
#define TENT_ENGINE_SEGMENT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tent/ctl.h>

#include "engine/names.h"

#define HOST_SIZE 64u			/* NUL included */
#define ADDRESS_SIZE (HOST_SIZE + 8u)	/* "[host]:65535" and its NUL */

enum host_kind { HOST_NONE = 0, HOST_IPV4, HOST_IPV6, HOST_NAME };

/* Where an engine listens. */
struct engine_address {
	uint8_t kind;			/* enum host_kind */
	uint16_t port;			/* 1..65535 */
	char host[HOST_SIZE];		/* without brackets, with the scope */
};

enum segment_form {
	SEGMENT_OWN, SEGMENT_TEXT, SEGMENT_ADDRESS, SEGMENT_FILE
};

struct segment_name {
	enum segment_form form;
	struct engine_address engine;	/* SEGMENT_ADDRESS */
	const char *text;		/* TEXT; ADDRESS: "" or what follows '/'; FILE: path */
};

/* Reads a name; out points into it. NULL, or what is wrong: "<that>; allowed: ...". */
const char *segment_name_read(const char *name, struct segment_name *out);

/* Brings a host into its one spelling; with or without brackets. NULL, or what is wrong
 * with it. out->port is left alone. */
const char *host_read(const char *text, size_t length, struct engine_address *out);

/* "host:port", in brackets where that is needed. */
void engine_address_print(const struct engine_address *a, char text[ADDRESS_SIZE]);

/* The full name of a segment: the address, and "/text" unless text is "". False: longer
 * than size. */
bool segment_name_print(const struct engine_address *a, const char *text, char *full,
			size_t size);

bool engine_address_equal(const struct engine_address *a, const struct engine_address *b);

#endif /* TENT_ENGINE_SEGMENT_NAME_H */
