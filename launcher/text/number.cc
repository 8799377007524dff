/*
 * launcher/text/number.cc - numbers as text by the C++ library; see number.h.
 */
#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

/* libfast-float-dev; without it the C++ library reads the same numbers, a bit slower. */
#if __has_include(<fast_float/fast_float.h>)
#include <fast_float/fast_float.h>
using fast_float::from_chars;
#else
using std::from_chars;
#endif

#include "launcher/text/number.h"

#define TEXT_MAX 2048 /* more than the digits of any double */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *digits(const char *at, const char *end)
{
	while (at < end && is_digit(*at))
		at++;
	return at;
}

/* JSON's grammar, which is narrower than that of from_chars. */
size_t ckl_number_length(const char *start, const char *end, bool *integral)
{
	const char *at = start, *next;

	*integral = true;
	if (at < end && *at == '-')
		at++;
	next = digits(at, end);
	if (next == at || (*at == '0' && next - at > 1))
		return 0;
	at = next;
	if (at < end && *at == '.') {
		next = digits(at + 1, end);
		if (next == at + 1)
			return 0;
		at = next;
		*integral = false;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		at++;
		if (at < end && (*at == '+' || *at == '-'))
			at++;
		next = digits(at, end);
		if (next == at)
			return 0;
		at = next;
		*integral = false;
	}
	return at - start;
}

static bool is_word(const char *at, size_t size, const char *word)
{
	return size == strlen(word) && memcmp(at, word, size) == 0;
}

/* Tell too large from too small: the library only reports that it is out of range. */
template <typename T> static bool read_float(const char *at, size_t size, T *out)
{
	bool integral;

	if (is_word(at, size, "NaN"))
		*out = std::numeric_limits<T>::quiet_NaN();
	else if (is_word(at, size, "Infinity"))
		*out = std::numeric_limits<T>::infinity();
	else if (is_word(at, size, "-Infinity"))
		*out = -std::numeric_limits<T>::infinity();
	else if (ckl_number_length(at, at + size, &integral) != size || size == 0)
		return false;
	else if (std::from_chars(at, at + size, *out).ec == std::errc())
		return true;
	else {
		/*
		 * This is rare and may be slow. strtold has the range to tell which of the two it
		 * is.
		 */
		char text[TEXT_MAX];
		long double value;

		if (size >= sizeof(text))
			return false;
		memcpy(text, at, size);
		text[size] = '\0';
		value = strtold(text, nullptr);
		if (std::fabs(value) >= 1)
			return false;
		*out = static_cast<T>(value);
	}
	return true;
}

bool ckl_number_f32(const char *at, size_t size, float *out)
{
	return read_float(at, size, out);
}

bool ckl_number_f64(const char *at, size_t size, double *out)
{
	return read_float(at, size, out);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *blanks(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

/*
 * Read the number at @at and return its end. NULL leaves it to read_float: it is not JSON's, it is
 * not finite, or its text is longer than read_float takes for one that is too small.
 */
template <typename T> static const char *plain_number(const char *at, const char *end, T *out)
{
	const char *first = at + (at < end && *at == '-'), *next = digits(first, end);

	if (next == first || (*first == '0' && next - first > 1))
		return nullptr;
	if (end - next > 1 && *next == '.' && !is_digit(next[1]))
		return nullptr;
	auto result = from_chars(at, end, *out);
	next = result.ptr;
	if (result.ec != std::errc() || !std::isfinite(*out) || next[-1] == '.' ||
	    (*out == 0 && next - at >= TEXT_MAX))
		return nullptr;
	return next == end || *next == ',' || is_blank(*next) ? next : nullptr;
}

template <typename T>
static size_t read_run(const char **at, const char *end, bool begun, T *out, size_t count)
{
	const char *next;
	size_t i;

	for (i = 0; i < count; i++, begun = true, *at = next) {
		next = blanks(*at, end);
		if (begun) {
			if (next == end || *next != ',')
				break;
			next = blanks(next + 1, end);
		}
		next = plain_number(next, end, &out[i]);
		if (!next)
			break;
	}
	return i;
}

size_t ckl_number_run_f32(const char **at, const char *end, bool begun, float *out, size_t count)
{
	return read_run(at, end, begun, out, count);
}

size_t ckl_number_run_f64(const char **at, const char *end, bool begun, double *out, size_t count)
{
	return read_run(at, end, begun, out, count);
}

/* The number from @at to @end, without sign, digit by digit: a double has 53 bits only. */
static bool exact_integer(const char *at, const char *end, uint64_t *out)
{
	const char *mantissa_end = at, *point;
	long exponent = 0, index = 0, whole;

	while (mantissa_end < end && *mantissa_end != 'e' && *mantissa_end != 'E')
		mantissa_end++;
	if (mantissa_end < end) {
		const char *digit = mantissa_end + 1 + (mantissa_end[1] == '+');

		if (std::from_chars(digit, end, exponent).ec != std::errc())
			exponent = *digit == '-' ? LONG_MIN / 2 : LONG_MAX / 2;
	}
	point = std::find(at, mantissa_end, '.');
	whole = std::clamp(exponent, LONG_MIN / 2, LONG_MAX / 2) + (point - at);
	*out = 0;
	for (; at < mantissa_end; at++) {
		if (*at == '.')
			continue;
		if (index++ >= whole) {
			if (*at != '0')
				return false;
		} else if (__builtin_mul_overflow(*out, 10, out) ||
			   __builtin_add_overflow(*out, *at - '0', out)) {
			return false;
		}
	}
	for (; index < whole && *out != 0; index++) {
		if (__builtin_mul_overflow(*out, 10, out))
			return false;
	}
	return true;
}

bool ckl_number_integer(const char *at, size_t size, bool *negative, uint64_t *magnitude)
{
	bool integral;

	if (size == 0 || ckl_number_length(at, at + size, &integral) != size)
		return false;
	*negative = *at == '-';
	if (integral)
		return std::from_chars(at + *negative, at + size, *magnitude).ec == std::errc();
	return exact_integer(at + *negative, at + size, magnitude);
}

template <typename T> static size_t print_float(char *out, T value)
{
	char *end;

	if (!std::isfinite(value)) {
		const char *word = std::isnan(value) ? "\"NaN\""
				   : value > 0	     ? "\"Infinity\""
						     : "\"-Infinity\"";

		memcpy(out, word, strlen(word));
		return strlen(word);
	}
	end = std::to_chars(out, out + CK_NUMBER_TEXT, value).ptr;
	for (char *c = out; c < end; c++) {
		if (*c == '.' || *c == 'e')
			return end - out;
	}
	*end++ = '.';
	*end++ = '0';
	return end - out;
}

size_t ckl_number_print_f32(char *out, float value)
{
	return print_float(out, value);
}

size_t ckl_number_print_f64(char *out, double value)
{
	return print_float(out, value);
}

size_t ckl_number_print_i64(char *out, int64_t value)
{
	return std::to_chars(out, out + CK_NUMBER_TEXT, value).ptr - out;
}

size_t ckl_number_print_u64(char *out, uint64_t value)
{
	return std::to_chars(out, out + CK_NUMBER_TEXT, value).ptr - out;
}
