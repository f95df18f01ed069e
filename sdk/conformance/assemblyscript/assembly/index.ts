// The conformance guest of the AssemblyScript SDK: it does what package abitest says.

import { Context, FieldError, Json, LogLevel, Module, View, WeirObject, Writer, forbidden, invalid, required } from "weir-sdk/assembly";

import { lookups } from "./lookups";

export { weir_abi_v1, weir_describe, weir_invoke } from "weir-sdk/assembly";

class Counter {
  n: i32 = 0;
}

let greeting = "";
let counted = 0;
let remembered = 0;
let onHeap: Counter | null = null;
let grown: i32[] = [];

const none: FieldError[] = [];

function kase(obj: View): string {
  return obj.text("spec.case");
}

function yes(b: bool): string {
  return b ? "true" : "false";
}

function recurse(n: i32): i32 {
  const deeper = recurse(n + 1);
  remembered += deeper;
  return deeper + n;
}

new Module("conformance-assemblyscript", "1.0.0")
  .capabilities(["lookup:configmaps", "authorize"])
  .configure((ctx, settings) => {
    greeting = settings.text("greeting");
    settings.int("tone.pitch");
    return greeting == "" ? [required("greeting", "")] : none;
  })
  .default((ctx, obj) => {
    const asked = kase(obj);
    if (asked == "set") obj.setText("spec.added.deep", 'x/~"€');
    else if (asked == "set by an odd name") obj.setText("metadata.labels['a.b/c~d']", "1");
    else if (asked == "set twice") {
      obj.setInt("spec.made.a", 1);
      obj.setInt("spec.made.b", 2);
    } else if (asked == "set in an element") obj.setText("spec.list[1].name", "changed");
    else if (asked == "replace") {
      obj.setInt("spec.n", 9007199254740995);
      obj.setBool("spec.yes", false);
    } else if (asked == "copy") obj.set("spec.copy", obj.get("spec.list"));
    else if (asked == "delete") {
      obj.remove("spec.small");
      obj.remove("spec.nothing");
    } else if (asked == "delete and set") {
      obj.remove("spec.map");
      obj.setBool("spec.map.new", true);
    }
  })
  .prepareForCreate((ctx, obj) => {
    if (kase(obj) == "mutate") obj.setBool("spec.mutated", true);
  })
  .validateCreate((ctx, obj) => {
    const asked = kase(obj);
    if (asked == "errors") return [invalid("spec.case", obj.get("spec.case"), "asked for"), required("spec.other", "")];
    if (asked == "denied") ctx.deny("asked for", 409, "Conflict");
    else if (asked == "warnings") {
      ctx.warn("one");
      ctx.warn("zwei €");
    } else if (asked == "audit") ctx.annotate("key", "value");
    else if (asked == "settings") ctx.warn(greeting);
    else if (asked == "large") ctx.warn(String.UTF8.byteLength(obj.text("spec.filler")).toString());
    else if (asked == "count") ctx.warn((counted++).toString());
    else if (asked == "fail") ctx.fail("asked for");
    else if (asked == "trap") throw new Error("asked for");
    return none;
  })
  .prepareForUpdate((ctx, obj, old) => {
    if (kase(obj) == "restore") obj.set("status", old.get("spec"));
  })
  .validateUpdate((ctx, obj, old) => {
    const asked = kase(obj);
    if (asked == "meta") {
      const paths = ["uid", "operation", "time", "name", "user.username"];
      for (let i = 0; i < paths.length; i++) ctx.warn(ctx.request.text(paths[i]));
    } else if (asked == "old") ctx.warn(kase(old));
    return none;
  })
  .validateDelete((ctx, obj) => (kase(obj) == "deletion" ? [forbidden("metadata.name", "asked for")] : none))
  .canonicalize((ctx, obj) => {
    if (kase(obj) == "canonical") obj.remove("spec.filler");
  })
  .statusPrepare((ctx, obj, old) => {
    if (kase(obj) == "restore") obj.setText("spec.case", kase(old));
  })
  .statusValidate((ctx, obj, old) => {
    const asked = kase(obj);
    if (asked == "loop") for (;;) remembered++;
    else if (asked == "recurse") ctx.warn(recurse(1).toString());
    else if (asked == "grow") for (;;) store<u8>(heap.alloc(1 << 20), 1);
    else if (asked == "flood") for (let i = 0; i < 10000; i++) ctx.warn("the water rises, and rises");
    else if (asked == "no path") obj.get("spec[");
    else if (asked == "log") for (let i = 0; i < 10000; i++) ctx.log(LogLevel.Info, "twenty bytes of log.");
    else if (asked == "remember") {
      if (!onHeap) onHeap = new Counter();
      const counter = onHeap!;
      ctx.warn((remembered++).toString());
      ctx.warn((counter.n++).toString());
      ctx.warn(grown.length.toString());
      grown = new Array<i32>(200000);
    }
    return none;
  })
  .warningsOnCreate((ctx, obj) => {
    const asked = kase(obj);
    const out: string[] = [];
    if (asked == "path") {
      return [obj.text("spec.list[1].name"), obj.text("metadata.annotations['example.com/key.with.dots']")];
    } else if (asked == "wildcard") return obj.texts("spec.list[*].name");
    else if (asked == "absence") return [yes(obj.has("spec.nothing")), yes(obj.has("spec.none")), yes(obj.has("spec.text"))];
    else if (asked == "integers") return [obj.int("spec.n").toString(), obj.int("spec.small").toString()];
    else if (asked == "booleans") return [yes(obj.isTrue("spec.yes")), yes(obj.isTrue("spec.nothing"))];
    else if (asked == "escapes") return [obj.text("spec.text")];
    else if (asked == "members") {
      for (const m = obj.get("spec.map")!.members(); m.next(); ) out.push(`${m.name}=${m.value.text()}`);
    } else if (asked == "elements") {
      const list = obj.get("spec.list")!.elements();
      for (let i = 0; i < list.length; i++) out.push(list[i].member("name")!.text());
      out.push(list.length.toString());
    } else if (asked == "equality") {
      return [
        yes(obj.get("spec.list[0]")!.equals(obj.get("spec.list[1]")!)),
        yes(obj.get("spec.map")!.equals(obj.get("spec.map")!)),
      ];
    } else if (asked == "many") return [obj.texts("spec.list[*].name").length.toString()];
    else if (asked.startsWith("lookup") || asked.startsWith("authorize")) return lookups(ctx, asked);
    return out;
  })
  .warningsOnUpdate((ctx, obj, old) => (kase(obj) == "both" ? [kase(obj), kase(old)] : new Array<string>()))
  .convert((ctx, object, to) => {
    const w = new Writer();
    w.open("{");
    for (const m = object.members(); m.next(); ) {
      w.member(m.name);
      w.value(m.name == "apiVersion" ? Json.text(to) : m.value);
    }
    w.close("}");
    return w.json();
  })
  .connect((ctx, parent) => {
    const w = new Writer();
    w.open("{");
    w.member("name");
    w.value(parent.get("metadata.name")!);
    w.member("said");
    w.value(ctx.options.get("say")!);
    w.close("}");
    return w.json();
  })
  .admitMutate((ctx, obj, old) => {
    if (!obj) {
      ctx.warn("false");
      return;
    }
    const asked = kase(obj);
    if (asked == "no params") {
      ctx.warn(yes(ctx.params.has("")));
      ctx.warn(yes(old != null));
    } else if (asked == "params") obj.setInt("spec.n", ctx.params.int("spec.most"));
  })
  .admitValidate((ctx, obj, old) => {
    if (!obj) return [invalid("spec.case", old!.get("spec.case"), "")];
    const asked = kase(obj);
    if (asked == "namespace") ctx.deny(ctx.namespace.text("metadata.name"));
    else if (asked == "options") ctx.warn(ctx.options.text("fieldManager"));
    return none;
  });
