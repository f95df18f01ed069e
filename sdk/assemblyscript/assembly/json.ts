// JSON values as they are spelled, and how to spell them.

import { parse } from "./path";

// @ts-ignore: decorator
@inline
function byte(at: usize): u8 {
  return load<u8>(at);
}

function space(at: usize, end: usize): usize {
  while (at < end) {
    const c = byte(at);
    if (c != 0x20 && c != 0x09 && c != 0x0a && c != 0x0d) break;
    at++;
  }
  return at;
}

/** Where a string ends that begins at a place. */
function stringEnd(at: usize, end: usize): usize {
  for (at++; at < end; at++) {
    const c = byte(at);
    if (c == 0x22) return at + 1;
    if (c == 0x5c) at++;
  }
  return end;
}

/** Where a value ends that begins at a place. */
function valueEnd(at: usize, end: usize): usize {
  if (at >= end) return end;
  const first = byte(at);
  if (first == 0x22) return stringEnd(at, end);
  if (first == 0x7b || first == 0x5b) {
    let depth = 0;
    while (at < end) {
      const c = byte(at);
      if (c == 0x22) {
        at = stringEnd(at, end);
        continue;
      }
      at++;
      const kind = c | 0x20; // [ and { differ in it, and so do ] and }
      if (kind == 0x7b) depth++;
      else if (kind == 0x7d && --depth == 0) return at;
    }
    return end;
  }
  while (at < end) {
    const c = byte(at);
    if (c == 0x2c || c == 0x5d || c == 0x7d || c <= 0x20) break;
    at++;
  }
  return at;
}

/** A JSON value in UTF-8. Reading one copies nothing but strings. */
export class Json {
  constructor(
    /** Where it is in memory. */
    readonly ptr: usize,
    /** How many bytes it has. */
    readonly length: i32,
  ) {}

  /** JSON as it is written: Json.raw("[1,2]"). */
  static raw(json: string): Json {
    const w = new Writer();
    w.text(json);
    return w.json();
  }

  /** The JSON of a text. */
  static text(s: string): Json {
    const w = new Writer();
    w.quoted(s);
    return w.json();
  }

  /** The JSON of an integer. */
  static int(n: i64): Json {
    const w = new Writer();
    w.int(n);
    return w.json();
  }

  /** The JSON of a boolean. */
  static bool(b: bool): Json {
    return Json.raw(b ? "true" : "false");
  }

  private get end(): usize {
    return this.ptr + this.length;
  }

  private get first(): u8 {
    return this.length > 0 ? byte(this.ptr) : 0;
  }

  /** The value as it is spelled. */
  toString(): string {
    return String.UTF8.decodeUnsafe(this.ptr, this.length);
  }

  /** Whether it is spelled as another. That of a host is canonical: two equal values are. */
  equals(other: Json): bool {
    return this.length == other.length && memory.compare(this.ptr, other.ptr, this.length) == 0;
  }

  isNull(): bool {
    return this.first == 0x6e;
  }

  isText(): bool {
    return this.first == 0x22 && this.length > 1;
  }

  isInt(): bool {
    let at = this.ptr;
    if (this.first == 0x2d) at++;
    if (at == this.end) return false;
    for (; at < this.end; at++) if (byte(at) < 0x30 || byte(at) > 0x39) return false;
    return true;
  }

  isObject(): bool {
    return this.first == 0x7b;
  }

  isArray(): bool {
    return this.first == 0x5b;
  }

  isTrue(): bool {
    return this.first == 0x74;
  }

  /** The string, "" if it is none. */
  text(): string {
    if (!this.isText()) return "";
    const from = this.ptr + 1, to = this.end - 1;
    for (let at = from; at < to; at++) if (byte(at) == 0x5c) return unescape(from, to, at);
    return String.UTF8.decodeUnsafe(from, to - from);
  }

  /** Whether it is this string. */
  is(s: string): bool {
    return this.text() == s;
  }

