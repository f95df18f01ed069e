/* Asks for five fields of an object in one hook, and walks all of it in another. */
#include "weir.h"

static void validate_create(weir_ctx *ctx, weir_object *object) {
  if (weir_get_text(object, "metadata.name").len == 0)
    weir_required(ctx, "metadata.name", "a name");
  if (weir_get_text(object, "metadata.labels.app").len == 0)
    weir_required(ctx, "metadata.labels[app]", "an app");
  if (weir_get_int(object, "spec.replicas", 1) > 100)
    weir_required(ctx, "spec.replicas", "fewer");
  if (weir_get_text(object, "spec.strategy.type").len == 0)
    weir_required(ctx, "spec.strategy.type", "a type");
  if (weir_get_text(object, "spec.template.spec.containers[0].image").len == 0)
    weir_required(ctx, "spec.template.spec.containers", "an image");
}

static int walk(weir_json v) {
  int n = 1;
  for (weir_iter it = weir_each(v); weir_next(&it);)
    n += walk(it.value);
  return n;
}

static void warnings_on_create(weir_ctx *ctx, weir_object *object) {
  if (walk(weir_get(object, "")) < 2)
    weir_warn(ctx, "nothing there");
}

const weir_module weir_guest = {
    .name = "five",
    .version = "1.0.0",
    .validate_create = validate_create,
    .warnings_on_create = warnings_on_create,
};
