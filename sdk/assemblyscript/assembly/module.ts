// What a module exports.

import { Context } from "./context";
import { FieldError } from "./errors";
import { Json, Writer } from "./json";
import { View, WeirObject } from "./object";
import { Settings } from "./settings";
import { Slot, has, log, write } from "./sys";

/** Names this SDK in manifests. */
const SDK = "weir-assemblyscript/1";

/** Names of ops in a manifest, by their numbers. */
const names: string[] = [
  "", "configure", "default", "prepareForCreate", "validateCreate", "prepareForUpdate", "validateUpdate", "validateDelete",
  "canonicalize", "statusPrepare", "statusValidate", "warningsOnCreate", "warningsOnUpdate", "convert", "connect",
  "admitMutate", "admitValidate",
];

enum Op {
  Configure = 1, Default, PrepareForCreate, ValidateCreate, PrepareForUpdate, ValidateUpdate, ValidateDelete, Canonicalize,
  StatusPrepare, StatusValidate, WarningsOnCreate, WarningsOnUpdate, Convert, Connect, AdmitMutate, AdmitValidate,
}

type Change = (ctx: Context, obj: WeirObject) => void;
type ChangeUpdate = (ctx: Context, obj: WeirObject, old: View) => void;
type Judge = (ctx: Context, obj: View) => FieldError[];
type JudgeUpdate = (ctx: Context, obj: View, old: View) => FieldError[];

/** The module of this program: the last that was made. */
let module: Module | null = null;

/** What a module is: its hooks, each of which it has at most once. */
export class Module {
  private group: string = "";
  private resource: string = "";
  private kind: string = "";
  private needs: string[] = [];

  private configureHook: ((ctx: Context, settings: Settings) => FieldError[]) | null = null;
  private change: Map<i32, Change> = new Map();
  private changeUpdate: Map<i32, ChangeUpdate> = new Map();
  private judge: Map<i32, Judge> = new Map();
  private judgeUpdate: Map<i32, JudgeUpdate> = new Map();
  private warnCreate: ((ctx: Context, obj: View) => string[]) | null = null;
  private warnUpdate: ((ctx: Context, obj: View, old: View) => string[]) | null = null;
  private convertHook: ((ctx: Context, object: Json, to: string) => Json | null) | null = null;
  private connectHook: ((ctx: Context, parent: View) => Json | null) | null = null;
  private mutate: ((ctx: Context, obj: WeirObject | null, old: View | null) => void) | null = null;
  private admit: ((ctx: Context, obj: View | null, old: View | null) => FieldError[]) | null = null;

  constructor(
    private name: string,
    private version: string = "",
  ) {
    module = this;
  }

  /** Says what the module is written for; otherwise it is for anything. */
  writtenFor(group: string, resource: string, kind: string): this {
    this.group = group;
    this.resource = resource;
    this.kind = kind;
    return this;
  }

  /** Says what the module needs to be granted: lookup:configmaps, lookup:deployments.apps, authorize. */
  capabilities(needs: string[]): this {
    this.needs = needs;
    return this;
  }

  /**
   * Called once, before any other hook, to read the settings. Errors refuse them, and
   * so does that there are some which the hook has not asked for. Without the hook
   * there are none.
   */
  configure(hook: (ctx: Context, settings: Settings) => FieldError[]): this {
    this.configureHook = hook;
    return this;
  }

  /** Fills in what the client left out. It must be idempotent and look at nothing but the object. */
  default(hook: (ctx: Context, obj: WeirObject) => void): this {
    this.change.set(Op.Default, hook);
    return this;
  }

  /** Brings a new object to its initial state. */
  prepareForCreate(hook: (ctx: Context, obj: WeirObject) => void): this {
    this.change.set(Op.PrepareForCreate, hook);
    return this;
  }

  /** Says what is wrong with a new object. */
  validateCreate(hook: (ctx: Context, obj: View) => FieldError[]): this {
    this.judge.set(Op.ValidateCreate, hook);
    return this;
  }

