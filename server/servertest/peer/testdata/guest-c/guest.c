/* A policy for widgets: what a webhook would look at. */
#include "weir.h"

static void admit_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  (void)old;
  if (obj == NULL)
    return;
  if (weir_get_int(obj, "spec.replicas", 0) > 500)
    weir_deny(ctx, 0, NULL, "too many replicas");
  else if (weir_get_bool(obj, "spec.paused"))
    weir_deny(ctx, 0, NULL, "it is paused");
  else if (!weir_has_prefix(weir_get_text(obj, "spec.image"), "registry.example/"))
    weir_deny(ctx, 0, NULL, "the image is of another registry");
  else if (weir_get_text(obj, "spec.title").len == 0)
    weir_deny(ctx, 0, NULL, "it has no title");
  else if (weir_get_text(obj, "metadata.labels.app").len == 0)
    weir_deny(ctx, 0, NULL, "it is of no app");
}

const weir_module weir_guest = {.name = "guest-c", .version = "1.0.0", .admit_validate = admit_validate};
