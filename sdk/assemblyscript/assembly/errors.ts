// What a hook finds wrong.

import { Json, Writer } from "./json";

/** What is wrong with one field. It reads as those of Kubernetes. */
export class FieldError {
  constructor(
    /** One of the types of the contract: FieldValueInvalid. */
    public type: string,
    /** The path, spec.containers[0].name. */
    public field: string,
    /** The offending value; null for none. */
    public value: Json | null = null,
    /** For the user. */
    public detail: string = "",
  ) {}

  write(w: Writer): void {
    w.open("{");
    w.member("type");
    w.quoted(this.type);
    w.member("field");
    w.quoted(this.field);
    const value = this.value;
    if (value) {
      w.member("value");
      w.value(value);
    }
    w.textMember("detail", this.detail);
    w.close("}");
  }
}

/** A value that is not valid. */
export function invalid(field: string, value: Json | null, detail: string): FieldError {
  return new FieldError("FieldValueInvalid", field, value, detail);
}

/** A value that is missing. */
export function required(field: string, detail: string): FieldError {
  return new FieldError("FieldValueRequired", field, null, detail);
}

/** A field that may not be set. */
export function forbidden(field: string, detail: string): FieldError {
  return new FieldError("FieldValueForbidden", field, null, detail);
}

/** A value that occurs twice. */
export function duplicate(field: string, value: Json | null): FieldError {
  return new FieldError("FieldValueDuplicate", field, value);
}

/** A value that is none of those there are. */
export function notSupported(field: string, value: Json | null, supported: string[]): FieldError {
  return new FieldError("FieldValueNotSupported", field, value, `supported values: "${supported.join('", "')}"`);
}

/** A value that refers to nothing. */
export function notFound(field: string, value: Json | null): FieldError {
  return new FieldError("FieldValueNotFound", field, value);
}

/** A value of the wrong type. */
export function typeInvalid(field: string, value: Json | null, detail: string): FieldError {
  return new FieldError("FieldValueTypeInvalid", field, value, detail);
}

/** A value of more than max bytes. It is not repeated. */
export function tooLong(field: string, max: i32): FieldError {
  return new FieldError("FieldValueTooLong", field, null, `may not be more than ${max} bytes`);
}

/** A list of more than max items. */
export function tooMany(field: string, actual: i32, max: i32): FieldError {
  return new FieldError("FieldValueTooMany", field, Json.int(actual), `must have at most ${max} items`);
}

/** The refusal of a request as a whole. */
export class Denial {
  constructor(
    /** For the user. */
    public message: string,
    /** The HTTP status, 400 to 599; 0 means 403. */
    public code: i32 = 0,
    /** A metav1.StatusReason; empty means by the code. */
    public reason: string = "",
  ) {}

  write(w: Writer): void {
    w.open("{");
    if (this.code != 0) {
      w.member("code");
      w.int(this.code);
    }
    w.textMember("reason", this.reason);
    w.member("message");
    w.quoted(this.message);
    w.close("}");
  }
}
