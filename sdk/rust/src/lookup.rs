//! Objects that are not those of the call, and who may do what.

use crate::error::Refusal;
use crate::json::{Elements, Json, ObjectBuilder, ToJson};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::fmt;

/// Which objects of a resource to look up: the one of a name, or those that
/// selectors match, in a namespace or in all.
///
/// ```
/// # use weir::{Context, Lookup};
/// # fn hook(ctx: &Context) -> Option<i64> {
/// let limits = Lookup { resource: "configmaps", namespace: "default", name: "limits", ..Lookup::default() };
/// ctx.lookup(&limits).first()?.at("data.most")?.text()?.parse().ok()
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookup<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural, as in a path; required.
    pub resource: &'a str,
    /// Empty: any.
    pub namespace: &'a str,
    /// Empty: any.
    pub name: &'a str,
    /// As kubectl's `-l`; empty: any. Not with a name.
    pub label_selector: &'a str,
    /// As kubectl's `--field-selector`; empty: any. Not with a name.
    pub field_selector: &'a str,
    /// Paths of the members that are wanted of each object, without indexes
    /// and wildcards; none: whole objects. apiVersion, kind, and of the
    /// metadata name, namespace, uid and resourceVersion come in any case.
    pub fields: &'a [&'a str],
    /// The most objects of a list; 0: 500, which is the most there can be.
    pub limit: u32,
}

impl ToJson for Lookup<'_> {
    fn append_json(&self, out: &mut String) {
        let mut o = ObjectBuilder::new(out);
        for (name, value) in [
            ("group", self.group),
            ("resource", self.resource),
            ("namespace", self.namespace),
            ("name", self.name),
            ("labelSelector", self.label_selector),
            ("fieldSelector", self.field_selector),
        ] {
            o = o.text_member(name, value);
        }
        if !self.fields.is_empty() {
            o = o.member("fields", self.fields);
        }
        if self.limit > 0 {
            o = o.member("limit", self.limit);
        }
        o.end();
    }
}

/// What a look-up found. A refused one found nothing.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    items: Json<'a>,
    more: Json<'a>,
    resource_version: Json<'a>,
}

impl<'a> Found<'a> {
    pub(crate) fn new(answer: Json<'a>) -> Self {
        let none = Json::new("");
        let mut found = Found { items: none, more: none, resource_version: none };
        for (name, value) in answer.members() {
            match name.as_ref() {
                "items" => found.items = value,
                "more" => found.more = value,
                "resourceVersion" => found.resource_version = value,
                _ => {}
            }
        }
        found
    }

    /// The objects, in the order of their namespaces and names.
    pub fn items(self) -> Elements<'a> {
        self.items.elements()
    }

    /// The first object, or the only one of a look-up by name.
    pub fn first(self) -> Option<Json<'a>> {
        self.items().next()
    }

    /// Whether the limit left some out.
    pub fn more(self) -> bool {
        self.more.boolean().unwrap_or(false)
    }

    /// That of the state that was read.
    pub fn resource_version(self) -> Cow<'a, str> {
        self.resource_version.text().unwrap_or_default()
    }
}

/// What somebody may do or not: a verb on a resource, or on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access<'a> {
    /// As of Kubernetes' RBAC: get, create, use; required.
    pub verb: &'a str,
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural, as in a path.
    pub resource: &'a str,
    /// Empty: the resource itself.
    pub subresource: &'a str,
    /// Empty: all, or of the cluster.
    pub namespace: &'a str,
    /// Empty: all.
    pub name: &'a str,
    /// A path such as /healthz, instead of a resource.
    pub path: &'a str,
    /// Who: namespace and name of a service account. None: who sent the
    /// request.
    pub service_account: Option<(&'a str, &'a str)>,
}

impl ToJson for Access<'_> {
    fn append_json(&self, out: &mut String) {
        let mut o = ObjectBuilder::new(out);
        for (name, value) in [
            ("verb", self.verb),
            ("group", self.group),
            ("resource", self.resource),
            ("subresource", self.subresource),
            ("namespace", self.namespace),
            ("name", self.name),
            ("path", self.path),
        ] {
            o = o.text_member(name, value);
        }
        if let Some((namespace, name)) = self.service_account {
            ObjectBuilder::new(o.name("serviceAccount")).member("namespace", namespace).member("name", name).end();
        }
        o.end();
    }
}

/// Why the host refused to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The capability was not granted.
    pub const EPERM: Errno = Errno(1);
    /// Over a limit.
    pub const E2BIG: Errno = Errno(7);
    /// What was asked is not valid.
    pub const EINVAL: Errno = Errno(22);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match *self {
            Errno::EPERM => "capability not granted",
            Errno::E2BIG => "over the limit",
            _ => "invalid argument",
        })
    }
}

impl From<Errno> for Refusal {
    /// The hook cannot decide.
    fn from(errno: Errno) -> Self {
        Refusal::Failed(errno.to_string())
    }
}
