/*
 * weir.h - the C SDK for guests of a Weir server: strategies and admission
 * policies that run as WebAssembly modules. It is one header and one file,
 * weir.c, and needs no C library.
 *
 *   #include "weir.h"
 *
 *   static void validate_create(weir_ctx *ctx, weir_object *quote) {
 *     if (weir_get_text(quote, "spec.text").len == 0)
 *       weir_required(ctx, "spec.text", "a quote says something");
 *   }
 *
 *   const weir_module weir_guest = {
 *     .name = "quotes", .version = "1.0.0",
 *     .group = "example.com", .resource = "quotes", .kind = "Quote",
 *     .validate_create = validate_create,
 *   };
 *
 * It is built with `weir module build`, or by hand with
 *
 *   clang --target=wasm32 -Os -mbulk-memory -nostdlib -fvisibility=hidden -Iweir \
 *     -Wl,--no-entry -Wl,-z,stack-size=32768 -o quotes.wasm src/quotes.c weir/weir.c
 *
 * Memory. What a function returns lies in an arena that nobody frees: the host
 * puts the guest's memory back after each call. What the configure hook leaves
 * in variables is what every later call starts from; whatever another hook
 * leaves there, no later call sees.
 *
 * Paths to be read are members and indexes, spec.containers[0].image or
 * metadata.labels['app.kubernetes.io/name']; with [*] the answer is the array
 * of all matches, and the empty path is the whole object. A path that does not
 * parse makes the hook fail.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_ABI_VERSION 1
#define WEIR_SDK "weir-c/1"

/* A text of len bytes in UTF-8, without a NUL at its end. */
typedef struct {
  const char *ptr;
  size_t len;
} weir_text;

/* A JSON value as it is spelled. ptr is NULL if there is none. */
typedef struct {
  const char *ptr;
  size_t len;
} weir_json;

/* One call of a hook. */
typedef struct weir_ctx weir_ctx;

/* A document of a call, read by path. The object that a hook may change can be
 * changed by path, too. */
typedef struct weir_object weir_object;

/* A hook reads obj, and old, the object as it is stored. Those named after a
 * change may change obj; the others may complain. */
typedef void weir_hook(weir_ctx *ctx, weir_object *obj);
typedef void weir_update_hook(weir_ctx *ctx, weir_object *obj, weir_object *old);

/* What a member of a struct is read from. */
typedef struct {
  const char *path;
  size_t offset;
  enum { WEIR_KIND_TEXT = 1, WEIR_KIND_INT, WEIR_KIND_BOOL, WEIR_KIND_JSON, WEIR_KIND_TEXTS } kind;
} weir_field;

/* What a module is. Hooks that are NULL are not called. */
typedef struct {
  const char *name;                    /* required */
  const char *version;                 /* by habit semver */
  const char *group, *resource, *kind; /* written for; NULL means any */
  /* What it needs to be granted, NULL at the end: lookup:configmaps,
   * lookup:deployments.apps, authorize. NULL: nothing. */
  const char *const *capabilities;

  /* The settings that there are, 0 at the end, and the struct that is filled with
   * them before configure is called; what is in it stays where there is none.
   * Others are refused, with those that there are, so that a misspelt one is not
   * ignored, and so are values of another type. Without fields there are no
   * settings.
   *
   *   static struct { int64_t most; } settings = {.most = 10};
   *   static const weir_field settings_fields[] = {{"maxReplicas", 0, WEIR_KIND_INT}, {0}};
   */
  const weir_field *settings;
  void *settings_into;
  bool lenient_settings; /* passes over what is unknown, for a module that shares its settings */

  /* Called once, before any other, if the settings are right. Complaints refuse them. */
  void (*configure)(weir_ctx *ctx);
  weir_hook *set_defaults; /* the hook "default" */
  weir_hook *prepare_for_create;
  weir_hook *validate_create;
  weir_update_hook *prepare_for_update;
  weir_update_hook *validate_update;
  weir_hook *validate_delete; /* obj is what is to be deleted */
  weir_hook *canonicalize;
  weir_update_hook *status_prepare;
  weir_update_hook *status_validate;
  weir_hook *warnings_on_create;
  weir_update_hook *warnings_on_update;
  /* Returns the object in version to, such as example.com/v2. */
  weir_json (*convert)(weir_ctx *ctx, weir_json object, weir_text to);
  /* Returns the response to a request to a subresource of the module's own. */
  weir_json (*connect)(weir_ctx *ctx, weir_object *parent);
  /* obj is NULL on DELETE, old on CREATE. */
  weir_update_hook *admit_mutate;
  weir_update_hook *admit_validate;
} weir_module;

