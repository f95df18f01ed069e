/* A policy for Deployments: they have certain labels, which do not change, and
 * not too many replicas. */
#include "weir.h"

/* The settings, and what they are without. What configure leaves here, every later
 * call starts from. */
typedef struct {
  weir_json labels;
  int64_t max_replicas;
} config;

static config settings = {.labels = {"[\"team\"]", 8}, .max_replicas = 10};

/* Those that there are; others are refused. */
static const weir_field settings_fields[] = {
    WEIR_TEXTS(config, labels, "labels"), WEIR_INT(config, max_replicas, "maxReplicas"), {0}};

static void configure(weir_ctx *ctx) {
  if (settings.max_replicas < 1)
    weir_invalid(ctx, "maxReplicas", weir_json_of_int(settings.max_replicas), "must be at least 1");
}

static void set_defaults(weir_ctx *ctx, weir_object *deployment) {
  if (!weir_has(deployment, "spec.revisionHistoryLimit"))
    weir_set_int(deployment, "spec.revisionHistoryLimit", 3);
}

static void validate_create(weir_ctx *ctx, weir_object *deployment) {
  weir_json have = weir_get(deployment, "metadata.labels");
  for (weir_iter it = weir_each(settings.labels); weir_next(&it);) {
    weir_text label = {0}, value = {0};
    weir_json_text(it.value, &label);
    if (!weir_json_text(weir_member(have, label), &value) || value.len == 0)
      weir_required(ctx, weir_format("metadata.labels[%T]", &label), "every Deployment has one");
  }
  int64_t replicas = weir_get_int(deployment, "spec.replicas", 1);
  if (replicas > settings.max_replicas)
    weir_invalid(ctx, "spec.replicas", weir_json_of_int(replicas), weir_format("must be at most %D", settings.max_replicas));
}

static void validate_update(weir_ctx *ctx, weir_object *deployment, weir_object *old) {
  validate_create(ctx, deployment);
  weir_json have = weir_get(deployment, "metadata.labels"), had = weir_get(old, "metadata.labels");
  for (weir_iter it = weir_each(settings.labels); weir_next(&it);) {
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
    .settings = settings_fields,
    .settings_into = &settings,
    .configure = configure,
    .set_defaults = set_defaults,
    .validate_create = validate_create,
    .validate_update = validate_update,
    .warnings_on_create = warnings_on_create,
};
