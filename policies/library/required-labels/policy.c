/* Objects must have labels. Which ones is said by a ConfigMap. */
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

static void admit_validate(weir_ctx *ctx, weir_object *obj, weir_object *old) {
  if (obj == NULL)
    return;
  weir_json labels = weir_get(obj, "metadata.labels");
  if (old != NULL && weir_json_equal(labels, weir_get(old, "metadata.labels")))
    return;
  if (!weir_has(weir_params(ctx), "data.labels")) {
    weir_deny(ctx, 422, "Invalid", "params have no labels");
    return;
  }
  weir_text list = weir_get_text(weir_params(ctx), "data.labels"), name, value;
  const char *missing = NULL;
  while (next_part(&list, &name)) {
    if (name.len == 0 || (weir_json_text(weir_member(labels, name), &value) && value.len > 0))
      continue;
    missing = missing == NULL ? weir_format("%T", &name) : weir_format("%s, %T", missing, &name);
  }
  if (missing != NULL)
    weir_deny(ctx, 422, "Invalid", weir_format("labels are missing: %s", missing));
}

const weir_module weir_guest = {
    .name = "required-labels",
    .version = "1.0.0",
    .admit_validate = admit_validate,
};
