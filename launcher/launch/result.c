/*
 * launcher/launch/result.c - the reply to a launch: each array in the form in which it came.
 */
#include <string.h>

#include "launcher/launch/run.h"
#include "launcher/request/reply.h"
#include "launcher/text/frame.h"
#include "util/util.h"

#define TIMING_ROOM 160

static void head_write(struct ckl_out *out, uint64_t id)
{
	ckl_out_text(out, "{");
	if (id)
		ckl_out_format(out, "\"id\":%llu,\"status\":\"done\",", (unsigned long long)id);
	ckl_out_text(out, "\"results\":{");
}

static void timing_write(struct ckl_out *out, const struct ckl_timing *timing)
{
	ckl_out_format(out,
		       ",\"timing\":{\"load_ms\":%.3f,\"h2d_ms\":%.3f,\"kernel_ms\":%.3f,"
		       "\"d2h_ms\":%.3f}",
		       timing->load, timing->to_device, timing->kernel, timing->to_host);
}

static int array_text(struct ckl_runner *runner, const struct ckl_arg *arg,
		      struct ckl_buffer *buffer, struct ckl_timing *timing, struct ckl_out *out,
		      struct ckl_fail *fail)
{
	double began = ckl_milliseconds();
	int ret = ckl_buffer_fetch(runner, buffer, NULL, fail);

	timing->to_host += ckl_milliseconds() - began;
	if (ret < 0)
		return ret;
	if (arg->source == CK_FROM_SHM) {
		ckl_out_format(out,
			       "{\"type\":\"%s\",\"n\":%zu,\"shm\":", ckl_type_name(buffer->type),
			       buffer->count);
		ckl_out_string(out, arg->text);
		ckl_out_text(out, "}");
	} else if (arg->source == CK_FROM_BASE64) {
		ckl_out_format(out,
			       "{\"type\":\"%s\",\"n\":%zu,\"b64\":", ckl_type_name(buffer->type),
			       buffer->count);
		ckl_reply_base64(out, buffer->host, buffer->size);
		ckl_out_text(out, "}");
	} else {
		ckl_reply_list(out, buffer->type, buffer->host, buffer->count);
	}
	return 0;
}

static int write_text(struct ckl_runner *runner, const struct ckl_request *request,
		      struct ckl_buffer *buffers, uint64_t id, struct ckl_timing *timing,
		      struct ckl_out *out, struct ckl_fail *fail)
{
	const char *comma = "";
	int ret = 0;

	head_write(out, id);
	for (size_t i = 0; ret == 0 && i < request->argc; i++) {
		const struct ckl_arg *arg = &request->args[i];

		if (!arg->array || !arg->returned)
			continue;
		ckl_out_text(out, comma);
		ckl_out_string(out, arg->name);
		ckl_out_text(out, ":");
		ret = array_text(runner, arg, &buffers[i], timing, out, fail);
		comma = ",";
	}
	ckl_out_text(out, "}");
	if (request->timing)
		timing_write(out, timing);
	ckl_out_text(out, "}\n");
	return ret;
}

/* Where an array stands in the data section of the reply, or in shared memory. */
static void place_write(struct ckl_out *out, const struct ckl_arg *arg,
			const struct ckl_buffer *buffer, size_t *at)
{
	ckl_out_string(out, arg->name);
	ckl_out_format(out, ":{\"type\":\"%s\",\"n\":%zu,", ckl_type_name(buffer->type),
		       buffer->count);
	if (arg->source == CK_FROM_SHM) {
		ckl_out_text(out, "\"shm\":");
		ckl_out_string(out, arg->text);
	} else {
		ckl_out_format(out, "\"at\":%zu", *at);
		*at += CK_ALIGN_UP(buffer->size, (size_t)CK_FRAME_ALIGN);
	}
	ckl_out_text(out, "}");
}

/* The document behind the frame's head, with room for the timing; returns the bytes of the data. */
static size_t places_write(const struct ckl_request *request, struct ckl_buffer *buffers,
			   uint64_t id, struct ckl_out *out)
{
	const char *comma = "";
	size_t at = 0;

	head_write(out, id);
	for (size_t i = 0; i < request->argc; i++) {
		if (!request->args[i].array || !request->args[i].returned)
			continue;
		ckl_out_text(out, comma);
		place_write(out, &request->args[i], &buffers[i], &at);
		comma = ",";
	}
	ckl_out_text(out, "}");
	return at;
}

/* Arrays to their places, which lie one behind the other from @data on. */
static int data_write(struct ckl_runner *runner, const struct ckl_request *request,
		      struct ckl_buffer *buffers, char *data, struct ckl_fail *fail)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < request->argc; i++) {
		const struct ckl_arg *arg = &request->args[i];
		size_t gap = CK_ALIGN_UP(buffers[i].size, (size_t)CK_FRAME_ALIGN) - buffers[i].size;

		if (!arg->array || !arg->returned)
			continue;
		ret = ckl_buffer_fetch(runner, &buffers[i], data, fail);
		if (arg->source == CK_FROM_SHM)
			continue;
		data += buffers[i].size;
		memset(data, 0, gap);
		data += gap;
	}
	return ret;
}

static int write_frame(struct ckl_runner *runner, const struct ckl_request *request,
		       struct ckl_buffer *buffers, uint64_t id, struct ckl_timing *timing,
		       struct ckl_out *out, struct ckl_fail *fail)
{
	size_t start = out->size, text, bytes, data;
	double began = ckl_milliseconds();
	char *room;
	int ret;

	if (!ckl_out_room(out, CK_FRAME_TEXT))
		return ckl_fail_memory(fail);
	out->size += CK_FRAME_TEXT;
	bytes = places_write(request, buffers, id, out);
	/* Blanks reserve the space of values that are known only when the data has come. */
	text = out->size - start - CK_FRAME_TEXT + (request->timing ? TIMING_ROOM : 0) + 1;
	data = ckl_frame_data_offset(text);
	room = ckl_out_room(out, start + data + bytes - out->size);
	if (!room)
		return ckl_fail_memory(fail);
	memset(room, ' ', start + data - out->size);
	ret = data_write(runner, request, buffers, out->base + start + data, fail);
	timing->to_host = ckl_milliseconds() - began;
	if (request->timing)
		timing_write(out, timing);
	ckl_out_text(out, "}");
	ckl_frame_close(out->base + start, text, bytes);
	out->size = start + data + bytes;
	return ret;
}

int ckl_result_write(struct ckl_runner *runner, const struct ckl_request *request,
		     struct ckl_buffer *buffers, bool frame, uint64_t id, struct ckl_timing *timing,
		     struct ckl_out *out, struct ckl_fail *fail)
{
	return frame ? write_frame(runner, request, buffers, id, timing, out, fail)
		     : write_text(runner, request, buffers, id, timing, out, fail);
}
