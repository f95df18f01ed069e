// A guest that keeps a secret wherever it can: in a global, in an object of the
// heap, and in memory that was grown. Its configure hook keeps that of the
// settings. Each validateCreate warns of what it finds kept, in that order, and
// then keeps the secret of the object, which the audit annotations prove.

import { FieldError, Module, Writer } from "weir-sdk/assembly";

export { weir_abi_v1, weir_describe, weir_invoke } from "weir-sdk/assembly";

class Box {
  constructor(public secret: string) {}
}

const grownBytes: i32 = 96 << 10;
const longest: i32 = 64;
const none: FieldError[] = [];

let global: string = "";
let onHeap: Box = new Box("");
let grown: usize = 0;
let grownLength: i32 = 0;

/** Stores a secret. False is that memory which was grown is not empty. */
function keep(secret: string): bool {
  global = secret;
  onHeap = new Box(secret);
  const bytes = heap.alloc(grownBytes);
  let empty = true;
  for (let i = 0; i < grownBytes; i += longest) empty = empty && load<u64>(bytes + i) == 0;
  const w = new Writer();
  w.text(secret);
  grownLength = w.length;
  grown = bytes + grownBytes - longest;
  memory.copy(bytes, w.ptr, w.length);
  memory.copy(grown, w.ptr, w.length);
  return empty;
}

function kept(): string[] {
  return [global, onHeap.secret, String.UTF8.decodeUnsafe(grown, grownLength)];
}

new Module("isolation-assemblyscript", "1.0.0")
  .configure((ctx, settings) => {
    keep(settings.text("secret"));
    return none;
  })
  .validateCreate((ctx, obj) => {
    if (!obj.has("spec.secret")) return none; // a call that warms the module up
    const before = kept();
    for (let i = 0; i < before.length; i++) ctx.warn(before[i]);
    if (!keep(obj.text("spec.secret"))) ctx.warn("memory that was grown is not empty");
    const now = kept(), names = ["global", "heap", "memory"];
    for (let i = 0; i < now.length; i++) ctx.annotate(names[i], now[i]);
    if (obj.isTrue("spec.trap")) unreachable();
    return none;
  });
