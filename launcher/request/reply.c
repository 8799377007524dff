/*
 * launcher/request/reply.c - the parts of a reply; see reply.h.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/request/reply.h"
#include "launcher/text/base64.h"
#include "launcher/text/frame.h"
#include "util/util.h"

#define PIECE 4096 /* elements printed between looks at the room */

void ckl_reply_document(struct ckl_out *out, bool frame, const char *text, size_t size)
{
	size_t offset = ckl_frame_data_offset(size);
	char *room;

	if (!frame) {
		ckl_out_bytes(out, text, size);
		ckl_out_text(out, "\n");
		return;
	}
	room = ckl_out_room(out, offset);
	if (!room)
		return;
	memcpy(room + CK_FRAME_TEXT, text, size);
	ckl_frame_close(room, size, 0);
	out->size += offset;
}

void ckl_reply_fail(struct ckl_out *out, bool frame, uint64_t id, const struct ckl_fail *fail)
{
	struct ckl_out text = {0};

	ckl_out_text(&text, "{");
	if (id)
		ckl_out_format(&text, "\"id\":%llu,\"status\":\"done\",", (unsigned long long)id);
	ckl_out_format(&text,
		       "\"error\":{\"stage\":\"%s\",\"code\":\"%s\",\"exit\":%d,\"message\":",
		       fail->stage, fail->code, (int)fail->exit);
	ckl_out_string(&text, fail->message);
	if (fail->log) {
		ckl_out_text(&text, ",\"log\":");
		ckl_out_string(&text, fail->log);
	}
	ckl_out_text(&text, "}}");
	if (text.failed)
		out->failed = true;
	else
		ckl_reply_document(out, frame, text.base, text.size);
	free(text.base);
}

void ckl_reply_list(struct ckl_out *out, enum ckl_type type, const void *data, size_t count)
{
	size_t step = ckl_type_size(type);
	const char *from = data;
	char *room, *at;

	ckl_out_text(out, "[");
	for (size_t done = 0; done < count;) {
		size_t some = ck_min(count - done, (size_t)PIECE);

		room = at = ckl_out_room(out, some * CK_TYPE_TEXT);
		if (!room)
			return;
		for (size_t i = 0; i < some; i++, from += step) {
			if (done + i > 0)
				*at++ = ',';
			at += ckl_type_print(type, from, at);
		}
		out->size += (size_t)(at - room);
		done += some;
	}
	ckl_out_text(out, "]");
}

void ckl_reply_base64(struct ckl_out *out, const void *data, size_t size)
{
	char *room;

	ckl_out_text(out, "\"");
	room = ckl_out_room(out, ckl_base64_length(size));
	if (room) {
		ckl_base64_print(data, size, room);
		out->size += ckl_base64_length(size);
	}
	ckl_out_text(out, "\"");
}
