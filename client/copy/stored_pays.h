/*
 * client/copy/stored_pays.h - whether it is faster to upload by chunks that the server has or keeps
 * (client/copy/stored_upload.c), than to send the bytes.
 *
 * It is, if the network is slower than hashing, reading and writing. The rates of the network, of
 * bytes that are sent and kept, and of those that the server has, are measured and compared. If a
 * round trip of a millisecond or more hides the network's rate, the network is taken to be slow.
 * CRICKET_WEIGHTS=on and off decide without measurements; over shared memory and unix sockets
 * nothing is kept.
 */
#ifndef CK_CLIENT_COPY_STORED_PAYS_H
#define CK_CLIENT_COPY_STORED_PAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ckc_client;
struct ckc_upload_source;

/* Does the user ask for it, however fast the network is? */
bool ckc_stored_always(void);

/* It pays, or may pay if the network's rate is not known. */
bool ckc_stored_pays(struct ckc_client *c);
/* It pays, as far as it is known. */
bool ckc_stored_pays_known(struct ckc_client *c);
/* Is the next upload, which the index may have @known, one of bytes that the server may lack, over
 * a network whose rate is to be measured first? */
bool ckc_stored_needs_sample(struct ckc_client *c, bool known);
/* It pays even if all bytes are hashed before any is sent. */
bool ckc_stored_pays_hashing(struct ckc_client *c);
/* It pays for the bytes at [@bytes, @bytes+@size): the caller must close @source. False: it does
 * not, and there is nothing to close. */
bool ckc_stored_pays_open(struct ckc_client *c, const void *bytes, size_t size,
			  struct ckc_upload_source *source);

/* The bytes of @source are not in the index. False: they are one of many such uploads, not from
 * files, for device memory that was filled before. These are the data of a program that runs: to
 * keep them would remove chunks that a start needs. */
bool ckc_stored_pays_new(struct ckc_client *c, const struct ckc_upload_source *source, uint64_t dst,
			 size_t size);

/* Take the rate that an earlier session has measured for this server, if this one has not measured
 * any; and note this session's. In the file @index (client/copy/chunk_index.h). */
void ckc_stored_recall_link(struct ckc_client *c, int index);
void ckc_stored_note_link(struct ckc_client *c, int index);

/* An upload took @ns. */
struct ckc_stored_measure {
	size_t size, stored; /* bytes; those of them that the server had */
	bool packed;	     /* some may have been compressed */
	uint64_t ns;
};
void ckc_stored_measured(struct ckc_client *c, const struct ckc_stored_measure *upload);

#endif
