/*
 * rpc/transport/tls.h - the parts of TLS: contexts (tls_context.c), channels (tls.c), their memory
 * (tls_memory.c), handshakes (tls_shake.c), the secret of a session (tls_secret.c, tls_hello.c).
 */
#ifndef CK_RPC_TRANSPORT_TLS_H
#define CK_RPC_TRANSPORT_TLS_H

#include <pthread.h>
#include <openssl/ssl.h>

#include "rpc/tls.h"
#include "rpc/transport/transport.h"

#define CK_TLS_RECORD 16384		 /* plain bytes of a record */
#define CK_TLS_PIECE (8 * CK_TLS_RECORD) /* encrypted at a time, and sent by one call */

struct ck_tls {
	OSSL_LIB_CTX *library; /* apart from the program's, and without a configuration */
	SSL_CTX *context;
	char *pins; /* NULL: none */
	BIO_METHOD *method;
	bool server;
	struct ck_tls_secret *secret; /* of a session, in place of a certificate; NULL: none */
};

#define CK_TLS_IDENTITY 56 /* letters of a session's name in a ClientHello */

/* Bytes on their way between OpenSSL and the connection. */
struct ck_tls_bytes {
	unsigned char *data;
	size_t from, to, room;
};

/* Has the client shown that it receives answers at its address? See ck_tls_ask. */
enum ck_tls_proof {
	CK_TLS_PROOF_NONE, /* it does not have to */
	CK_TLS_PROOF_WANTED,
	CK_TLS_PROOF_ASKED,
	CK_TLS_PROOF_AWAITED, /* the answer has begun */
	CK_TLS_PROOF_GIVEN
};

struct ck_tls_chan {
	struct ck_chan base;
	struct ck_chan *inner;
	const struct ck_tls *tls;
	SSL *ssl;
	pthread_mutex_t lock;	     /* of all below; held by no thread that waits */
	struct ck_tls_bytes in;	     /* received; the thread that reads fills it without the lock */
	struct ck_tls_bytes out;     /* made by OpenSSL */
	struct ck_tls_bytes sending; /* the thread that writes sends it without the lock */
	unsigned char *small;  /* pieces that make one record together; of the thread that writes */
	int failed;	       /* -errno: nothing more can be read, or written */
	uint64_t sent, rekey;  /* bytes since the keys changed; after how many they do */
	pid_t process;	       /* a forked child only closes the descriptor */
	char host[256];	       /* the server's name that was wanted */
	char seen[CK_TLS_PIN]; /* the pin of the peer's key */
	char dates[80];	       /* of the peer's certificate: "2026-01-02 and 2027-01-02" */
	char why[CK_TLS_WHY];  /* the reason of a failed handshake */
	/* The client's: it offers the secret of a session in its handshake. */
	bool offers;
	unsigned char secret[CK_TLS_SECRET];
	char identity[CK_TLS_IDENTITY + 1];
	/* The server's: the number of the client's ClientHello; it counts as used. */
	uint64_t number;
	bool taken;
	enum ck_tls_proof proof;
	unsigned char cookie[16];
};

static inline struct ck_tls_chan *ck_tls_chan_of(struct ck_chan *chan)
{
	return (struct ck_tls_chan *)chan;
}

/* Is @chan one of these? */
bool ck_tls_is(const struct ck_chan *chan);

/* OpenSSL's way to the bytes of a channel. NULL: no memory. */
BIO_METHOD *ck_tls_method(void);

/* Without the lock: read at least 1 byte from the connection; send OpenSSL's bytes.
 * -errno. */
int ck_tls_fetch(struct ck_tls_chan *t);
int ck_tls_flush(struct ck_tls_chan *t);

/* The server at the other end must have this name, or address. -errno. */
int ck_tls_expect(struct ck_tls_chan *t, const char *host);

/* OpenSSL's last queued error, in words, into @why. */
void ck_tls_reason(const char *what, char why[CK_TLS_WHY]);

/* The owner of a certificate: the common name of its subject, else the first name or mail address
 * for which it was made. False: there is none that can be an identity. */
bool ck_tls_name_of(X509 *certificate, char name[CK_TLS_NAME]);

/* The pin of a certificate's key. False: it cannot be made. */
bool ck_tls_pin_of(X509 *certificate, char pin[CK_TLS_PIN]);

/* A server's context without a certificate. -errno, with @why. */
int ck_tls_create_bare(struct ck_tls **tls, char why[CK_TLS_WHY]);

/* The secret of a session: let a client's context offer it; wipe a channel's copy; after a step of
 * a server's handshake, count its ClientHello as used (-EACCES: it was before); accepts NULL. */
void ck_tls_secret_client(SSL_CTX *context);
void ck_tls_secret_done(struct ck_tls_chan *t);
int ck_tls_secret_taken(struct ck_tls_chan *t);
void ck_tls_secret_free(struct ck_tls_secret *secret);

/* Let a server's context make cookies; a step of its handshake until the client has sent one back:
 * 0: it has; -EAGAIN: OpenSSL may have made bytes to send; -EPROTO: OpenSSL has said why. */
void ck_tls_cookie_server(SSL_CTX *context);
int ck_tls_cookie_step(struct ck_tls_chan *t);

/* A session's name in a ClientHello. @number may be NULL. False: it is nothing of ours. */
bool ck_tls_identity_parse(const unsigned char *identity, size_t size,
			   unsigned char session[CK_TLS_SESSION], uint64_t *number);

/* Can only its owner, and perhaps a group, read the key in file @path? A key that other users can
 * read is no secret. -errno, with @why. */
int ck_tls_check_key(const char *path, char why[CK_TLS_WHY]);

#endif
