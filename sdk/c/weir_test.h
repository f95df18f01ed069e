/*
 * weir_test.h - runs hooks on the author's machine, as a server would in
 * WebAssembly. It is included by one file, a test program that is linked with
 * the module and weir.c:
 *
 *   #include "weir_test.h"
 *
 *   int main(void) {
 *     weir_test_outcome o = weir_test_run(WEIR_OP_VALIDATE_CREATE, (weir_test_call){.object = "{\"spec\":{}}"});
 *     return weir_test_says(o.result, "FieldValueRequired") ? 0 : 1;
 *   }
 *
 *   cc -std=c11 -Iweir -o hooks_test test/hooks_test.c src/guard.c weir/weir.c && ./hooks_test
 *
 * Variables keep what a hook leaves in them, which they do not on a server.
 * Objects are read as they are given, and not made canonical first.
 */
#ifndef WEIR_TEST_H
#define WEIR_TEST_H

#include <stdlib.h>
#include <string.h>

#include "weir.h"

/* What a hook is called with. Documents are JSON; NULL is absent. */
typedef struct {
  const char *meta, *object, *old_object, *options, *settings, *params, *namespace_object;
  const char *target_version; /* a JSON string, "\"example.com/v2\"" */
  /* Answers look-ups with the JSON array of the objects, and questions of who
   * may do what. Requests are JSON. It must answer an equal request equally;
   * NULL is that it was not granted. */
  const char *(*lookup)(const char *request);
  bool (*authorize)(const char *request);
} weir_test_call;

/* What a hook did. */
typedef struct {
  int32_t status;     /* WEIR_OK, WEIR_UNIMPLEMENTED or WEIR_FAILED */
  const char *result; /* in JSON; empty if it had nothing to say */
  const char *patch;  /* what it changed, as a JSON patch; empty if nothing */
  const char *object; /* the whole new object, of the hooks that write one */
} weir_test_outcome;

static const char *weir_test_inputs[WEIR_SLOT_TARGET_VERSION + 1];
static weir_test_call weir_test_current;
static char *weir_test_outputs[WEIR_SLOT_MANIFEST + 1];

int32_t weir_import_read(int32_t slot, int32_t off, char *buf, int32_t cap) {
  if (slot < 0 || slot > WEIR_SLOT_TARGET_VERSION)
    return -WEIR_EINVAL;
  const char *text = weir_test_inputs[slot];
  if (text == NULL)
    return -WEIR_ENOENT;
  if (off < 0 || (size_t)off > strlen(text))
    return -WEIR_EINVAL;
  int32_t n = (int32_t)strlen(text + off);
  if (n <= cap && n > 0)
    memcpy(buf, text + off, (size_t)n);
  return n;
}

/* weir_test_find follows a path and adds what it finds to a list. It is false
 * if the path does not parse. */
static bool weir_test_find(weir_json v, const char *path, const char *end, char **list, size_t *found) {
  if (path < end && *path == '.')
    path++;
  if (path == end) {
    if (v.ptr != NULL) {
      size_t n = *list == NULL ? 0 : strlen(*list);
      *list = realloc(*list, n + v.len + 2);
      if (n > 0)
        (*list)[n++] = ',';
      memcpy(*list + n, v.ptr, v.len);
      (*list)[n + v.len] = 0;
      (*found)++;
    }
    return true;
  }
  if (*path != '[') {
    const char *stop = path;
    while (stop < end && *stop != '.' && *stop != '[')
      stop++;
    return stop > path && weir_test_find(weir_member(v, (weir_text){path, (size_t)(stop - path)}), stop, end, list, found);
  }
  if (end - path < 3)
    return false;
  if (path[1] == '*') {
    bool ok = path[2] == ']';
    for (weir_iter it = weir_each(v); ok && weir_next(&it);)
      ok = weir_test_find(it.value, path + 3, end, list, found);
    return ok;
  }
  if (path[1] == '\'' || path[1] == '"') {
    char *name = malloc((size_t)(end - path));
    size_t n = 0;
    const char *p = path + 2;
    while (p < end && *p != path[1]) {
      if (*p == '\\' && p + 1 < end)
        p++;
      name[n++] = *p++;
    }
    return end - p >= 2 && p[1] == ']' && weir_test_find(weir_member(v, (weir_text){name, n}), p + 2, end, list, found);
  }
  char *stop;
  unsigned long index = strtoul(path + 1, &stop, 10);
  return stop > path + 1 && stop < end && *stop == ']' && weir_test_find(weir_element(v, index), stop + 1, end, list, found);
}

