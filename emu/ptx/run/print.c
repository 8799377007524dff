/*
 * emu/ptx/run/print.c - device printf: C's conversions, arguments from the packed buffer of
 * vprintf.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/ptx/run/grid.h"

#define MAX_FORMAT 4096 /* bytes of a format or a string */
#define MAX_OUTPUT (64u << 10)
#define MAX_FIELD 4096 /* width and precision */

struct out {
	char *text;
	size_t size;
	struct ck_ptx_warp *w;
	uint32_t lane;
	uint64_t args; /* address of the next argument */
	int32_t count;
};

/* One conversion as it was written: "%-08.3ll" and its letter. */
struct conversion {
	char flags[8];
	int width, precision; /* -1: none */
	bool wide;	      /* an integer of 64 bits: l, ll, z, j, t */
	int narrow;	      /* h: 1, hh: 2 */
	char letter;
};

static int read_string(const struct out *o, uint64_t address, char *text)
{
	uint8_t *at;

	for (size_t i = 0; i < MAX_FORMAT; i++) {
		int err = ck_ptx_translate(o->w, o->lane, CK_PTX_GENERIC, address + i, 1, &at);

		if (err)
			return err;
		text[i] = (char)*at;
		if (!text[i])
			return 0;
	}
	text[MAX_FORMAT - 1] = '\0';
	return 0;
}

/* The next argument: aligned to its size, as the compiler stored it. */
static int next_arg(struct out *o, uint32_t size, uint64_t *value)
{
	uint8_t *at;
	int err;

	o->args = CK_ALIGN_UP(o->args, size);
	err = ck_ptx_translate(o->w, o->lane, CK_PTX_GENERIC, o->args, size, &at);
	if (err)
		return err;
	*value = 0;
	memcpy(value, at, size);
	o->args += size;
	o->count++;
	return 0;
}

static void append_output(struct out *o, const char *text, size_t size)
{
	size = ck_min(size, MAX_OUTPUT - o->size);
	memcpy(o->text + o->size, text, size);
	o->size += size;
}

/* "*" or digits. */
static int parse_number(struct out *o, const char **at, int *number)
{
	uint64_t value;
	int err;

	*number = 0;
	if (**at == '*') {
		++*at;
		err = next_arg(o, 4, &value);
		*number = (int32_t)value;
		return err;
	}
	while (**at >= '0' && **at <= '9') {
		if (*number < MAX_FIELD)
			*number = *number * 10 + (**at - '0');
		++*at;
	}
	return 0;
}

static void parse_length(const char **at, struct conversion *c)
{
	for (;; ++*at) {
		switch (**at) {
		case 'h':
			c->narrow++;
			break;
		case 'l':
		case 'j':
		case 'z':
		case 't':
		case 'L':
		case 'q':
			c->wide = true;
			break;
		default:
			return;
		}
	}
}

/* After the '%'. */
static int parse_conversion(struct out *o, const char **at, struct conversion *c)
{
	size_t flags = 0;
	int err;

	memset(c, 0, sizeof(*c));
	c->precision = -1;
	while (**at && strchr("-+ #0", **at)) {
		if (!strchr(c->flags, **at) && flags < sizeof(c->flags) - 1)
			c->flags[flags++] = **at;
		++*at;
	}
	err = parse_number(o, at, &c->width);
	if (!err && c->width < 0) {
		c->width = c->width == INT32_MIN ? 0 : -c->width;
		if (!strchr(c->flags, '-'))
			c->flags[flags] = '-';
	}
	c->width = ck_min(c->width, MAX_FIELD);
	if (!err && **at == '.') {
		++*at;
		err = parse_number(o, at, &c->precision);
		c->precision = ck_min(c->precision, MAX_FIELD);
	}
	parse_length(at, c);
	c->letter = **at;
	if (c->letter)
		++*at;
	return err;
}

