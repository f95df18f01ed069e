// The imports.

import { Json, Writer } from "./json";

// @ts-ignore: decorator
@external("weir.v1", "query")
declare function importQuery(slot: i32, path: usize, pathLen: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("weir.v1", "write")
declare function importWrite(slot: i32, ptr: usize, len: i32): i32;
// These two are imported only by a module that looks up or asks.
// @ts-ignore: decorator
@external("weir.v1", "lookup")
declare function importLookup(request: usize, requestLen: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("weir.v1", "authorize")
declare function importAuthorize(request: usize, requestLen: i32): i32;
// @ts-ignore: decorator
@external("weir.v1", "log")
declare function importLog(level: i32, ptr: usize, len: i32): i32;

export namespace Slot {
  export const META: i32 = 0;
  export const OBJECT: i32 = 1;
  export const OLD_OBJECT: i32 = 2;
  export const OPTIONS: i32 = 3;
  export const SETTINGS: i32 = 4;
  export const PARAMS: i32 = 5;
  export const NAMESPACE: i32 = 6;
  export const TARGET_VERSION: i32 = 7;
  export const RESULT: i32 = 16;
  export const OBJECT_OUT: i32 = 17;
  export const PATCH: i32 = 18;
  export const MANIFEST: i32 = 19;
}

export const ENOENT: i32 = 2;
const EPERM: i32 = 1;
const E2BIG: i32 = 7;

/** What the last query that found nothing was told, negative. */
export let errno: i32 = 0;

/** Says what a negative errno means. */
export function why(errno: i32): string {
  if (errno == -EPERM) return "capability not granted";
  return errno == -E2BIG ? "over the limit" : "invalid argument";
}

/** Answers come here first. */
const scratchBytes: i32 = 4096;
const scratch: usize = memory.data(4096);

/** The JSON at a path; null is that errno says why not. */
export function query(slot: i32, path: string): Json | null {
  const p = new Writer();
  p.text(path);
  let n = importQuery(slot, p.ptr, p.length, scratch, scratchBytes);
  if (n < 0) {
    errno = n;
    return null;
  }
  const to = heap.alloc(n);
  if (n <= scratchBytes) memory.copy(to, scratch, n);
  else n = importQuery(slot, p.ptr, p.length, to, n);
  return new Json(to, n);
}

/** The answer to a look-up; null is that errno says why not. */
export function lookup(request: Writer): Json | null {
  let n = importLookup(request.ptr, request.length, scratch, scratchBytes);
  if (n < 0) {
    errno = n;
    return null;
  }
  const to = heap.alloc(n);
  if (n <= scratchBytes) memory.copy(to, scratch, n);
  else n = importLookup(request.ptr, request.length, to, n);
  return new Json(to, n);
}

/** 1 is that something is allowed, 0 that it is not, and less is an errno. */
export function authorize(request: Writer): i32 {
  return importAuthorize(request.ptr, request.length);
}

/** Whether there is a value at a path. False is that errno says why not. */
export function has(slot: i32, path: string): bool {
  const p = new Writer();
  p.text(path);
  errno = importQuery(slot, p.ptr, p.length, 0, 0);
  return errno >= 0;
}

/** Replaces an output slot. False is that it was refused. */
export function write(slot: i32, out: Writer): bool {
  return importWrite(slot, out.ptr, out.length) == out.length;
}

export function log(level: i32, line: string): void {
  const w = new Writer();
  w.text(line);
  importLog(level, w.ptr, w.length);
}
