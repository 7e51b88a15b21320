/* SPDX-License-Identifier: Apache-2.0 */
/* segment_name.c - names of segments, from text and to text. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/segment_name.h"

#define SCOPE_MAX 15u	/* IFNAMSIZ without its NUL */
#define FILE_PREFIX "file://"

/* ---- hosts ------------------------------------------------------------- */

static bool is_host_name(const char *text)
{
	size_t length = strlen(text), label = 0;
	bool is_number = true;		/* its last label */

	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (c == '.') {
			if (!label || text[i - 1] == '-')
				return false;
			label = 0;
			is_number = true;
			continue;
		}
		if (!isalnum((unsigned char)c) && c != '_' && (c != '-' || !label))
			return false;
		is_number = is_number && isdigit((unsigned char)c);
		label++;
	}
	/* "127.1" and "10" are addresses to some and names to others. */
	return label && text[length - 1] != '-' && !is_number;
}

static bool is_scope(const char *scope)
{
	size_t length = strlen(scope);

	return length && length <= SCOPE_MAX && strspn(scope, NAME_CHARS) == length;
}

/* An IPv6 address, with a scope or without. */
static bool read_ipv6(char *text, struct engine_address *out)
{
	char *scope = strchr(text, '%');
	struct in6_addr address;

	if (scope)
		*scope++ = '\0';
	if ((scope && !is_scope(scope)) || inet_pton(AF_INET6, text, &address) != 1)
		return false;
	inet_ntop(AF_INET6, &address, out->host, sizeof(out->host));
	if (scope) {
		size_t length = strlen(out->host);

		snprintf(out->host + length, sizeof(out->host) - length, "%%%s", scope);
	}
	out->kind = HOST_IPV6;
	return true;
}

static const char *read_bracketed(char *text, size_t length, struct engine_address *out)
{
	if (length < 3 || text[length - 1] != ']')
		return "the address has a bracket that does not close";
	text[length - 1] = '\0';
	return read_ipv6(text + 1, out) ? NULL : "there is no IPv6 address in the brackets";
}

const char *host_read(const char *from, size_t length, struct engine_address *out)
{
	struct in_addr address;
	char text[HOST_SIZE];

	if (!length || length >= sizeof(text))
		return length ? "the host is longer than 63 bytes" : "the host is empty";
	memcpy(text, from, length);
	text[length] = '\0';
	if (strlen(text) != length)
		return "the host is no name and no address";
	if (text[0] == '[')
		return read_bracketed(text, length, out);
	if (strchr(text, ':'))
		return read_ipv6(text, out) ? NULL : "the host is no name and no address";
	for (size_t i = 0; i < length; i++)
		text[i] = (char)tolower((unsigned char)text[i]);
	if (inet_pton(AF_INET, text, &address) == 1)
		out->kind = HOST_IPV4;
	else if (is_host_name(text))
		out->kind = HOST_NAME;
	else
		return "the host is no name and no address";
	memcpy(out->host, text, length + 1);
	return NULL;
}

/* ---- names ------------------------------------------------------------- */

static bool read_port(const char *text, size_t length, uint16_t *port)
{
	unsigned int value = 0;

	if (!length || length > 5 || text[0] == '0')
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned int)(text[i] - '0');
	}
	*port = (uint16_t)value;
	return value <= UINT16_MAX;
}

/* "host:port" of that length. */
static const char *read_engine(const char *text, size_t length, struct engine_address *out)
{
	size_t colon = length;

	while (colon && text[colon - 1] != ':')
		colon--;
	if (!colon || !read_port(text + colon, length - colon, &out->port))
		return "the name has no port 1..65535";
	colon--;
	if (text[0] != '[' && memchr(text, ':', colon) && !memchr(text, '%', colon))
		return "an IPv6 address without a scope stands in no brackets";
	return host_read(text, colon, out);
}

static const char *read_file(const char *name, struct segment_name *out)
{
	out->form = SEGMENT_FILE;
	out->text = name + strlen(FILE_PREFIX);
	return out->text[0] == '/' && out->text[1] ? NULL :
	       "the file has no absolute path behind file://";
}

const char *segment_name_read(const char *name, struct segment_name *out)
{
	size_t length = strcspn(name, "/");

	*out = (struct segment_name){ .form = SEGMENT_OWN, .text = name };
	if (!*name)
		return NULL;
	if (strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0)
		return read_file(name, out);
	if (!strpbrk(name, "/:")) {
		out->form = SEGMENT_TEXT;
		return NULL;	/* who looks it up finds it or does not */
	}
	out->form = SEGMENT_ADDRESS;
	out->text = name + length + (name[length] == '/');
	if (name[length] && !*out->text)
		return "the name ends behind its '/'";
	if (strchr(out->text, '/'))
		return "the name has more than one '/'";
	return read_engine(name, length, &out->engine);
}

void engine_address_print(const struct engine_address *a, char text[ADDRESS_SIZE])
{
	/* One with a scope goes without brackets, as the existing engine writes it. */
	bool brackets = a->kind == HOST_IPV6 && !strchr(a->host, '%');

	snprintf(text, ADDRESS_SIZE, "%s%s%s:%u", brackets ? "[" : "", a->host,
		 brackets ? "]" : "", a->port);
}

bool segment_name_print(const struct engine_address *a, const char *text, char *full,
			size_t size)
{
	char address[ADDRESS_SIZE];
	int n;

	engine_address_print(a, address);
	n = snprintf(full, size, "%s%s%s", address, *text ? "/" : "", text);
	return n > 0 && (size_t)n < size;
}

bool engine_address_equal(const struct engine_address *a, const struct engine_address *b)
{
	return a->kind == b->kind && a->port == b->port && strcmp(a->host, b->host) == 0;
}