  /** Keeps what an update must not change. */
  prepareForUpdate(hook: (ctx: Context, obj: WeirObject, old: View) => void): this {
    this.changeUpdate.set(Op.PrepareForUpdate, hook);
    return this;
  }

  /** Says what is wrong with an update, the new object as a whole included. */
  validateUpdate(hook: (ctx: Context, obj: View, old: View) => FieldError[]): this {
    this.judgeUpdate.set(Op.ValidateUpdate, hook);
    return this;
  }

  /** Says why an object must not be deleted. */
  validateDelete(hook: (ctx: Context, obj: View) => FieldError[]): this {
    this.judge.set(Op.ValidateDelete, hook);
    return this;
  }

  /** Brings a valid object to the form in which it is stored. It cannot refuse. */
  canonicalize(hook: (ctx: Context, obj: WeirObject) => void): this {
    this.change.set(Op.Canonicalize, hook);
    return this;
  }

  /** prepareForUpdate for writes to the status subresource. */
  statusPrepare(hook: (ctx: Context, obj: WeirObject, old: View) => void): this {
    this.changeUpdate.set(Op.StatusPrepare, hook);
    return this;
  }

  /** validateUpdate for writes to the status subresource. */
  statusValidate(hook: (ctx: Context, obj: View, old: View) => FieldError[]): this {
    this.judgeUpdate.set(Op.StatusValidate, hook);
    return this;
  }

  /** Warns the client of a valid new object. */
  warningsOnCreate(hook: (ctx: Context, obj: View) => string[]): this {
    this.warnCreate = hook;
    return this;
  }

  /** Warns the client of a valid update. */
  warningsOnUpdate(hook: (ctx: Context, obj: View, old: View) => string[]): this {
    this.warnUpdate = hook;
    return this;
  }

  /** Converts one object to another version, such as example.com/v2; null is that the context says why not. */
  convert(hook: (ctx: Context, object: Json, to: string) => Json | null): this {
    this.convertHook = hook;
    return this;
  }

  /** Answers a request to a subresource of the module's own; null is that the context says why not. */
  connect(hook: (ctx: Context, parent: View) => Json | null): this {
    this.connectHook = hook;
    return this;
  }

  /** Mutating admission, which refuses by its context. obj is null on DELETE, and old on CREATE. */
  admitMutate(hook: (ctx: Context, obj: WeirObject | null, old: View | null) => void): this {
    this.mutate = hook;
    return this;
  }

  /** Validating admission. obj is null on DELETE, and old on CREATE. */
  admitValidate(hook: (ctx: Context, obj: View | null, old: View | null) => FieldError[]): this {
    this.admit = hook;
    return this;
  }

  private handles(op: i32): bool {
    switch (op) {
      case Op.Configure: return true;
      case Op.WarningsOnCreate: return this.warnCreate != null;
      case Op.WarningsOnUpdate: return this.warnUpdate != null;
      case Op.Convert: return this.convertHook != null;
      case Op.Connect: return this.connectHook != null;
      case Op.AdmitMutate: return this.mutate != null;
      case Op.AdmitValidate: return this.admit != null;
    }
    return this.change.has(op) || this.changeUpdate.has(op) || this.judge.has(op) || this.judgeUpdate.has(op);
  }

  /** Writes the manifest and returns the status. */
  describe(): i32 {
    const w = new Writer();
    w.open("{");
    w.textMember("name", this.name);
    w.textMember("version", this.version);
    w.textMember("group", this.group);
    w.textMember("resource", this.resource);
    w.textMember("kind", this.kind);
    w.textMember("sdk", SDK);
    w.member("hooks");
    w.open("[");
    for (let op = 1; op < names.length; op++) {
      if (!this.handles(op)) continue;
      w.element();
      w.quoted(names[op]);
    }
    w.close("]");
    if (this.needs.length > 0) w.textsMember("capabilities", this.needs);
    w.close("}");
    return write(Slot.MANIFEST, w) ? 0 : 2;
  }

