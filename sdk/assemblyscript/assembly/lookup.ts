// Objects that are not those of the call, and who may do what.

import { Json, Writer } from "./json";

/** Why the host refused to answer. */
export namespace Errno {
  /** The capability was not granted. */
  export const EPERM: i32 = 1;
  /** Over a limit. */
  export const E2BIG: i32 = 7;
  /** What was asked is not valid. */
  export const EINVAL: i32 = 22;
}

/**
 * Which objects of a resource to look up: the one of a name, or those that
 * selectors match, in a namespace or in all.
 *
 *     const limits = ctx.lookup(new Lookup("configmaps").inNamespace("default").named("limits").only(["data.most"]));
 *     const first = limits.first, most = first ? first.at("data.most") : null;
 */
export class Lookup {
  private namespace: string = "";
  private name: string = "";
  private labels: string = "";
  private selected: string = "";
  private fields: string[] = [];
  private limit: i32 = 0;

  constructor(
    /** The plural, as in a path. */
    public resource: string,
    /** The API group, "" for the core group. */
    public group: string = "",
  ) {}

  inNamespace(namespace: string): this {
    this.namespace = namespace;
    return this;
  }

  named(name: string): this {
    this.name = name;
    return this;
  }

  /** Those that a label selector matches, as kubectl's -l. Not with a name. */
  labelled(selector: string): this {
    this.labels = selector;
    return this;
  }

  /** Those that a field selector matches, as kubectl's --field-selector. Not with a name. */
  where(selector: string): this {
    this.selected = selector;
    return this;
  }

  /**
   * Paths of the members that are wanted of each object, without indexes and
   * wildcards; otherwise whole ones come. apiVersion, kind, and of the metadata
   * name, namespace, uid and resourceVersion do in any case.
   */
  only(fields: string[]): this {
    this.fields = fields;
    return this;
  }

  /** The most objects of a list; 0 is 500, which is the most there can be. */
  atMost(limit: i32): this {
    this.limit = limit;
    return this;
  }

  write(): Writer {
    const w = new Writer();
    w.open("{");
    w.textMember("group", this.group);
    w.textMember("resource", this.resource);
    w.textMember("namespace", this.namespace);
    w.textMember("name", this.name);
    w.textMember("labelSelector", this.labels);
    w.textMember("fieldSelector", this.selected);
    if (this.fields.length > 0) w.textsMember("fields", this.fields);
    if (this.limit > 0) {
      w.member("limit");
      w.int(this.limit);
    }
    w.close("}");
    return w;
  }
}

/** What a look-up found. A refused one found nothing. */
export class Found {
  /** The objects, in the order of their namespaces and names. */
  items: Json[] = [];
  /** Whether the limit left some out. */
  more: bool = false;
  /** That of the state that was read. */
  resourceVersion: string = "";

  constructor(
    /** Why it was refused, see Errno; 0 if it was not. */
    readonly errno: i32,
    answer: Json,
  ) {
    const members = answer.members();
    while (members.next()) {
      if (members.name == "items") this.items = members.value.elements();
      else if (members.name == "more") this.more = members.value.isTrue();
      else if (members.name == "resourceVersion") this.resourceVersion = members.value.text();
    }
  }

  /** The first object, or the only one of a look-up by name; null if there is none. */
  get first(): Json | null {
    return this.items.length > 0 ? this.items[0] : null;
  }
}

/** What somebody may do or not: a verb on a resource, or on a path. */
export class Access {
  private resource: string = "";
  private group: string = "";
  private subresource: string = "";
  private namespace: string = "";
  private name: string = "";
  private path: string = "";
  private accountNamespace: string = "";
  private accountName: string = "";

  constructor(
    /** As of Kubernetes' RBAC: get, create, use. */
    private verb: string,
  ) {}

  /** On a resource, or a subresource of it. */
  on(resource: string, group: string = "", subresource: string = ""): this {
    this.resource = resource;
    this.group = group;
    this.subresource = subresource;
    return this;
  }

  /** On a path such as /healthz, instead of a resource. */
  onPath(path: string): this {
    this.path = path;
    return this;
  }

  inNamespace(namespace: string): this {
    this.namespace = namespace;
    return this;
  }

  named(name: string): this {
    this.name = name;
    return this;
  }

  /** By a service account; otherwise by who sent the request. */
  by(namespace: string, name: string): this {
    this.accountNamespace = namespace;
    this.accountName = name;
    return this;
  }

  write(): Writer {
    const w = new Writer();
    w.open("{");
    w.textMember("verb", this.verb);
    w.textMember("group", this.group);
    w.textMember("resource", this.resource);
    w.textMember("subresource", this.subresource);
    w.textMember("namespace", this.namespace);
    w.textMember("name", this.name);
    w.textMember("path", this.path);
    if (this.accountName != "") {
      w.member("serviceAccount");
      w.open("{");
      w.textMember("namespace", this.accountNamespace);
      w.textMember("name", this.accountName);
      w.close("}");
    }
    w.close("}");
    return w;
  }
}
