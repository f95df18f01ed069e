/* The conformance guest of the C SDK: it does what package abitest says. */
#include "lookups.h"

static struct settings {
  weir_text greeting;
  int64_t pitch;
} settings;
static const weir_field settings_fields[] = {
    WEIR_TEXT(struct settings, greeting, "greeting"), WEIR_INT(struct settings, pitch, "tone.pitch"), {0}};

/* is tells whether spec.case of an object is the name. */
static bool is(weir_object *obj, const char *name) { return weir_equal(weir_get_text(obj, "spec.case"), name); }

static const char *c_string(weir_text s) { return weir_format("%T", &s); }
static void warn_text(weir_ctx *ctx, weir_text s) { weir_warn(ctx, c_string(s)); }
static void warn_int(weir_ctx *ctx, int64_t n) { weir_warn(ctx, weir_format("%D", n)); }
static void warn_bool(weir_ctx *ctx, bool b) { weir_warn(ctx, b ? "true" : "false"); }

static void configure(weir_ctx *ctx) {
  if (settings.greeting.len == 0)
    weir_required(ctx, "greeting", "");
}

/* What is read and written as a type. */
typedef struct {
  weir_text author;
  int64_t copies;
  bool sold;
} quote;

static const weir_field quote_fields[] = {
    WEIR_TEXT(quote, author, "spec.typed.author"),
    WEIR_INT(quote, copies, "spec.typed.copies"),
    WEIR_BOOL(quote, sold, "spec.typed.sold"),
    {0},
};

static void default_quote(weir_object *obj) {
  quote q = {.copies = 1};
  if (!weir_read(obj, quote_fields, &q))
    return;
  if (q.author.len == 0)
    q.author = weir_string("unknown");
  q.copies++;
  weir_write(obj, quote_fields, &q);
}

static void set_defaults(weir_ctx *ctx, weir_object *obj) {
  if (is(obj, "set")) {
    weir_set_string(obj, "spec.added.deep", "x/~\"€");
  } else if (is(obj, "set by an odd name")) {
    weir_set_string(obj, "metadata.labels['a.b/c~d']", "1");
  } else if (is(obj, "set twice")) {
    weir_set_int(obj, "spec.made.a", 1);
    weir_set_int(obj, "spec.made.b", 2);
  } else if (is(obj, "set in an element")) {
    weir_set_string(obj, "spec.list[1].name", "changed");
  } else if (is(obj, "replace")) {
    weir_set_int(obj, "spec.n", 9007199254740995);
    weir_set_bool(obj, "spec.yes", false);
  } else if (is(obj, "copy")) {
    weir_set(obj, "spec.copy", weir_get(obj, "spec.list"));
  } else if (is(obj, "delete")) {
    weir_delete(obj, "spec.small");
    weir_delete(obj, "spec.nothing");
  } else if (is(obj, "delete and set")) {
    weir_delete(obj, "spec.map");
    weir_set_bool(obj, "spec.map.new", true);
  } else if (is(obj, "typed")) {
    default_quote(obj);
  }
}

static void prepare_for_create(weir_ctx *ctx, weir_object *obj) {
  if (is(obj, "mutate"))
    weir_set_bool(obj, "spec.mutated", true);
}

static int64_t counted;

static void validate_create(weir_ctx *ctx, weir_object *obj) {
  if (is(obj, "errors")) {
    weir_invalid(ctx, "spec.case", weir_get(obj, "spec.case"), "asked for");
    weir_required(ctx, "spec.other", "");
  } else if (is(obj, "denied")) {
    weir_deny(ctx, 409, "Conflict", "asked for");
  } else if (is(obj, "warnings")) {
    weir_warn(ctx, "one");
    weir_warn(ctx, "zwei €");
  } else if (is(obj, "audit")) {
    weir_annotate(ctx, "key", "value");
  } else if (is(obj, "settings")) {
    warn_text(ctx, settings.greeting);
  } else if (is(obj, "large")) {
    warn_int(ctx, (int64_t)weir_get_text(obj, "spec.filler").len);
  } else if (is(obj, "count")) {
    warn_int(ctx, counted++);
  } else if (is(obj, "fail")) {
    weir_fail(ctx, "asked for");
  } else if (is(obj, "trap")) {
    __builtin_trap();
  }
}

