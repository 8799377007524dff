/*
 * server/store/start_list.h - the chunks that a program took from the store, in their order, for
 * its next start.
 *
 * The list is a file in the folder of the identity's chunks. It is written under another name and
 * renamed. Safe from all threads.
 */
#ifndef CK_SERVER_STORE_START_LIST_H
#define CK_SERVER_STORE_START_LIST_H

#include <stddef.h>

#include "util/hash.h"

struct cks_chunk_store;
struct cks_start_list;

/* Read the list of the last start of @program, and begin a new one. NULL: no memory, or @store is
 * NULL. @store must outlive it. */
struct cks_start_list *cks_start_list_open(struct cks_chunk_store *store, const char *program);
void cks_start_list_close(struct cks_start_list *list); /* accepts NULL */

/* The chunks that the last start took after @hash, or all of them if @hash is NULL: *@count hashes.
 * NULL: it did not take @hash. */
const struct ck_hash *cks_start_list_after(const struct cks_start_list *list,
					   const struct ck_hash *hash, size_t *count);

/* This start has taken @hash. @list may be NULL. */
void cks_start_list_note(struct cks_start_list *list, const struct ck_hash *hash);

/* Write the new list, if it has become longer since the last time. @list may be NULL. */
void cks_start_list_write(struct cks_start_list *list);

/* The session ends: the same, and if it has taken nothing, the next one need not read ahead. */
void cks_start_list_end(struct cks_start_list *list);

#endif
