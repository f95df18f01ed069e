// What the conformance guest looks up and asks.

import { Access, Context, Json, Lookup } from "weir-sdk/assembly";

function yes(b: bool): string {
  return b ? "true" : "false";
}

function text(item: Json, path: string): string {
  const found = item.at(path);
  return found ? found.text() : "";
}

function inShop(): Lookup {
  return new Lookup("configmaps").inNamespace("shop");
}

function get(verb: string): Access {
  return new Access(verb).on("configmaps").inNamespace("shop").named("limits");
}

function scale(): Access {
  return new Access("delete").on("deployments", "apps", "scale").inNamespace("shop");
}

function refusal(ctx: Context, what: Lookup): string[] {
  return [ctx.tryLookup(what).errno.toString()];
}

/** What is asked for. */
export function lookups(ctx: Context, asked: string): string[] {
  const out: string[] = [];
  if (asked == "lookup one") {
    const item = ctx.lookup(inShop().named("limits").only(["data.most"])).first;
    if (!item) return out;
    return [text(item, "data.most"), text(item, "metadata.resourceVersion"), yes(item.at("data.filler") != null)];
  } else if (asked == "lookup absent") return [yes(ctx.lookup(inShop().named("nothing")).first != null)];
  else if (asked == "lookup list") {
    const found = ctx.lookup(inShop().labelled("tier=gold").only(["data.most"]));
    for (let i = 0; i < found.items.length; i++) {
      out.push(`${text(found.items[i], "metadata.name")}=${text(found.items[i], "data.most")}`);
    }
    out.push(yes(found.more));
  } else if (asked == "lookup limit") {
    const found = ctx.lookup(inShop().atMost(2));
    for (let i = 0; i < found.items.length; i++) out.push(text(found.items[i], "metadata.name"));
    out.push(yes(found.more));
  } else if (asked == "lookup everywhere") {
    const items = ctx.lookup(new Lookup("configmaps").only(["metadata.labels"])).items;
    for (let i = 0; i < items.length; i++) out.push(`${text(items[i], "metadata.namespace")}/${text(items[i], "metadata.name")}`);
  } else if (asked == "lookup field selector") {
    const items = ctx.lookup(new Lookup("configmaps").where("metadata.name=quota")).items;
    for (let i = 0; i < items.length; i++) out.push(text(items[i], "data.most"));
  } else if (asked == "lookup large") {
    const item = ctx.lookup(new Lookup("configmaps").inNamespace("store").named("large")).first!;
    return [text(item, "data.filler").length.toString()];
  } else if (asked == "lookup many") {
    let n = 0, errno = 0;
    for (; errno == 0; n++) errno = ctx.tryLookup(inShop().named(`c${n}`)).errno;
    return [(n - 1).toString(), errno.toString()];
  } else if (asked == "lookup ungranted") return refusal(ctx, new Lookup("secrets").inNamespace("shop").named("key"));
  else if (asked == "lookup bad selector") return refusal(ctx, inShop().labelled("tier in ("));
  else if (asked == "lookup bad field") return refusal(ctx, inShop().named("limits").only(["data[*]"]));
  else if (asked == "lookup away") return refusal(ctx, new Lookup("configmaps").inNamespace("away").named("limits"));
  else if (asked == "authorize") return [yes(ctx.authorize(get("get"))), yes(ctx.authorize(get("delete")))];
  else if (asked == "authorize account") return [yes(ctx.authorize(scale().by("shop", "robot"))), yes(ctx.authorize(scale()))];
  else if (asked == "authorize path") {
    return [yes(ctx.authorize(new Access("get").onPath("/healthz"))), yes(ctx.authorize(new Access("get").onPath("/metrics")))];
  } else if (asked == "authorize nothing") return [(-ctx.tryAuthorize(new Access("get"))).toString()];
  else if (asked == "authorize many") {
    let n = 0, answer = 0;
    for (; answer >= 0; n++) answer = ctx.tryAuthorize(get("get"));
    return [(n - 1).toString(), (-answer).toString()];
  }
  return out;
}