  /** The integer of 64 bits, or another if it is none. */
  int(otherwise: i64 = 0): i64 {
    if (!this.isInt()) return otherwise;
    const negative = this.first == 0x2d;
    const most: u64 = negative ? 1 << 63 : (<u64>1 << 63) - 1;
    let n: u64 = 0;
    for (let at = this.ptr + (negative ? 1 : 0); at < this.end; at++) {
      const digit = <u64>(byte(at) - 0x30);
      if (n > (most - digit) / 10) return otherwise;
      n = n * 10 + digit;
    }
    return negative ? -(<i64>n) : <i64>n;
  }

  /** The elements of an array; none if it is no array. */
  elements(): Json[] {
    const all: Json[] = [];
    const walk = new Members(this, 0x5b);
    while (walk.next()) all.push(walk.value);
    return all;
  }

  /** A walk over the members of an object, in order; none if it is no object. */
  members(): Members {
    return new Members(this, 0x7b);
  }

  /** A member of an object, null if there is none. */
  member(name: string): Json | null {
    const walk = this.members();
    while (walk.next()) if (walk.name == name) return walk.value;
    return null;
  }

  /** The value at a path, without wildcards, null if there is none. A path that does not parse traps. */
  at(path: string): Json | null {
    if (path == "") return this;
    const steps = parse(path);
    if (steps.length == 0) throw new Error(`not a path: ${path}`);
    let v: Json | null = this;
    for (let i = 0; i < steps.length && v; i++) v = steps[i].of(v);
    return v;
  }

  /** An element of an array, null if there is none. */
  element(index: i32): Json | null {
    const walk = new Members(this, 0x5b);
    for (let i = 0; walk.next(); i++) if (i == index) return walk.value;
    return null;
  }
}

/**
 * A walk over an object:
 *
 *     for (const m = labels.members(); m.next(); ) use(m.name, m.value);
 */
export class Members {
  private at: usize;
  private end: usize;
  private named: bool;
  private key: Json;
  /** The value that next came to. */
  value: Json;

  constructor(whole: Json, open: u8) {
    this.value = whole;
    this.key = whole;
    this.end = whole.ptr + whole.length;
    this.at = space(whole.ptr, this.end);
    this.named = open == 0x7b;
    if (this.at < this.end && byte(this.at) != open) this.at = this.end;
  }

  /** The name of the member that next came to. */
  get name(): string {
    return this.key.text();
  }

  /** Goes on. False is that there are no more. */
  next(): bool {
    const end = this.end;
    if (this.at >= end) return false;
    let at = space(this.at + 1, end); // behind [ { or ,
    if (at >= end || (byte(at) | 0x20) == 0x7d) {
      this.at = end;
      return false;
    }
    if (this.named) {
      const nameEnd = stringEnd(at, end);
      this.key = new Json(at, <i32>(nameEnd - at));
      at = space(space(nameEnd, end) + 1, end); // behind :
    }
    const valueAt = at;
    at = valueEnd(at, end);
    this.value = new Json(valueAt, <i32>(at - valueAt));
    at = space(at, end);
    this.at = at < end && byte(at) == 0x2c ? at : end;
    return true;
  }
}

function hex(at: usize): i32 {
  let n = 0;
  for (let i = 0; i < 4; i++) {
    const c = <i32>byte(at + i);
    n = (n << 4) | (c <= 0x39 ? c - 0x30 : (c | 0x20) - 0x57);
  }
  return n & 0xffff;
}

/** Decodes the inside of a string that has an escape at a place. */
function unescape(from: usize, end: usize, at: usize): string {
  const w = new Writer();
  w.bytes(from, <i32>(at - from));
  while (at < end) {
    const c = byte(at++);
    if (c != 0x5c || at == end) {
      w.byte(c);
      continue;
    }
    const e = byte(at++);
    if (e == 0x62) w.byte(0x08);
    else if (e == 0x66) w.byte(0x0c);
    else if (e == 0x6e) w.byte(0x0a);
    else if (e == 0x72) w.byte(0x0d);
    else if (e == 0x74) w.byte(0x09);
    else if (e == 0x75 && end - at >= 4) {
      let code = hex(at);
      at += 4;
      if (code >> 10 == 0x36 && end - at >= 6 && byte(at) == 0x5c && byte(at + 1) == 0x75) {
        const low = hex(at + 2);
        if (low >> 10 == 0x37) {
          code = 0x10000 + (((code & 0x3ff) << 10) | (low & 0x3ff));
          at += 6;
        }
      }
      w.codePoint(code);
    } else w.byte(e);
  }
  return String.UTF8.decodeUnsafe(w.ptr, w.length);
}

