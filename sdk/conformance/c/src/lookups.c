/* What the conformance guest looks up and asks. */
#include "lookups.h"

static void warn_int(weir_ctx *ctx, int64_t n) { weir_warn(ctx, weir_format("%D", n)); }
static void warn_bool(weir_ctx *ctx, bool b) { weir_warn(ctx, b ? "true" : "false"); }

static weir_text text_at(weir_json v, const char *path) {
  weir_text s = {"", 0};
  weir_json_text(weir_at(v, path), &s);
  return s;
}

static const char *const most[] = {"data.most", NULL};

static void look_up_one(weir_ctx *ctx, const char *name) {
  weir_found found = weir_lookup(
      ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "shop", .name = name, .fields = most});
  if (weir_equal(weir_string(name), "nothing")) {
    warn_bool(ctx, !weir_is_absent(weir_element(found.items, 0)));
    return;
  }
  for (weir_iter it = weir_each(found.items); weir_next(&it);) {
    weir_text value = text_at(it.value, "data.most"), version = text_at(it.value, "metadata.resourceVersion");
    weir_warn(ctx, weir_format("%T", &value));
    weir_warn(ctx, weir_format("%T", &version));
    warn_bool(ctx, !weir_is_absent(weir_at(it.value, "data.filler")));
  }
}

static void look_up_gold(weir_ctx *ctx) {
  weir_found found = weir_lookup(ctx, (weir_lookup_request){
                                          .resource = "configmaps",
                                          .namespace = "shop",
                                          .label_selector = "tier=gold",
                                          .fields = most,
                                      });
  for (weir_iter it = weir_each(found.items); weir_next(&it);) {
    weir_text name = text_at(it.value, "metadata.name"), value = text_at(it.value, "data.most");
    weir_warn(ctx, weir_format("%T=%T", &name, &value));
  }
  warn_bool(ctx, found.more);
}

static void look_up_two(weir_ctx *ctx) {
  weir_found found = weir_lookup(ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "shop", .limit = 2});
  for (weir_iter it = weir_each(found.items); weir_next(&it);) {
    weir_text name = text_at(it.value, "metadata.name");
    weir_warn(ctx, weir_format("%T", &name));
  }
  warn_bool(ctx, found.more);
}

static void look_up_all(weir_ctx *ctx) {
  static const char *const labels[] = {"metadata.labels", NULL};
  weir_found found = weir_lookup(ctx, (weir_lookup_request){.resource = "configmaps", .fields = labels});
  for (weir_iter it = weir_each(found.items); weir_next(&it);) {
    weir_text namespace = text_at(it.value, "metadata.namespace"), name = text_at(it.value, "metadata.name");
    weir_warn(ctx, weir_format("%T/%T", &namespace, &name));
  }
}

static void look_up_whole(weir_ctx *ctx, weir_lookup_request request) {
  for (weir_iter it = weir_each(weir_lookup(ctx, request).items); weir_next(&it);) {
    weir_text value = text_at(it.value, "data.most"), filler = text_at(it.value, "data.filler");
    if (request.name == NULL)
      weir_warn(ctx, weir_format("%T", &value));
    else
      warn_int(ctx, (int64_t)filler.len);
  }
}

/* warn_errno warns of why a look-up is refused. */
static void warn_errno(weir_ctx *ctx, weir_lookup_request request) {
  weir_found found;
  warn_int(ctx, weir_try_lookup(request, &found));
}

static void look_up_many(weir_ctx *ctx) {
  weir_found found;
  int n = 0, why = 0;
  while (why == 0) {
    why = weir_try_lookup(
        (weir_lookup_request){.resource = "configmaps", .namespace = "shop", .name = weir_format("c%d", n)}, &found);
    if (why == 0)
      n++;
  }
  warn_int(ctx, n);
  warn_int(ctx, why);
}

static void ask_many(weir_ctx *ctx) {
  bool allowed;
  int n = 0, why;
  while ((why = weir_try_authorize(
              (weir_access){.verb = "get", .resource = "configmaps", .namespace = "shop", .name = "limits"}, &allowed)) == 0)
    n++;
  warn_int(ctx, n);
  warn_int(ctx, why);
}

static void ask_scale(weir_ctx *ctx, const char *account) {
  warn_bool(ctx, weir_authorize(ctx, (weir_access){
                                       .verb = "delete",
                                       .group = "apps",
                                       .resource = "deployments",
                                       .subresource = "scale",
                                       .namespace = "shop",
                                       .service_account_namespace = "shop",
                                       .service_account_name = account,
                                   }));
}

void lookups(weir_ctx *ctx, weir_text asked) {
  static const char *const wild[] = {"data[*]", NULL};
  bool allowed;
  if (weir_equal(asked, "lookup one")) {
    look_up_one(ctx, "limits");
  } else if (weir_equal(asked, "lookup absent")) {
    look_up_one(ctx, "nothing");
  } else if (weir_equal(asked, "lookup list")) {
    look_up_gold(ctx);
  } else if (weir_equal(asked, "lookup limit")) {
    look_up_two(ctx);
  } else if (weir_equal(asked, "lookup everywhere")) {
    look_up_all(ctx);
  } else if (weir_equal(asked, "lookup field selector")) {
    look_up_whole(ctx, (weir_lookup_request){.resource = "configmaps", .field_selector = "metadata.name=quota"});
  } else if (weir_equal(asked, "lookup large")) {
    look_up_whole(ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "store", .name = "large"});
  } else if (weir_equal(asked, "lookup many")) {
    look_up_many(ctx);
  } else if (weir_equal(asked, "lookup ungranted")) {
    warn_errno(ctx, (weir_lookup_request){.resource = "secrets", .namespace = "shop", .name = "key"});
  } else if (weir_equal(asked, "lookup bad selector")) {
    warn_errno(ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "shop", .label_selector = "tier in ("});
  } else if (weir_equal(asked, "lookup bad field")) {
    warn_errno(ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "shop", .name = "limits", .fields = wild});
  } else if (weir_equal(asked, "lookup away")) {
    weir_lookup(ctx, (weir_lookup_request){.resource = "configmaps", .namespace = "away", .name = "limits"});
  } else if (weir_equal(asked, "authorize")) {
    warn_bool(ctx, weir_authorize(ctx, (weir_access){.verb = "get", .resource = "configmaps", .namespace = "shop", .name = "limits"}));
    warn_bool(ctx, weir_authorize(ctx, (weir_access){.verb = "delete", .resource = "configmaps", .namespace = "shop", .name = "limits"}));
  } else if (weir_equal(asked, "authorize account")) {
    ask_scale(ctx, "robot");
    ask_scale(ctx, NULL);
  } else if (weir_equal(asked, "authorize path")) {
    warn_bool(ctx, weir_authorize(ctx, (weir_access){.verb = "get", .path = "/healthz"}));
    warn_bool(ctx, weir_authorize(ctx, (weir_access){.verb = "get", .path = "/metrics"}));
  } else if (weir_equal(asked, "authorize nothing")) {
    warn_int(ctx, weir_try_authorize((weir_access){.verb = "get"}, &allowed));
  } else if (weir_equal(asked, "authorize many")) {
    ask_many(ctx);
  }
}
