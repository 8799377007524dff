/*
 * launcher/request/arguments.c - the arguments of a launch: scalars and arrays, or args in any
 * order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/request/request.h"
#include "launcher/text/number.h"
#include "util/util.h"

struct ckl_arg *ckl_reading_add(struct ckl_reading *r)
{
	struct ckl_request *request = r->request;
	struct ckl_arg *args;
	size_t count = request->argc;

	if (count == CK_ARGS_MAX) {
		ckl_fail_input(r->fail, "more than %d arguments", CK_ARGS_MAX);
		return NULL;
	}
	if ((count & (count - 1)) == 0) { /* full: capacities are powers of two */
		args = reallocarray(request->args, count ? 2 * count : 1, sizeof(*args));
		if (!args) {
			ckl_fail_memory(r->fail);
			return NULL;
		}
		request->args = args;
	}
	request->args[count] = (struct ckl_arg){0};
	request->argc++;
	return &request->args[count];
}

/* A number, boolean or string that jansson has read. */
static int scalar_set(struct ckl_reading *r, struct ckl_arg *arg, const json_t *value)
{
	arg->count = 1;
	arg->text = arg->number;
	if (json_is_integer(value)) {
		/* The text is the argument's own, so it is pointed to only when it is used. */
		arg->text = NULL;
		arg->text_size = ckl_number_print_i64(arg->number, json_integer_value(value));
	} else if (json_is_real(value)) {
		arg->text = NULL;
		arg->text_size = ckl_number_print_f64(arg->number, json_real_value(value));
	} else if (json_is_boolean(value)) {
		arg->text = json_is_true(value) ? "true" : "false";
		arg->text_size = strlen(arg->text);
	} else if (json_is_string(value)) {
		arg->text = json_string_value(value);
		arg->text_size = json_string_length(value);
	} else {
		return ckl_fail_input(r->fail, "a scalar is not a number");
	}
	return 0;
}

/* The scalars of a flat list. */
static int scalars_of_leaf(struct ckl_reading *r, const struct ckl_leaf *leaf)
{
	struct ckl_elements it = {.at = r->text + leaf->start, .end = r->text + leaf->end};
	struct ckl_arg *arg;
	const char *at;
	size_t size;
	int ret;

	while ((ret = ckl_elements_next(&it, &at, &size)) > 0) {
		arg = ckl_reading_add(r);
		if (!arg)
			return -EINVAL;
		arg->count = 1;
		arg->text = at;
		arg->text_size = size;
	}
	return ret < 0 ? ckl_fail_input(r->fail, "a scalar is not a number") : 0;
}

/* {"type": ..., "value": ...}: one value, or several of a vector that is passed by value. */
static int typed_scalar(struct ckl_reading *r, const json_t *object, const json_t *value)
{
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, value);
	struct ckl_arg *arg = ckl_reading_add(r);
	int ret = arg ? ckl_reading_type(r, arg, object) : -EINVAL;

	if (ret < 0)
		return ret;
	if (!leaf)
		return scalar_set(r, arg, value);
	if (arg->type == CK_TYPE_NONE)
		return ckl_fail_input(r->fail, "a value of several numbers has no type");
	arg->list = true;
	arg->count = leaf->count;
	arg->text = r->text + leaf->start;
	arg->text_size = leaf->end - leaf->start;
	return 0;
}

