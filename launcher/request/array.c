/*
 * launcher/request/array.c - one array of a request: its type, where its bytes are, whether it
 * comes back.
 */
#include <errno.h>
#include <string.h>

#include "launcher/request/request.h"
#include "util/util.h"

static const char *const array_keys[] = {"type", "data", "b64",	 "shm",	 "ref",	 "n",
					 "at",	 "mode", "keep", "name", "value"};

int ckl_reading_type(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object)
{
	const char *name = NULL;
	int ret = ckl_reading_string(r, object, "type", &name);

	if (ret < 0 || !name)
		return ret;
	arg->type = ckl_type_find(name);
	if (arg->type == CK_TYPE_NONE)
		return ckl_fail_input(r->fail, "there is no type \"%s\"", name);
	return 0;
}

static void leaf_set(struct ckl_reading *r, struct ckl_arg *arg, const struct ckl_leaf *leaf)
{
	arg->source = CK_FROM_TEXT;
	arg->text = r->text + leaf->start;
	arg->text_size = leaf->end - leaf->start;
	arg->count = leaf->count;
}

/* "n" and the size in bytes; @known: the count is given already, and n may only agree. */
static int count_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object, bool known)
{
	uint64_t count = arg->count;
	int ret = ckl_reading_number(r, object, "n", INT64_MAX, &count);

	if (ret < 0)
		return ret;
	if (known && count != arg->count)
		return ckl_fail_input(r->fail, "%s: \"n\" is %llu, but there are %zu elements",
				      arg->name, (unsigned long long)count, arg->count);
	if (!known && !json_object_get(object, "n"))
		return ckl_fail_input(r->fail, "%s: \"n\" is missing", arg->name);
	arg->count = count;
	if (ck_mul_overflow(arg->count, ckl_type_size(arg->type), &arg->size) ||
	    arg->size > INT64_MAX)
		return ckl_fail_input(r->fail, "%s is too large", arg->name);
	return 0;
}

/* Elements in the frame. */
static int bytes_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object)
{
	uint64_t at = 0;
	int ret = ckl_reading_number(r, object, "at", INT64_MAX, &at);

	if (ret == 0)
		ret = count_set(r, arg, object, false);
	if (ret < 0)
		return ret;
	if (at > r->data_size || arg->size > r->data_size - at)
		return ckl_fail_input(r->fail, "%s reaches beyond the %zu bytes of data", arg->name,
				      r->data_size);
	arg->source = CK_FROM_BYTES;
	arg->data = r->data + at;
	return 0;
}

static int base64_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object,
		      const json_t *value)
{
	size_t length = json_string_length(value), bytes = length / 4 * 3;
	const char *text = json_string_value(value);

	if (!text || length % 4 != 0)
		return ckl_fail_input(r->fail, "%s: \"b64\" is not base64", arg->name);
	for (size_t i = length; i > 0 && i > length - 2 && text[i - 1] == '='; i--)
		bytes--;
	if (bytes % ckl_type_size(arg->type) != 0)
		return ckl_fail_input(r->fail, "%s: %zu bytes are not a whole number of elements",
				      arg->name, bytes);
	arg->source = CK_FROM_BASE64;
	arg->text = text;
	arg->text_size = length;
	arg->count = bytes / ckl_type_size(arg->type);
	return count_set(r, arg, object, true);
}

/* An array whose bytes are not in the document: they are in shared memory or on the GPU. */
static int elsewhere_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object)
{
	int ret = ckl_reading_string(r, object, "ref", &arg->text);

	if (ret < 0)
		return ret;
	if (arg->text) {
		arg->source = CK_FROM_GPU;
		return 0;
	}
	ret = ckl_reading_string(r, object, "shm", &arg->text);
	if (ret < 0)
		return ret;
	arg->source = arg->text ? CK_FROM_SHM : CK_FROM_ZEROES;
	return count_set(r, arg, object, false);
}

static int source_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object)
{
	const json_t *data = json_object_get(object, "data"), *b64 = json_object_get(object, "b64");
	int given = !!data + !!b64 + !!json_object_get(object, "shm") +
		    !!json_object_get(object, "ref") + !!json_object_get(object, "at");
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, data);

	if (given > 1)
		return ckl_fail_input(r->fail, "%s has its data in more than one place", arg->name);
	if (data && !leaf)
		return ckl_fail_input(r->fail, "%s: \"data\" is not a flat list", arg->name);
	if (leaf) {
		leaf_set(r, arg, leaf);
		return count_set(r, arg, object, true);
	}
	if (b64)
		return base64_set(r, arg, object, b64);
	if (json_object_get(object, "at"))
		return bytes_set(r, arg, object);
	return elsewhere_set(r, arg, object);
}

/* "mode" and "keep": whether it comes back and whether it stays. */
static int mode_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object)
{
	const json_t *keep = json_object_get(object, "keep");
	const char *mode = NULL;
	int ret = ckl_reading_string(r, object, "mode", &mode);

	if (ret < 0)
		return ret;
	if (keep && !json_is_boolean(keep))
		return ckl_fail_input(r->fail, "%s: \"keep\" is neither true nor false", arg->name);
	arg->keep = json_is_true(keep);
	/* An array that stays on the GPU is not returned unless the mode asks for it. */
	arg->returned = !arg->keep && arg->source != CK_FROM_GPU;
	if (!mode)
		return 0;
	if (strcmp(mode, "in") != 0 && strcmp(mode, "out") != 0 && strcmp(mode, "inout") != 0)
		return ckl_fail_input(r->fail, "%s: there is no mode \"%s\"", arg->name, mode);
	arg->returned = strcmp(mode, "in") != 0;
	/* The kernel does not read the former content of an output. */
	if (strcmp(mode, "out") == 0 && arg->source != CK_FROM_GPU && arg->source != CK_FROM_SHM)
		arg->source = CK_FROM_ZEROES;
	return 0;
}

static int keys_check(struct ckl_reading *r, const char *name, json_t *object)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(object, key, value)
	{
		for (i = 0; i < CK_ARRAY_SIZE(array_keys); i++) {
			if (strcmp(key, array_keys[i]) == 0)
				break;
		}
		if (i == CK_ARRAY_SIZE(array_keys))
			return ckl_fail_input(r->fail, "%s: there is no key \"%s\"", name, key);
	}
	return 0;
}

int ckl_reading_array(struct ckl_reading *r, const char *name, json_t *value)
{
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, value);
	struct ckl_arg *arg = ckl_reading_add(r);
	int ret;

	if (!arg)
		return -EINVAL;
	arg->name = name;
	arg->array = arg->returned = true;
	arg->type = CK_TYPE_F32;
	if (leaf) {
		leaf_set(r, arg, leaf);
		arg->size = arg->count * ckl_type_size(arg->type); /* far less than its text */
		return 0;
	}
	if (!json_is_object(value))
		return ckl_fail_input(r->fail, "%s is not an array", name);
	ret = keys_check(r, name, value);
	if (ret == 0)
		ret = ckl_reading_type(r, arg, value);
	if (ret == 0)
		ret = source_set(r, arg, value);
	return ret < 0 ? ret : mode_set(r, arg, value);
}