int32_t weir_import_query(int32_t slot, const char *path, int32_t path_len, char *buf, int32_t cap) {
  if (slot < 0 || slot > WEIR_SLOT_TARGET_VERSION)
    return -WEIR_EINVAL;
  if (weir_test_inputs[slot] == NULL)
    return -WEIR_ENOENT;
  char *list = NULL;
  size_t found = 0;
  if (!weir_test_find(weir_json_raw(weir_test_inputs[slot]), path, path + path_len, &list, &found))
    return -WEIR_EINVAL;
  bool wildcard = weir_contains((weir_text){path, (size_t)path_len}, "[*]");
  if (!wildcard && found == 0)
    return -WEIR_ENOENT;
  /* buf is in the arena, so that nothing of this must be. */
  size_t len = list == NULL ? 0 : strlen(list), n = wildcard ? len + 2 : len;
  if (n <= (size_t)cap) {
    if (len > 0)
      memcpy(buf + wildcard, list, len);
    if (wildcard)
      buf[0] = '[', buf[n - 1] = ']';
  }
  free(list);
  return (int32_t)n;
}

int32_t weir_import_write(int32_t slot, const char *ptr, int32_t len) {
  if (slot < WEIR_SLOT_RESULT || slot > WEIR_SLOT_MANIFEST)
    return -WEIR_EINVAL;
  char *copy = calloc((size_t)len + 1, 1);
  memcpy(copy, ptr, (size_t)len);
  free(weir_test_outputs[slot]);
  weir_test_outputs[slot] = copy;
  return len;
}

int32_t weir_import_lookup(const char *request, int32_t request_len, char *buf, int32_t cap) {
  if (weir_test_current.lookup == NULL)
    return -WEIR_EPERM;
  weir_text asked = {request, (size_t)request_len};
  const char *list = weir_test_current.lookup(weir_format("%T", &asked));
  int64_t limit = 0, n = 0;
  weir_json_int(weir_member((weir_json){request, (size_t)request_len}, weir_string("limit")), &limit);
  const char *items = "";
  weir_iter it = weir_each(weir_json_raw(list));
  bool more = false;
  while (!more && weir_next(&it)) {
    more = limit > 0 && n++ == limit;
    weir_text item = {it.value.ptr, it.value.len};
    if (!more)
      items = weir_format("%s%s%T", items, it.index > 0 ? "," : "", &item);
  }
  const char *answer = weir_format("{\"items\":[%s],\"more\":%s,\"resourceVersion\":\"1\"}", items, more ? "true" : "false");
  int32_t len = (int32_t)strlen(answer);
  if (len <= cap)
    memcpy(buf, answer, (size_t)len);
  return len;
}

int32_t weir_import_authorize(const char *request, int32_t request_len) {
  if (weir_test_current.authorize == NULL)
    return -WEIR_EPERM;
  weir_text asked = {request, (size_t)request_len};
  return weir_test_current.authorize(weir_format("%T", &asked));
}

int32_t weir_import_log(int32_t level, const char *ptr, int32_t len) {
  (void)level;
  (void)ptr;
  return len;
}

static const char *weir_test_output(int32_t slot) {
  const char *text = weir_test_outputs[slot];
  weir_test_outputs[slot] = NULL; /* it is the caller's now */
  return text == NULL ? "" : text;
}

/* Runs a hook. Configure is one like any other here. */
static weir_test_outcome weir_test_run(int32_t op, weir_test_call call) {
  const char *inputs[] = {call.meta == NULL ? "{}" : call.meta, call.object, call.old_object, call.options, call.settings,
                          call.params, call.namespace_object, call.target_version};
  memcpy(weir_test_inputs, inputs, sizeof inputs);
  weir_test_current = call;
  int32_t status = weir_invoke(op);
  return (weir_test_outcome){status, weir_test_output(WEIR_SLOT_RESULT), weir_test_output(WEIR_SLOT_PATCH),
                             weir_test_output(WEIR_SLOT_OBJECT_OUT)};
}

/* Whether a text has a part. */
static inline bool weir_test_says(const char *text, const char *part) { return strstr(text, part) != NULL; }

#endif
