/* A policy for Deployments: they have certain labels, which do not change, and
 * not too many replicas. */
#include "weir.h"

/* What configure leaves here, every later call starts from. */
static weir_json labels = {"[\"team\"]", 8};
static int64_t max_replicas = 10;

static void configure(weir_ctx *ctx) {
  weir_object *settings = weir_settings(ctx);
  if (weir_has(settings, "labels"))
    labels = weir_get(settings, "labels");
  max_replicas = weir_get_int(settings, "maxReplicas", max_replicas);
  if (max_replicas < 1)
    weir_invalid(ctx, "maxReplicas", weir_json_of_int(max_replicas), "must be at least 1");
}

static void set_defaults(weir_ctx *ctx, weir_object *deployment) {
  if (!weir_has(deployment, "spec.revisionHistoryLimit"))
    weir_set_int(deployment, "spec.revisionHistoryLimit", 3);
}

static void validate_create(weir_ctx *ctx, weir_object *deployment) {
  weir_json have = weir_get(deployment, "metadata.labels");
  for (weir_iter it = weir_each(labels); weir_next(&it);) {
    weir_text label = {0}, value = {0};
    weir_json_text(it.value, &label);
    if (!weir_json_text(weir_member(have, label), &value) || value.len == 0)
      weir_required(ctx, weir_format("metadata.labels[%T]", &label), "every Deployment has one");
  }
  int64_t replicas = weir_get_int(deployment, "spec.replicas", 1);
  if (replicas > max_replicas)
    weir_invalid(ctx, "spec.replicas", weir_json_of_int(replicas), weir_format("must be at most %D", max_replicas));
}

static void validate_update(weir_ctx *ctx, weir_object *deployment, weir_object *old) {
  validate_create(ctx, deployment);
  weir_json have = weir_get(deployment, "metadata.labels"), had = weir_get(old, "metadata.labels");
  for (weir_iter it = weir_each(labels); weir_next(&it);) {
    weir_text label = {0};
    weir_json_text(it.value, &label);
    weir_json before = weir_member(had, label);
    if (!weir_is_absent(before) && !weir_json_equal(before, weir_member(have, label)))
      weir_forbidden(ctx, weir_format("metadata.labels[%T]", &label), "does not change once it is set");
  }
}

static void warnings_on_create(weir_ctx *ctx, weir_object *deployment) {
  weir_json images = weir_get(deployment, "spec.template.spec.containers[*].image");
  for (weir_iter it = weir_each(images); weir_next(&it);) {
    weir_text image;
    if (weir_json_text(it.value, &image) && weir_has_suffix(image, ":latest"))
      weir_warn(ctx, weir_format("spec.template.spec.containers[%d].image: latest is another image tomorrow", (int)it.index));
  }
}

const weir_module weir_guest = {
    .name = "guard",
    .version = "1.0.0",
    .group = "apps",
    .resource = "deployments",
    .kind = "Deployment",
    .configure = configure,
    .set_defaults = set_defaults,
    .validate_create = validate_create,
    .validate_update = validate_update,
    .warnings_on_create = warnings_on_create,
};
