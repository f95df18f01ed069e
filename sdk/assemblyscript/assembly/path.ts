// Paths of members and indexes.

import { Json } from "./json";

/** A step of a path goes down to a member, or to an element. */
export class Step {
  constructor(
    public name: string,
    /** -1 of a member. */
    public index: i32 = -1,
  ) {}

  /** What is a step below a value, null if there is nothing. */
  of(v: Json): Json | null {
    return this.index >= 0 ? v.element(this.index) : v.member(this.name);
  }
}

/** Spells a path for the host. */
export function join(steps: Step[], n: i32): string {
  let path = "";
  for (let i = 0; i < n; i++) {
    const step = steps[i];
    path += step.index >= 0 ? `[${step.name}]` : `['${step.name.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}']`;
  }
  return path;
}

/** Splits a path; no steps if it is not one. */
export function parse(path: string): Step[] {
  const steps: Step[] = [];
  const bad: Step[] = [];
  let at = 0;
  const end = path.length;
  while (at < end) {
    if (path.charCodeAt(at) != 0x5b) {
      const start = at;
      while (at < end && path.charCodeAt(at) != 0x2e && path.charCodeAt(at) != 0x5b) at++;
      const name = path.substring(start, at);
      if (name == "" || name == "*") return bad;
      steps.push(new Step(name));
    } else if (at + 1 < end && (path.charCodeAt(at + 1) == 0x27 || path.charCodeAt(at + 1) == 0x22)) {
      const quote = path.charCodeAt(at + 1);
      let name = "";
      for (at += 2; at < end && path.charCodeAt(at) != quote; at++) {
        if (path.charCodeAt(at) == 0x5c) at++;
        if (at < end) name += path.charAt(at);
      }
      if (at + 1 >= end || path.charCodeAt(at + 1) != 0x5d) return bad;
      at += 2;
      steps.push(new Step(name));
    } else {
      const start = ++at;
      let index = 0;
      while (at < end && at - start < 9 && path.charCodeAt(at) >= 0x30 && path.charCodeAt(at) <= 0x39) {
        index = index * 10 + path.charCodeAt(at++) - 0x30;
      }
      if (at == start || at == end || path.charCodeAt(at) != 0x5d) return bad;
      steps.push(new Step(path.substring(start, at++), index));
    }
    if (at < end && path.charCodeAt(at) == 0x2e) {
      at++;
      if (at == end || path.charCodeAt(at) == 0x5b) return bad;
    }
  }
  return steps;
}
