/*
 * rpc/tls.h - TLS 1.3 (OpenSSL) over a channel, begun as RFC 9289 says.
 *
 * Whoever connects sends a call of procedure 0 with the credential AUTH_TLS, the probe. A server
 * with TLS answers with the verifier "STARTTLS", and the handshake follows on the same connection.
 * The channel that results is used as any other.
 *
 * One context serves many channels, from any thread, and must outlive them. It reads no
 * configuration of OpenSSL and registers no exit handler: the client is a library in another
 * program, which may have an OpenSSL of its own.
 */
#ifndef CK_RPC_TLS_H
#define CK_RPC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

#define CK_TLS_WHY 320
#define CK_TLS_NAME 64 /* of a certificate's owner, with the final 0 */
#define CK_TLS_PIN 72  /* "sha256:" and 64 digits, with the final 0 */

#define CK_AUTH_TLS 7 /* the flavour of a probe's credential, RFC 9289 section 4.1 */
/* The first byte of a handshake, RFC 8446 section 5.1; an RPC record begins with 0x80. */
#define CK_TLS_FIRST_BYTE 0x16

struct ck_tls;

/* Files are PEM; NULL: none. */
struct ck_tls_files {
	const char *cert, *key; /* this end's; both or none; a server needs them */
	const char
		*ca; /* signers of the peer's certificate. Client: NULL, the system's authorities */
	const char
		*pin; /* client: the peer's key, or a list of keys, instead of authority and name */
};

/* @why: the error, with the name of the file. -errno. */
int ck_tls_create_client(const struct ck_tls_files *files, struct ck_tls **tls,
			 char why[CK_TLS_WHY]);
int ck_tls_create_server(const struct ck_tls_files *files, struct ck_tls **tls,
			 char why[CK_TLS_WHY]);
void ck_tls_destroy(struct ck_tls *tls);

/* The pin of this end's own certificate. False: it has none. */
bool ck_tls_own_pin(const struct ck_tls *tls, char pin[CK_TLS_PIN]);

/* The pin of the peer's key, after the handshake. False: @chan is not encrypted. */
bool ck_tls_peer_pin(struct ck_chan *chan, char pin[CK_TLS_PIN]);

/* Is @text a pin, "sha256:" and 64 hexadecimal digits? */
bool ck_tls_is_pin(const char *text);
/* Is it a list of pins, separated by commas or blanks? */
bool ck_tls_are_pins(const char *text);
/* Is @pin in the list? */
bool ck_tls_has_pin(const char *pins, const char *pin);

/*
 * Make a certificate for a server with these @names (the first is its subject), valid for ten
 * years, in @folder, which is made if it is missing, with the key that is there, or with a new one.
 * The pin of a key is that of all its certificates. A certificate that an authority has signed, or
 * whose key is not there, is not replaced. -errno, with @why.
 */
#define CK_TLS_CERT_FILE "cert.pem"
#define CK_TLS_KEY_FILE "key.pem"
int ck_tls_new_certificate(const char *folder, char *const *names, size_t count,
			   char pin[CK_TLS_PIN], char why[CK_TLS_WHY]);

/* May @name be in a certificate: the name or the numeric address of a host, and nothing else? */
bool ck_tls_is_host(const char *name);

/* Send the probe, and read the answer: -EOPNOTSUPP: the server has no TLS; -EPROTO: it is no server
 * of ours. The answer may also be read from the channel that ck_tls_open has made, after
 * ck_tls_begin. */
int ck_tls_probe(struct ck_chan *connection);
int ck_tls_probed(struct ck_chan *connection);

/* The same of an answer that was received, without its mark. */
int ck_tls_parse_answer(const unsigned char *body, size_t size);

/* The server's answer to a probe with this @xid. */
#define CK_TLS_ANSWER 36
void ck_tls_answer(uint32_t xid, unsigned char answer[CK_TLS_ANSWER]);

/*
 * Make a channel over @connection, which is closed with it, or on error. @host: the name that the
 * server's certificate must have; NULL at the server's end. ck_tls_begin sends the client's first
 * message, so that several channels can begin before one waits; ck_tls_finish makes the handshake.
 * Both return -errno: -EACCES, with @why, if an end trusts the other one not. The channel's timeout
 * applies.
 */
int ck_tls_open(struct ck_tls *tls, const char *host, struct ck_chan *connection,
		struct ck_chan **chan);
int ck_tls_begin(struct ck_chan *chan, char why[CK_TLS_WHY]);
int ck_tls_finish(struct ck_chan *chan, char why[CK_TLS_WHY]);

/*
 * A server's handshake without waiting: take the bytes that have come, at least one, and answer. 0:
 * it is done; -EAGAIN: it is the peer's turn; else as ck_tls_finish.
 */
int ck_tls_step(struct ck_chan *chan, char why[CK_TLS_WHY]);

/*
 * Before the first ck_tls_step: do no more for the client than ask it for a cookie until it has
 * sent that back, which costs the client a round trip; -errno. Does that go on?
 */
int ck_tls_ask(struct ck_chan *chan);
bool ck_tls_asks(struct ck_chan *chan);

/* Has this end ended the handshake because it does not accept the peer's certificate? */
bool ck_tls_distrusts(struct ck_chan *chan);

/* Close @chan in this process alone, after a fork: the other process goes on with the
 * connection. */
void ck_tls_leave(struct ck_chan *chan);

/* Say that no more comes, and close the writing direction. The thread that reads goes on. */
void ck_tls_end(struct ck_chan *chan);

/* The owner of the peer's certificate, after the handshake; empty: it has shown none. -EINVAL: a
 * name that is no identity. */
int ck_tls_peer_name(struct ck_chan *chan, char name[CK_TLS_NAME]);

/*
 * Further connections of a session (D23). The reply to hello, which is encrypted, has a secret of
 * the session. Its holder begins TLS with it, and with ephemeral keys, so that neither the secret
 * nor the key of a certificate opens a recording. The ClientHello names the session, in plain text.
 */
#define CK_TLS_SESSION 16
#define CK_TLS_SECRET 32

/* The server's end for the holders of @secret, which shows no certificate. It copies the secret,
 * and wipes the copy. Each ClientHello is good once. -errno, with @why. */
int ck_tls_create_session(const unsigned char session[CK_TLS_SESSION],
			  const unsigned char secret[CK_TLS_SECRET], struct ck_tls **tls,
			  char why[CK_TLS_WHY]);

/* The client's end, before ck_tls_begin: offer the secret, of which @chan has a copy until the
 * handshake ends. @number: rises from one connection of the session to the next. A server that does
 * not have the secret shows its certificate, as without. */
void ck_tls_offer(struct ck_chan *chan, const unsigned char session[CK_TLS_SESSION],
		  const unsigned char secret[CK_TLS_SECRET], uint64_t number);

/* Did the handshake use the secret of a session? */
bool ck_tls_by_secret(struct ck_chan *chan);

/* Find the session that a ClientHello names, the whole first record of a connection. False: it
 * names none. */
bool ck_tls_hello_session(const unsigned char *record, size_t size,
			  unsigned char session[CK_TLS_SESSION]);

/* "TLSv1.3, TLS_AES_128_GCM_SHA256"; false: @chan is not encrypted. */
bool ck_tls_describe(struct ck_chan *chan, char *text, size_t size);

/* Let keys change after so many bytes in one direction. For tests. */
void ck_tls_rekey_after(struct ck_chan *chan, uint64_t bytes);

#endif
