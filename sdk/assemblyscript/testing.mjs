// Runs hooks of a module under Node.js, as a server would:
//
//     import { load } from "weir-sdk/testing";
//
//     const module = await load("build/release.wasm", { settings: { maxReplicas: 2 } });
//     module.run("validateCreate", { object: { spec: { replicas: 3 } } }).errors
//
// Each run begins with a new instance, so that it sees what configure left and
// nothing else. Numbers beyond 2^53 lose digits here, and not on a server.
import { readFile } from "node:fs/promises";

const ops = {
  configure: 1, default: 2, prepareForCreate: 3, validateCreate: 4, prepareForUpdate: 5, validateUpdate: 6,
  validateDelete: 7, canonicalize: 8, statusPrepare: 9, statusValidate: 10, warningsOnCreate: 11,
  warningsOnUpdate: 12, convert: 13, connect: 14, admitMutate: 15, admitValidate: 16,
};
const inputs = ["meta", "object", "oldObject", "options", "settings", "params", "namespace", "targetVersion"];
const outputs = { 16: "result", 17: "object", 18: "patch", 19: "manifest" };
const EPERM = 1, ENOENT = 2, EINVAL = 22;
/** A member, or a bracket with an index, a quoted member or *. */
const bracket = /\[(?:\*|\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]/;
const step = new RegExp(`${bracket.source}|[^.[\\]]+`, "g");
const pathValid = new RegExp(`^(?:(?:${bracket.source}|[^.[\\]]+)(?:${bracket.source}|\\.[^.[\\]]+)*)?$`);

/** Why there is no answer. */
class Errno {
  constructor(errno) {
    this.value = -errno;
  }
}

/** Loads a module from a file. */
export async function load(file, { settings } = {}) {
  return new Module(await WebAssembly.compile(await readFile(file)), settings);
}

class Module {
  #code;
  #settings;

  constructor(code, settings) {
    this.#code = code;
    this.#settings = settings;
  }

  /** How the module describes itself. */
  get manifest() {
    return new Instance(this.#code, {}).describe();
  }

  /**
   * Runs a hook with documents: object, oldObject, options, params, namespace,
   * meta, targetVersion. It returns errors, denied, warnings, audit; patch, the
   * JSON patch of what was changed, or object, the new one; and log, its lines.
   * Of what else the module may ask for, lookup answers a request with the
   * objects, and authorize one with whether it is allowed; without them it was
   * not granted. They must answer an equal request equally.
   */
  run(hook, { lookup, authorize, ...documents }) {
    const instance = new Instance(this.#code, { meta: {}, settings: this.#settings, ...documents }, lookup, authorize);
    const manifest = instance.describe();
    if (!manifest.hooks.includes(hook)) throw new Error(`the module has no hook ${hook}; it has ${manifest.hooks.join(", ")}`);
    if (hook != "configure" && manifest.hooks.includes("configure")) {
      const refused = instance.invoke("configure");
      if (refused.errors || refused.denied) throw new Error(`settings refused: ${JSON.stringify(refused)}`);
    }
    return instance.invoke(hook);
  }
}

class Instance {
  constructor(code, documents, lookup, authorize) {
    this.documents = documents;
    this.written = {};
    this.log = [];
    const imports = {
      read: (slot, off, buf, cap) => this.give(this.document(slot), off, buf, cap),
      query: (slot, path, pathLen, buf, cap) => this.give(this.query(slot, this.text(path, pathLen)), 0, buf, cap),
      write: (slot, ptr, len) => {
        if (!outputs[slot]) return -EINVAL;
        this.written[outputs[slot]] = JSON.parse(this.text(ptr, len));
        return len;
      },
      lookup: (ptr, len, buf, cap) => {
        if (!lookup) return -EPERM;
        const request = JSON.parse(this.text(ptr, len));
        const found = lookup(request), limit = request.limit || found.length;
        return this.give({ items: found.slice(0, limit), more: found.length > limit, resourceVersion: "1" }, 0, buf, cap);
      },
      authorize: (ptr, len) => (authorize ? Number(authorize(JSON.parse(this.text(ptr, len)))) : -EPERM),
      log: (level, ptr, len) => {
        this.log.push(this.text(ptr, len));
        return len;
      },
    };
    this.exports = new WebAssembly.Instance(code, { "weir.v1": imports }).exports;
    this.exports._initialize?.();
  }

  text(ptr, len) {
    return new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, ptr, len));
  }

  /** The buffer rule. */
  give(answer, off, buf, cap) {
    if (answer instanceof Errno) return answer.value;
    const bytes = new TextEncoder().encode(JSON.stringify(sorted(answer))).subarray(off);
    if (bytes.length <= cap) new Uint8Array(this.exports.memory.buffer, buf, bytes.length).set(bytes);
    return bytes.length;
  }

  document(slot) {
    if (!inputs[slot]) return new Errno(EINVAL);
    return this.documents[inputs[slot]] ?? new Errno(ENOENT);
  }

  query(slot, path) {
    const whole = this.document(slot);
    if (whole instanceof Errno) return whole;
    if (!pathValid.test(path)) return new Errno(EINVAL);
    const steps = path.match(step) ?? [];
    let found = [whole];
    for (const s of steps) {
      if (s == "[*]") found = found.flatMap((v) => (Array.isArray(v) ? v : Object.values(v ?? {})));
      else {
        const name = /^\[['"]/.test(s) ? s.slice(2, -2).replace(/\\(.)/g, "$1") : s.replace(/[[\]]/g, "");
        found = found.filter((v) => v !== null && typeof v == "object" && Object.hasOwn(v, name)).map((v) => v[name]);
      }
    }
    if (steps.includes("[*]")) return found;
    return found.length > 0 ? found[0] : new Errno(ENOENT);
  }

  describe() {
    if (this.exports.weir_describe() != 0) throw new Error("weir_describe failed");
    return this.written.manifest;
  }

  invoke(hook) {
    this.written = {};
    const status = this.exports.weir_invoke(ops[hook]);
    const { result, object, patch } = this.written;
    if (status != 0) throw new Error(result?.failure ?? `status ${status}`);
    return { ...result, ...(object && { object }), ...(patch && { patch }), log: this.log };
  }
}

/** Members are sorted, as the host's are. */
function sorted(v) {
  if (Array.isArray(v)) return v.map(sorted);
  if (v === null || typeof v != "object") return v;
  return Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])]));
}
