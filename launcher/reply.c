/*
 * launcher/reply.c - the parts of a reply; see reply.h.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/base64.h"
#include "launcher/frame.h"
#include "launcher/reply.h"
#include "util/util.h"

#define PIECE 4096 /* elements printed between looks at the room */

void ck_reply_document(struct ck_out *out, bool frame, const char *text, size_t size)
{
	size_t offset = ck_frame_data_offset(size);
	char *room;

	if (!frame) {
		ck_out_bytes(out, text, size);
		ck_out_text(out, "\n");
		return;
	}
	room = ck_out_room(out, offset);
	if (!room)
		return;
	memcpy(room + CK_FRAME_TEXT, text, size);
	ck_frame_close(room, size, 0);
	out->size += offset;
}

void ck_reply_fail(struct ck_out *out, bool frame, uint64_t id, const struct ck_fail *fail)
{
	struct ck_out text = {0};

	ck_out_text(&text, "{");
	if (id)
		ck_out_format(&text, "\"id\":%llu,\"status\":\"done\",", (unsigned long long)id);
	ck_out_format(&text, "\"error\":{\"stage\":\"%s\",\"code\":\"%s\",\"exit\":%d,\"message\":",
		      fail->stage, fail->code, (int)fail->exit);
	ck_out_string(&text, fail->message);
	if (fail->log) {
		ck_out_text(&text, ",\"log\":");
		ck_out_string(&text, fail->log);
	}
	ck_out_text(&text, "}}");
	if (text.failed)
		out->failed = true;
	else
		ck_reply_document(out, frame, text.base, text.size);
	free(text.base);
}

void ck_reply_list(struct ck_out *out, enum ck_type type, const void *data, size_t count)
{
	size_t step = ck_type_size(type);
	const char *from = data;
	char *room, *at;

	ck_out_text(out, "[");
	for (size_t done = 0; done < count;) {
		size_t some = ck_min(count - done, (size_t)PIECE);

		room = at = ck_out_room(out, some * CK_TYPE_TEXT);
		if (!room)
			return;
		for (size_t i = 0; i < some; i++, from += step) {
			if (done + i > 0)
				*at++ = ',';
			at += ck_type_print(type, from, at);
		}
		out->size += (size_t)(at - room);
		done += some;
	}
	ck_out_text(out, "]");
}

void ck_reply_base64(struct ck_out *out, const void *data, size_t size)
{
	char *room;

	ck_out_text(out, "\"");
	room = ck_out_room(out, ck_base64_length(size));
	if (room) {
		ck_base64_print(data, size, room);
		out->size += ck_base64_length(size);
	}
	ck_out_text(out, "\"");
}
