/*
 * util/process/home.h - the home folder of this process's user.
 */
#ifndef CK_UTIL_PROCESS_HOME_H
#define CK_UTIL_PROCESS_HOME_H

#define CK_HOME_NONE "this user has no home folder: set HOME to an absolute path"

/* The absolute path in HOME, else that of the user's entry; NULL: the user has no home. */
const char *ck_home(void);

#endif
