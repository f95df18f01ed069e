/* Images come from registries that a ConfigMap names. */
#include "weir.h"

/* Takes what is before the next comma off a list, without the spaces around it. */
static bool next_part(weir_text *list, weir_text *part) {
  if (list->ptr == NULL)
    return false;
  size_t n = 0;
  while (n < list->len && list->ptr[n] != ',')
    n++;
  *part = (weir_text){list->ptr, n};
  if (n < list->len)
    *list = (weir_text){list->ptr + n + 1, list->len - n - 1};
  else
    *list = (weir_text){NULL, 0};
  for (; part->len > 0 && part->ptr[0] == ' '; part->ptr++)
    part->len--;
  while (part->len > 0 && part->ptr[part->len - 1] == ' ')
    part->len--;
  return true;
}

static bool begins_with(weir_text s, weir_text prefix) {
  return prefix.len <= s.len && weir_text_equal((weir_text){s.ptr, prefix.len}, prefix);
}

/* The image with the registry that a container runtime takes where none is named. */
static weir_text with_registry(weir_text image) {
  weir_text host = {image.ptr, 0};
  while (host.len < image.len && image.ptr[host.len] != '/')
    host.len++;
  if (host.len == image.len)
    return weir_string(weir_format("docker.io/library/%T", &image));
  if (weir_contains(host, ".") || weir_contains(host, ":") || weir_equal(host, "localhost"))
    return image;
  return weir_string(weir_format("docker.io/%T", &image));
}

static bool known(weir_ctx *ctx, weir_text image) {
  weir_text list = weir_get_text(weir_params(ctx), "data.registries"), registry;
  while (next_part(&list, &registry))
    if (registry.len > 0 && begins_with(image, registry))
      return true;
  return false;
}

static const char *pod_spec(weir_object *obj) {
  weir_text kind = weir_get_text(obj, "kind");
  if (weir_equal(kind, "Pod"))
    return "spec";
  if (weir_equal(kind, "PodTemplate"))
    return "template.spec";
  if (weir_equal(kind, "CronJob"))
    return "spec.jobTemplate.spec.template.spec";
  return "spec.template.spec";
}

static void admit_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
  (void)old;
  if (obj == NULL)
    return;
  if (!weir_has(weir_params(ctx), "data.registries")) {
    weir_fail(ctx, "params have no registries");
    return;
  }
  const char *spec = pod_spec(obj), *foreign = NULL;
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    weir_json images = weir_get(obj, weir_format("%s.%s[*].image", spec, lists[i]));
    for (weir_iter it = weir_each(images); weir_next(&it);) {
      weir_text image;
      if (!weir_json_text(it.value, &image))
        continue;
      image = with_registry(image);
      if (!known(ctx, image))
        foreign = foreign == NULL ? weir_format("%T", &image) : weir_format("%s, %T", foreign, &image);
    }
  }
  if (foreign != NULL)
    weir_deny(ctx, 403, "Forbidden", weir_format("images are of other registries: %s", foreign));
}

const weir_module weir_guest = {
    .name = "image-registries",
    .version = "1.0.0",
    .admit_validate = admit_validate,
};
