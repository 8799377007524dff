/*
 * launcher/number.cc - numbers as text by the C++ library; see number.h.
 */
#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "launcher/number.h"

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
size_t ck_number_length(const char *start, const char *end, bool *integral)
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

/* from_chars reports both overflow and underflow as out of range; distinguish them here. */
template <typename T> static bool read_float(const char *at, size_t size, T *out)
{
	bool integral;

	if (is_word(at, size, "NaN"))
		*out = std::numeric_limits<T>::quiet_NaN();
	else if (is_word(at, size, "Infinity"))
		*out = std::numeric_limits<T>::infinity();
	else if (is_word(at, size, "-Infinity"))
		*out = -std::numeric_limits<T>::infinity();
	else if (ck_number_length(at, at + size, &integral) != size || size == 0)
		return false;
	else if (std::from_chars(at, at + size, *out).ec == std::errc())
		return true;
	else {
		/*
		 * This is rare, so it may be slow: strtold has the range to tell overflow from
		 * underflow.
		 */
		char text[2048]; /* more than the digits of any double */
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

bool ck_number_f32(const char *at, size_t size, float *out)
{
	return read_float(at, size, out);
}

bool ck_number_f64(const char *at, size_t size, double *out)
{
	return read_float(at, size, out);
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

bool ck_number_integer(const char *at, size_t size, bool *negative, uint64_t *magnitude)
{
	bool integral;

	if (size == 0 || ck_number_length(at, at + size, &integral) != size)
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

size_t ck_number_print_f32(char *out, float value)
{
	return print_float(out, value);
}

size_t ck_number_print_f64(char *out, double value)
{
	return print_float(out, value);
}

size_t ck_number_print_i64(char *out, int64_t value)
{
	return std::to_chars(out, out + CK_NUMBER_TEXT, value).ptr - out;
}

size_t ck_number_print_u64(char *out, uint64_t value)
{
	return std::to_chars(out, out + CK_NUMBER_TEXT, value).ptr - out;
}
