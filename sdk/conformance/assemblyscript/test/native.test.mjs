// The conformance guest under Node.js, by weir-sdk/testing.
import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "weir-sdk/testing";

const module = await load("build/release.wasm", { settings: { greeting: "hello" } });

function asked(hook, name, documents = {}) {
  return module.run(hook, { object: { metadata: { labels: {} }, spec: { case: name, small: 1 } }, ...documents });
}

test("the manifest", () => {
  assert.equal(module.manifest.hooks.length, 16);
  assert.deepEqual(module.manifest.capabilities, ["lookup:configmaps", "authorize"]);
});

test("changes", () => {
  assert.deepEqual(asked("default", "set").patch, [{ op: "add", path: "/spec/added", value: { deep: 'x/~"€' } }]);
  assert.deepEqual(asked("default", "set by an odd name").patch, [{ op: "add", path: "/metadata/labels/a.b~1c~0d", value: "1" }]);
  assert.deepEqual(asked("default", "delete").patch, [{ op: "remove", path: "/spec/small" }]);
  assert.equal(asked("default", "nothing").patch, undefined);
});

test("verdicts", async () => {
  assert.deepEqual(asked("validateCreate", "denied").denied, { code: 409, reason: "Conflict", message: "asked for" });
  assert.deepEqual(asked("validateCreate", "settings").warnings, ["hello"]);
  assert.throws(() => asked("statusValidate", "no path"), /query object spec\[: invalid argument/);
  const refused = await load("build/release.wasm", { settings: { greeting: "" } });
  assert.throws(() => refused.run("default", { object: {} }), /settings refused/);
});

test("answers", () => {
  const object = [{ apiVersion: "a/v1", kind: "B" }];
  assert.deepEqual(asked("convert", "", { object, targetVersion: "a/v2" }).object, [{ apiVersion: "a/v2", kind: "B" }]);
  const options = { say: 1 };
  assert.deepEqual(asked("connect", "", { object: { metadata: { name: "a" } }, options }).object, { name: "a", said: 1 });
});

test("look-ups", () => {
  const named = (name) => ({ data: { most: "7" }, metadata: { name, resourceVersion: "12" } });
  const lookup = ({ name }) => (name == "nothing" ? [] : name ? [named(name)] : ["limits", "other", "quota"].map(named));
  const authorize = ({ verb }) => verb == "get";
  const warnings = (name) => asked("warningsOnCreate", name, { lookup, authorize }).warnings;
  assert.deepEqual(warnings("lookup one"), ["7", "12", "false"]);
  assert.deepEqual(warnings("lookup absent"), ["false"]);
  assert.deepEqual(warnings("lookup limit"), ["limits", "other", "true"]);
  assert.deepEqual(warnings("authorize"), ["true", "false"]);
  assert.throws(() => asked("warningsOnCreate", "lookup one"), /lookup configmaps: capability not granted/);
  assert.throws(() => asked("warningsOnCreate", "authorize"), /authorize: capability not granted/);
});
