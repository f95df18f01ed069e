// A call of a hook.

import { Denial, FieldError } from "./errors";
import { Json, Writer } from "./json";
import { Access, Found, Lookup } from "./lookup";
import { View } from "./object";
import { Slot, authorize as askAuthorizer, errno, log, lookup, why, write } from "./sys";

export enum LogLevel {
  Debug = 0,
  Info = 1,
  Warn = 2,
  Error = 3,
}

/** One call of a hook: what it is about, and what the hook has to say beside what it returns. */
export class Context {
  private errors: FieldError[] = [];
  private denied: Denial | null = null;
  private warnings: string[] = [];
  private keys: string[] = [];
  private values: string[] = [];
  private failure: string | null = null;

  /** Who asks for what: uid, operation, time, name, user.username. */
  get request(): View {
    return new View(this, Slot.META);
  }

  /** The settings of the module as they came. The configure hook is given them to be read. */
  get settings(): View {
    return new View(this, Slot.SETTINGS);
  }

  /** The options of the request. */
  get options(): View {
    return new View(this, Slot.OPTIONS);
  }

  /** The parameter object of a policy binding; absent if it has none. */
  get params(): View {
    return new View(this, Slot.PARAMS);
  }

  /** The Namespace of the request; absent if it has none. */
  get namespace(): View {
    return new View(this, Slot.NAMESPACE);
  }

  /**
   * Reads objects as the server knew them last, which may be a moment ago; one
   * that is absent is not found. It needs the capability lookup:RESOURCE or
   * lookup:RESOURCE.GROUP. A look-up that is refused, as one of what was not
   * granted or the 17th of a call, makes the hook fail.
   */
  lookup(what: Lookup): Found {
    const found = this.tryLookup(what);
    if (found.errno != 0) this.fail(`lookup ${what.resource}: ${why(-found.errno)}`);
    return found;
  }

  /** Like lookup, for a hook that can do without: errno says whether it was refused. */
  tryLookup(what: Lookup): Found {
    const answer = lookup(what.write());
    return answer ? new Found(0, answer) : new Found(-errno, Json.raw("{}"));
  }

  /**
   * Whether the server's authorizer allows something. It needs the capability
   * authorize. A question that is refused, as the 17th of a call, makes the
   * hook fail.
   */
  authorize(access: Access): bool {
    const n = this.tryAuthorize(access);
    if (n < 0) this.fail(`authorize: ${why(n)}`);
    return n == 1;
  }

  /** Like authorize, for a hook that can do without: 1, 0, or a negative errno if it was refused. */
  tryAuthorize(access: Access): i32 {
    return askAuthorizer(access.write());
  }

  /** Sends a warning to the client. It should have at most 120 characters. */
  warn(warning: string): void {
    this.warnings.push(warning);
  }

  /** Adds an audit annotation. */
  annotate(key: string, value: string): void {
    this.keys.push(key);
    this.values.push(value);
  }

  /** Makes the object invalid. */
  invalid(errors: FieldError[]): void {
    for (let i = 0; i < errors.length; i++) this.errors.push(errors[i]);
  }

  /** Refuses the request as a whole. */
  deny(message: string, code: i32 = 0, reason: string = ""): void {
    this.denied = new Denial(message, code, reason);
  }

  /** Says that the hook cannot decide. What else it says does not count. */
  fail(why: string): void {
    if (this.failure == null) this.failure = why;
  }

  /** Writes a line to the server's log, which is cut at 1 KiB. */
  log(level: LogLevel, line: string): void {
    log(level, line);
  }

  /** Whether something was said against the request. */
  get refused(): bool {
    return this.errors.length > 0 || this.denied != null || this.failure != null;
  }

  /** Writes an output slot, unless the hook failed. */
  write(slot: i32, out: Writer): void {
    if (this.failure == null && !write(slot, out)) this.fail("write: over the limit");
  }

  /** Writes the result, if there is anything to say, and returns the status. */
  finish(): i32 {
    const w = new Writer();
    w.open("{");
    const failure = this.failure;
    if (failure != null) {
      w.member("failure");
      w.quoted(failure);
      w.close("}");
      write(Slot.RESULT, w);
      return 2;
    }
    const denied = this.denied;
    const empty = w.length;
    if (this.errors.length > 0) {
      w.member("errors");
      w.open("[");
      for (let i = 0; i < this.errors.length; i++) {
        w.element();
        this.errors[i].write(w);
      }
      w.close("]");
    }
    if (denied) {
      w.member("denied");
      denied.write(w);
    }
    if (this.warnings.length > 0) w.textsMember("warnings", this.warnings);
    if (this.keys.length > 0) {
      // Of two equal keys the host takes the last.
      w.member("audit");
      w.open("{");
      for (let i = 0; i < this.keys.length; i++) {
        w.member(this.keys[i]);
        w.quoted(this.values[i]);
      }
      w.close("}");
    }
    if (w.length == empty) return 0;
    w.close("}");
    return write(Slot.RESULT, w) ? 0 : 2;
  }
}
