/* The hooks on this machine:
 *
 *   clang -std=c11 -Iweir -o test/hooks_test test/hooks_test.c src/guard.c weir/weir.c && test/hooks_test
 */
#include <stdio.h>

#include "weir_test.h"

static int failures;

static void expect(const char *name, const char *got, const char *want) {
  if (*want == 0 ? *got != 0 : !weir_test_says(got, want)) {
    failures++;
    printf("FAIL: %s: got %s, want %s in it\n", name, got, want);
  }
}

int main(void) {
  const char *good = "{\"metadata\":{\"labels\":{\"team\":\"river\"}},\"spec\":{\"replicas\":3}}";
  expect("a good one", weir_test_run(WEIR_OP_VALIDATE_CREATE, (weir_test_call){.object = good}).result, "");
  expect("no team", weir_test_run(WEIR_OP_VALIDATE_CREATE, (weir_test_call){.object = "{\"spec\":{}}"}).result,
         "\"field\":\"metadata.labels[team]\"");
  expect("a short history", weir_test_run(WEIR_OP_DEFAULT, (weir_test_call){.object = "{\"spec\":{}}"}).patch,
         "{\"op\":\"add\",\"path\":\"/spec/revisionHistoryLimit\",\"value\":3}");
  expect("a tag that moves",
         weir_test_run(WEIR_OP_WARNINGS_ON_CREATE,
                       (weir_test_call){.object = "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"image\":\"a:latest\"}]}}}}"})
             .result,
         "containers[0].image: latest");
  weir_test_run(WEIR_OP_CONFIGURE, (weir_test_call){.settings = "{\"maxReplicas\":2}"});
  expect("too many replicas", weir_test_run(WEIR_OP_VALIDATE_CREATE, (weir_test_call){.object = good}).result, "must be at most 2");
  printf(failures == 0 ? "ok\n" : "FAIL\n");
  return failures == 0 ? 0 : 1;
}
