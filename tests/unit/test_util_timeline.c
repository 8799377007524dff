/*
 * tests/unit/test_util_timeline.c - events of a timeline are JSON, with any text in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "util/timeline.h"

static json_t *parsed(const struct ck_timeline *t)
{
	char text[8192];
	json_t *document;

	snprintf(text, sizeof(text), "%s%.*s%s", CK_TIMELINE_HEAD, (int)t->size,
		 t->bytes ? t->bytes : "", CK_TIMELINE_TAIL);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	return document;
}

static void add(struct ck_timeline *t, const char *text, size_t size)
{
	const struct ck_timeline_place place = {.ns = 1234567, .process = 7, .thread = 8};

	ck_timeline_begin(t, 'X', "name", "category", &place);
	ck_timeline_us(t, "dur", 1005);
	ck_timeline_args(t);
	ck_timeline_text(t, "text", text, size);
	ck_timeline_number(t, "number", -3);
	ck_timeline_end(t);
}

static void a_timeline_without_events_is_a_document(void **state)
{
	struct ck_timeline t = {.bytes = NULL};
	json_t *document = parsed(&t);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(document, "traceEvents")), 0);
	json_decref(document);
}

static void events_have_their_fields(void **state)
{
	struct ck_timeline t = {.bytes = NULL};
	json_t *document, *event;

	(void)state;
	add(&t, "a", 1);
	add(&t, "b", 1);
	document = parsed(&t);
	assert_int_equal(json_array_size(json_object_get(document, "traceEvents")), 2);
	event = json_array_get(json_object_get(document, "traceEvents"), 1);
	assert_true(json_real_value(json_object_get(event, "ts")) == 1234.567);
	assert_true(json_real_value(json_object_get(event, "dur")) == 1.005);
	assert_int_equal(json_integer_value(json_object_get(event, "pid")), 7);
	assert_int_equal(json_integer_value(json_object_get(event, "tid")), 8);
	event = json_object_get(event, "args");
	assert_string_equal(json_string_value(json_object_get(event, "text")), "b");
	assert_int_equal(json_integer_value(json_object_get(event, "number")), -3);
	json_decref(document);
	ck_timeline_free(&t);
}

static void any_bytes_are_a_text(void **state)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{"\"\\\n\t\x7f", "\"\\\n\t\x7f"},
		{"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\xff", "a\xef\xbf\xbd"},				  /* no byte of UTF-8 */
		{"a\xe2\x82", "a\xef\xbf\xbd\xef\xbf\xbd"},		  /* cut */
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},		  /* too long a form */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ck_timeline t = {.bytes = NULL};
		json_t *document, *event;

		add(&t, cases[i].bytes, strlen(cases[i].bytes));
		document = parsed(&t);
		event = json_array_get(json_object_get(document, "traceEvents"), 0);
		event = json_object_get(json_object_get(event, "args"), "text");
		assert_string_equal(json_string_value(event), cases[i].text);
		json_decref(document);
		ck_timeline_free(&t);
	}
}

static void a_cleared_timeline_goes_on_in_the_document(void **state)
{
	struct ck_timeline t = {.bytes = NULL};

	(void)state;
	add(&t, "a", 1);
	assert_int_equal(t.bytes[0], '\n');
	ck_timeline_clear(&t);
	add(&t, "b", 1);
	assert_int_equal(t.bytes[0], ',');
	ck_timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timeline_without_events_is_a_document),
		cmocka_unit_test(events_have_their_fields),
		cmocka_unit_test(any_bytes_are_a_text),
		cmocka_unit_test(a_cleared_timeline_goes_on_in_the_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