/* "args": scalars and arrays as the kernel has them. Arrays without a name are arg0, arg1 ... */
static int args_read(struct ckl_reading *r, json_t *args)
{
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, args);
	const char *name;
	json_t *value;
	size_t i;
	int ret = 0;

	if (leaf)
		return scalars_of_leaf(r, leaf);
	if (!json_is_array(args))
		return ckl_fail_input(r->fail, "\"args\" is not a list");
	json_array_foreach(args, i, value)
	{
		json_t *own = json_object_get(value, "name");
		json_t *label = own ? NULL : json_sprintf("arg%zu", i);

		if (!json_is_array(value) && !json_is_object(value)) {
			struct ckl_arg *arg = ckl_reading_add(r);

			ret = arg ? scalar_set(r, arg, value) : -EINVAL;
		} else if (json_object_get(value, "value")) {
			ret = typed_scalar(r, value, json_object_get(value, "value"));
		} else if (own && !json_is_string(own)) {
			ret = ckl_fail_input(r->fail, "a \"name\" is not a string");
		} else {
			/* Labels live with the document. */
			name = own ? json_string_value(own) : json_string_value(label);
			if (label)
				json_object_set(r->request->root, name, label);
			ret = ckl_reading_array(r, name, value);
		}
		json_decref(label);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int scalars_read(struct ckl_reading *r, const json_t *scalars)
{
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, scalars);
	json_t *value;
	size_t i;
	int ret = 0;

	if (leaf)
		return scalars_of_leaf(r, leaf);
	if (!json_is_array(scalars))
		return ckl_fail_input(r->fail, "\"scalars\" is not a list");
	json_array_foreach(scalars, i, value)
	{
		if (json_is_object(value)) {
			ret = typed_scalar(r, value, json_object_get(value, "value"));
		} else {
			struct ckl_arg *arg = ckl_reading_add(r);

			ret = arg ? scalar_set(r, arg, value) : -EINVAL;
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* The arrays in the order of the document, or of a list of all their names. */
static int arrays_read(struct ckl_reading *r, json_t *arrays, json_t *order)
{
	const char *name;
	json_t *value;
	size_t i;
	int ret;

	if (!json_is_object(arrays))
		return ckl_fail_input(r->fail, "\"arrays\" is not an object");
	if (!order) {
		json_object_foreach(arrays, name, value)
		{
			ret = ckl_reading_array(r, name, value);
			if (ret < 0)
				return ret;
		}
		return 0;
	}
	if (json_array_size(order) != json_object_size(arrays))
		return ckl_fail_input(r->fail, "\"order\" does not name each array once");
	json_array_foreach(order, i, value)
	{
		void *entry = json_object_iter_at(arrays, json_string_value(value));

		if (!entry)
			return ckl_fail_input(r->fail, "\"order\" names %s, which is not an array",
					      json_string_value(value));
		ret = ckl_reading_array(r, json_object_iter_key(entry),
					json_object_iter_value(entry));
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* "return": exactly these come back. */
static int return_read(struct ckl_reading *r, const json_t *value)
{
	json_t *names = ckl_reading_strings(r, value, "\"return\""), *name;
	bool found;
	size_t i;

	if (!names)
		return -EINVAL;
	for (size_t a = 0; a < r->request->argc; a++)
		r->request->args[a].returned = false;
	json_array_foreach(names, i, name)
	{
		found = false;
		for (size_t a = 0; a < r->request->argc; a++) {
			struct ckl_arg *arg = &r->request->args[a];

			if (!arg->name || strcmp(arg->name, json_string_value(name)) != 0)
				continue;
			found = arg->returned = true;
		}
		if (!found) {
			ckl_fail_input(r->fail, "\"return\" names %s, which is not an array",
				       json_string_value(name));
			json_decref(names);
			return -EINVAL;
		}
	}
	json_decref(names);
	return 0;
}

/* A name twice is two results of one name, of which a reader of JSON sees one. */
static int names_check(struct ckl_reading *r)
{
	const struct ckl_request *request = r->request;

	for (size_t i = 0; i < request->argc; i++) {
		for (size_t k = 0; request->args[i].name && k < i; k++) {
			if (request->args[k].name &&
			    strcmp(request->args[i].name, request->args[k].name) == 0)
				return ckl_fail_input(r->fail, "two arrays are named %s",
						      request->args[i].name);
		}
	}
	return 0;
}

int ckl_reading_arguments(struct ckl_reading *r)
{
	json_t *root = r->request->root, *args = json_object_get(root, "args");
	json_t *scalars = json_object_get(root, "scalars"), *order = json_object_get(root, "order");
	json_t *arrays = json_object_get(root, "arrays");
	int ret = 0;

	if (args && (scalars || arrays))
		return ckl_fail_input(r->fail, "\"args\" takes the place of scalars and arrays");
	if (args)
		ret = args_read(r, args);
	if (ret == 0 && scalars)
		ret = scalars_read(r, scalars);
	if (ret == 0 && arrays) {
		if (order && !(order = ckl_reading_strings(r, order, "\"order\"")))
			return -EINVAL;
		ret = arrays_read(r, arrays, order);
		json_decref(order);
	}
	if (ret == 0 && json_object_get(root, "return"))
		ret = return_read(r, json_object_get(root, "return"));
	return ret < 0 ? ret : names_check(r);
}