/** Writes JSON, in UTF-8. */
export class Writer {
  ptr: usize = 0;
  length: i32 = 0;
  private capacity: i32 = 0;
  private comma: bool = false;

  private reserve(n: i32): void {
    if (this.length + n <= this.capacity) return;
    const capacity = 2 * (this.length + n) + 64;
    const bigger = heap.alloc(capacity);
    memory.copy(bigger, this.ptr, this.length);
    this.ptr = bigger;
    this.capacity = capacity;
  }

  byte(c: u8): void {
    this.reserve(1);
    store<u8>(this.ptr + this.length++, c);
  }

  bytes(from: usize, n: i32): void {
    this.reserve(n);
    memory.copy(this.ptr + this.length, from, n);
    this.length += n;
  }

  /** Writes a code point; half of a surrogate pair is one that stands for none. */
  codePoint(code: i32): void {
    if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd;
    this.reserve(4);
    let to = this.ptr + this.length;
    if (code < 0x80) store<u8>(to++, code);
    else {
      if (code < 0x800) store<u8>(to++, 0xc0 | (code >> 6));
      else {
        if (code < 0x10000) store<u8>(to++, 0xe0 | (code >> 12));
        else {
          store<u8>(to++, 0xf0 | (code >> 18));
          store<u8>(to++, 0x80 | ((code >> 12) & 63));
        }
        store<u8>(to++, 0x80 | ((code >> 6) & 63));
      }
      store<u8>(to++, 0x80 | (code & 63));
    }
    this.length = <i32>(to - this.ptr);
  }

  /** Writes a text as it is. */
  text(s: string): void {
    const n = s.length;
    this.reserve(n);
    for (let i = 0; i < n; i++) {
      const c = s.charCodeAt(i);
      if (c < 0x80) this.byte(<u8>c);
      else {
        const code = s.codePointAt(i);
        if (code > 0xffff) i++;
        this.codePoint(code);
      }
    }
  }

  /** Writes the JSON of a text. */
  quoted(s: string): void {
    const n = s.length;
    this.reserve(n + 2);
    this.byte(0x22);
    for (let i = 0; i < n; i++) {
      const c = s.charCodeAt(i);
      if (c >= 0x80) {
        const code = s.codePointAt(i);
        if (code > 0xffff) i++;
        this.codePoint(code);
      } else if (c == 0x22 || c == 0x5c) {
        this.byte(0x5c);
        this.byte(<u8>c);
      } else if (c < 0x20) {
        this.text("\\u00");
        this.byte(c < 0x10 ? 0x30 : 0x31);
        this.byte(<u8>((c & 15) < 10 ? 0x30 + (c & 15) : 0x57 + (c & 15)));
      } else this.byte(<u8>c);
    }
    this.byte(0x22);
  }

  /** Writes an integer. */
  int(n: i64): void {
    this.text(n.toString());
  }

  /** Writes JSON. */
  value(v: Json): void {
    this.bytes(v.ptr, v.length);
  }

  /** Opens an object or array. */
  open(bracket: string): void {
    this.text(bracket);
    this.comma = false;
  }

  /** Closes it. */
  close(bracket: string): void {
    this.text(bracket);
    this.comma = true;
  }

  /** Begins an element. */
  element(): void {
    if (this.comma) this.byte(0x2c);
    this.comma = true;
  }

  /** Begins a member. */
  member(name: string): void {
    this.element();
    this.quoted(name);
    this.byte(0x3a);
  }

  /** Writes a member with a text, unless it is empty. */
  textMember(name: string, value: string): void {
    if (value == "") return;
    this.member(name);
    this.quoted(value);
  }

  /** Writes a member with texts. */
  textsMember(name: string, values: string[]): void {
    this.member(name);
    this.open("[");
    for (let i = 0; i < values.length; i++) {
      this.element();
      this.quoted(values[i]);
    }
    this.close("]");
  }

  /** What was written. The writer must not be used any more. */
  json(): Json {
    return new Json(this.ptr, this.length);
  }
}
