/* weir.c - the C SDK for guests of a Weir server; see weir.h. */
#include "weir.h"

#include <stdarg.h>

/* ---- memory ---- */

#ifdef __wasm__

/* There is no C library. The compiler emits calls of these four; with
 * -mbulk-memory it has instructions instead of most. */
#define NO_BUILTIN __attribute__((no_builtin))

NO_BUILTIN void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  char *d = to;
  const char *s = from;
  for (; n >= 8; n -= 8, d += 8, s += 8)
    __builtin_memcpy(d, s, 8);
  while (n-- > 0)
    *d++ = *s++;
  return to;
}

NO_BUILTIN void *memmove(void *to, const void *from, size_t n) {
  char *d = to;
  const char *s = from;
  if (d <= s || d >= s + n)
    return memcpy(to, from, n);
  while (n-- > 0)
    d[n] = s[n];
  return to;
}

NO_BUILTIN void *memset(void *to, int c, size_t n) {
  char *d = to;
  uint64_t eight = 0x0101010101010101 * (uint64_t)(unsigned char)c;
  for (; n >= 8; n -= 8, d += 8)
    __builtin_memcpy(d, &eight, 8);
  while (n-- > 0)
    *d++ = (char)c;
  return to;
}

NO_BUILTIN int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (; n > 0; n--, x++, y++)
    if (*x != *y)
      return *x < *y ? -1 : 1;
  return 0;
}

extern char __heap_base;
static char *arena_at;  /* what is free begins here */
static char *arena_end; /* and ends here, with the memory */

/* reserve makes sure that n bytes are free at arena_at. */
static void reserve(size_t n) {
  enum { page = 64 << 10 };
  if (arena_at == NULL) {
    arena_at = &__heap_base;
    arena_end = (char *)(__builtin_wasm_memory_size(0) * page);
  }
  arena_at = (char *)(((uintptr_t)arena_at + 7) & ~(uintptr_t)7);
  size_t left = arena_at < arena_end ? (size_t)(arena_end - arena_at) : 0;
  if (n <= left)
    return;
  size_t pages = (n - left + page - 1) / page;
  if (pages > 65536 || __builtin_wasm_memory_grow(0, pages) == (size_t)-1)
    __builtin_trap(); /* the host says that it was the memory */
  arena_end += pages * page;
}

#else

#include <stdlib.h>
#include <string.h>

static char *arena_at, *arena_end;

/* Blocks are not freed: tests are short. */
static void reserve(size_t n) {
  arena_at = (char *)(((uintptr_t)arena_at + 7) & ~(uintptr_t)7);
  if (arena_at != NULL && arena_at <= arena_end && n <= (size_t)(arena_end - arena_at))
    return;
  size_t size = n + (64 << 10);
  arena_at = malloc(size);
  if (arena_at == NULL)
    abort();
  arena_end = arena_at + size;
}

#endif

static char *take(size_t n) {
  char *p = arena_at;
  arena_at += n;
  return p;
}

void *weir_alloc(size_t bytes) {
  reserve(bytes);
  return take(bytes);
}

static size_t length(const char *s) {
  size_t n = 0;
  while (s[n] != 0)
    n++;
  return n;
}

static const weir_json absent = {NULL, 0};

/* ---- what is written ---- */

typedef struct {
  char *ptr;
  size_t len, cap;
} buffer;

static void append(buffer *b, const char *ptr, size_t len) {
  if (len == 0)
    return;
  if (b->len + len > b->cap) {
    size_t cap = 2 * (b->len + len) + 64;
    char *bigger = weir_alloc(cap);
    if (b->len > 0)
      memcpy(bigger, b->ptr, b->len);
    b->ptr = bigger;
    b->cap = cap;
  }
  memcpy(b->ptr + b->len, ptr, len);
  b->len += len;
}

static void append_char(buffer *b, char c) { append(b, &c, 1); }
static void append_string(buffer *b, const char *s) { append(b, s, length(s)); }

/* append_quoted appends the JSON of a text. */
static void append_quoted(buffer *b, const char *ptr, size_t len) {
  static const char hex[] = "0123456789abcdef";
  append_char(b, '"');
  size_t start = 0;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)ptr[i];
    if (c >= 0x20 && c != '"' && c != '\\')
      continue;
    append(b, ptr + start, i - start);
    start = i + 1;
    if (c == '"' || c == '\\') {
      char pair[] = {'\\', (char)c};
      append(b, pair, 2);
    } else {
      char code[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
      append(b, code, 6);
    }
  }
  append(b, ptr + start, len - start);
  append_char(b, '"');
}

static void append_int(buffer *b, int64_t n) {
  char digits[20];
  size_t i = sizeof digits;
  uint64_t u = n < 0 ? -(uint64_t)n : (uint64_t)n;
  do
    digits[--i] = (char)('0' + u % 10);
  while ((u /= 10) != 0);
  if (n < 0)
    append_char(b, '-');
  append(b, digits + i, sizeof digits - i);
}

/* ---- JSON ---- */

static const char *skip_space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
    p++;
  return p;
}

/* far_special is special for what is left of a long text: eight bytes at a time,
 * in which a byte becomes 0 if it is what is looked for. */
__attribute__((noinline)) static const char *far_special(const char *p, const char *end) {
  const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;
  for (uint64_t eight; end - p >= 8; p += 8) {
    __builtin_memcpy(&eight, p, 8);
    uint64_t quote = eight ^ ones * '"', slash = eight ^ ones * '\\';
    if (((quote - ones) & ~quote & high) != 0 || ((slash - ones) & ~slash & high) != 0)
      break;
  }
  while (p < end && *p != '"' && *p != '\\')
    p++;
  return p;
}

/* special returns where the first quote or backslash is, or end. */
static inline const char *special(const char *p, const char *end) {
  const char *near = end - p > 24 ? p + 24 : end;
  for (; p < near; p++)
    if (*p == '"' || *p == '\\')
      return p;
  return p < end ? far_special(p, end) : p;
}

/* skip_string returns where a string ends that begins at p. */
static const char *skip_string(const char *p, const char *end) {
  for (p = special(p + 1, end); p < end; p = special(p + 2, end))
    if (*p == '"')
      return p + 1;
    else if (p + 1 == end)
      break;
  return end;
}