/* Build the host's format in @spec; the value's own size is @length. */
static void make_spec(const struct conversion *c, const char *length, char spec[32])
{
	snprintf(spec, 32, "%%%s*.*%s%c", c->flags, length, c->letter);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int put_value(struct out *o, const struct conversion *c)
{
	bool real = strchr("eEfFgGaA", c->letter) != NULL, pointer = c->letter == 'p';
	char spec[32], *text = malloc(3 * MAX_FIELD);
	uint64_t value = 0;
	int err, n;

	if (!text)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	err = next_arg(o, real || pointer || c->wide ? 8 : 4, &value);
	make_spec(c, real || c->letter == 'c' || pointer ? "" : "ll", spec);
	if (!real && !pointer && !c->wide) {
		bool negative = c->letter == 'd' || c->letter == 'i';
		unsigned int type = c->narrow > 1 ? CK_PTX_S8 : c->narrow ? CK_PTX_S16 : CK_PTX_S32;

		value = negative ? (uint64_t)ck_ptx_signed(value, type)
				 : ck_ptx_unsigned(value, type);
	}
	if (real)
		n = snprintf(text, 3 * MAX_FIELD, spec, c->width, c->precision, ck_ptx_f64(value));
	else if (pointer)
		n = snprintf(text, 3 * MAX_FIELD, spec, c->width, c->precision,
			     (void *)(uintptr_t)value);
	else if (c->letter == 'c')
		n = snprintf(text, 3 * MAX_FIELD, spec, c->width, c->precision, (int)value);
	else
		n = snprintf(text, 3 * MAX_FIELD, spec, c->width, c->precision, (long long)value);
	if (!err && n > 0)
		append_output(o, text, ck_min((size_t)n, (size_t)3 * MAX_FIELD - 1));
	free(text);
	return err;
}

static int put_string(struct out *o, const struct conversion *c)
{
	char spec[32], *text = malloc(MAX_FORMAT), *field = malloc(2 * MAX_FORMAT);
	uint64_t address;
	int n = 0, err = text && field ? 0 : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;

	if (!err)
		err = next_arg(o, 8, &address);
	if (!err && address)
		err = read_string(o, address, text);
	else if (!err)
		memcpy(text, "(null)", 7);
	if (!err) {
		make_spec(c, "", spec);
		n = snprintf(field, 2 * MAX_FORMAT, spec, c->width, c->precision, text);
	}
	if (n > 0)
		append_output(o, field, ck_min((size_t)n, (size_t)2 * MAX_FORMAT - 1));
	free(text);
	free(field);
	return err;
}
#pragma GCC diagnostic pop

static int print_format(struct out *o, const char *format)
{
	int err = 0;

	while (*format && !err) {
		const char *start = format;
		struct conversion c;

		while (*format && *format != '%')
			format++;
		append_output(o, start, (size_t)(format - start));
		if (!*format)
			break;
		start = format++;
		err = parse_conversion(o, &format, &c);
		if (err || c.letter == '\0')
			break;
		if (c.letter == '%')
			append_output(o, "%", 1);
		else if (c.letter == 's')
			err = put_string(o, &c);
		else if (strchr("diouxXceEfFgGaAp", c.letter))
			err = put_value(o, &c);
		else
			append_output(o, start, (size_t)(format - start));
	}
	return err;
}

int ck_ptx_printf(struct ck_ptx_warp *w, uint32_t l, uint64_t format, uint64_t args, int32_t *count)
{
	const struct ck_ptx_host *host = w->block->run->host;
	struct out o = {.w = w, .lane = l, .args = args};
	char *text;
	int err;

	*count = -1;
	if (!format)
		return 0;
	text = malloc(MAX_FORMAT);
	o.text = malloc(MAX_OUTPUT);
	err = text && o.text ? read_string(&o, format, text) : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (!err)
		err = print_format(&o, text);
	if (!err && host->print && o.size > 0)
		host->print(host->opaque, o.text, o.size);
	*count = o.count;
	free(text);
	free(o.text);
	return err;
}
