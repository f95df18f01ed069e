/**
 * The AssemblyScript SDK for guests of a Weir server: strategies and admission
 * policies that run as WebAssembly modules.
 *
 *     import { Module, required, FieldError } from "weir-sdk/assembly";
 *     export { weir_abi_v1, weir_describe, weir_invoke } from "weir-sdk/assembly";
 *
 *     new Module("quotes", "1.0.0")
 *       .writtenFor("example.com", "quotes", "Quote")
 *       .validateCreate((ctx, quote) => {
 *         const errors: FieldError[] = [];
 *         if (quote.text("spec.text") == "") errors.push(required("spec.text", "a quote says something"));
 *         return errors;
 *       });
 *
 * It is built with `weir module build`, or by hand with
 * `asc assembly/index.ts --target release`.
 *
 * Paths are members and indexes, spec.containers[0].image or
 * metadata.labels['app.kubernetes.io/name']; with [*] the answer is the array
 * of all matches, and the empty path is the whole object. A path that does not
 * parse makes the hook fail.
 *
 * A type of one's own is a class over a View, or over a Json that was looked up:
 *
 *     class Quote {
 *       constructor(private from: View) {}
 *       get author(): string { return this.from.text("spec.author"); }
 *       get copies(): i64 { return this.from.int("spec.copies", 1); }
 *     }
 *
 * Nothing is freed: the host puts the module's memory back after each call.
 * What the configure hook leaves in variables is what every later call starts
 * from; whatever another hook leaves there, no later call sees.
 */
export { Context, LogLevel } from "./context";
export { Denial, FieldError, duplicate, forbidden, invalid, notFound, notSupported, required, tooLong, tooMany, typeInvalid } from "./errors";
export { Json, Members, Writer } from "./json";
export { Access, Errno, Found, Lookup } from "./lookup";
export { Module, weir_abi_v1, weir_describe, weir_invoke, weirAbort } from "./module";
export { View, WeirObject } from "./object";
export { Settings } from "./settings";
