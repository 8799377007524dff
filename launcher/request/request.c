/*
 * launcher/request/request.c - a message's envelope: the command and all of it but the arguments.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/request/request.h"
#include "launcher/text/frame.h"
#include "util/util.h"

static const char *const commands[] = {
	[CK_LAUNCH] = "launch",	    [CK_READ] = "read", [CK_FREE] = "free",
	[CK_POLL] = "poll",	    [CK_WAIT] = "wait", [CK_CANCEL] = "cancel",
	[CK_DEFAULTS] = "defaults", [CK_PING] = "ping", [CK_QUIT] = "quit",
};

const struct ckl_leaf *ckl_reading_leaf(const struct ckl_reading *r, const json_t *value)
{
	json_t *index = json_array_size(value) == 1 ? json_array_get(value, 0) : NULL;

	return json_is_integer(index) ? &r->request->scan.leaves[json_integer_value(index)] : NULL;
}

json_t *ckl_reading_strings(const struct ckl_reading *r, const json_t *value, const char *what)
{
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, value);
	json_t *list = NULL;

	/* With its brackets, which stand on both sides of it; defaults hold the list itself. */
	if (!leaf)
		list = json_is_array(value) ? json_deep_copy(value) : NULL;
	else
		list = json_loadb(r->text + leaf->start - 1, leaf->end - leaf->start + 2, 0, NULL);
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_is_string(json_array_get(list, i)))
			continue;
		json_decref(list);
		list = NULL;
	}
	if (!list)
		ckl_fail_input(r->fail, "%s is not a list of strings", what);
	return list;
}

int ckl_reading_number(const struct ckl_reading *r, const json_t *object, const char *key,
		       uint64_t limit, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > limit)
		return ckl_fail_input(r->fail, "\"%s\" is not a whole number up to %llu", key,
				      (unsigned long long)limit);
	*out = (uint64_t)json_integer_value(value);
	return 0;
}

int ckl_reading_string(const struct ckl_reading *r, const json_t *object, const char *key,
		       const char **out)
{
	const json_t *value = json_object_get(object, key);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return ckl_fail_input(r->fail, "\"%s\" is not a string", key);
	*out = json_string_value(value);
	return 0;
}

static int flag_read(struct ckl_reading *r, const char *key, bool *out)
{
	const json_t *value = json_object_get(r->request->root, key);

	if (value && !json_is_boolean(value))
		return ckl_fail_input(r->fail, "\"%s\" is neither true nor false", key);
	*out = json_is_true(value);
	return 0;
}

/* Three sizes; missing ones at the end are 1. In defaults all three are there. */
static int dim_read(struct ckl_reading *r, const char *key, uint32_t out[3])
{
	const json_t *value = json_object_get(r->request->root, key);
	const struct ckl_leaf *leaf = ckl_reading_leaf(r, value);
	uint32_t sizes[3] = {1, 1, 1};

	if (!value)
		return ckl_fail_input(r->fail, "\"%s\" is missing", key);
	if (!leaf && json_array_size(value) == 3) {
		for (size_t i = 0; i < 3; i++)
			out[i] = (uint32_t)json_integer_value(json_array_get(value, i));
		return 0;
	}
	if (!leaf || leaf->count < 1 || leaf->count > 3)
		return ckl_fail_input(r->fail, "\"%s\" is not a list of one to three sizes", key);
	memcpy(out, sizes, sizeof(sizes));
	return ckl_type_read_all(CK_TYPE_U32, r->text + leaf->start, leaf->end - leaf->start,
				 leaf->count, out, key, r->fail);
}

static int command_read(struct ckl_reading *r)
{
	struct ckl_request *request = r->request;
	const char *name = commands[CK_LAUNCH];
	uint64_t timeout = 0;
	int ret = ckl_reading_string(r, request->root, "cmd", &name);

	for (size_t i = 0; ret == 0 && i <= CK_ARRAY_SIZE(commands); i++) {
		if (i == CK_ARRAY_SIZE(commands))
			return ckl_fail_input(r->fail, "there is no command \"%s\"", name);
		if (strcmp(name, commands[i]) == 0) {
			request->command = (enum ckl_command)i;
			break;
		}
	}
	if (ret == 0)
		ret = ckl_reading_number(r, request->root, "timeout_ms", UINT32_MAX, &timeout);
	if (ret == 0 && request->command >= CK_POLL && request->command <= CK_CANCEL) {
		if (!json_object_get(request->root, "id"))
			return ckl_fail_input(r->fail, "\"id\" is missing");
		ret = ckl_reading_number(r, request->root, "id", INT64_MAX, &request->id);
	}
	if (ret == 0)
		ret = flag_read(r, "async", &request->async);
	if (ret == 0)
		ret = flag_read(r, "timing", &request->timing);
	request->timeout_ms = (uint32_t)timeout;
	return ret;
}

