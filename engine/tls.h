/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - TLS 1.3 between engines that share a secret. The secret proves either end to
 * the other (PSK), keys are made anew for each connection (X25519 or P-256), there is
 * one cipher suite, and no certificate, ticket, early data or renegotiation. Pure: knows
 * no socket; what came from the wire is put in, what has to go there is taken out.
 *
 *   tls_api.c     finds OpenSSL
 *   tls_secret.c  reads the file that holds the secret
 *   tls.c         what all connections of an engine share, and one connection
 *   link_tls.c    a link that speaks it
 */
#ifndef TENT_ENGINE_TLS_H
#define TENT_ENGINE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_SECRET_MIN 32u	/* characters in the file */
#define TLS_SECRET_MAX 256u
#define TLS_RECORD_HANDSHAKE 0x16u	/* the first byte of whoever opens a connection */
#define TLS_EXPORT_SIZE 32u

struct tls;
struct tls_session;

enum tls_result {
	TLS_MORE = 0,	/* more of the wire's bytes are needed */
	TLS_UP,		/* both ends have proven that they know the secret; comes once */
	TLS_BYTES,	/* some bytes for the reader */
	TLS_OVER,	/* the other end has closed it */
	TLS_FAULT	/* tls_fault() says what is wrong */
};

/* Reads a secret: its length, or 0 with a sentence that names file, fault and what is
 * allowed. The file: regular, of this user or root, and of no use to anybody else. */
size_t tls_secret_read(const char *path, uint8_t secret[TLS_SECRET_MAX], char *error,
		       size_t size);

/* 0, or a negative enum tent_error with a sentence. Waits for the disk. */
int tls_open(struct tls **tls, const char *secret_file, char *error, size_t size);
void tls_close(struct tls *tls);

/* calls: it is the end that opened the connection. NULL: no memory. */
struct tls_session *tls_session_create(const struct tls *tls, bool calls);
void tls_session_free(struct tls_session *s);
bool tls_is_up(const struct tls_session *s);
/* Nothing has come from the wire yet. */
bool tls_is_fresh(const struct tls_session *s);

/* What came from the wire. False: no memory. */
bool tls_put(struct tls_session *s, const uint8_t *bytes, size_t size);
/* Goes on as far as that reaches; call it until it wants more. */
enum tls_result tls_read(struct tls_session *s, uint8_t *bytes, size_t room, size_t *size);
/* For the other end; once it is up. False: no memory. */
bool tls_write(struct tls_session *s, const uint8_t *bytes, size_t size);
/* What has to go to the wire: how many bytes, 0 at the end. To be asked for after each
 * of the three above. */
size_t tls_take(struct tls_session *s, uint8_t *bytes, size_t room);
/* After TLS_FAULT: a sentence. */
const char *tls_fault(const struct tls_session *s);

/* A secret that only the two ends of this connection know, another for each label (a
 * constant of ours). False: it is not up. */
bool tls_export(struct tls_session *s, const char *label, uint8_t secret[TLS_EXPORT_SIZE]);

/* A proof that whoever sends these bytes knows the secret: the first 16 bytes of their
 * HMAC-SHA-256. Any thread, once there was a session. False: no memory. */
bool tls_prove(const uint8_t secret[TLS_EXPORT_SIZE], const void *bytes, size_t size,
	       uint64_t proof[2]);

#endif /* TENT_ENGINE_TLS_H */
