/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_api.h - what we use of OpenSSL 3. It is found by name, and only when there is a
 * peers/secret_file: a program that links libtent does not get it. Types and numbers
 * are of OpenSSL's stable ABI; tests/test_tls.c holds them against its headers.
 */
#ifndef TENT_ENGINE_TLS_API_H
#define TENT_ENGINE_TLS_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_LIBRARY "libssl.so.3"

typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;
typedef struct evp_md_st EVP_MD;
typedef struct ssl_cipher_st SSL_CIPHER;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct ssl_session_st SSL_SESSION;
typedef struct ssl_st SSL;
typedef struct x509_store_ctx_st X509_STORE_CTX;

typedef int (*tls_find_session)(SSL *ssl, const unsigned char *identity, size_t length,
				SSL_SESSION **session);
typedef int (*tls_use_session)(SSL *ssl, const EVP_MD *md, const unsigned char **identity,
			       size_t *length, SSL_SESSION **session);
typedef int (*tls_verify)(int good, X509_STORE_CTX *store);

#define TLS_FUNCTIONS(X)							\
	X(const SSL_METHOD *, TLS_method, (void))				\
	X(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method))			\
	X(void, SSL_CTX_free, (SSL_CTX *ctx))					\
	X(long, SSL_CTX_ctrl, (SSL_CTX *ctx, int what, long value, void *more))	\
	X(uint64_t, SSL_CTX_set_options, (SSL_CTX *ctx, uint64_t options))	\
	X(int, SSL_CTX_set_ciphersuites, (SSL_CTX *ctx, const char *list))	\
	X(int, SSL_CTX_set_num_tickets, (SSL_CTX *ctx, size_t nr))		\
	X(int, SSL_CTX_set_ex_data, (SSL_CTX *ctx, int index, void *data))	\
	X(void *, SSL_CTX_get_ex_data, (const SSL_CTX *ctx, int index))		\
	X(void, SSL_CTX_set_psk_find_session_callback,				\
	  (SSL_CTX *ctx, tls_find_session find))				\
	X(void, SSL_CTX_set_psk_use_session_callback,				\
	  (SSL_CTX *ctx, tls_use_session use))					\
	X(SSL *, SSL_new, (SSL_CTX *ctx))					\
	X(void, SSL_free, (SSL *ssl))						\
	X(SSL_CTX *, SSL_get_SSL_CTX, (const SSL *ssl))				\
	X(void, SSL_set_bio, (SSL *ssl, BIO *in, BIO *out))			\
	X(void, SSL_set_verify, (SSL *ssl, int mode, tls_verify judge))		\
	X(void, SSL_set_accept_state, (SSL *ssl))				\
	X(void, SSL_set_connect_state, (SSL *ssl))				\
	X(int, SSL_do_handshake, (SSL *ssl))					\
	X(int, SSL_read, (SSL *ssl, void *bytes, int size))			\
	X(int, SSL_write, (SSL *ssl, const void *bytes, int size))		\
	X(int, SSL_get_error, (const SSL *ssl, int rc))				\
	X(int, SSL_session_reused, (const SSL *ssl))				\
	X(int, SSL_export_keying_material,					\
	  (SSL *ssl, unsigned char *out, size_t size, const char *label,	\
	   size_t length, const unsigned char *context, size_t context_length,	\
	   int use_context))							\
	X(const SSL_CIPHER *, SSL_CIPHER_find, (SSL *ssl, const unsigned char *id)) \
	X(SSL_SESSION *, SSL_SESSION_new, (void))				\
	X(void, SSL_SESSION_free, (SSL_SESSION *session))			\
	X(int, SSL_SESSION_set1_master_key,					\
	  (SSL_SESSION *session, const unsigned char *key, size_t size))	\
	X(int, SSL_SESSION_set_cipher,						\
	  (SSL_SESSION *session, const SSL_CIPHER *cipher))			\
	X(int, SSL_SESSION_set_protocol_version, (SSL_SESSION *session, int version)) \
	X(const BIO_METHOD *, BIO_s_mem, (void))				\
	X(BIO *, BIO_new, (const BIO_METHOD *method))				\
	X(int, BIO_free, (BIO *bio))						\
	X(int, BIO_read, (BIO *bio, void *bytes, int size))			\
	X(int, BIO_write, (BIO *bio, const void *bytes, int size))		\
	X(const EVP_MD *, EVP_sha256, (void))					\
	X(unsigned char *, HMAC,						\
	  (const EVP_MD *md, const void *key, int key_size,			\
	   const unsigned char *bytes, size_t size, unsigned char *out,		\
	   unsigned int *out_size))						\
	X(void, ERR_clear_error, (void))					\
	X(unsigned long, ERR_peek_error, (void))				\
	X(const char *, ERR_reason_error_string, (unsigned long error))

struct tls_api {
#define TLS_POINTER(result, name, args) result (*name) args;
	TLS_FUNCTIONS(TLS_POINTER)
#undef TLS_POINTER
};

/* OpenSSL's numbers; its names without SSL_. */
enum {
	TLS_VERSION_1_3 = 0x0304,
	TLS_VERIFY_PEER = 1,
	TLS_ERROR_WANT_READ = 2, TLS_ERROR_ZERO_RETURN = 6,
	TLS_CTRL_MODE = 33, TLS_CTRL_SET_SESS_CACHE_MODE = 44, TLS_CTRL_SET_GROUPS_LIST = 92,
	TLS_CTRL_SET_MIN_PROTO_VERSION = 123, TLS_CTRL_SET_MAX_PROTO_VERSION = 124,
	TLS_SESS_CACHE_OFF = 0,
	TLS_MODE_RELEASE_BUFFERS = 0x10,
	TLS_OP_NO_TICKET = 1 << 14, TLS_OP_NO_RENEGOTIATION = 1 << 30,
	TLS_REASON_BINDER_DOES_NOT_VERIFY = 253, TLS_REASON_ALERT_HANDSHAKE_FAILURE = 1040,
	TLS_REASON_ALERT_ILLEGAL_PARAMETER = 1047, TLS_REASON_ALERT_DECRYPT_ERROR = 1051
};

/* Fills a table. False: the sentence of what is missing is in missing. */
bool tls_api_load(struct tls_api *api, const char *library, char *missing, size_t size);

/* The one of this process: callbacks of OpenSSL get nothing to find another by. NULL:
 * *missing says why. Any thread; waits for the disk the first time. */
const struct tls_api *tls_api_get(const char **missing);

#endif /* TENT_ENGINE_TLS_API_H */
