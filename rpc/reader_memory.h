/*
 * rpc/reader_memory.h - memory for long records, shared by the readers of one peer.
 *
 * Each reader has a small buffer (CK_READER_SMALL). For a larger record, it takes a share, waiting
 * if there is none. It returns the share and the memory when it goes on to a record that needs
 * less. If no share is returned for 10 s, waiting readers fail with -ENOBUFS.
 */
#ifndef CK_RPC_READER_MEMORY_H
#define CK_RPC_READER_MEMORY_H

struct ck_reader_memory;

/* Make room for @shares long records at a time. 0 or -ENOMEM. */
int ck_reader_memory_create(unsigned int shares, struct ck_reader_memory **room);

/* For readers: wait for a share; 0 or -ENOBUFS. Return it. */
int ck_reader_memory_take(struct ck_reader_memory *room);
void ck_reader_memory_give(struct ck_reader_memory *room);

#endif