/* A path that is not absolute is one from "cwd", the folder of a daemon's client. */
static int path_join(struct ckl_reading *r)
{
	struct ckl_request *request = r->request;
	const char *folder = NULL;
	json_t *joined;
	int ret = ckl_reading_string(r, request->root, "cwd", &folder);

	if (ret < 0 || !folder || !request->module || *request->module == '/')
		return ret;
	joined = json_sprintf("%s/%s", folder, request->module);
	if (!joined || json_object_set_new(request->root, "module", joined) < 0)
		return ckl_fail_memory(r->fail);
	request->module = json_string_value(joined);
	return 0;
}

/* Which kernel, and how it is launched. */
static int kernel_read(struct ckl_reading *r)
{
	struct ckl_request *request = r->request;
	const json_t *options = json_object_get(request->root, "options");
	uint64_t shared = 0;
	int ret = ckl_reading_string(r, request->root, "ptx", &request->module);

	if (ret == 0)
		ret = ckl_reading_string(r, request->root, "module", &request->module);
	if (ret == 0)
		ret = ckl_reading_string(r, request->root, "source", &request->source);
	if (ret == 0)
		ret = ckl_reading_string(r, request->root, "kernel", &request->kernel);
	if (ret == 0)
		ret = dim_read(r, "grid", request->grid);
	if (ret == 0)
		ret = dim_read(r, "block", request->block);
	if (ret == 0)
		ret = ckl_reading_number(r, request->root, "shared", INT32_MAX, &shared);
	request->shared = (uint32_t)shared;
	if (ret < 0)
		return ret;
	if (!request->module == !request->source)
		return ckl_fail_input(r->fail, "one of \"module\" and \"source\" must be there");
	if (!request->kernel)
		return ckl_fail_input(r->fail, "\"kernel\" is missing");
	ret = path_join(r);
	if (ret < 0)
		return ret;
	if (options && !(request->options = ckl_reading_strings(r, options, "\"options\"")))
		return -EINVAL;
	return 0;
}

/* A name twice is two results of one name, of which a reader of JSON sees one. */
static int names_check(struct ckl_reading *r, const json_t *names)
{
	json_t *seen = json_object();
	size_t i, count;
	json_t *name;

	json_array_foreach(names, i, name)
		json_object_set_new(seen, json_string_value(name), json_null());
	count = json_object_size(seen);
	json_decref(seen);
	return count == json_array_size(names)
		       ? 0
		       : ckl_fail_input(r->fail, "\"arrays\" names an array twice");
}

/* "arrays" of read and free: a list of names. */
static int names_read(struct ckl_reading *r)
{
	struct ckl_request *request = r->request;
	json_t *names =
		ckl_reading_strings(r, json_object_get(request->root, "arrays"), "\"arrays\"");

	if (!names)
		return -EINVAL;
	/* The strings live as long as the root that they are put into. */
	if (json_object_set_new(request->root, "arrays", names) < 0)
		return ckl_fail_memory(r->fail);
	if (names_check(r, names) < 0)
		return -EINVAL;
	request->args = calloc(json_array_size(names) + 1, sizeof(*request->args));
	if (!request->args)
		return ckl_fail_memory(r->fail);
	for (size_t i = 0; i < json_array_size(names); i++) {
		struct ckl_arg *arg = &request->args[request->argc++];

		arg->name = arg->text = json_string_value(json_array_get(names, i));
		arg->array = arg->returned = true;
		arg->source = CK_FROM_GPU;
	}
	return 0;
}

/*
 * Add the defaults of keys that the document lacks. If the document names a kernel's file or text,
 * the defaults' kernel is ignored.
 */
