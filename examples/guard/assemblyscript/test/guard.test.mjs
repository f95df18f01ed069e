import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "weir-sdk/testing";

const good = { metadata: { labels: { team: "river" } }, spec: { replicas: 3 } };

test("a good one", async () => {
  const module = await load("build/release.wasm");
  assert.equal(module.run("validateCreate", { object: good }).errors, undefined);
});

test("settings", async () => {
  const module = await load("build/release.wasm", { settings: { maxReplicas: 2 } });
  assert.deepEqual(module.run("validateCreate", { object: good }).errors, [
    { type: "FieldValueInvalid", field: "spec.replicas", value: 3, detail: "must be at most 2" },
  ]);
});

test("a short history", async () => {
  const module = await load("build/release.wasm");
  assert.deepEqual(module.run("default", { object: { spec: {} } }).patch, [
    { op: "add", path: "/spec/revisionHistoryLimit", value: 3 },
  ]);
});

test("a tag that moves", async () => {
  const module = await load("build/release.wasm");
  const object = { spec: { template: { spec: { containers: [{ image: "a:1" }, { image: "b:latest" }] } } } };
  assert.deepEqual(module.run("warningsOnCreate", { object }).warnings, [
    "spec.template.spec.containers[1].image: latest is another image tomorrow",
  ]);
});