/* The module, defined by its author. */
extern const weir_module weir_guest;

/* ---- documents of a call ---- */

weir_object *weir_request(weir_ctx *ctx); /* uid, operation, time, name, user.username, ... */
weir_object *weir_settings(weir_ctx *ctx); /* as they came */
weir_object *weir_options(weir_ctx *ctx);
weir_object *weir_params(weir_ctx *ctx);    /* of a policy binding */
weir_object *weir_namespace(weir_ctx *ctx); /* the Namespace of the request */

/* ---- reading ---- */

/* Whether there is a value at the path; null is one. */
bool weir_has(weir_object *obj, const char *path);
/* The canonical JSON at the path: two equal values have equal bytes. */
weir_json weir_get(weir_object *obj, const char *path);
/* The string at the path, empty if there is none. */
weir_text weir_get_text(weir_object *obj, const char *path);
/* The integer at the path, or fallback. */
int64_t weir_get_int(weir_object *obj, const char *path, int64_t fallback);
/* Whether there is true at the path. */
bool weir_get_bool(weir_object *obj, const char *path);

/* ---- into structs ---- */

/* An author's type is a struct and the paths of its members, 0 at the end:
 *
 *   typedef struct {
 *     weir_text author;
 *     int64_t copies;
 *   } quote;
 *   static const weir_field quote_fields[] = {
 *       WEIR_TEXT(quote, author, "spec.author"), WEIR_INT(quote, copies, "spec.copies"), {0}};
 *
 *   quote q = {.copies = 1};
 *   weir_read(obj, quote_fields, &q);
 */
#define WEIR_TEXT(type, member, path) {path, offsetof(type, member), WEIR_KIND_TEXT}  /* weir_text */
#define WEIR_INT(type, member, path) {path, offsetof(type, member), WEIR_KIND_INT}    /* int64_t */
#define WEIR_BOOL(type, member, path) {path, offsetof(type, member), WEIR_KIND_BOOL}  /* bool */
#define WEIR_JSON(type, member, path) {path, offsetof(type, member), WEIR_KIND_JSON}  /* weir_json */
#define WEIR_TEXTS(type, member, path) {path, offsetof(type, member), WEIR_KIND_TEXTS} /* weir_json, an array of strings */

/* Reads a struct. A member whose value is absent or null stays as it is. One of
 * the wrong type is a complaint, if it is of the object, and else makes the hook
 * fail; weir_read is false then. */
bool weir_read(weir_object *obj, const weir_field *fields, void *into);
/* Sets what is not as it is in a struct, where an absent value is an empty text,
 * 0, false or absent JSON; a text that became empty and JSON that became absent
 * are deleted. Paths of lists ([*]) are left alone. */
void weir_write(weir_object *obj, const weir_field *fields, const void *from);
/* The same of a JSON value, as an item that was looked up. */
bool weir_read_json(weir_json v, const weir_field *fields, void *into);

/* ---- JSON values ---- */

static inline bool weir_is_absent(weir_json v) { return v.ptr == NULL; }
bool weir_is_null(weir_json v);
/* The string v without its escapes; false if it is none. */
bool weir_json_text(weir_json v, weir_text *out);
/* The integer v; false if it is none or does not fit. */
bool weir_json_int(weir_json v, int64_t *out);
bool weir_json_bool(weir_json v, bool *out);
/* The member or element of v; absent if there is none. */
weir_json weir_member(weir_json v, weir_text name);
weir_json weir_element(weir_json v, size_t index);
/* The value at a path of v, without wildcards; absent if there is none. A path
 * that does not parse traps. */
weir_json weir_at(weir_json v, const char *path);
bool weir_json_equal(weir_json a, weir_json b);

/* A walk over an array or an object, in order:
 *
 *   for (weir_iter it = weir_each(list); weir_next(&it);)
 *     use(it.value);        // and it.index, and it.name in an object
 */
typedef struct {
  weir_json value;
  weir_text name;
  size_t index;

  const char *at, *end; /* private */
  bool object;
  bool started;
} weir_iter;

weir_iter weir_each(weir_json v);
bool weir_next(weir_iter *it);

/* ---- other objects, and who may do what ---- */

/* Which objects of a resource: the one of a name, or those that selectors
 * match, in a namespace or in all. */
