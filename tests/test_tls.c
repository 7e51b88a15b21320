/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tls.c - TLS between engines without a socket: ends that know the secret and ends
 * that do not. The other end is ours, or OpenSSL as its headers have it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <tent/tent.h>

#include "engine/tls.h"
#include "engine/tls_api.h"
#include "tests/common/secret.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))
#define OTHER "0123456789abcdef0123456789abcdeF"

static struct tls *open_with(const char *secret)
{
	struct tls *tls = NULL;
	char error[512];

	secret_write(secret, 0600);
	if (tls_open(&tls, secret_path, error, sizeof(error)))
		fail_msg("%s", error);
	return tls;
}

/* ---- OpenSSL ----------------------------------------------------------- */

/* Each of the table is what the headers say, as far as a compiler can tell. */
#define SAME(result, name, args)						\
	_Static_assert(__builtin_types_compatible_p(				\
		__typeof__(((struct tls_api *)0)->name), __typeof__(&name)), #name);
TLS_FUNCTIONS(SAME)
#undef SAME

static void numbers_are_openssls(void **state)
{
	static const struct { long ours, theirs; } numbers[] = {
		{ TLS_VERSION_1_3, TLS1_3_VERSION }, { TLS_VERIFY_PEER, SSL_VERIFY_PEER },
		{ TLS_ERROR_WANT_READ, SSL_ERROR_WANT_READ },
		{ TLS_ERROR_ZERO_RETURN, SSL_ERROR_ZERO_RETURN },
		{ TLS_CTRL_MODE, SSL_CTRL_MODE },
		{ TLS_CTRL_SET_SESS_CACHE_MODE, SSL_CTRL_SET_SESS_CACHE_MODE },
		{ TLS_CTRL_SET_GROUPS_LIST, SSL_CTRL_SET_GROUPS_LIST },
		{ TLS_CTRL_SET_MIN_PROTO_VERSION, SSL_CTRL_SET_MIN_PROTO_VERSION },
		{ TLS_CTRL_SET_MAX_PROTO_VERSION, SSL_CTRL_SET_MAX_PROTO_VERSION },
		{ TLS_SESS_CACHE_OFF, SSL_SESS_CACHE_OFF },
		{ TLS_MODE_RELEASE_BUFFERS, SSL_MODE_RELEASE_BUFFERS },
		{ TLS_OP_NO_TICKET, SSL_OP_NO_TICKET },
		{ TLS_OP_NO_RENEGOTIATION, SSL_OP_NO_RENEGOTIATION },
		{ TLS_REASON_BINDER_DOES_NOT_VERIFY, SSL_R_BINDER_DOES_NOT_VERIFY },
		{ TLS_REASON_ALERT_HANDSHAKE_FAILURE, SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE },
		{ TLS_REASON_ALERT_ILLEGAL_PARAMETER, SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER },
		{ TLS_REASON_ALERT_DECRYPT_ERROR, SSL_R_TLSV1_ALERT_DECRYPT_ERROR },
	};

	(void)state;
	for (size_t i = 0; i < NR(numbers); i++)
		if (numbers[i].ours != numbers[i].theirs)
			fail_msg("number %zu is %ld, and OpenSSL's %ld", i, numbers[i].ours,
				 numbers[i].theirs);
}

static void a_library_that_is_missing_is_named(void **state)
{
	struct tls_api api;
	char missing[192];

	(void)state;
	assert_false(tls_api_load(&api, "libnot-there.so.9", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "libnot-there.so.9"));
	assert_false(tls_api_load(&api, "libjansson.so.4", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "TLS_method"));
	assert_true(tls_api_load(&api, TLS_LIBRARY, missing, sizeof(missing)));
}

/* ---- two ends of ours -------------------------------------------------- */

struct ends {
	struct tls *tls[2];
	struct tls_session *s[2];	/* who calls; who is called */
	enum tls_result last[2];
	char heard[2][256];		/* what its reader got */
	size_t nr_heard[2];
};

static void ends_open(struct ends *x, const char *caller, const char *called)
{
	memset(x, 0, sizeof(*x));
	x->tls[0] = open_with(caller);
	x->tls[1] = open_with(called);
	x->s[0] = tls_session_create(x->tls[0], true);
	x->s[1] = tls_session_create(x->tls[1], false);
	assert_true(x->s[0] && x->s[1]);
}

static void ends_close(struct ends *x)
{
	for (int i = 0; i < 2; i++) {
		tls_session_free(x->s[i]);
		tls_close(x->tls[i]);
	}
}

static bool carry(struct ends *x, int from, size_t stretch)
{
	uint8_t bytes[512];
	size_t n;
	bool any = false;

	while ((n = tls_take(x->s[from], bytes, stretch))) {
		assert_true(tls_put(x->s[!from], bytes, n));
		any = true;
	}
	return any;
}

static void step(struct ends *x, int i)
{
	size_t n;

	do {
		x->last[i] = tls_read(x->s[i], (uint8_t *)x->heard[i] + x->nr_heard[i],
				      sizeof(x->heard[i]) - x->nr_heard[i], &n);
		x->nr_heard[i] += n;
	} while (x->last[i] == TLS_UP || x->last[i] == TLS_BYTES);
}

/* Until nobody has anything to say. */
static void talk(struct ends *x, size_t stretch)
{
	step(x, 0);
	while (carry(x, 0, stretch) || carry(x, 1, stretch)) {
		step(x, 1);
		step(x, 0);
	}
}

static void who_knows_the_secret_is_understood(void **state)
{
	struct ends x;

	(void)state;
	for (size_t stretch = 1; stretch < 512; stretch = stretch * 3 + 1) {
		ends_open(&x, SECRET, SECRET);
		talk(&x, stretch);
		assert_true(tls_is_up(x.s[0]) && tls_is_up(x.s[1]));
		assert_true(tls_write(x.s[0], (const uint8_t *)"asks", 4));
		assert_true(tls_write(x.s[1], (const uint8_t *)"tells", 5));
		talk(&x, stretch);
		assert_int_equal(x.nr_heard[1], 4);
		assert_memory_equal(x.heard[1], "asks", 4);
		assert_int_equal(x.nr_heard[0], 5);
		assert_memory_equal(x.heard[0], "tells", 5);
		ends_close(&x);
	}
}

static void who_knows_another_secret_is_told_and_both_know_why(void **state)
{
	struct ends x;

	(void)state;
	ends_open(&x, SECRET, OTHER);
	talk(&x, 512);
	assert_false(tls_is_up(x.s[0]) || tls_is_up(x.s[1]));
	assert_int_equal(x.last[1], TLS_FAULT);
	assert_non_null(strstr(tls_fault(x.s[1]), "secret of the other end is another"));
	assert_int_equal(x.last[0], TLS_FAULT);
	assert_non_null(strstr(tls_fault(x.s[0]), "does not take this secret"));
	assert_false(tls_write(x.s[0], (const uint8_t *)"x", 1));
	ends_close(&x);
}

static void nothing_of_the_secret_or_the_words_is_on_the_wire(void **state)
{
	uint8_t wire[8192];
	struct ends x;
	size_t n;

	(void)state;
	ends_open(&x, SECRET, SECRET);
	step(&x, 0);
	n = tls_take(x.s[0], wire, sizeof(wire));
	assert_null(memmem(wire, n, SECRET, 32));
	assert_true(tls_put(x.s[1], wire, n));
	step(&x, 1);
	talk(&x, 512);
	assert_true(tls_write(x.s[0], (const uint8_t *)"describe-it-please", 18));
	n = tls_take(x.s[0], wire, sizeof(wire));
	assert_true(n >= 18);
	assert_null(memmem(wire, n, "describe", 8));
	ends_close(&x);
}

static void a_flipped_byte_is_a_fault(void **state)
{
	uint8_t wire[4096];
	struct ends x;
	size_t n;

	(void)state;
	for (size_t at = 5; at < 26; at += 4) {
		ends_open(&x, SECRET, SECRET);
		talk(&x, 512);
		assert_true(tls_write(x.s[0], (const uint8_t *)"asks", 4));
		n = tls_take(x.s[0], wire, sizeof(wire));
		assert_int_equal(n, 26);	/* head, 4 bytes, type, tag */
		wire[at] ^= 1;
		assert_true(tls_put(x.s[1], wire, n));
		step(&x, 1);
		assert_int_equal(x.last[1], TLS_FAULT);
		assert_int_equal(x.nr_heard[1], 0);
		ends_close(&x);
	}
}

static void what_was_said_once_cannot_be_said_again(void **state)
{
	uint8_t wire[4096];
	struct ends x;
	size_t n;

	(void)state;
	ends_open(&x, SECRET, SECRET);
	talk(&x, 512);
	assert_true(tls_write(x.s[0], (const uint8_t *)"asks", 4));
	n = tls_take(x.s[0], wire, sizeof(wire));
	assert_true(tls_put(x.s[1], wire, n) && tls_put(x.s[1], wire, n));
	step(&x, 1);
	assert_int_equal(x.last[1], TLS_FAULT);
	assert_int_equal(x.nr_heard[1], 4);
	ends_close(&x);
}

static void both_ends_derive_the_same_and_each_connection_another(void **state)
{
	uint8_t a[TLS_EXPORT_SIZE], b[TLS_EXPORT_SIZE], c[TLS_EXPORT_SIZE];
	struct ends x, y;

	(void)state;
	ends_open(&x, SECRET, SECRET);
	assert_false(tls_export(x.s[0], "tent test", a));
	talk(&x, 512);
	assert_true(tls_export(x.s[0], "tent test", a) && tls_export(x.s[1], "tent test", b));
	assert_memory_equal(a, b, sizeof(a));
	assert_true(tls_export(x.s[0], "tent other", c));
	assert_memory_not_equal(a, c, sizeof(a));
	ends_open(&y, SECRET, SECRET);
	talk(&y, 512);
	assert_true(tls_export(y.s[0], "tent test", c));
	assert_memory_not_equal(a, c, sizeof(a));
	ends_close(&y);
	ends_close(&x);
}

static void random_bytes_are_a_fault_or_wait_for_more(void **state)
{
	struct tls *tls = open_with(SECRET);
	uint32_t seed = 11;

	(void)state;
	for (int round = 0; round < 500; round++) {
		struct tls_session *s = tls_session_create(tls, round % 2);
		uint8_t bytes[256], out[512];
		size_t n;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 1664525 + 1013904223;
			bytes[i] = (uint8_t)(seed >> 24);
		}
		if (round % 4 < 2)	/* a record that looks like one */
			memcpy(bytes, "\x16\3\3\0\xf8\1\0\0\xf4\3\3", 11);
		assert_true(tls_put(s, bytes, sizeof(bytes)));
		assert_true(tls_read(s, out, sizeof(out), &n) != TLS_UP);
		assert_false(tls_is_up(s));
		tls_session_free(s);
	}
	tls_close(tls);
}