static int defaults_add(json_t *root, json_t *defaults)
{
	bool named = json_object_get(root, "module") || json_object_get(root, "source") ||
		     json_object_get(root, "ptx");
	const char *key;
	json_t *value;

	json_object_foreach(defaults, key, value)
	{
		if (json_object_get(root, key) ||
		    (named && (strcmp(key, "module") == 0 || strcmp(key, "source") == 0)))
			continue;
		if (json_object_set(root, key, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The document, as jansson reads its outline. */
static int document_read(struct ckl_reading *r, json_t *defaults)
{
	struct ckl_request *request = r->request;
	json_error_t error;
	size_t size;
	char *outline = ckl_scan_outline(&request->scan, r->text, &size);

	if (!outline)
		return ckl_fail_memory(r->fail);
	request->root = json_loadb(outline, size, JSON_REJECT_DUPLICATES, &error);
	free(outline);
	if (!request->root)
		return ckl_fail_input(r->fail, "not JSON: %s", error.text);
	if (defaults && defaults_add(request->root, defaults) < 0)
		return ckl_fail_memory(r->fail);
	return command_read(r);
}

/* The scan of all of @r->text, unless there is one. */
static int scan_text(struct ckl_reading *r, size_t size, struct ckl_scan *given)
{
	struct ckl_scan *scan = &r->request->scan;
	int ret = 1;

	if (given) {
		*scan = *given;
		*given = (struct ckl_scan){0};
	} else {
		ret = ckl_scan(scan, r->text, size);
	}
	if (ret == -ENOMEM)
		return ckl_fail_memory(r->fail);
	if (ret == -E2BIG)
		return ckl_fail_input(r->fail, "nested more than %d deep", CK_SCAN_DEPTH);
	if (ret != 1)
		return ckl_fail_input(r->fail, ret == 0 ? "the JSON document is cut off"
							: "this is not a JSON object");
	return 0;
}

static int open_message(struct ckl_reading *r, const char *message, size_t size,
			struct ckl_scan *scan, json_t *defaults)
{
	struct ckl_frame frame;
	int ret = 0;

	r->text = message;
	if (size > 0 && (unsigned char)*message == CK_FRAME_FIRST) {
		if (ckl_frame_open(message, size, &frame) < 0)
			return ckl_fail_input(r->fail, "the lengths in the frame do not fit");
		r->text = frame.text;
		r->data = frame.data;
		r->data_size = frame.data_size;
		size = frame.text_size;
		scan = NULL;
	}
	ret = scan_text(r, size, scan);
	return ret < 0 ? ret : document_read(r, defaults);
}

int ckl_request_read(struct ckl_request *request, const char *message, size_t size,
		     struct ckl_scan *scan, json_t *defaults, struct ckl_fail *fail)
{
	struct ckl_reading r = {.request = request, .fail = fail};
	int ret;

	*request = (struct ckl_request){0};
	ret = open_message(&r, message, size, scan, defaults);
	if (ret == 0 && request->command == CK_LAUNCH) {
		ret = kernel_read(&r);
		if (ret == 0)
			ret = ckl_reading_arguments(&r);
	} else if (ret == 0 && (request->command == CK_READ || request->command == CK_FREE)) {
		ret = names_read(&r);
	}
	if (ret < 0)
		ckl_request_free(request);
	return ret;
}

/* Keys that defaults may have. */
static const char *const lasting[] = {"module", "source", "kernel",	"options", "grid",
				      "block",	"shared", "timeout_ms", "timing",  "cwd"};

/* A list or sizes out of the text; any other value as it is. New reference. */
static json_t *lasting_value(struct ckl_reading *r, const char *key)
{
	json_t *value = json_object_get(r->request->root, key);
	uint32_t dim[3];

	if (strcmp(key, "options") == 0)
		return ckl_reading_strings(r, value, "\"options\"");
	if (strcmp(key, "grid") != 0 && strcmp(key, "block") != 0)
		return json_incref(value);
	if (dim_read(r, key, dim) < 0)
		return NULL;
	return json_pack("[iii]", dim[0], dim[1], dim[2]);
}

json_t *ckl_request_defaults(struct ckl_request *request, const char *message,
			     struct ckl_fail *fail)
{
	struct ckl_reading r = {.request = request, .text = message, .fail = fail};
	json_t *defaults = json_object(), *value;

	if (!defaults)
		ckl_fail_memory(fail);
	for (size_t i = 0; defaults && i < CK_ARRAY_SIZE(lasting); i++) {
		if (!json_object_get(request->root, lasting[i]))
			continue;
		value = lasting_value(&r, lasting[i]);
		if (!value || json_object_set_new(defaults, lasting[i], value) < 0) {
			json_decref(defaults);
			ckl_fail_memory(fail);
			return NULL;
		}
	}
	return defaults;
}

int ckl_request_peek(struct ckl_request *request, const char *message, size_t size,
		     struct ckl_scan *scan, json_t *defaults, struct ckl_fail *fail)
{
	struct ckl_reading r = {.request = request, .fail = fail};
	int ret;

	*request = (struct ckl_request){0};
	ret = open_message(&r, message, size, scan, defaults);
	if (ret < 0)
		ckl_request_free(request);
	return ret;
}

void ckl_request_free(struct ckl_request *request)
{
	ckl_scan_free(&request->scan);
	json_decref(request->options);
	json_decref(request->root);
	free(request->args);
	*request = (struct ckl_request){0};
}
