/*
 * server/modules/answer_store.h - answers about kernels that a program asked for, kept for its next
 * start.
 *
 * A client tells the server what it has learned from its driver: pairs of a digest of the question
 * and the answer. The server does not look into them. It keeps them in a file for the identity, the
 * program, and the world: everything here that could change an answer. It sends them with the next
 * hello of the same three. So only the same identity uses its answers.
 */
#ifndef CK_SERVER_MODULES_ANSWER_STORE_H
#define CK_SERVER_MODULES_ANSWER_STORE_H

#include <stddef.h>

#include "util/hash.h"

/* Files of all identities. Beyond, the one that has most loses its least recently used one. */
#define CK_ANSWER_STORE_FILES 256

struct cks_answer_store;

/* Open the file in @cache_dir (see cks_cachedir_open). NULL: nothing is kept. */
struct cks_answer_store *cks_answer_store_open(const char *cache_dir,
					       const struct ck_hash *identity, const char *program,
					       const struct ck_hash *world);
void cks_answer_store_close(struct cks_answer_store *answers);

/* Read the kept answers into memory from malloc, *@size bytes. NULL: nothing. */
void *cks_answer_store_read(const struct cks_answer_store *answers, size_t *size);

/* Add pairs, @size bytes. -ENOSPC: the file is full; -EINVAL: no whole pairs. */
int cks_answer_store_add(struct cks_answer_store *answers, const void *pairs, size_t size);

#endif
