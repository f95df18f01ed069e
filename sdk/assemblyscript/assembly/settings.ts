// The settings of a module, held to what it knows.

import { FieldError, forbidden, typeInvalid } from "./errors";
import { Json } from "./json";
import { View } from "./object";
import { Step, parse } from "./path";

/**
 * What the configure hook reads: values by path, each with what it is without.
 * What the hook asks for is what there is: a setting that it has not asked for by
 * the time that it returns without errors is refused, with those that there are,
 * so that a misspelt one is not ignored. So it asks for each setting, whatever the
 * others are. A value of another type is refused, too. null is as absent.
 *
 *     .configure((ctx, settings) => {
 *       labels = settings.texts("labels", labels);
 *       maxReplicas = settings.int("maxReplicas", maxReplicas);
 *       return maxReplicas < 1 ? [invalid("maxReplicas", Json.int(maxReplicas), "must be at least 1")] : [];
 *     })
 */
export class Settings {
  private known: Step[][] = [];
  private errors: FieldError[] = [];
  private isLenient: bool = false;

  constructor(private from: View) {}

  /** Passes over settings that are unknown, for a module that shares them with others. */
  lenient(): this {
    this.isLenient = true;
    return this;
  }

  /** Whether there is a setting. */
  has(path: string): bool {
    return this.json(path) != null;
  }

  /** The JSON of a setting, null if there is none. The empty path is all of them, of any name. */
  json(path: string): Json | null {
    const wild = path.indexOf("[*]");
    this.known.push(parse(wild < 0 ? path : path.substring(0, wild)));
    const found = this.from.get(path);
    return found && !found.isNull() ? found : null;
  }

  /** A string. */
  text(path: string, otherwise: string = ""): string {
    const found = this.json(path);
    if (!found) return otherwise;
    return found.isText() ? found.text() : this.wrong<string>(path, found, "a string", otherwise);
  }

  /** An integer. */
  int(path: string, otherwise: i64 = 0): i64 {
    const found = this.json(path);
    if (!found) return otherwise;
    const fits = found.isInt() && found.int(0) == found.int(1);
    return fits ? found.int() : this.wrong<i64>(path, found, "an integer", otherwise);
  }

  /** A boolean. */
  bool(path: string, otherwise: bool = false): bool {
    const found = this.json(path);
    if (!found) return otherwise;
    if (found.isTrue()) return true;
    return found.toString() == "false" ? false : this.wrong<bool>(path, found, "a boolean", otherwise);
  }

  /** An array of strings. */
  texts(path: string, otherwise: string[] = []): string[] {
    const found = this.json(path);
    if (!found) return otherwise;
    const all: string[] = [], elements = found.elements();
    for (let i = 0; i < elements.length; i++) if (elements[i].isText()) all.push(elements[i].text());
    return found.isArray() && all.length == elements.length ? all : this.wrong<string[]>(path, found, "an array of strings", otherwise);
  }

  private wrong<T>(path: string, value: Json, type: string, otherwise: T): T {
    this.errors.push(typeInvalid(path, value, `must be ${type}`));
    return otherwise;
  }

  /** What is wrong with them, for a hook that has returned errors of its own. */
  finish(own: FieldError[]): FieldError[] {
    const errors = this.errors.concat(own);
    const whole = this.from.get("");
    if (!whole || whole.isNull()) return errors;
    if (!whole.isObject()) return [typeInvalid("settings", whole, "must be an object")];
    if (own.length == 0 && !this.isLenient) this.check(whole, [], "", errors);
    return errors;
  }

  /** Checks the members of the object that parents lead to. */
  private check(object: Json, parents: string[], at: string, errors: FieldError[]): void {
    const depth = parents.length;
    for (let members = object.members(); members.next(); ) {
      const name = members.name, value = members.value, field = at == "" ? name : `${at}.${name}`;
      const beside: string[] = [];
      let found = false, whole = false;
      for (let i = 0; i < this.known.length; i++) {
        const known = this.known[i];
        if (!leads(parents, known)) continue;
        if (known.length == depth || known[depth].index >= 0) {
          found = whole = true; // it was had as a whole
          continue;
        }
        const is = known[depth].name;
        if (!beside.includes(is)) beside.push(is);
        if (is != name) continue;
        found = true;
        if (known.length == depth + 1) whole = true;
      }
      if (!found) errors.push(forbidden(field, unknown(name, beside)));
      else if (whole || value.isNull()) continue;
      else if (value.isObject()) this.check(value, parents.concat([name]), field, errors);
      else if (!value.isArray()) errors.push(typeInvalid(field, value, "must be an object"));
    }
  }
}

/** Whether a path leads below the members of those names. */
function leads(names: string[], path: Step[]): bool {
  if (path.length < names.length) return false;
  for (let i = 0; i < names.length; i++) if (path[i].index >= 0 || path[i].name != names[i]) return false;
  return true;
}

/** Says that there is no setting of a name, and which there are. */
function unknown(name: string, known: string[]): string {
  if (known.length == 0) return "unknown setting; there are none";
  const near = nearest(name, known);
  const found = near != "" ? `, did you mean ${quoted(near)}?` : ";";
  const names: string[] = [];
  for (let i = 0; i < known.length; i++) names.push(quoted(known[i]));
  return `unknown setting${found} there are ${names.join(", ")}`;
}

function quoted(s: string): string {
  return Json.text(s).toString();
}

/** Longest name that anybody would type. */
const longest: i32 = 100;

/** What a name may be meant to be: what a change of a third of its letters leads to, capital or not; "" if that is none. */
function nearest(name: string, known: string[]): string {
  let found = "", least = longest;
  for (let i = 0; i < known.length; i++) {
    const longer = max(name.length, known[i].length);
    if (longer > longest) continue;
    const n = distance(name, known[i]);
    if (n >= least || n > (longer + 1) / 3) continue;
    found = known[i];
    least = n;
  }
  return found;
}

/** How many letters have to be added, removed or replaced to make b of a, whatever letters are capitals. */
function distance(a: string, b: string): i32 {
  const row: i32[] = [];
  for (let j = 0; j <= b.length; j++) row.push(j);
  for (let i = 0; i < a.length; i++) {
    let before = row[0]; // of the row above, one to the left
    row[0] = i + 1;
    for (let j = 0; j < b.length; j++) {
      const replaced = before + (lower(a.charCodeAt(i)) == lower(b.charCodeAt(j)) ? 0 : 1);
      before = row[j + 1];
      row[j + 1] = min(replaced, min(before, row[j]) + 1);
    }
  }
  return row[b.length];
}

function lower(c: i32): i32 {
  return c >= 0x41 && c <= 0x5a ? c + 0x20 : c;
}
