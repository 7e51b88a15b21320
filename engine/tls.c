/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - TLS between engines, on OpenSSL. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tent.h>

#include "engine/tls.h"
#include "engine/tls_api.h"

#define CIPHER "TLS_AES_256_GCM_SHA384"
#define GROUPS "X25519:P-256"
#define IDENTITY "tent"		/* which secret it is: there is one */
#define APP_DATA 0		/* of SSL_CTX_set_ex_data() */

static const unsigned char cipher_id[] = { 0x13, 0x02 };

struct tls {
	const struct tls_api *api;
	SSL_CTX *ctx;
	size_t secret_size;
	uint8_t secret[TLS_SECRET_MAX];
};

struct tls_session {
	const struct tls_api *api;
	SSL *ssl;		/* owns in and out */
	BIO *in, *out;		/* of the wire */
	bool heard, up;
	char fault[128];
};

/* ---- the secret -------------------------------------------------------- */

/* A session as OpenSSL wants it: who resumes it has known its key. NULL: no memory. */
static SSL_SESSION *session_of(const struct tls *t, SSL *ssl)
{
	const struct tls_api *api = t->api;
	SSL_SESSION *s = api->SSL_SESSION_new();

	if (!s)
		return NULL;
	if (api->SSL_SESSION_set1_master_key(s, t->secret, t->secret_size) &&
	    api->SSL_SESSION_set_cipher(s, api->SSL_CIPHER_find(ssl, cipher_id)) &&
	    api->SSL_SESSION_set_protocol_version(s, TLS_VERSION_1_3))
		return s;
	api->SSL_SESSION_free(s);
	return NULL;
}

static const struct tls *tls_of(SSL *ssl)
{
	const char *missing;
	const struct tls_api *api = tls_api_get(&missing);	/* or there were no ssl */

	return api->SSL_CTX_get_ex_data(api->SSL_get_SSL_CTX(ssl), APP_DATA);
}

static int find_session(SSL *ssl, const unsigned char *identity, size_t length,
			SSL_SESSION **session)
{
	bool known = length == strlen(IDENTITY) && memcmp(identity, IDENTITY, length) == 0;

	*session = known ? session_of(tls_of(ssl), ssl) : NULL;
	return !known || *session;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **identity,
		       size_t *length, SSL_SESSION **session)
{
	(void)md;		/* there is one */
	*identity = (const unsigned char *)IDENTITY;
	*length = strlen(IDENTITY);
	*session = session_of(tls_of(ssl), ssl);
	return *session != NULL;
}

/* ---- what connections share -------------------------------------------- */

static bool limit(const struct tls_api *api, SSL_CTX *c)
{
	static char groups[] = GROUPS;

	api->SSL_CTX_set_options(c, TLS_OP_NO_TICKET | TLS_OP_NO_RENEGOTIATION);
	api->SSL_CTX_ctrl(c, TLS_CTRL_SET_SESS_CACHE_MODE, TLS_SESS_CACHE_OFF, NULL);
	api->SSL_CTX_ctrl(c, TLS_CTRL_MODE, TLS_MODE_RELEASE_BUFFERS, NULL);
	return api->SSL_CTX_ctrl(c, TLS_CTRL_SET_MIN_PROTO_VERSION, TLS_VERSION_1_3, NULL) &&
	       api->SSL_CTX_ctrl(c, TLS_CTRL_SET_MAX_PROTO_VERSION, TLS_VERSION_1_3, NULL) &&
	       api->SSL_CTX_ctrl(c, TLS_CTRL_SET_GROUPS_LIST, 0, groups) &&
	       api->SSL_CTX_set_ciphersuites(c, CIPHER) &&
	       api->SSL_CTX_set_num_tickets(c, 0);
}

/* NULL, or what failed. */
static const char *open_context(struct tls *t)
{
	const char *missing;

	t->api = tls_api_get(&missing);
	if (!t->api)
		return missing;
	t->ctx = t->api->SSL_CTX_new(t->api->TLS_method());
	if (!t->ctx || !limit(t->api, t->ctx) ||
	    !t->api->SSL_CTX_set_ex_data(t->ctx, APP_DATA, t))
		return "it does not offer TLS 1.3 with " CIPHER " and " GROUPS;
	t->api->SSL_CTX_set_psk_find_session_callback(t->ctx, find_session);
	t->api->SSL_CTX_set_psk_use_session_callback(t->ctx, use_session);
	return NULL;
}

int tls_open(struct tls **out, const char *secret_file, char *error, size_t size)
{
	struct tls *t = calloc(1, sizeof(*t));
	const char *fault;

	if (!t) {
		snprintf(error, size, "no memory for TLS");
		return TENT_ERR_RUNTIME;
	}
	t->secret_size = tls_secret_read(secret_file, t->secret, error, size);
	fault = t->secret_size ? open_context(t) : NULL;
	if (fault)
		snprintf(error, size, "peers/secret_file is %s: OpenSSL 3 is needed for it: %s",
			 secret_file, fault);
	if (!fault && t->secret_size) {
		*out = t;
		return 0;
	}
	tls_close(t);
	return TENT_ERR_CONFIG;
}

