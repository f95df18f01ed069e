/* Workloads have as many replicas as a ConfigMap says. None at all is allowed: it is off. */
#include "weir.h"

/* The number that a string of the params spells. */
static int64_t number(weir_ctx *ctx, const char *path) {
  weir_text text = weir_get_text(weir_params(ctx), path);
  int64_t n = 0;
  if (!weir_json_int((weir_json){text.ptr, text.len}, &n))
    weir_fail(ctx, weir_format("params: %s is no number", path));
  return n;
}

static void admit_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  (void)old;
  if (obj == NULL)
    return;
  bool scale = weir_equal(weir_get_text(obj, "kind"), "Scale");
  int64_t replicas = weir_get_int(obj, "spec.replicas", scale ? 0 : 1);
  int64_t least = number(ctx, "data.min"), most = number(ctx, "data.max");
  if (replicas != 0 && replicas < least)
    weir_deny(ctx, 422, "Invalid", weir_format("%D replicas are less than %D", replicas, least));
  else if (replicas > most)
    weir_deny(ctx, 422, "Invalid", weir_format("%D replicas are more than %D", replicas, most));
}

const weir_module weir_guest = {
    .name = "replicas",
    .version = "1.0.0",
    .admit_validate = admit_validate,
};
