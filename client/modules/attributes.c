/*
 * client/modules/attributes.c - ask for all attributes of a function with one message.
 *
 * The runtime's cudaFuncGetAttributes() asks for ten, one after another, and libraries do so for
 * each kernel that they start for the first time: over a network each question would be a round
 * trip. An attribute for which the driver reports an error is asked for by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "client/modules/state.h"
#include "client/link/client.h"
#include "client/link/hooks.h"
#include "rpc/attributes.h"
#include "rpc/proc.h"
#include "util/util.h"

/* The words of a key (wire/cache.c): those of a kernel have a device, too. */
enum { PROC, CONTEXT, ATTRIBUTE, FUNCTION, DEVICE, KERNEL_WORDS, FUNCTION_WORDS = DEVICE };

static bool take_key(const void *bytes, size_t size, uint64_t key[KERNEL_WORDS])
{
	size_t words = size / sizeof(*key);

	if (words != FUNCTION_WORDS && words != KERNEL_WORDS)
		return false;
	memcpy(key, bytes, size);
	return key[ATTRIBUTE] < CU_FUNC_ATTRIBUTE_MAX &&
	       key[PROC] == (words == KERNEL_WORDS ? CK_PROC_cuKernelGetAttribute
						   : CK_PROC_cuFuncGetAttribute);
}

/* Put all into the cache but the one that was asked for, which goes to @value. */
static bool put_all(const struct ck_function_attribute *all, size_t count,
		    uint64_t key[KERNEL_WORDS], size_t key_size, int *value)
{
	uint64_t asked = key[ATTRIBUTE];

	for (size_t i = 0; i < count; i++) {
		key[ATTRIBUTE] = i;
		if (i != asked && !all[i].error)
			ckc_cache_put_ahead(key, key_size, &all[i].value, sizeof(all[i].value));
	}
	if (asked >= count || all[asked].error)
		return false;
	*value = all[asked].value;
	return true;
}

static bool ask_for_all(const void *bytes, size_t size, void *value, size_t value_size)
{
	uint64_t key[KERNEL_WORDS] = {0};
	void *all = NULL;
	size_t got = 0;
	bool found = false;

	if (value_size != sizeof(int) || !take_key(bytes, size, key) ||
	    !ckc_session_offers(ckc_client_current(), CK_PROC_attributes))
		return false;
	if (!ck_wire_attributes(key[CONTEXT], key[FUNCTION],
				key[PROC] == CK_PROC_cuKernelGetAttribute, (int)key[DEVICE], &all,
				&got))
		found = put_all(all,
				ck_min(got / sizeof(struct ck_function_attribute),
				       (size_t)CU_FUNC_ATTRIBUTE_MAX),
				key, size, value);
	free(all);
	return found;
}
CK_HOOK(inquire, attributes, ask_for_all);