void tls_close(struct tls *t)
{
	if (!t)
		return;
	if (t->ctx)
		t->api->SSL_CTX_free(t->ctx);
	explicit_bzero(t->secret, sizeof(t->secret));
	free(t);
}

/* ---- one connection ---------------------------------------------------- */

/* An engine shows none: who does is not the one that was called. */
static int refuse_certificate(int good, X509_STORE_CTX *store)
{
	(void)good;
	(void)store;
	return 0;
}

struct tls_session *tls_session_create(const struct tls *t, bool calls)
{
	const struct tls_api *api = t->api;
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->api = api;
	s->ssl = api->SSL_new(t->ctx);
	s->in = api->BIO_new(api->BIO_s_mem());
	s->out = api->BIO_new(api->BIO_s_mem());
	if (!s->ssl || !s->in || !s->out) {
		api->BIO_free(s->in);
		api->BIO_free(s->out);
		api->SSL_free(s->ssl);
		free(s);
		return NULL;
	}
	api->SSL_set_bio(s->ssl, s->in, s->out);
	if (!calls) {
		api->SSL_set_accept_state(s->ssl);
		return s;
	}
	api->SSL_set_verify(s->ssl, TLS_VERIFY_PEER, refuse_certificate);
	api->SSL_set_connect_state(s->ssl);
	return s;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	s->api->SSL_free(s->ssl);
	free(s);
}

bool tls_is_up(const struct tls_session *s)
{
	return s->up;
}

bool tls_is_fresh(const struct tls_session *s)
{
	return !s->heard;
}

bool tls_put(struct tls_session *s, const uint8_t *bytes, size_t size)
{
	s->heard = true;
	return s->api->BIO_write(s->in, bytes, (int)size) == (int)size;
}

size_t tls_take(struct tls_session *s, uint8_t *bytes, size_t room)
{
	int n = s->api->BIO_read(s->out, bytes, (int)room);

	return n > 0 ? (size_t)n : 0;
}

/* What people can act on in words of ours, the rest in OpenSSL's. */
static void explain(struct tls_session *s)
{
	unsigned long error = s->api->ERR_peek_error();
	const char *reason = s->api->ERR_reason_error_string(error);

	switch (error & 0x7fffff) {	/* ERR_GET_REASON() */
	case TLS_REASON_BINDER_DOES_NOT_VERIFY:
		reason = "the secret of the other end is another";
		break;
	case TLS_REASON_ALERT_HANDSHAKE_FAILURE:
	case TLS_REASON_ALERT_ILLEGAL_PARAMETER:
	case TLS_REASON_ALERT_DECRYPT_ERROR:
		reason = "the other end does not take this secret";
		break;
	}
	snprintf(s->fault, sizeof(s->fault), "TLS: %s", reason ? reason : "it is out of step");
}

/* Why a call did not give what it was asked for. */
static enum tls_result judge(struct tls_session *s, int rc)
{
	switch (s->api->SSL_get_error(s->ssl, rc)) {
	case TLS_ERROR_WANT_READ:
		return TLS_MORE;
	case TLS_ERROR_ZERO_RETURN:
		return TLS_OVER;
	default:
		explain(s);
		return TLS_FAULT;
	}
}

static enum tls_result shake_hands(struct tls_session *s)
{
	int rc = s->api->SSL_do_handshake(s->ssl);

	if (rc != 1)
		return judge(s, rc);
	if (!s->api->SSL_session_reused(s->ssl)) {
		snprintf(s->fault, sizeof(s->fault), "TLS: the other end knows no secret");
		return TLS_FAULT;
	}
	s->up = true;
	return TLS_UP;
}

enum tls_result tls_read(struct tls_session *s, uint8_t *bytes, size_t room, size_t *size)
{
	int rc;

	*size = 0;
	if (*s->fault)
		return TLS_FAULT;
	s->api->ERR_clear_error();
	if (!s->up)
		return shake_hands(s);
	rc = s->api->SSL_read(s->ssl, bytes, (int)room);
	if (rc <= 0)
		return judge(s, rc);
	*size = (size_t)rc;
	return TLS_BYTES;
}

bool tls_write(struct tls_session *s, const uint8_t *bytes, size_t size)
{
	s->api->ERR_clear_error();
	return s->up && s->api->SSL_write(s->ssl, bytes, (int)size) == (int)size;
}

const char *tls_fault(const struct tls_session *s)
{
	return s->fault;
}

bool tls_export(struct tls_session *s, const char *label, uint8_t secret[TLS_EXPORT_SIZE])
{
	return s->up && s->api->SSL_export_keying_material(s->ssl, secret, TLS_EXPORT_SIZE,
		label, strlen(label), NULL, 0, 0) == 1;
}

bool tls_prove(const uint8_t secret[TLS_EXPORT_SIZE], const void *bytes, size_t size,
	       uint64_t proof[2])
{
	const char *missing;
	const struct tls_api *api = tls_api_get(&missing);	/* or there were no secret */
	unsigned char sum[32];

	if (!api->HMAC(api->EVP_sha256(), secret, TLS_EXPORT_SIZE, bytes, size, sum, NULL))
		return false;
	memcpy(proof, sum, 2 * sizeof(proof[0]));
	return true;
}