static void prepare_for_update(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (is(obj, "restore"))
    weir_set(obj, "status", weir_get(old, "spec"));
}

static void validate_update(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (is(obj, "meta")) {
    static const char *const paths[] = {"uid", "operation", "time", "name", "user.username"};
    for (int i = 0; i < 5; i++)
      warn_text(ctx, weir_get_text(weir_request(ctx), paths[i]));
  } else if (is(obj, "old")) {
    warn_text(ctx, weir_get_text(old, "spec.case"));
  }
}

static void validate_delete(weir_ctx *ctx, weir_object *obj) {
  if (is(obj, "deletion"))
    weir_forbidden(ctx, "metadata.name", "asked for");
}

static void canonicalize(weir_ctx *ctx, weir_object *obj) {
  if (is(obj, "canonical"))
    weir_delete(obj, "spec.filler");
}

static void status_prepare(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (is(obj, "restore"))
    weir_set_text(obj, "spec.case", weir_get_text(old, "spec.case"));
}

__attribute__((noinline)) static int recurse(volatile int n) { return recurse(n + 1) + n; }

static int64_t remembered;
static int64_t *on_heap;

static void status_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (is(obj, "loop")) {
    for (volatile int i = 0;; i++)
      ;
  } else if (is(obj, "recurse")) {
    warn_int(ctx, recurse(1));
  } else if (is(obj, "grow")) {
    for (;;)
      *(volatile char *)weir_alloc(1 << 20) = 1;
  } else if (is(obj, "flood")) {
    for (int i = 0; i < 10000; i++)
      weir_warn(ctx, "the water rises, and rises");
  } else if (is(obj, "no path")) {
    weir_get(obj, "spec[");
  } else if (is(obj, "log")) {
    for (int i = 0; i < 10000; i++)
      weir_log(WEIR_INFO, "twenty bytes of log.");
  } else if (is(obj, "remember")) {
    if (on_heap == NULL) {
      on_heap = weir_alloc(sizeof *on_heap);
      *on_heap = 0;
    }
    warn_int(ctx, remembered++);
    warn_int(ctx, (*on_heap)++);
    int64_t *grown = weir_alloc(200000);
    warn_int(ctx, grown[20000]++);
  }
}

static void warnings_on_create(weir_ctx *ctx, weir_object *obj) {
  weir_text s;
  if (is(obj, "path")) {
    warn_text(ctx, weir_get_text(obj, "spec.list[1].name"));
    warn_text(ctx, weir_get_text(obj, "metadata.annotations['example.com/key.with.dots']"));
  } else if (is(obj, "wildcard")) {
    for (weir_iter it = weir_each(weir_get(obj, "spec.list[*].name")); weir_next(&it);)
      if (weir_json_text(it.value, &s))
        warn_text(ctx, s);
  } else if (is(obj, "absence")) {
    warn_bool(ctx, weir_has(obj, "spec.nothing"));
    warn_bool(ctx, weir_has(obj, "spec.none"));
    warn_bool(ctx, weir_has(obj, "spec.text"));
  } else if (is(obj, "integers")) {
    warn_int(ctx, weir_get_int(obj, "spec.n", 0));
    warn_int(ctx, weir_get_int(obj, "spec.small", 0));
  } else if (is(obj, "booleans")) {
    warn_bool(ctx, weir_get_bool(obj, "spec.yes"));
    warn_bool(ctx, weir_get_bool(obj, "spec.nothing"));
  } else if (is(obj, "escapes")) {
    warn_text(ctx, weir_get_text(obj, "spec.text"));
  } else if (is(obj, "members")) {
    for (weir_iter it = weir_each(weir_get(obj, "spec.map")); weir_next(&it);)
      if (weir_json_text(it.value, &s))
        weir_warn(ctx, weir_format("%T=%T", &it.name, &s));
  } else if (is(obj, "elements")) {
    int n = 0;
    for (weir_iter it = weir_each(weir_get(obj, "spec.list")); weir_next(&it); n++)
      if (weir_json_text(weir_member(it.value, weir_string("name")), &s))
        warn_text(ctx, s);
    warn_int(ctx, n);
  } else if (is(obj, "equality")) {
    warn_bool(ctx, weir_json_equal(weir_get(obj, "spec.list[0]"), weir_get(obj, "spec.list[1]")));
    warn_bool(ctx, weir_json_equal(weir_get(obj, "spec.map"), weir_get(obj, "spec.map")));
  } else if (is(obj, "many")) {
    int n = 0;
    for (weir_iter it = weir_each(weir_get(obj, "spec.list[*].name")); weir_next(&it);)
      n++;
    warn_int(ctx, n);
  } else {
    lookups(ctx, weir_get_text(obj, "spec.case"));
  }
}

