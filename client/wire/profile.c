/*
 * client/wire/profile.c - see profile.h.
 */
#include "client/wire/profile.h"

atomic_bool ckc_profile_on, ckc_profile_watch;
