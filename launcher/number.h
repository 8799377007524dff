/*
 * launcher/number.h - numbers as text: exact, both ways.
 *
 * C++17's std::from_chars and std::to_chars do it, by way of number.cc: correctly rounded, the
 * shortest text that reads back as the same bits, whatever the locale; several times as fast as
 * strtod and printf, which decides how fast JSON is.
 */
#ifndef CK_LAUNCHER_NUMBER_H
#define CK_LAUNCHER_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CK_NUMBER_TEXT 32 /* room that any number needs, without a NUL */

/* Bytes of the JSON number that starts at @at, 0 for none; *integral: no fraction, no exponent. */
size_t ck_number_length(const char *at, const char *end, bool *integral);

/*
 * Read all of the @size bytes at @at: a JSON number or one of the words NaN, Infinity, -Infinity.
 * False: it is neither, or too large for the type. A number that is too small reads as 0.
 */
bool ck_number_f32(const char *at, size_t size, float *out);
bool ck_number_f64(const char *at, size_t size, double *out);

/*
 * The same for integers; 8.0 and 1e3 are integers too. *negative is set and *magnitude without
 * the sign; false when it is none or needs more than 64 bits.
 */
bool ck_number_integer(const char *at, size_t size, bool *negative, uint64_t *magnitude);

/*
 * Print without a NUL; returns the number of bytes. Floats always have a point or an exponent (8.0,
 * 1e+20); those that are not finite are a JSON string: "NaN", "Infinity", "-Infinity".
 */
size_t ck_number_print_f32(char *out, float value);
size_t ck_number_print_f64(char *out, double value);
size_t ck_number_print_i64(char *out, int64_t value);
size_t ck_number_print_u64(char *out, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
