// Documents of a call, by path.

import { Context } from "./context";
import { Json, Writer } from "./json";
import { Step, join, parse } from "./path";
import { ENOENT, Slot, errno, has, query, why } from "./sys";

function slotName(slot: i32): string {
  return ["meta", "object", "oldObject", "options", "settings", "params", "namespace", "targetVersion"][slot];
}

/** Reads single values of a document, which the host looks up. */
export class View {
  constructor(
    protected ctx: Context,
    protected slot: i32,
  ) {}

  private missing(path: string): void {
    if (errno < 0 && errno != -ENOENT) {
      this.ctx.fail(`query ${slotName(this.slot)} ${path}: ${why(errno)}`);
    }
  }

  /** Whether there is a value at the path; null is one. */
  has(path: string): bool {
    if (has(this.slot, path)) return true;
    this.missing(path);
    return false;
  }

  /** The canonical JSON at the path, null if there is none. */
  get(path: string): Json | null {
    const found = query(this.slot, path);
    if (!found) this.missing(path);
    return found;
  }

  /** The string at the path, "" if there is none. */
  text(path: string): string {
    const found = this.get(path);
    return found ? found.text() : "";
  }

  /** The integer at the path, or another if there is none. */
  int(path: string, otherwise: i64 = 0): i64 {
    const found = this.get(path);
    return found ? found.int(otherwise) : otherwise;
  }

  /** Whether there is true at the path. */
  isTrue(path: string): bool {
    const found = this.get(path);
    return found ? found.isTrue() : false;
  }

  /** The elements of the array at the path, or all matches if there is a [*] in it. */
  elements(path: string): Json[] {
    const found = this.get(path);
    return found ? found.elements() : [];
  }

  /** The strings among them. */
  texts(path: string): string[] {
    const all: string[] = [];
    const elements = this.elements(path);
    for (let i = 0; i < elements.length; i++) if (elements[i].isText()) all.push(elements[i].text());
    return all;
  }
}

/** A change of what is at a path: to a value, or to nothing. */
class Edit {
  constructor(
    public steps: Step[],
    public value: Json | null,
  ) {}
}

/**
 * The object of a hook that may change it. What is read stays the object as it
 * came: changes take effect when the hook has returned. Paths to be changed
 * have members and indexes, and no wildcards.
 */
export class WeirObject extends View {
  private patch: Writer = new Writer();
  private edits: Edit[] = [];

  constructor(ctx: Context) {
    super(ctx, Slot.OBJECT);
  }

  /** Writes what has changed. */
  finish(): void {
    if (this.edits.length == 0) return;
    this.patch.close("]");
    this.ctx.write(Slot.PATCH, this.patch);
  }

  /** Sets the string at a path, as set does. */
  setText(path: string, value: string): void {
    this.set(path, Json.text(value));
  }

  /** Sets the integer at a path, as set does. */
  setInt(path: string, value: i64): void {
    this.set(path, Json.int(value));
  }

  /** Sets the boolean at a path, as set does. */
  setBool(path: string, value: bool): void {
    this.set(path, Json.bool(value));
  }

  /** Sets the value at a path. Objects on the way that do not exist are made; elements of lists have to exist. */
  set(path: string, value: Json | null): void {
    const steps = parse(path);
    if (steps.length == 0 || !value) {
      this.ctx.fail(`set ${path}: ${steps.length == 0 ? "not a path" : "no value"}`);
      return;
    }
    let n = 1; // steps that lead to what is added
    while (n < steps.length && this.exists(steps, n)) n++;
    const w = new Writer();
    for (let i = n; i < steps.length; i++) {
      if (steps[i].index >= 0) {
        this.ctx.fail(`set ${path}: the list does not exist`);
        return;
      }
      w.open("{");
      w.member(steps[i].name);
    }
    w.value(value);
    for (let i = n; i < steps.length; i++) w.close("}");
    let op = "add";
    if (steps[n - 1].index >= 0) {
      if (!this.exists(steps, n)) {
        this.ctx.fail(`set ${path}: the element does not exist`);
        return;
      }
      op = "replace";
    }
    this.record(op, steps.slice(0, n), w.json());
  }

  /** Deletes the member at a path, if there is one. An element of a list cannot be deleted: set the list. */
  remove(path: string): void {
    const steps = parse(path);
    if (steps.length == 0) this.ctx.fail(`remove ${path}: not a path`);
    else if (steps[steps.length - 1].index >= 0) this.ctx.fail(`remove ${path}: an element of a list; set the list instead`);
    else if (this.exists(steps, steps.length)) this.record("remove", steps, null);
  }

  private record(op: string, steps: Step[], value: Json | null): void {
    let pointer = "";
    for (let i = 0; i < steps.length; i++) pointer += "/" + steps[i].name.replaceAll("~", "~0").replaceAll("/", "~1");
    const w = this.patch;
    if (this.edits.length == 0) w.open("[");
    w.element();
    w.open("{");
    w.member("op");
    w.quoted(op);
    w.member("path");
    w.quoted(pointer);
    if (value) {
      w.member("value");
      w.value(value);
    }
    w.close("}");
    this.edits.push(new Edit(steps, value));
  }

  /** Whether there is a value now at a path of the first n steps. null is none. */
  private exists(steps: Step[], n: i32): bool {
    for (let i = this.edits.length - 1; i >= 0; i--) {
      const edit = this.edits[i];
      if (!startsWith(steps, n, edit.steps)) continue;
      // The last edit says what is there.
      let v = edit.value;
      for (let j = edit.steps.length; j < n && v; j++) v = steps[j].of(v);
      return v ? !v.isNull() : false;
    }
    const found = this.get(join(steps, n));
    return found ? !found.isNull() : false;
  }
}

function startsWith(steps: Step[], n: i32, prefix: Step[]): bool {
  if (prefix.length > n) return false;
  for (let i = 0; i < prefix.length; i++) {
    if (steps[i].index != prefix[i].index || steps[i].name != prefix[i].name) return false;
  }
  return true;
}