  /** Runs a hook and returns the status. */
  invoke(op: i32): i32 {
    if (!this.handles(op)) return 1;
    const ctx = new Context();
    this.run(ctx, op);
    return ctx.finish();
  }

  private run(ctx: Context, op: i32): void {
    const view = new View(ctx, Slot.OBJECT), old = new View(ctx, Slot.OLD_OBJECT);
    const configure = this.configureHook, warnCreate = this.warnCreate, warnUpdate = this.warnUpdate;
    const connect = this.connectHook, mutate = this.mutate, admit = this.admit;
    if (this.change.has(op)) {
      const obj = new WeirObject(ctx);
      this.change.get(op)(ctx, obj);
      obj.finish();
    } else if (this.changeUpdate.has(op)) {
      const obj = new WeirObject(ctx);
      this.changeUpdate.get(op)(ctx, obj, old);
      obj.finish();
    } else if (this.judge.has(op)) {
      ctx.invalid(this.judge.get(op)(ctx, op == Op.ValidateDelete ? old : view));
    } else if (this.judgeUpdate.has(op)) {
      ctx.invalid(this.judgeUpdate.get(op)(ctx, view, old));
    } else if (op == Op.Configure) {
      const settings = new Settings(ctx.settings);
      ctx.invalid(settings.finish(configure ? configure(ctx, settings) : []));
    } else if (op == Op.WarningsOnCreate && warnCreate) {
      warn(ctx, warnCreate(ctx, view));
    } else if (op == Op.WarningsOnUpdate && warnUpdate) {
      warn(ctx, warnUpdate(ctx, view, old));
    } else if (op == Op.Convert) {
      this.convertAll(ctx, view);
    } else if (op == Op.Connect && connect) {
      const response = connect(ctx, view);
      if (response) respond(ctx, response);
      else if (!ctx.refused) ctx.fail("connect returned no response");
    } else if (op == Op.AdmitMutate && mutate) {
      const obj = has(Slot.OBJECT, "") ? new WeirObject(ctx) : null;
      mutate(ctx, obj, has(Slot.OLD_OBJECT, "") ? old : null);
      if (obj) obj.finish();
    } else if (op == Op.AdmitValidate && admit) {
      ctx.invalid(admit(ctx, has(Slot.OBJECT, "") ? view : null, has(Slot.OLD_OBJECT, "") ? old : null));
    }
  }

  /** Converts each object of the array. */
  private convertAll(ctx: Context, objects: View): void {
    const convert = this.convertHook;
    if (!convert) return;
    const to = new View(ctx, Slot.TARGET_VERSION).text("");
    const out = new Writer();
    out.open("[");
    const all = objects.elements("");
    for (let i = 0; i < all.length; i++) {
      const converted = convert(ctx, all[i], to);
      if (!converted || ctx.refused) {
        if (!ctx.refused) ctx.fail("convert returned no object");
        return;
      }
      out.element();
      out.value(converted);
    }
    out.close("]");
    ctx.write(Slot.OBJECT_OUT, out);
  }
}

function warn(ctx: Context, warnings: string[]): void {
  for (let i = 0; i < warnings.length; i++) ctx.warn(warnings[i]);
}

function respond(ctx: Context, response: Json): void {
  const out = new Writer();
  out.value(response);
  ctx.write(Slot.OBJECT_OUT, out);
}

export function weir_abi_v1(): void {}

export function weir_describe(): i32 {
  const m = module;
  return m ? m.describe() : 2;
}

export function weir_invoke(op: i32): i32 {
  const m = module;
  return m ? m.invoke(op) : 1;
}

/** What the compiler calls where a program goes wrong: it is logged, and traps. */
export function weirAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  log(3, `${message ? message : "abort"} (${file ? file : "?"}:${line}:${column})`);
  unreachable();
}
