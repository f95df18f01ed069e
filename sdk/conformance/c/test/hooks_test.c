/* The conformance guest on this machine, by the stand-ins of weir_test.h. */
#include <stdio.h>

#include "weir_test.h"

static int failures;

/* says is that a text has a part, or is empty if the part is. */
static void says(const char *name, const char *got, const char *want) {
  if (*want == 0 ? *got == 0 : weir_test_says(got, want))
    return;
  failures++;
  printf("FAIL: %s: got %s, want %s in it\n", name, got, want);
}

static weir_test_outcome run(int32_t op, const char *asked, weir_test_call call) {
  if (call.object == NULL)
    call.object = weir_format("{\"spec\":{\"case\":\"%s\"}}", asked);
  return weir_test_run(op, call);
}

static const char *maps(const char *request) {
  if (weir_test_says(request, "\"name\":\"nothing\""))
    return "[]";
  if (weir_test_says(request, "\"name\":\"limits\""))
    return "[{\"data\":{\"most\":\"7\"},\"metadata\":{\"name\":\"limits\",\"resourceVersion\":\"12\"}}]";
  return "[{\"data\":{\"most\":\"7\"},\"metadata\":{\"name\":\"limits\"}}, {\"metadata\":{\"name\":\"other\"}},"
         "{\"metadata\":{\"name\":\"quota\"}}]";
}

static bool gets(const char *request) { return weir_test_says(request, "\"verb\":\"get\""); }

static void test_changes(void) {
  says("set", run(WEIR_OP_DEFAULT, "set", (weir_test_call){0}).patch, "\"path\":\"/spec/added\"");
  says("set by an odd name",
       run(WEIR_OP_DEFAULT, NULL,
           (weir_test_call){.object = "{\"metadata\":{\"labels\":{}},\"spec\":{\"case\":\"set by an odd name\"}}"})
           .patch,
       "\"path\":\"/metadata/labels/a.b~1c~0d\"");
  says("delete",
       run(WEIR_OP_DEFAULT, NULL, (weir_test_call){.object = "{\"spec\":{\"case\":\"delete\",\"small\":1}}"}).patch,
       "[{\"op\":\"remove\",\"path\":\"/spec/small\"}]");
}

static void test_verdicts(void) {
  says("errors", run(WEIR_OP_VALIDATE_CREATE, "errors", (weir_test_call){0}).result, "\"type\":\"FieldValueInvalid\"");
  says("nothing", run(WEIR_OP_VALIDATE_CREATE, "nothing", (weir_test_call){0}).result, "");
  says("configure", weir_test_run(WEIR_OP_CONFIGURE, (weir_test_call){.settings = "{\"greeting\":\"\"}"}).result,
       "\"field\":\"greeting\"");
  weir_test_run(WEIR_OP_CONFIGURE, (weir_test_call){.settings = "{\"greeting\":\"hello\"}"});
  says("settings", run(WEIR_OP_VALIDATE_CREATE, "settings", (weir_test_call){0}).result, "[\"hello\"]");
  says("convert",
       weir_test_run(WEIR_OP_CONVERT, (weir_test_call){.object = "[{\"apiVersion\":\"a/v1\",\"kind\":\"B\"}]", .target_version = "\"a/v2\""})
           .object,
       "[{\"apiVersion\":\"a/v2\",\"kind\":\"B\"}]");
  says("connect",
       weir_test_run(WEIR_OP_CONNECT, (weir_test_call){.object = "{\"metadata\":{\"name\":\"a\"}}", .options = "{\"say\":1}"}).object,
       "{\"name\":\"a\",\"said\":1}");
  says("deletion",
       weir_test_run(WEIR_OP_VALIDATE_DELETE, (weir_test_call){.old_object = "{\"spec\":{\"case\":\"deletion\"}}"}).result,
       "FieldValueForbidden");
}