static void warnings_on_update(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (is(obj, "both")) {
    warn_text(ctx, weir_get_text(obj, "spec.case"));
    warn_text(ctx, weir_get_text(old, "spec.case"));
  }
}

static weir_json convert(weir_ctx *ctx, weir_json object, weir_text to) {
  const char *out = "{";
  for (weir_iter it = weir_each(object); weir_next(&it);) {
    weir_json name = weir_json_of_text(it.name), value = it.value;
    if (weir_equal(it.name, "apiVersion"))
      value = weir_json_of_text(to);
    weir_text n = {name.ptr, name.len}, v = {value.ptr, value.len};
    out = weir_format("%s%s%T:%T", out, it.index > 0 ? "," : "", &n, &v);
  }
  return weir_json_raw(weir_format("%s}", out));
}

static weir_json connect(weir_ctx *ctx, weir_object *parent) {
  weir_json name = weir_get(parent, "metadata.name"), said = weir_get(weir_options(ctx), "say");
  weir_text n = {name.ptr, name.len}, s = {said.ptr, said.len};
  return weir_json_raw(weir_format("{\"name\":%T,\"said\":%T}", &n, &s));
}

static void admit_mutate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (obj == NULL || is(obj, "no params")) {
    if (obj != NULL)
      warn_bool(ctx, weir_has(weir_params(ctx), ""));
    warn_bool(ctx, obj != NULL && old != NULL);
  } else if (is(obj, "params")) {
    weir_set_int(obj, "spec.n", weir_get_int(weir_params(ctx), "spec.most", 0));
  }
}

static void admit_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (obj == NULL)
    weir_invalid(ctx, "spec.case", weir_get(old, "spec.case"), NULL);
  else if (is(obj, "namespace"))
    weir_deny(ctx, 0, NULL, c_string(weir_get_text(weir_namespace(ctx), "metadata.name")));
  else if (is(obj, "options"))
    warn_text(ctx, weir_get_text(weir_options(ctx), "fieldManager"));
}

const weir_module weir_guest = {
    .name = "conformance-c",
    .version = "1.0.0",
    .capabilities = (const char *const[]){"lookup:configmaps", "authorize", NULL},
    .settings = settings_fields,
    .settings_into = &settings,
    .configure = configure,
    .set_defaults = set_defaults,
    .prepare_for_create = prepare_for_create,
    .validate_create = validate_create,
    .prepare_for_update = prepare_for_update,
    .validate_update = validate_update,
    .validate_delete = validate_delete,
    .canonicalize = canonicalize,
    .status_prepare = status_prepare,
    .status_validate = status_validate,
    .warnings_on_create = warnings_on_create,
    .warnings_on_update = warnings_on_update,
    .convert = convert,
    .connect = connect,
    .admit_mutate = admit_mutate,
    .admit_validate = admit_validate,
};
