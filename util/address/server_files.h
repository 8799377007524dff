/*
 * util/address/server_files.h - where a server's certificate, key and tokens are unless its options
 * say otherwise.
 *
 * For root on a host with the packaged service: in /etc/cricket, readable for the service's group.
 * For others, and root on other hosts: in cricket/server of the user's folder for configuration.
 */
#ifndef CK_UTIL_ADDRESS_SERVER_FILES_H
#define CK_UTIL_ADDRESS_SERVER_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#define CK_SERVER_FILES_PATH 512
#define CK_SERVICE "cricket-rpc-server" /* of systemd */

struct ck_server_files {
	char folder[CK_SERVER_FILES_PATH - 64];
	char tls[CK_SERVER_FILES_PATH - 32]; /* folder of cert.pem and key.pem */
	char tokens[CK_SERVER_FILES_PATH];   /* the list, see token_file.h */
	bool service;			     /* they are the packaged service's */
	gid_t group;			     /* that reads them, of the service */
};

/* Which files are those of this user's server? -ENOENT: the user has no folder; -ENAMETOOLONG. */
int ck_server_files_find(struct ck_server_files *files);

/* Make the folders. -errno. */
int ck_server_files_make(const struct ck_server_files *files);

/* Let the service, if there is one, read file @path, which only its owner may change. -errno. */
int ck_server_files_share(const struct ck_server_files *files, const char *path);

#endif