/* ---- an end of OpenSSL ------------------------------------------------- */

struct foreign {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
	int error;
};

static unsigned int say_psk(SSL *ssl, const char *hint, char *identity, unsigned int room,
			    unsigned char *psk, unsigned int size)
{
	(void)ssl;
	(void)hint;
	snprintf(identity, room, "tent");
	assert_true(size >= 32);
	memcpy(psk, SECRET, 32);
	return 32;
}

static void foreign_open(struct foreign *f, const SSL_METHOD *method)
{
	f->ctx = SSL_CTX_new(method);
	f->in = BIO_new(BIO_s_mem());
	f->out = BIO_new(BIO_s_mem());
}

static void foreign_begin(struct foreign *f, bool calls)
{
	f->ssl = SSL_new(f->ctx);
	SSL_set_bio(f->ssl, f->in, f->out);
	if (calls)
		SSL_set_connect_state(f->ssl);
	else
		SSL_set_accept_state(f->ssl);
}

static void foreign_close(struct foreign *f)
{
	SSL_free(f->ssl);
	SSL_CTX_free(f->ctx);
	ERR_clear_error();
}

/* The end of ours, as it stands when nobody says anything any more. */
static enum tls_result meet(struct foreign *f, struct tls_session *s)
{
	uint8_t bytes[4096];
	enum tls_result result;
	bool any;
	size_t n;
	int rc;

