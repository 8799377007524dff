/*
 * compilers/library.h - the library whose functions this one replaces.
 */
#ifndef CK_COMPILERS_LIBRARY_H
#define CK_COMPILERS_LIBRARY_H

/* The function @name of the first library in memory whose file's name begins with @library; NULL:
 * there is none. */
void *ck_compiler_function(const char *library, const char *name);

#endif
