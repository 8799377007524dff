/*
 * server/session/version.h - the release of this server.
 */
#ifndef CK_SERVER_SESSION_VERSION_H
#define CK_SERVER_SESSION_VERSION_H

#ifndef CK_RELEASE
#define CK_RELEASE "0.1" /* the build may define another */
#endif

#endif