	do {
		any = false;
		rc = SSL_do_handshake(f->ssl);
		f->error = rc == 1 ? 0 : SSL_get_error(f->ssl, rc);
		while ((rc = BIO_read(f->out, bytes, sizeof(bytes))) > 0) {
			tls_put(s, bytes, (size_t)rc);
			any = true;
		}
		do
			result = tls_read(s, bytes, sizeof(bytes), &n);
		while (result == TLS_UP);
		while ((n = tls_take(s, bytes, sizeof(bytes)))) {
			BIO_write(f->in, bytes, (int)n);
			any = true;
		}
	} while (any);
	return result;
}

static int find_theirs(SSL *ssl, const unsigned char *identity, size_t length,
		       SSL_SESSION **session)
{
	static const unsigned char suite[] = { 0x13, 0x02 };

	assert_int_equal(length, 4);
	assert_memory_equal(identity, "tent", 4);
	*session = SSL_SESSION_new();
	return SSL_SESSION_set1_master_key(*session, (const unsigned char *)SECRET, 32) &&
	       SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, suite)) &&
	       SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
}

static int use_theirs(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *length,
		      SSL_SESSION **session)
{
	(void)md;
	*identity = (const unsigned char *)"tent";
	*length = 4;
	return find_theirs(ssl, *identity, *length, session);
}