static void test_settings(void) {
  static const struct {
    const char *settings, *says;
  } tests[] = {
      {"{\"greeting\":\"hello\"}", ""},
      {"{\"greeting\":5}", "\"type\":\"FieldValueTypeInvalid\",\"field\":\"greeting\",\"value\":5,\"detail\":\"must be a string\""},
      {"{\"greeting\":\"hello\",\"Greetings\":1}",
       "\"field\":\"Greetings\",\"detail\":\"unknown setting, did you mean \\\"greeting\\\"? there are \\\"greeting\\\", \\\"tone\\\"\""},
      {"{\"greeting\":\"hello\",\"volume\":{\"loud\":1}}",
       "\"field\":\"volume\",\"detail\":\"unknown setting; there are \\\"greeting\\\", \\\"tone\\\"\""},
      {"[]", "\"field\":\"settings\",\"value\":[],\"detail\":\"must be an object\""},
      {"null", "\"field\":\"greeting\""}, /* is none, and the greeting is required */
  };
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (i + 1 == sizeof tests / sizeof *tests)
      weir_test_run(WEIR_OP_CONFIGURE, (weir_test_call){.settings = "{\"greeting\":\"\"}"}); /* forget the last */
    says(tests[i].settings, weir_test_run(WEIR_OP_CONFIGURE, (weir_test_call){.settings = tests[i].settings}).result, tests[i].says);
  }
}

static void test_reads(void) {
  const char *object = "{\"spec\":{\"case\":\"wildcard\", \"list\": [{\"name\":\"a\"}, {\"name\" : \"\\u20ac\"}]}}";
  says("wildcard", run(WEIR_OP_WARNINGS_ON_CREATE, NULL, (weir_test_call){.object = object}).result, "[\"a\",\"€\"]");
  says("no path", run(WEIR_OP_STATUS_VALIDATE, "no path", (weir_test_call){0}).result, "\"failure\":\"query object spec[");
}

static void test_lookups(void) {
  weir_test_call call = {.lookup = maps, .authorize = gets};
  says("one", run(WEIR_OP_WARNINGS_ON_CREATE, "lookup one", call).result, "[\"7\",\"12\",\"false\"]");
  says("absent", run(WEIR_OP_WARNINGS_ON_CREATE, "lookup absent", call).result, "[\"false\"]");
  says("limit", run(WEIR_OP_WARNINGS_ON_CREATE, "lookup limit", call).result, "[\"limits\",\"other\",\"true\"]");
  says("authorize", run(WEIR_OP_WARNINGS_ON_CREATE, "authorize", call).result, "[\"true\",\"false\"]");
  says("ungranted", run(WEIR_OP_WARNINGS_ON_CREATE, "lookup one", (weir_test_call){0}).result,
       "\"failure\":\"lookup configmaps: capability not granted\"");
  says("not to be asked", run(WEIR_OP_WARNINGS_ON_CREATE, "authorize", (weir_test_call){0}).result,
       "\"failure\":\"authorize: capability not granted\"");
}

/* A type of an author's, in a module of its own ops. */
typedef struct {
  weir_text author;
  int64_t copies;
  bool sold;
  weir_json tags;
} quote;

static const weir_field quote_fields[] = {
    WEIR_TEXT(quote, author, "spec.author"), WEIR_INT(quote, copies, "spec.copies"), WEIR_BOOL(quote, sold, "spec.sold"),
    WEIR_JSON(quote, tags, "spec.tags"),     {0}};

static void test_fields(void) {
  quote q = {.copies = 1};
  weir_json v = weir_json_raw("{\"spec\":{\"author\":\"jane\",\"sold\":true,\"tags\":[1]}}");
  if (!weir_read_json(v, quote_fields, &q) || !weir_equal(q.author, "jane") || q.copies != 1 || !q.sold || q.tags.len != 3) {
    failures++;
    printf("FAIL: fields\n");
  }
  if (weir_read_json(weir_json_raw("{\"spec\":{\"copies\":\"two\"}}"), quote_fields, &q) || q.copies != 1) {
    failures++;
    printf("FAIL: fields of another type\n");
  }
  says("typed", run(WEIR_OP_DEFAULT, "typed", (weir_test_call){0}).patch,
       "[{\"op\":\"add\",\"path\":\"/spec/typed\",\"value\":{\"author\":\"unknown\"}},"
       "{\"op\":\"add\",\"path\":\"/spec/typed/copies\",\"value\":2}]");
  says("typed, of another type",
       run(WEIR_OP_DEFAULT, NULL, (weir_test_call){.object = "{\"spec\":{\"case\":\"typed\",\"typed\":{\"copies\":\"two\"}}}"}).result,
       "\"type\":\"FieldValueTypeInvalid\",\"field\":\"spec.typed.copies\",\"value\":\"two\",\"detail\":\"must be an integer\"");
}

int main(void) {
  test_fields();
  test_changes();
  test_verdicts();
  test_settings();
  test_reads();
  test_lookups();
  return failures == 0 ? 0 : 1;
}