/* skip_value returns where a value ends that begins at p. */
static const char *skip_value(const char *p, const char *end) {
  if (p < end && *p == '"')
    return skip_string(p, end);
  if (p < end && (*p == '{' || *p == '[')) {
    int depth = 0;
    while (p < end) {
      char c = *p;
      if (c == '"') {
        p = skip_string(p, end);
        continue;
      }
      p++;
      if (c == '{' || c == '[')
        depth++;
      else if ((c == '}' || c == ']') && --depth == 0)
        return p;
    }
    return end;
  }
  while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n' && *p != '\t' && *p != '\r')
    p++;
  return p;
}

bool weir_is_null(weir_json v) { return v.ptr != NULL && v.len > 0 && *v.ptr == 'n'; }

static int hex4(const char *p) {
  int n = 0;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0)
      return -1;
    n = n << 4 | digit;
  }
  return n;
}

/* put_rune writes a code point in UTF-8. */
static char *put_rune(char *to, uint32_t r) {
  if (r >= 0xd800 && r <= 0xdfff)
    r = 0xfffd;
  if (r < 0x80) {
    *to++ = (char)r;
  } else if (r < 0x800) {
    *to++ = (char)(0xc0 | r >> 6);
    *to++ = (char)(0x80 | (r & 63));
  } else if (r < 0x10000) {
    *to++ = (char)(0xe0 | r >> 12);
    *to++ = (char)(0x80 | (r >> 6 & 63));
    *to++ = (char)(0x80 | (r & 63));
  } else {
    *to++ = (char)(0xf0 | r >> 18);
    *to++ = (char)(0x80 | (r >> 12 & 63));
    *to++ = (char)(0x80 | (r >> 6 & 63));
    *to++ = (char)(0x80 | (r & 63));
  }
  return to;
}

/* unescape decodes the inside of a string, which has an escape at from. */
static weir_text unescape(const char *p, const char *end, const char *from) {
  char *start = weir_alloc((size_t)(end - p)), *to = start;
  memcpy(to, p, (size_t)(from - p));
  to += from - p;
  for (p = from; p < end; p++) {
    if (*p != '\\' || p + 1 == end) {
      *to++ = *p;
      continue;
    }
    switch (*++p) {
    case 'b': *to++ = '\b'; break;
    case 'f': *to++ = '\f'; break;
    case 'n': *to++ = '\n'; break;
    case 'r': *to++ = '\r'; break;
    case 't': *to++ = '\t'; break;
    case 'u': {
      int r = end - p > 4 ? hex4(p + 1) : -1;
      if (r < 0)
        break;
      p += 4;
      int low = r >> 10 == 0x36 && end - p > 6 && p[1] == '\\' && p[2] == 'u' ? hex4(p + 3) : -1;
      if (low >> 10 == 0x37) {
        r = 0x10000 + ((r & 0x3ff) << 10 | (low & 0x3ff));
        p += 6;
      }
      to = put_rune(to, (uint32_t)r);
      break;
    }
    default: *to++ = *p;
    }
  }
  return (weir_text){start, (size_t)(to - start)};
}

bool weir_json_text(weir_json v, weir_text *out) {
  if (v.len < 2 || *v.ptr != '"')
    return false;
  const char *end = v.ptr + v.len - 1;
  const char *escape = special(v.ptr + 1, end);
  if (escape < end) {
    *out = unescape(v.ptr + 1, end, escape);
    return true;
  }
  *out = (weir_text){v.ptr + 1, v.len - 2};
  return true;
}

bool weir_json_int(weir_json v, int64_t *out) {
  size_t i = 0;
  bool negative = v.len > 0 && *v.ptr == '-';
  if (negative)
    i++;
  if (i == v.len)
    return false;
  uint64_t n = 0, most = (uint64_t)INT64_MAX + negative;
  for (; i < v.len; i++) {
    char c = v.ptr[i];
    if (c < '0' || c > '9')
      return false;
    unsigned digit = (unsigned)(c - '0');
    if (n > (most - digit) / 10)
      return false;
    n = n * 10 + digit;
  }
  *out = negative ? (int64_t)-n : (int64_t)n;
  return true;
}

bool weir_json_bool(weir_json v, bool *out) {
  if (v.len == 0 || (*v.ptr != 't' && *v.ptr != 'f'))
    return false;
  *out = *v.ptr == 't';
  return true;
}

weir_iter weir_each(weir_json v) {
  if (v.ptr == NULL)
    v.ptr = "";
  weir_iter it = {.at = v.ptr, .end = v.ptr + v.len};
  it.at = skip_space(it.at, it.end);
  it.object = it.at < it.end && *it.at == '{';
  if (it.at == it.end || (*it.at != '{' && *it.at != '['))
    it.end = it.at; /* nothing to walk over */
  return it;
}

bool weir_next(weir_iter *it) {
  if (it->at == it->end)
    return false;
  const char *end = it->end, *p = skip_space(it->at + 1, end); /* behind [ { or , */
  if (p == end || *p == ']' || *p == '}') {
    it->at = end;
    return false;
  }
  if (it->object) {
    const char *name_end = skip_string(p, end);
    if (!weir_json_text((weir_json){p, (size_t)(name_end - p)}, &it->name)) {
      it->at = end;
      return false;
    }
    p = skip_space(name_end, end);
    p = skip_space(p < end ? p + 1 : p, end); /* behind : */
  }
  it->value.ptr = p;
  p = skip_value(p, end);
  it->value.len = (size_t)(p - it->value.ptr);
  if (it->started)
    it->index++;
  it->started = true;
  p = skip_space(p, end);
  it->at = p < end && *p == ',' ? p : end;
  return true;
}

weir_json weir_member(weir_json v, weir_text name) {
  weir_iter it = weir_each(v);
  if (it.object)
    while (weir_next(&it))
      if (weir_text_equal(it.name, name))
        return it.value;
  return absent;
}

weir_json weir_element(weir_json v, size_t index) {
  weir_iter it = weir_each(v);
  if (!it.object)
    while (weir_next(&it))
      if (it.index == index)
        return it.value;
  return absent;
}

