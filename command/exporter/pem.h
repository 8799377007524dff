/*
 * command/exporter/pem.h - the certificate and the key that the exporter's HTTPS uses, which may be
 * the server's.
 */
#ifndef CK_COMMAND_EXPORTER_PEM_H
#define CK_COMMAND_EXPORTER_PEM_H

#define CKX_PEM_MAX 65536 /* bytes of a file */

struct ckx_pem {
	char certificate[CKX_PEM_MAX], key[CKX_PEM_MAX];
};

/* Read both files. -errno, printed: one cannot be read, or other users can read the key. */
int ckx_pem_read(const char *certificate, const char *key, struct ckx_pem *out);

/* 0: this machine's libmicrohttpd has TLS; -EOPNOTSUPP, printed. */
int ckx_pem_supported(void);

#endif
