/*
 * server/front/front.h - the process `--tls-front CERT KEY [CA]`, which has the private key.
 *
 * Its descriptor 3 is a SOCK_SEQPACKET socket of the supervisor, with which it ends. It first sends
 * one message: CK_FRONT_READY and a text for the log, or a text that describes the error in the
 * files.
 */
#ifndef CK_SERVER_FRONT_FRONT_H
#define CK_SERVER_FRONT_FRONT_H

#define CK_FRONT_ARGUMENT "--tls-front"
#define CK_FRONT_CONTROL 3

#define CK_FRONT_READY 'R'

/* From the supervisor: with two descriptors, a connection and the relay's end of a pair; read the
 * files again. Bytes on the pair before its end has a name (rpc/relayed.h) are no client's: they
 * are CK_FRONT_ANSWERS, then why the client's certificate is refused. */
#define CK_FRONT_CONNECTION 'C'
#define CK_FRONT_RELOAD 'L'
/* The client has answered the front process's question. No record of a client begins so. */
#define CK_FRONT_ANSWERS 'A'
/* The answer to CK_FRONT_RELOAD is itself, or this and why the earlier files stay in use. */
#define CK_FRONT_STAYS 'S'

/* @files: certificate, key, and authorities or NULL. Returns the exit status. */
int cks_front_main(char **files);

#endif