bool weir_json_equal(weir_json a, weir_json b) {
  return (a.ptr == NULL) == (b.ptr == NULL) && a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ---- texts ---- */

weir_text weir_string(const char *s) { return (weir_text){s, length(s)}; }

bool weir_text_equal(weir_text a, weir_text b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
bool weir_equal(weir_text a, const char *b) { return weir_text_equal(a, weir_string(b)); }

bool weir_has_prefix(weir_text s, const char *prefix) {
  size_t n = length(prefix);
  return n <= s.len && memcmp(s.ptr, prefix, n) == 0;
}

bool weir_has_suffix(weir_text s, const char *suffix) {
  size_t n = length(suffix);
  return n <= s.len && memcmp(s.ptr + s.len - n, suffix, n) == 0;
}

bool weir_contains(weir_text s, const char *part) {
  size_t n = length(part);
  for (size_t i = 0; i + n <= s.len; i++)
    if (memcmp(s.ptr + i, part, n) == 0)
      return true;
  return false;
}

const char *weir_format(const char *format, ...) {
  buffer b = {0};
  va_list args;
  va_start(args, format);
  for (const char *p = format; *p != 0; p++) {
    if (*p != '%') {
      append_char(&b, *p);
      continue;
    }
    switch (*++p) {
    case 's': append_string(&b, va_arg(args, const char *)); break;
    case 'T': {
      const weir_text *t = va_arg(args, const weir_text *);
      append(&b, t->ptr, t->len);
      break;
    }
    case 'd': append_int(&b, va_arg(args, int)); break;
    case 'D': append_int(&b, va_arg(args, int64_t)); break;
    case 0: p--; /* fall through: a % at the end */
    default: append_char(&b, *p);
    }
  }
  va_end(args);
  append_char(&b, 0);
  return b.ptr;
}

static weir_json json_of(buffer b) { return (weir_json){b.ptr, b.len}; }

weir_json weir_json_of_text(weir_text s) {
  buffer b = {0};
  append_quoted(&b, s.ptr, s.len);
  return json_of(b);
}

weir_json weir_json_of_string(const char *s) { return weir_json_of_text(weir_string(s)); }

weir_json weir_json_of_int(int64_t n) {
  buffer b = {0};
  append_int(&b, n);
  return json_of(b);
}

weir_json weir_json_of_bool(bool v) { return weir_json_raw(v ? "true" : "false"); }
weir_json weir_json_raw(const char *json) { return (weir_json){json, length(json)}; }

/* ---- a call ---- */

/* A step of a path goes down to a member, or to an element. */
typedef struct {
  weir_text name; /* an index in decimal */
  size_t index;
  bool element;
} step;

typedef struct edit {
  const step *steps;
  size_t count;
  weir_json value; /* absent: deleted */
  struct edit *before;
} edit;

struct weir_object {
  weir_ctx *ctx;
  int32_t slot;
  buffer patch;
  edit *edits; /* the last first */
};

struct weir_ctx {
  weir_object slots[WEIR_SLOT_TARGET_VERSION + 1];
  buffer errors, warnings, audit, denied;
  const char *failure;
};

static void fail_with(weir_ctx *ctx, const char *why) {
  if (ctx->failure == NULL)
    ctx->failure = why;
}

void weir_fail(weir_ctx *ctx, const char *why) { fail_with(ctx, why); }

static const char *slot_name(int32_t slot) {
  static const char *const names[] = {"meta", "object", "oldObject", "options", "settings", "params", "namespace", "targetVersion"};
  return names[slot];
}

weir_object *weir_request(weir_ctx *ctx) { return &ctx->slots[WEIR_SLOT_META]; }
weir_object *weir_settings(weir_ctx *ctx) { return &ctx->slots[WEIR_SLOT_SETTINGS]; }
weir_object *weir_options(weir_ctx *ctx) { return &ctx->slots[WEIR_SLOT_OPTIONS]; }
weir_object *weir_params(weir_ctx *ctx) { return &ctx->slots[WEIR_SLOT_PARAMS]; }
weir_object *weir_namespace(weir_ctx *ctx) { return &ctx->slots[WEIR_SLOT_NAMESPACE]; }

/* query follows the buffer rule with what is left of the arena. */
static weir_json query(weir_object *obj, const char *path, size_t len) {
  reserve(1 << 10);
  size_t cap = (size_t)(arena_end - arena_at);
  int32_t n = weir_import_query(obj->slot, path, (int32_t)len, arena_at, (int32_t)cap);
  if (n > 0 && (size_t)n > cap) {
    reserve((size_t)n);
    n = weir_import_query(obj->slot, path, (int32_t)len, arena_at, n);
  }
  if (n == -WEIR_ENOENT)
    return absent;
  if (n < 0) {
    fail_with(obj->ctx, weir_format("query %s %s: %s", slot_name(obj->slot), path,
                                    n == -WEIR_EINVAL ? "invalid argument" : "over the limit"));
    return absent;
  }
  weir_json v = {arena_at, (size_t)n};
  take((size_t)n);
  return v;
}

bool weir_has(weir_object *obj, const char *path) {
  int32_t n = weir_import_query(obj->slot, path, (int32_t)length(path), NULL, 0);
  if (n < 0 && n != -WEIR_ENOENT)
    fail_with(obj->ctx, weir_format("query %s %s: invalid argument", slot_name(obj->slot), path));
  return n >= 0;
}

weir_json weir_get(weir_object *obj, const char *path) { return query(obj, path, length(path)); }

weir_text weir_get_text(weir_object *obj, const char *path) {
  weir_text s = {"", 0};
  weir_json_text(weir_get(obj, path), &s);
  return s;
}

int64_t weir_get_int(weir_object *obj, const char *path, int64_t fallback) {
  int64_t n;
  return weir_json_int(weir_get(obj, path), &n) ? n : fallback;
}

bool weir_get_bool(weir_object *obj, const char *path) {
  bool b = false;
  return weir_json_bool(weir_get(obj, path), &b) && b;
}

/* member appends "name":, with a comma if it is not the first. */
static void member(buffer *b, const char *name) {
  if (b->len > 0 && b->ptr[b->len - 1] != '{')
    append_char(b, ',');
  append_quoted(b, name, length(name));
  append_char(b, ':');
}

static void text_member(buffer *b, const char *name, const char *value) {
  if (value == NULL || *value == 0)
    return;
  member(b, name);
  append_quoted(b, value, length(value));
}

void weir_field_error(weir_ctx *ctx, const char *type, const char *field, weir_json value, const char *detail) {
  buffer *b = &ctx->errors;
  append_string(b, b->len == 0 ? "[{\"type\":" : ",{\"type\":");
  append_quoted(b, type, length(type));
  member(b, "field");
  append_quoted(b, field, length(field));
  if (value.ptr != NULL) {
    member(b, "value");
    append(b, value.ptr, value.len);
  }
  text_member(b, "detail", detail);
  append_char(b, '}');
}

void weir_invalid(weir_ctx *ctx, const char *field, weir_json value, const char *detail) {
  weir_field_error(ctx, "FieldValueInvalid", field, value, detail);
}
void weir_required(weir_ctx *ctx, const char *field, const char *detail) {
  weir_field_error(ctx, "FieldValueRequired", field, absent, detail);
}
void weir_forbidden(weir_ctx *ctx, const char *field, const char *detail) {
  weir_field_error(ctx, "FieldValueForbidden", field, absent, detail);
}
void weir_duplicate(weir_ctx *ctx, const char *field, weir_json value) {
  weir_field_error(ctx, "FieldValueDuplicate", field, value, NULL);
}
void weir_not_supported(weir_ctx *ctx, const char *field, weir_json value, const char *const *supported) {
  buffer b = {0};
  for (; supported != NULL && *supported != NULL; supported++) {
    append_string(&b, b.len == 0 ? "supported values: " : ", ");
    append_quoted(&b, *supported, length(*supported));
  }
  append_char(&b, 0);
  weir_field_error(ctx, "FieldValueNotSupported", field, value, b.ptr);
}
void weir_not_found(weir_ctx *ctx, const char *field, weir_json value) {
  weir_field_error(ctx, "FieldValueNotFound", field, value, NULL);
}
void weir_type_invalid(weir_ctx *ctx, const char *field, weir_json value, const char *detail) {
  weir_field_error(ctx, "FieldValueTypeInvalid", field, value, detail);
}
void weir_too_long(weir_ctx *ctx, const char *field, int64_t max_bytes) {
  weir_field_error(ctx, "FieldValueTooLong", field, absent, weir_format("may not be more than %D bytes", max_bytes));
}
void weir_too_many(weir_ctx *ctx, const char *field, int64_t actual, int64_t max_items) {
  weir_field_error(ctx, "FieldValueTooMany", field, weir_json_of_int(actual), weir_format("must have at most %D items", max_items));
}

void weir_deny(weir_ctx *ctx, int code, const char *reason, const char *message) {
  buffer b = {0};
  append_char(&b, '{');
  if (code != 0) {
    member(&b, "code");
    append_int(&b, code);
  }
  text_member(&b, "reason", reason);
  member(&b, "message");
  append_quoted(&b, message, length(message));
  append_char(&b, '}');
  ctx->denied = b;
}

void weir_warn(weir_ctx *ctx, const char *text) {
  append_char(&ctx->warnings, ctx->warnings.len == 0 ? '[' : ',');
  append_quoted(&ctx->warnings, text, length(text));
}

void weir_annotate(weir_ctx *ctx, const char *key, const char *value) {
  /* The host takes the last of two equal keys. */
  append_char(&ctx->audit, ctx->audit.len == 0 ? '{' : ',');
  append_quoted(&ctx->audit, key, length(key));
  append_char(&ctx->audit, ':');
  append_quoted(&ctx->audit, value, length(value));
}

void weir_log(int level, const char *line) { weir_import_log(level, line, (int32_t)length(line)); }

/* ---- changes ---- */

/* parse_path splits a path that has neither wildcards nor escapes but \ in
 * quotes. It returns the number of steps, 0 for a path that does not parse. */
static size_t parse_path(const char *path, step **out) {
  size_t len = length(path), count = 0;
  step *steps = weir_alloc((len + 1) * sizeof(step));
  const char *p = path;
  while (*p != 0) {
    step *s = &steps[count++];
    *s = (step){0};
    if (*p != '[') {
      const char *start = p;
      while (*p != 0 && *p != '.' && *p != '[')
        p++;
      s->name = (weir_text){start, (size_t)(p - start)};
      if (s->name.len == 0 || weir_equal(s->name, "*"))
        return 0;
    } else if (p[1] == '\'' || p[1] == '"') {
      char quote = p[1];
      buffer b = {0};
      for (p += 2; *p != quote; p++) {
        if (*p == '\\')
          p++;
        if (*p == 0)
          return 0;
        append_char(&b, *p);
      }
      if (*++p != ']')
        return 0;
      p++;
      s->name = (weir_text){b.len > 0 ? b.ptr : "", b.len};
    } else {
      const char *start = ++p;
      for (; *p >= '0' && *p <= '9' && p - start < 9; p++)
        s->index = s->index * 10 + (size_t)(*p - '0');
      if (p == start || *p != ']')
        return 0;
      s->name = (weir_text){start, (size_t)(p - start)};
      s->element = true;
      p++;
    }
    if (*p == '.' && (*++p == 0 || *p == '['))
      return 0;
  }
  *out = steps;
  return count;
}

/* join_path spells a path for the host. */
static buffer join_path(const step *steps, size_t count) {
  buffer b = {0};
  for (size_t i = 0; i < count; i++) {
    const step *s = &steps[i];
    if (s->element) {
      append_char(&b, '[');
      append(&b, s->name.ptr, s->name.len);
      append_char(&b, ']');
      continue;
    }
    append_string(&b, "['");
    for (size_t j = 0; j < s->name.len; j++) {
      if (s->name.ptr[j] == '\\' || s->name.ptr[j] == '\'')
        append_char(&b, '\\');
      append_char(&b, s->name.ptr[j]);
    }
    append_string(&b, "']");
  }
  return b;
}

weir_json weir_at(weir_json v, const char *path) {
  step *steps = NULL;
  size_t count = *path == 0 ? 0 : parse_path(path, &steps);
  if (count == 0 && *path != 0) {
    weir_log(WEIR_ERROR, weir_format("weir_at: not a path: %s", path));
    __builtin_trap();
  }
  for (size_t i = 0; i < count && v.ptr != NULL; i++)
    v = steps[i].element ? weir_element(v, steps[i].index) : weir_member(v, steps[i].name);
  return v;
}

static bool same_steps(const step *a, const step *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (a[i].element != b[i].element || !weir_text_equal(a[i].name, b[i].name))
      return false;
  return true;
}

/* exists tells whether there is a value at a path now. null is none. */
static bool exists(weir_object *obj, const step *steps, size_t count) {
  weir_json v = absent;
  edit *e = obj->edits;
  while (e != NULL && (e->count > count || !same_steps(e->steps, steps, e->count)))
    e = e->before;
  if (e != NULL) { /* the last edit says what is there */
    v = e->value;
    for (size_t i = e->count; i < count && v.ptr != NULL; i++)
      v = steps[i].element ? weir_element(v, steps[i].index) : weir_member(v, steps[i].name);
  } else {
    buffer path = join_path(steps, count);
    append_char(&path, 0);
    v = query(obj, path.ptr, path.len - 1);
  }
  return v.ptr != NULL && !weir_is_null(v);
}

static void record(weir_object *obj, const char *op, const step *steps, size_t count, weir_json value) {
  buffer *b = &obj->patch, pointer = {0};
  for (size_t i = 0; i < count; i++) {
    append_char(&pointer, '/');
    for (size_t j = 0; j < steps[i].name.len; j++) {
      char c = steps[i].name.ptr[j];
      if (c == '~')
        append_string(&pointer, "~0");
      else if (c == '/')
        append_string(&pointer, "~1");
      else
        append_char(&pointer, c);
    }
  }
  append_string(b, b->len == 0 ? "[{\"op\":\"" : ",{\"op\":\"");
  append_string(b, op);
  append_string(b, "\",\"path\":");
  append_quoted(b, pointer.ptr, pointer.len);
  if (value.ptr != NULL) {
    append_string(b, ",\"value\":");
    append(b, value.ptr, value.len);
  }
  append_char(b, '}');
  edit *e = weir_alloc(sizeof *e);
  *e = (edit){steps, count, value, obj->edits};
  obj->edits = e;
}

void weir_set(weir_object *obj, const char *path, weir_json value) {
  step *steps = NULL;
  size_t count = parse_path(path, &steps);
  if (count == 0 || value.ptr == NULL) {
    fail_with(obj->ctx, weir_format("set %s: %s", path, count == 0 ? "not a path" : "no value"));
    return;
  }
  size_t n = 1; /* steps that lead to what is added */
  while (n < count && exists(obj, steps, n))
    n++;
  for (size_t i = count; i-- > n;) {
    if (steps[i].element) {
      fail_with(obj->ctx, weir_format("set %s: the list does not exist", path));
      return;
    }
    buffer b = {0};
    append_char(&b, '{');
    append_quoted(&b, steps[i].name.ptr, steps[i].name.len);
    append_char(&b, ':');
    append(&b, value.ptr, value.len);
    append_char(&b, '}');
    value = json_of(b);
  }
  const char *op = "add";
  if (steps[n - 1].element) {
    if (!exists(obj, steps, n)) {
      fail_with(obj->ctx, weir_format("set %s: the element does not exist", path));
      return;
    }
    op = "replace";
  }
  record(obj, op, steps, n, value);
}

void weir_set_text(weir_object *obj, const char *path, weir_text value) { weir_set(obj, path, weir_json_of_text(value)); }
void weir_set_string(weir_object *obj, const char *path, const char *value) { weir_set(obj, path, weir_json_of_string(value)); }
void weir_set_int(weir_object *obj, const char *path, int64_t value) { weir_set(obj, path, weir_json_of_int(value)); }
void weir_set_bool(weir_object *obj, const char *path, bool value) { weir_set(obj, path, weir_json_of_bool(value)); }

void weir_delete(weir_object *obj, const char *path) {
  step *steps = NULL;
  size_t count = parse_path(path, &steps);
  if (count == 0)
    fail_with(obj->ctx, weir_format("delete %s: not a path", path));
  else if (steps[count - 1].element)
    fail_with(obj->ctx, weir_format("delete %s: an element of a list; set the list instead", path));
  else if (exists(obj, steps, count))
    record(obj, "remove", steps, count, absent);
}

/* ---- other objects, and who may do what ---- */

/* refused makes the hook fail for an errno. */
static void refused(weir_ctx *ctx, const char *what, int why) {
  fail_with(ctx, weir_format("%s: %s", what,
                             why == WEIR_EPERM    ? "capability not granted"
                             : why == WEIR_EINVAL ? "invalid argument"
                             : why == WEIR_E2BIG  ? "over the limit"
                                                    : "refused"));
}

int weir_try_lookup(weir_lookup_request r, weir_found *found) {
  *found = (weir_found){absent, {"", 0}, false};
  buffer b = {0};
  append_char(&b, '{');
  text_member(&b, "group", r.group);
  text_member(&b, "resource", r.resource);
  text_member(&b, "namespace", r.namespace);
  text_member(&b, "name", r.name);
  text_member(&b, "labelSelector", r.label_selector);
  text_member(&b, "fieldSelector", r.field_selector);
  if (r.fields != NULL && *r.fields != NULL) {
    member(&b, "fields");
    char open = '[';
    for (const char *const *f = r.fields; *f != NULL; f++, open = ',') {
      append_char(&b, open);
      append_quoted(&b, *f, length(*f));
    }
    append_char(&b, ']');
  }
  if (r.limit > 0) {
    member(&b, "limit");
    append_int(&b, r.limit);
  }
  append_char(&b, '}');
  reserve(4 << 10);
  size_t cap = (size_t)(arena_end - arena_at);
  char *end = arena_end, *at = take(cap); /* all, since a stand-in may use the arena, too */
  int32_t n = weir_import_lookup(b.ptr, (int32_t)b.len, at, (int32_t)cap);
  if (arena_end == end)
    arena_at = n > 0 && (size_t)n <= cap ? at + n : at;
  if (n > 0 && (size_t)n > cap) {
    at = weir_alloc((size_t)n);
    n = weir_import_lookup(b.ptr, (int32_t)b.len, at, n);
  }
  if (n < 0)
    return -n;
  for (weir_iter it = weir_each((weir_json){at, (size_t)n}); weir_next(&it);)
    if (weir_equal(it.name, "items"))
      found->items = it.value;
    else if (weir_equal(it.name, "resourceVersion"))
      weir_json_text(it.value, &found->resource_version);
    else if (weir_equal(it.name, "more"))
      weir_json_bool(it.value, &found->more);
  return 0;
}

weir_found weir_lookup(weir_ctx *ctx, weir_lookup_request r) {
  weir_found found;
  int why = weir_try_lookup(r, &found);
  if (why != 0)
    refused(ctx, weir_format("lookup %s", r.resource == NULL ? "" : r.resource), why);
  return found;
}

int weir_try_authorize(weir_access a, bool *allowed) {
  buffer b = {0};
  append_char(&b, '{');
  text_member(&b, "verb", a.verb);
  text_member(&b, "group", a.group);
  text_member(&b, "resource", a.resource);
  text_member(&b, "subresource", a.subresource);
  text_member(&b, "namespace", a.namespace);
  text_member(&b, "name", a.name);
  text_member(&b, "path", a.path);
  if (a.service_account_name != NULL) {
    buffer account = {0};
    append_char(&account, '{');
    text_member(&account, "namespace", a.service_account_namespace);
    text_member(&account, "name", a.service_account_name);
    append_char(&account, '}');
    member(&b, "serviceAccount");
    append(&b, account.ptr, account.len);
  }
  append_char(&b, '}');
  int32_t n = weir_import_authorize(b.ptr, (int32_t)b.len);
  *allowed = n == 1;
  return n < 0 ? -n : 0;
}

bool weir_authorize(weir_ctx *ctx, weir_access a) {
  bool allowed;
  int why = weir_try_authorize(a, &allowed);
  if (why != 0)
    refused(ctx, "authorize", why);
  return allowed;
}

/* ---- into structs ---- */

/* store puts a value into a member; false: it is of another type. */
static bool store(const weir_field *f, weir_json v, void *into) {
  void *to = (char *)into + f->offset;
  if (v.ptr == NULL || weir_is_null(v))
    return true;
  switch (f->kind) {
  case WEIR_KIND_TEXT: return weir_json_text(v, to);
  case WEIR_KIND_INT: return weir_json_int(v, to);
  case WEIR_KIND_BOOL: return weir_json_bool(v, to);
  case WEIR_KIND_TEXTS:
    if (*v.ptr != '[')
      return false;
    for (weir_iter it = weir_each(v); weir_next(&it);)
      if (*it.value.ptr != '"')
        return false;
    *(weir_json *)to = v;
    return true;
  case WEIR_KIND_JSON: *(weir_json *)to = v;
  }
  return true;
}

bool weir_read_json(weir_json v, const weir_field *fields, void *into) {
  bool fits = true;
  for (const weir_field *f = fields; f->path != NULL; f++)
    fits = store(f, weir_at(v, f->path), into) && fits;
  return fits;
}

/* What a value has to be, by kinds. */
static const char *const types[] = {"", "a string", "an integer", "a boolean", "", "an array of strings"};

bool weir_read(weir_object *obj, const weir_field *fields, void *into) {
  bool fits = true;
  for (const weir_field *f = fields; f->path != NULL; f++) {
    weir_json v = weir_get(obj, f->path);
    if (store(f, v, into))
      continue;
    fits = false;
    if (obj->slot == WEIR_SLOT_OBJECT)
      weir_type_invalid(obj->ctx, f->path, v, weir_format("must be %s", types[f->kind]));
    else
      fail_with(obj->ctx, weir_format("%s %s: not %s", slot_name(obj->slot), f->path, types[f->kind]));
  }
  return fits;
}

/* differs tells whether a member is not the value v, and what it is. */
static bool differs(const weir_field *f, const void *member, weir_json v, weir_json *is) {
  *is = absent;
  switch (f->kind) {
  case WEIR_KIND_TEXT: {
    weir_text now = *(const weir_text *)member, was = {"", 0};
    weir_json_text(v, &was);
    if (now.len > 0)
      *is = weir_json_of_text(now);
    return !weir_text_equal(now, was);
  }
  case WEIR_KIND_INT: {
    int64_t now = *(const int64_t *)member, was = 0;
    weir_json_int(v, &was);
    *is = weir_json_of_int(now);
    return now != was;
  }
  case WEIR_KIND_BOOL: {
    bool now = *(const bool *)member, was = false;
    weir_json_bool(v, &was);
    *is = weir_json_of_bool(now);
    return now != was;
  }
  case WEIR_KIND_TEXTS:
  case WEIR_KIND_JSON: *is = *(const weir_json *)member;
  }
  return !weir_json_equal(*is, v);
}

void weir_write(weir_object *obj, const weir_field *fields, const void *from) {
  for (const weir_field *f = fields; f->path != NULL; f++) {
    weir_json is;
    if (weir_contains(weir_string(f->path), "[*]") || !differs(f, (const char *)from + f->offset, weir_get(obj, f->path), &is))
      continue;
    if (is.ptr == NULL)
      weir_delete(obj, f->path);
    else
      weir_set(obj, f->path, is);
  }
}

/* ---- settings ---- */

/* Members that there are, as the names that lead to each. Below the last of them
 * there may be anything. */
typedef struct {
  step *names;
  size_t count;
} known;

/* distance is how many bytes have to be added, removed or replaced to make b of a,
 * whatever letters are capitals. */
static size_t distance(weir_text a, weir_text b) {
  size_t *row = weir_alloc((b.len + 1) * sizeof *row);
  for (size_t j = 0; j <= b.len; j++)
    row[j] = j;
  for (size_t i = 0; i < a.len; i++) {
    size_t before = row[0]; /* of the row above, one to the left */
    row[0] = i + 1;
    for (size_t j = 0; j < b.len; j++) {
      char x = a.ptr[i], y = b.ptr[j];
      x = x >= 'A' && x <= 'Z' ? (char)(x + 'a' - 'A') : x;
      y = y >= 'A' && y <= 'Z' ? (char)(y + 'a' - 'A') : y;
      size_t least = before + (x != y);
      before = row[j + 1];
      if (before + 1 < least)
        least = before + 1;
      if (row[j] + 1 < least)
        least = row[j] + 1;
      row[j + 1] = least;
    }
  }
  return row[b.len];
}

/* unknown_setting says that there is no setting of a name, and which there are:
 * those of depth many names before. */
static const char *unknown_setting(weir_text name, const known *all, size_t n, const step *parents, size_t depth) {
  enum { longest = 100 }; /* of names that anybody would type */
  buffer names = {0};
  weir_text near = {NULL, 0};
  size_t least = longest;
  for (size_t i = 0; i < n; i++) {
    bool is_new = all[i].count > depth && same_steps(all[i].names, parents, depth);
    for (size_t j = 0; is_new && j < i; j++)
      is_new = all[j].count <= depth || !same_steps(all[j].names, all[i].names, depth + 1);
    if (!is_new)
      continue;
    weir_text is = all[i].names[depth].name;
    append_string(&names, names.len == 0 ? " there are " : ", ");
    append_quoted(&names, is.ptr, is.len);
    size_t longer = is.len > name.len ? is.len : name.len;
    if (longer > longest)
      continue;
    size_t d = distance(name, is);
    if (d < least && d <= (longer + 1) / 3) {
      least = d;
      near = is;
    }
  }
  if (names.len == 0)
    return "unknown setting; there are none";
  append_char(&names, 0);
  if (near.ptr == NULL)
    return weir_format("unknown setting;%s", names.ptr);
  return weir_format("unknown setting, did you mean \"%T\"?%s", &near, names.ptr);
}

/* check_settings complains of members of an object that are unknown. depth many
 * names lead to it, which at spells with a point at its end. */
static void check_settings(weir_ctx *ctx, weir_json object, const known *all, size_t n, const step *parents, size_t depth,
                           const char *at) {
  for (weir_iter it = weir_each(object); weir_next(&it);) {
    const step *below = NULL;
    bool whole = false;
    for (size_t i = 0; i < n; i++)
      if (all[i].count > depth && same_steps(all[i].names, parents, depth) &&
          weir_text_equal(all[i].names[depth].name, it.name)) {
        below = all[i].names;
        whole |= all[i].count == depth + 1;
      }
    const char *field = weir_format("%s%T", at, &it.name);
    if (below == NULL)
      weir_forbidden(ctx, field, unknown_setting(it.name, all, n, parents, depth));
    else if (whole || weir_is_null(it.value))
      continue;
    else if (*it.value.ptr == '{')
      check_settings(ctx, it.value, all, n, below, depth + 1, weir_format("%s.", field));
    else
      weir_type_invalid(ctx, field, it.value, "must be an object");
  }
}

/* know makes of the path of a field the names that lead to its member: those
 * before the first list. */
static known know(const char *path) {
  const char *end = path;
  while (*end != 0 && !(end[0] == '[' && end[1] == '*'))
    end++;
  weir_text plain = {path, (size_t)(end - path)};
  known k = {NULL, 0};
  size_t count = parse_path(weir_format("%T", &plain), &k.names);
  while (k.count < count && !k.names[k.count].element)
    k.count++;
  return k;
}

static void configure(weir_ctx *ctx) {
  const weir_module *m = &weir_guest;
  static const weir_field none[] = {{0}};
  const weir_field *fields = m->settings != NULL ? m->settings : none;
  weir_object *settings = weir_settings(ctx);
  weir_json whole = weir_get(settings, "");
  if (whole.ptr != NULL && *whole.ptr != '{' && !weir_is_null(whole)) {
    weir_type_invalid(ctx, "settings", whole, "must be an object");
    return;
  }
  if (whole.ptr != NULL && !m->lenient_settings) {
    size_t n = 0;
    while (fields[n].path != NULL)
      n++;
    known *all = weir_alloc((n + 1) * sizeof *all);
    for (size_t i = 0; i < n; i++)
      all[i] = know(fields[i].path);
    check_settings(ctx, whole, all, n, NULL, 0, "");
  }
  for (const weir_field *f = fields; f->path != NULL && m->settings_into != NULL; f++) {
    weir_json v = weir_get(settings, f->path);
    if (!store(f, v, m->settings_into))
      weir_type_invalid(ctx, f->path, v, weir_format("must be %s", types[f->kind]));
  }
  if (ctx->errors.len == 0 && m->configure != NULL)
    m->configure(ctx);
}

/* ---- exports ---- */

static void write_out(weir_ctx *ctx, int32_t slot, const char *ptr, size_t len) {
  if (weir_import_write(slot, ptr, (int32_t)len) != (int32_t)len)
    fail_with(ctx, "write: over the limit");
}

/* part appends a member of the result that is JSON already. */
static void part(buffer *b, const char *name, buffer value, const char *close) {
  if (value.len == 0)
    return;
  member(b, name);
  append(b, value.ptr, value.len);
  append_string(b, close);
}

/* finish writes the patch and the result. */
static int32_t finish(weir_ctx *ctx) {
  buffer *patch = &ctx->slots[WEIR_SLOT_OBJECT].patch;
  if (patch->len > 0 && ctx->failure == NULL) {
    append_char(patch, ']');
    write_out(ctx, WEIR_SLOT_PATCH, patch->ptr, patch->len);
  }
  buffer b = {0};
  append_char(&b, '{');
  if (ctx->failure != NULL) {
    member(&b, "failure");
    append_quoted(&b, ctx->failure, length(ctx->failure));
  } else {
    part(&b, "errors", ctx->errors, "]");
    part(&b, "denied", ctx->denied, "");
    part(&b, "warnings", ctx->warnings, "]");
    part(&b, "audit", ctx->audit, "}");
  }
  if (b.len > 1) {
    append_char(&b, '}');
    weir_import_write(WEIR_SLOT_RESULT, b.ptr, (int32_t)b.len);
  }
  return ctx->failure != NULL ? WEIR_FAILED : WEIR_OK;
}

/* convert_all converts each object of the array. */
static void convert_all(weir_ctx *ctx) {
  weir_json target = weir_get(&ctx->slots[WEIR_SLOT_TARGET_VERSION], "");
  weir_text to = {"", 0};
  if (!weir_json_text(target, &to)) {
    fail_with(ctx, "convert without a target version");
    return;
  }
  buffer out = {0};
  append_char(&out, '[');
  for (weir_iter it = weir_each(weir_get(&ctx->slots[WEIR_SLOT_OBJECT], "")); weir_next(&it);) {
    weir_json converted = weir_guest.convert(ctx, it.value, to);
    if (converted.ptr == NULL) { /* it was refused */
      if (ctx->denied.len == 0 && ctx->errors.len == 0)
        fail_with(ctx, "convert returned no object");
      return;
    }
    if (out.len > 1)
      append_char(&out, ',');
    append(&out, converted.ptr, converted.len);
  }
  append_char(&out, ']');
  write_out(ctx, WEIR_SLOT_OBJECT_OUT, out.ptr, out.len);
}

/* The hooks of weir_guest, and their names in a manifest. */
#define HOOKS(one, two)                                                                                              \
  one(WEIR_OP_DEFAULT, set_defaults, OBJECT) one(WEIR_OP_PREPARE_FOR_CREATE, prepare_for_create, OBJECT)             \
  one(WEIR_OP_VALIDATE_CREATE, validate_create, OBJECT) two(WEIR_OP_PREPARE_FOR_UPDATE, prepare_for_update)          \
  two(WEIR_OP_VALIDATE_UPDATE, validate_update) one(WEIR_OP_VALIDATE_DELETE, validate_delete, OLD_OBJECT)            \
  one(WEIR_OP_CANONICALIZE, canonicalize, OBJECT) two(WEIR_OP_STATUS_PREPARE, status_prepare)                        \
  two(WEIR_OP_STATUS_VALIDATE, status_validate) one(WEIR_OP_WARNINGS_ON_CREATE, warnings_on_create, OBJECT)          \
  two(WEIR_OP_WARNINGS_ON_UPDATE, warnings_on_update) two(WEIR_OP_ADMIT_MUTATE, admit_mutate)                        \
  two(WEIR_OP_ADMIT_VALIDATE, admit_validate)

static weir_object *admitted(weir_object *obj, int32_t op) {
  return op < WEIR_OP_ADMIT_MUTATE || weir_has(obj, "") ? obj : NULL;
}

static bool has_hook(int32_t op) {
  const weir_module *m = &weir_guest;
  switch (op) {
  case WEIR_OP_CONFIGURE: return true;
  case WEIR_OP_CONVERT: return m->convert != NULL;
  case WEIR_OP_CONNECT: return m->connect != NULL;
#define ONE(op, hook, slot) case op: return m->hook != NULL;
#define TWO(op, hook) case op: return m->hook != NULL;
    HOOKS(ONE, TWO)
#undef ONE
#undef TWO
  }
  return false;
}

static void run(weir_ctx *ctx, int32_t op) {
  const weir_module *m = &weir_guest;
  weir_object *obj = &ctx->slots[WEIR_SLOT_OBJECT], *old = &ctx->slots[WEIR_SLOT_OLD_OBJECT];
  switch (op) {
  case WEIR_OP_CONFIGURE: configure(ctx); break;
  case WEIR_OP_CONVERT: convert_all(ctx); break;
  case WEIR_OP_CONNECT: {
    weir_json response = m->connect(ctx, obj);
    if (response.ptr != NULL)
      write_out(ctx, WEIR_SLOT_OBJECT_OUT, response.ptr, response.len);
    break;
  }
#define ONE(op, hook, slot) case op: m->hook(ctx, &ctx->slots[WEIR_SLOT_##slot]); break;
#define TWO(op, hook) case op: m->hook(ctx, admitted(obj, op), admitted(old, op)); break;
    HOOKS(ONE, TWO)
#undef ONE
#undef TWO
  }
}

WEIR_EXPORT("weir_abi_v1") void weir_abi_v1(void) {}

WEIR_EXPORT("weir_describe") int32_t weir_describe(void) {
  static const char *const names[] = {
      NULL, "configure", "default", "prepareForCreate", "validateCreate", "prepareForUpdate", "validateUpdate",
      "validateDelete", "canonicalize", "statusPrepare", "statusValidate", "warningsOnCreate", "warningsOnUpdate",
      "convert", "connect", "admitMutate", "admitValidate"};
  const weir_module *m = &weir_guest;
  buffer b = {0};
  append_char(&b, '{');
  text_member(&b, "name", m->name);
  text_member(&b, "version", m->version);
  text_member(&b, "group", m->group);
  text_member(&b, "resource", m->resource);
  text_member(&b, "kind", m->kind);
  text_member(&b, "sdk", WEIR_SDK);
  member(&b, "hooks");
  char open = '[';
  for (int32_t op = WEIR_OP_CONFIGURE; op <= WEIR_OP_ADMIT_VALIDATE; op++) {
    if (!has_hook(op))
      continue;
    append_char(&b, open);
    append_quoted(&b, names[op], length(names[op]));
    open = ',';
  }
  append_string(&b, open == '[' ? "[]" : "]");
  if (m->capabilities != NULL && *m->capabilities != NULL) {
    member(&b, "capabilities");
    open = '[';
    for (const char *const *c = m->capabilities; *c != NULL; c++, open = ',') {
      append_char(&b, open);
      append_quoted(&b, *c, length(*c));
    }
    append_char(&b, ']');
  }
  append_char(&b, '}');
  return weir_import_write(WEIR_SLOT_MANIFEST, b.ptr, (int32_t)b.len) == (int32_t)b.len ? WEIR_OK : WEIR_FAILED;
}

WEIR_EXPORT("weir_invoke") int32_t weir_invoke(int32_t op) {
  if (!has_hook(op))
    return WEIR_UNIMPLEMENTED;
  weir_ctx ctx = {0};
  for (int32_t slot = 0; slot <= WEIR_SLOT_TARGET_VERSION; slot++) {
    ctx.slots[slot].ctx = &ctx;
    ctx.slots[slot].slot = slot;
  }
  run(&ctx, op);
  return finish(&ctx);
}