static void an_engine_is_tls_1_3_to_others(void **state)
{
	struct tls *tls = open_with(SECRET);
	struct tls_session *s;
	struct foreign f;

	(void)state;
	for (int we_call = 0; we_call < 2; we_call++) {
		foreign_open(&f, TLS_method());
		SSL_CTX_set_psk_find_session_callback(f.ctx, find_theirs);
		SSL_CTX_set_psk_use_session_callback(f.ctx, use_theirs);
		foreign_begin(&f, !we_call);
		s = tls_session_create(tls, we_call);
		assert_int_equal(meet(&f, s), TLS_MORE);
		assert_true(tls_is_up(s) && SSL_is_init_finished(f.ssl));
		assert_string_equal(SSL_get_version(f.ssl), "TLSv1.3");
		assert_string_equal(SSL_get_cipher(f.ssl), "TLS_AES_256_GCM_SHA384");
		assert_true(SSL_session_reused(f.ssl));
		tls_session_free(s);
		foreign_close(&f);
	}
	tls_close(tls);
}

static void expect_no_understanding(struct foreign *f, struct tls *tls, bool we_call,
				    const char *what)
{
	struct tls_session *s = tls_session_create(tls, we_call);

	foreign_begin(f, !we_call);
	if (meet(f, s) != TLS_FAULT || tls_is_up(s))
		fail_msg("%s is understood", what);
	assert_true(strlen(tls_fault(s)) > strlen("TLS: "));
	tls_session_free(s);
	foreign_close(f);
}

static void who_knows_no_secret_is_refused(void **state)
{
	struct tls *tls = open_with(SECRET);
	struct foreign f;

	(void)state;
	foreign_open(&f, TLS_method());
	expect_no_understanding(&f, tls, false, "a caller without a secret");
	foreign_open(&f, TLS_method());
	expect_no_understanding(&f, tls, true, "a server without anything");
	foreign_open(&f, TLS_method());
	SSL_CTX_set_max_proto_version(f.ctx, TLS1_2_VERSION);
	SSL_CTX_set_psk_client_callback(f.ctx, say_psk);
	expect_no_understanding(&f, tls, false, "TLS 1.2, with the secret");
	foreign_open(&f, TLS_method());
	SSL_CTX_set_psk_use_session_callback(f.ctx, use_theirs);
	SSL_CTX_set_ciphersuites(f.ctx, "TLS_CHACHA20_POLY1305_SHA256");
	expect_no_understanding(&f, tls, false, "another cipher suite");
	tls_close(tls);
}

/* Whoever listens where an engine did, with a certificate that he made himself. */
static void a_certificate_is_no_secret(void **state)
{
	struct tls *tls = open_with(SECRET);
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	struct foreign f;

	(void)state;
	X509_set_version(certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	assert_true(X509_sign(certificate, key, EVP_sha256()));
	foreign_open(&f, TLS_method());
	assert_int_equal(SSL_CTX_use_certificate(f.ctx, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(f.ctx, key), 1);
	expect_no_understanding(&f, tls, true, "a certificate");
	X509_free(certificate);
	EVP_PKEY_free(key);
	tls_close(tls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_openssls),
		cmocka_unit_test(a_library_that_is_missing_is_named),
		cmocka_unit_test(who_knows_the_secret_is_understood),
		cmocka_unit_test(who_knows_another_secret_is_told_and_both_know_why),
		cmocka_unit_test(nothing_of_the_secret_or_the_words_is_on_the_wire),
		cmocka_unit_test(a_flipped_byte_is_a_fault),
		cmocka_unit_test(what_was_said_once_cannot_be_said_again),
		cmocka_unit_test(both_ends_derive_the_same_and_each_connection_another),
		cmocka_unit_test(random_bytes_are_a_fault_or_wait_for_more),
		cmocka_unit_test(an_engine_is_tls_1_3_to_others),
		cmocka_unit_test(who_knows_no_secret_is_refused),
		cmocka_unit_test(a_certificate_is_no_secret),
	};

	return cmocka_run_group_tests(tests, secret_setup, secret_teardown);
}