typedef struct {
  const char *group, *resource; /* resource is required; group NULL: core */
  const char *namespace, *name; /* NULL: any */
  /* As kubectl's -l and --field-selector; NULL: any. Not with a name. */
  const char *label_selector, *field_selector;
  /* Paths of the members that are wanted of each, NULL at the end; NULL: whole
   * objects. apiVersion, kind, and of the metadata name, namespace, uid and
   * resourceVersion come in any case. */
  const char *const *fields;
  int limit; /* of a list; 0: 500, which is the most */
} weir_lookup_request;

typedef struct {
  weir_json items;            /* an array by namespace and name, for weir_each */
  weir_text resource_version; /* of the state that was read */
  bool more;                  /* whether the limit left some out */
} weir_found;

/* Reads objects as the server knew them last, which may be a moment ago; one
 * that is absent is no item. It needs the capability lookup:RESOURCE or
 * lookup:RESOURCE.GROUP. A look-up that is refused, as one of what was not
 * granted or the 17th of a call, makes the hook fail.
 *
 *   static const char *const most[] = {"data.most", NULL};
 *   weir_found limits = weir_lookup(ctx, (weir_lookup_request){
 *       .resource = "configmaps", .namespace = "default", .name = "limits", .fields = most});
 *   weir_json value = weir_at(weir_element(limits.items, 0), "data.most");
 */
weir_found weir_lookup(weir_ctx *ctx, weir_lookup_request request);
/* The same for a hook that can do without: returns 0, or why it was refused:
 * WEIR_EPERM, WEIR_EINVAL or WEIR_E2BIG. */
int weir_try_lookup(weir_lookup_request request, weir_found *found);

/* What somebody may do or not: a verb on a resource, or on a path such as
 * /healthz. */
typedef struct {
  const char *verb;
  const char *group, *resource, *subresource, *namespace, *name;
  const char *path;
  /* Who: a service account; NULL: who sent the request. */
  const char *service_account_namespace, *service_account_name;
} weir_access;

/* Whether the server's authorizer allows it. It needs the capability authorize.
 * A question that is refused, as the 17th of a call, makes the hook fail. */
bool weir_authorize(weir_ctx *ctx, weir_access access);
/* The same for a hook that can do without: as weir_try_lookup. */
int weir_try_authorize(weir_access access, bool *allowed);

/* ---- texts ---- */

/* The text of a C string. */
weir_text weir_string(const char *s);
bool weir_equal(weir_text a, const char *b);
bool weir_text_equal(weir_text a, weir_text b);
bool weir_has_prefix(weir_text s, const char *prefix);
bool weir_has_suffix(weir_text s, const char *suffix);
bool weir_contains(weir_text s, const char *part);
/* Makes a text in the arena, with a NUL behind it. %s is a const char *,
 * %T a weir_text *, %d an int, %D an int64_t, %% a %. */
const char *weir_format(const char *format, ...);
/* JSON of a text, an integer, a boolean. */
weir_json weir_json_of_text(weir_text s);
weir_json weir_json_of_string(const char *s);
weir_json weir_json_of_int(int64_t n);
weir_json weir_json_of_bool(bool b);
/* JSON as it is written: weir_json_raw("[1,2]"). */
weir_json weir_json_raw(const char *json);

/* Memory of the arena, of 8 byte alignment. Traps if there is none left. */
void *weir_alloc(size_t bytes);

/* ---- complaints: an object with one is refused as invalid ---- */

void weir_invalid(weir_ctx *ctx, const char *field, weir_json value, const char *detail);
void weir_required(weir_ctx *ctx, const char *field, const char *detail);
void weir_forbidden(weir_ctx *ctx, const char *field, const char *detail);
void weir_duplicate(weir_ctx *ctx, const char *field, weir_json value);
/* supported has those there are, NULL at the end. */
void weir_not_supported(weir_ctx *ctx, const char *field, weir_json value, const char *const *supported);
void weir_not_found(weir_ctx *ctx, const char *field, weir_json value);
void weir_type_invalid(weir_ctx *ctx, const char *field, weir_json value, const char *detail);
void weir_too_long(weir_ctx *ctx, const char *field, int64_t max_bytes);
void weir_too_many(weir_ctx *ctx, const char *field, int64_t actual, int64_t max_items);
/* Any type of field error: FieldValueTooShort. value may be absent. */
void weir_field_error(weir_ctx *ctx, const char *type, const char *field, weir_json value, const char *detail);

/* Refuses the request as a whole. code is 400 to 599, 0 for 403; reason is a
 * metav1.StatusReason, NULL for that of the code. */
void weir_deny(weir_ctx *ctx, int code, const char *reason, const char *message);
/* Sends a warning to the client. */
void weir_warn(weir_ctx *ctx, const char *text);
/* Adds an audit annotation. A key has one value, the last. */
void weir_annotate(weir_ctx *ctx, const char *key, const char *value);
/* The hook cannot decide. What else it said does not count. */
void weir_fail(weir_ctx *ctx, const char *why);

