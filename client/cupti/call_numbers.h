/*
 * client/cupti/call_numbers.h - CUPTI's numbers of the driver's calls, for the generated functions
 * that the library exports.
 */
#ifndef CK_CLIENT_CUPTI_CALL_NUMBERS_H
#define CK_CLIENT_CUPTI_CALL_NUMBERS_H

enum {
#define CKC_CUPTI_NAME(id, name) CKC_CALL_##name = (id),
#include "client/cupti/driver_names.def"
#undef CKC_CUPTI_NAME
};

#endif
