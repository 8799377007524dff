/*
 * tests/loader/entries.h - how many entries a folder has: of /proc/self/fd and the like, one that
 * lists it among them.
 */
#ifndef ENTRIES_H
#define ENTRIES_H

#include <dirent.h>

static inline int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