enum { WEIR_DEBUG = 0, WEIR_INFO = 1, WEIR_WARN = 2, WEIR_ERROR = 3 };
/* Writes a line to the server's log, which is cut at 1 KiB. */
void weir_log(int level, const char *line);

/* ---- changes ---- */

/* Sets the value at a path. Objects on the way that do not exist are made;
 * elements of lists have to exist. What is read stays as it came: changes take
 * effect when the hook has returned. */
void weir_set(weir_object *obj, const char *path, weir_json value);
void weir_set_text(weir_object *obj, const char *path, weir_text value);
void weir_set_string(weir_object *obj, const char *path, const char *value);
void weir_set_int(weir_object *obj, const char *path, int64_t value);
void weir_set_bool(weir_object *obj, const char *path, bool value);
/* Deletes the member at a path, if there is one. An element of a list cannot
 * be deleted: set the list. */
void weir_delete(weir_object *obj, const char *path);

/* ---- the contract, as package abi has it ---- */

enum {
  WEIR_OP_CONFIGURE = 1,
  WEIR_OP_DEFAULT = 2,
  WEIR_OP_PREPARE_FOR_CREATE = 3,
  WEIR_OP_VALIDATE_CREATE = 4,
  WEIR_OP_PREPARE_FOR_UPDATE = 5,
  WEIR_OP_VALIDATE_UPDATE = 6,
  WEIR_OP_VALIDATE_DELETE = 7,
  WEIR_OP_CANONICALIZE = 8,
  WEIR_OP_STATUS_PREPARE = 9,
  WEIR_OP_STATUS_VALIDATE = 10,
  WEIR_OP_WARNINGS_ON_CREATE = 11,
  WEIR_OP_WARNINGS_ON_UPDATE = 12,
  WEIR_OP_CONVERT = 13,
  WEIR_OP_CONNECT = 14,
  WEIR_OP_ADMIT_MUTATE = 15,
  WEIR_OP_ADMIT_VALIDATE = 16
};

enum {
  WEIR_SLOT_META = 0,
  WEIR_SLOT_OBJECT = 1,
  WEIR_SLOT_OLD_OBJECT = 2,
  WEIR_SLOT_OPTIONS = 3,
  WEIR_SLOT_SETTINGS = 4,
  WEIR_SLOT_PARAMS = 5,
  WEIR_SLOT_NAMESPACE = 6,
  WEIR_SLOT_TARGET_VERSION = 7,
  WEIR_SLOT_RESULT = 16,
  WEIR_SLOT_OBJECT_OUT = 17,
  WEIR_SLOT_PATCH = 18,
  WEIR_SLOT_MANIFEST = 19
};

enum { WEIR_OK = 0, WEIR_UNIMPLEMENTED = 1, WEIR_FAILED = 2 };
enum { WEIR_EPERM = 1, WEIR_ENOENT = 2, WEIR_E2BIG = 7, WEIR_EFAULT = 14, WEIR_EINVAL = 22, WEIR_ENOSYS = 38 };

/* The imports. In WebAssembly they are the host's; weir_test.h has stand-ins
 * for tests on the author's machine. */
#ifdef __wasm__
#define WEIR_IMPORT(n) __attribute__((import_module("weir.v1"), import_name(n)))
#define WEIR_EXPORT(n) __attribute__((export_name(n), visibility("default")))
#else
#define WEIR_IMPORT(n)
#define WEIR_EXPORT(n)
#endif

WEIR_IMPORT("read") int32_t weir_import_read(int32_t slot, int32_t off, char *buf, int32_t cap);
WEIR_IMPORT("query") int32_t weir_import_query(int32_t slot, const char *path, int32_t path_len, char *buf, int32_t cap);
WEIR_IMPORT("write") int32_t weir_import_write(int32_t slot, const char *ptr, int32_t len);
/* These two are imported only by a module that looks up or asks. */
WEIR_IMPORT("lookup") int32_t weir_import_lookup(const char *request, int32_t request_len, char *buf, int32_t cap);
WEIR_IMPORT("authorize") int32_t weir_import_authorize(const char *request, int32_t request_len);
WEIR_IMPORT("log") int32_t weir_import_log(int32_t level, const char *ptr, int32_t len);

/* The exports. */
void weir_abi_v1(void);
int32_t weir_describe(void);
int32_t weir_invoke(int32_t op);

#endif
