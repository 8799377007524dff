/*
 * rpc/attributes.h - attributes of a function, as ck_attributes returns them: an array indexed by
 * CUfunction_attribute, as long as the server knows them.
 */
#ifndef CK_RPC_ATTRIBUTES_H
#define CK_RPC_ATTRIBUTES_H

#include <stdint.h>

struct ck_function_attribute {
	int32_t error; /* CUresult; the value counts if it is 0 */
	int32_t value;
};

#endif
