/*
 * loader/sites.h - the places in a libc's file of the system calls that the loader intercepts.
 */
#ifndef CK_LOADER_SITES_H
#define CK_LOADER_SITES_H

#include "loader/sys.h"

#define CK_SITES 48	 /* more of them in one file are refused */
#define CK_SITE_BYTES 34 /* at most, between a site's beginning and its system call */

/* Others make calls themselves, but need not: libpthread up to glibc 2.33, and UCX's libucm. */
enum ck_file { CK_FILE_LDSO, CK_FILE_LIBC, CK_FILE_OTHER };

enum ck_call {
	CK_CALL_MMAP,
	CK_CALL_MUNMAP,
	CK_CALL_BRK,
	CK_CALL_SIGACTION,
	CK_CALL_MREMAP,
	CK_CALL_ANY,
	CK_CALLS
};

/*
 * One place: it begins with an instruction of 5 bytes or more and ends behind the system call; all
 * but the latter does the same at any other address.
 */
struct ck_site {
	uint64_t offset;    /* in the file */
	uint8_t size, call; /* bytes, those of the system call included; enum ck_call */
};

struct ck_sites {
	unsigned int count;
	struct ck_site site[CK_SITES];
	const char *call;     /* -ENOEXEC: the call that was not found as it must be, ... */
	const char *function; /* ... and the exported function in which it was not found; NULL: in
				 all the file */
};

/* "mmap", ..., "syscall()" */
const char *ck_sites_name(unsigned int call);

/*
 * Looks through the bytes of a file of this kind. 0; -ENOEXEC when a call that such a file must
 * have is not there, or not in the function of its name, or when it is no ELF file (call is NULL
 * then).
 * @found has the result in any case.
 */
int ck_sites_find(enum ck_file kind, const uint8_t *file, size_t size, struct ck_sites *found);

#endif
