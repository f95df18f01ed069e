/* A guest that keeps a secret wherever it can: in a global, in an object of the
 * arena, and in memory that was grown. Its configure hook keeps that of the
 * settings. Each validateCreate warns of what it finds kept, in that order, and
 * then keeps the secret of the object, which the audit annotations prove. */
#include "weir.h"

enum { grown_bytes = 96 << 10 };

typedef struct {
  weir_text secret;
} box;

static char global[64];
static size_t global_len;
static box *on_heap;
static weir_text grown;

static weir_text copy(weir_text s, char *to) {
  for (size_t i = 0; i < s.len; i++)
    to[i] = s.ptr[i];
  return (weir_text){to, s.len};
}

/* keep stores a secret. False is that memory which was grown is not empty. */
static bool keep(weir_text secret) {
  global_len = copy(secret, global).len;
  box *b = weir_alloc(sizeof *b);
  b->secret = copy(secret, weir_alloc(secret.len));
  on_heap = b;
  char *bytes = weir_alloc(grown_bytes);
  bool empty = true;
  for (size_t i = 0; i < grown_bytes; i += sizeof global)
    empty = empty && *(volatile uint64_t *)(bytes + i) == 0;
  copy(secret, bytes);
  grown = copy(secret, bytes + grown_bytes - sizeof global);
  return empty;
}

static weir_text secret = {"", 0}; /* of the settings */
static const weir_field settings[] = {{"secret", 0, WEIR_KIND_TEXT}, {0}};

static void configure(weir_ctx *ctx) { keep(secret); }

static void validate_create(weir_ctx *ctx, weir_object *obj) {
  if (!weir_has(obj, "spec.secret")) /* in a call that warms the module up */
    return;
  for (int after = 0; after < 2; after++) {
    weir_text kept[] = {{global, global_len}, on_heap->secret, grown};
    static const char *const names[] = {"global", "heap", "memory"};
    for (int i = 0; i < 3; i++) {
      const char *text = weir_format("%T", &kept[i]);
      if (after)
        weir_annotate(ctx, names[i], text);
      else
        weir_warn(ctx, text);
    }
    if (!after && !keep(weir_get_text(obj, "spec.secret")))
      weir_warn(ctx, "memory that was grown is not empty");
  }
  if (weir_get_bool(obj, "spec.trap"))
    __builtin_trap();
}

const weir_module weir_guest = {.name = "isolation-c", .version = "1.0.0", .settings = settings, .settings_into = &secret,
                                .configure = configure, .validate_create = validate_create};
