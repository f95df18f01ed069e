//! Documents of a call, by path.

use crate::context::Context;
use crate::json::{Json, ToJson};
use crate::sys;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Deref;

/// Reads single values of a document, which the host looks up. The empty path
/// is the whole document.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) ctx: &'a Context,
    pub(crate) slot: i32,
}

impl<'a> View<'a> {
    pub(crate) fn new(ctx: &'a Context, slot: i32) -> Self {
        View { ctx, slot }
    }

    /// What the document is called.
    pub(crate) fn name(&self) -> &'static str {
        SLOTS[self.slot as usize]
    }

    fn refused(&self, path: &str, errno: i32) {
        self.ctx.fail(format!("query {} {}: {}", self.name(), path, crate::Errno(errno)));
    }

    /// Whether there is a value at the path; null is one.
    pub fn has(&self, path: &str) -> bool {
        sys::has(self.slot, path).unwrap_or_else(|errno| {
            self.refused(path, errno);
            false
        })
    }

    /// The canonical JSON at the path.
    pub fn get(&self, path: &str) -> Option<Json<'a>> {
        match sys::query(self.slot, path) {
            Ok(found) => found.map(Json::new),
            Err(errno) => {
                self.refused(path, errno);
                None
            }
        }
    }

    /// The string at the path.
    pub fn text(&self, path: &str) -> Option<Cow<'a, str>> {
        self.get(path)?.text()
    }

    /// The integer at the path.
    pub fn int(&self, path: &str) -> Option<i64> {
        self.get(path)?.int()
    }

    /// Whether there is true at the path.
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).and_then(Json::boolean).unwrap_or(false)
    }

    /// The strings of the array at the path, or of all matches if there is a
    /// `[*]` in it.
    pub fn texts(&self, path: &str) -> Vec<Cow<'a, str>> {
        match self.get(path) {
            Some(list) => list.elements().filter_map(Json::text).collect(),
            None => Vec::new(),
        }
    }
}

const SLOTS: [&str; 8] = ["meta", "object", "oldObject", "options", "settings", "params", "namespace", "targetVersion"];

/// The object of a hook that may change it. Paths to be changed have members
/// and indexes, and no wildcards.
pub struct Object<'a> {
    view: View<'a>,
    patch: String,
    edits: Vec<Edit>,
}

impl<'a> Deref for Object<'a> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.view
    }
}

/// A step of a path goes down to a member, or to an element.
#[derive(Clone, PartialEq)]
pub(crate) enum Step {
    Member(String),
    Element(usize),
}

impl Step {
    /// What is a step below a value.
    pub(crate) fn of<'a>(&self, v: Json<'a>) -> Option<Json<'a>> {
        match self {
            Step::Element(index) => v.element(*index),
            Step::Member(name) => v.member(name),
        }
    }
}

/// A change of what is at a path: to a value, or to nothing.
struct Edit {
    steps: Vec<Step>,
    value: Option<String>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(ctx: &'a Context) -> Self {
        Object { view: View::new(ctx, sys::OBJECT), patch: String::new(), edits: Vec::new() }
    }

    /// Writes what has changed.
    pub(crate) fn finish(mut self) {
        if !self.patch.is_empty() {
            self.patch.push(']');
            self.view.ctx.write(sys::PATCH, &self.patch);
        }
    }

    /// Sets the value at a path. Objects on the way that do not exist are
    /// made; elements of lists have to exist.
    pub fn set(&mut self, path: &str, value: impl ToJson) {
        let steps = match parse(path) {
            Some(steps) => steps,
            None => return self.view.ctx.fail(format!("set {}: not a path", path)),
        };
        let mut n = 1; // steps that lead to what is added
        while n < steps.len() && self.exists(&steps[..n]) {
            n += 1;
        }
        let mut json = String::new();
        for step in &steps[n..] {
            match step {
                Step::Element(_) => return self.view.ctx.fail(format!("set {}: the list does not exist", path)),
                Step::Member(name) => {
                    json.push('{');
                    name.append_json(&mut json);
                    json.push(':');
                }
            }
        }
        value.append_json(&mut json);
        for _ in n..steps.len() {
            json.push('}');
        }
        let mut op = "add";
        if let Step::Element(_) = steps[n - 1] {
            if !self.exists(&steps[..n]) {
                return self.view.ctx.fail(format!("set {}: the element does not exist", path));
            }
            op = "replace";
        }
        self.record(op, &steps[..n], Some(json));
    }

    /// Deletes the member at a path, if there is one. An element of a list
    /// cannot be deleted: set the list.
    pub fn delete(&mut self, path: &str) {
        match parse(path) {
            None => self.view.ctx.fail(format!("delete {}: not a path", path)),
            Some(steps) if matches!(steps.last(), Some(Step::Element(_))) => {
                self.view.ctx.fail(format!("delete {}: an element of a list; set the list instead", path))
            }
            Some(steps) => {
                if self.exists(&steps) {
                    self.record("remove", &steps, None);
                }
            }
        }
    }

    fn record(&mut self, op: &str, steps: &[Step], value: Option<String>) {
        let mut pointer = String::new();
        for step in steps {
            pointer.push('/');
            match step {
                Step::Element(index) => index_text(*index, &mut pointer),
                Step::Member(name) => {
                    for c in name.chars() {
                        match c {
                            '~' => pointer.push_str("~0"),
                            '/' => pointer.push_str("~1"),
                            c => pointer.push(c),
                        }
                    }
                }
            }
        }
        let out = &mut self.patch;
        out.push(if out.is_empty() { '[' } else { ',' });
        out.push_str("{\"op\":\"");
        out.push_str(op);
        out.push_str("\",\"path\":");
        pointer.append_json(out);
        if let Some(value) = &value {
            out.push_str(",\"value\":");
            out.push_str(value);
        }
        out.push('}');
        self.edits.push(Edit { steps: steps.to_vec(), value });
    }

    /// Whether there is a value at a path now. null is none.
    fn exists(&self, steps: &[Step]) -> bool {
        let edit = self.edits.iter().rev().find(|e| steps.starts_with(&e.steps));
        let found = match edit {
            None => return matches!(self.view.get(&join(steps)), Some(v) if !v.is_null()),
            // The last edit says what is there.
            Some(e) => e.value.as_deref().and_then(|value| {
                steps[e.steps.len()..].iter().try_fold(Json::new(value), |v, step| step.of(v))
            }),
        };
        matches!(found, Some(v) if !v.is_null())
    }
}

fn index_text(index: usize, out: &mut String) {
    (index as i64).append_json(out);
}

/// Spells a path for the host.
fn join(steps: &[Step]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            Step::Element(index) => {
                out.push('[');
                index_text(*index, &mut out);
                out.push(']');
            }
            Step::Member(name) => {
                out.push_str("['");
                for c in name.chars() {
                    if c == '\\' || c == '\'' {
                        out.push('\\');
                    }
                    out.push(c);
                }
                out.push_str("']");
            }
        }
    }
    out
}

/// Splits a path; None if it is not one.
pub(crate) fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if !rest.starts_with('[') {
            let end = rest.find(|c| c == '.' || c == '[').unwrap_or(rest.len());
            if end == 0 || &rest[..end] == "*" {
                return None;
            }
            steps.push(Step::Member(rest[..end].into()));
            rest = &rest[end..];
        } else if let Some(quote) = rest[1..].chars().next().filter(|c| *c == '\'' || *c == '"') {
            let mut name = String::new();
            let mut chars = rest[2..].chars();
            loop {
                match chars.next()? {
                    c if c == quote => break,
                    '\\' => name.push(chars.next()?),
                    c => name.push(c),
                }
            }
            rest = chars.as_str().strip_prefix(']')?;
            steps.push(Step::Member(name));
        } else {
            let end = rest.find(']')?;
            let digits = &rest[1..end];
            if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
                return None;
            }
            steps.push(Step::Element(digits.parse().ok()?));
            rest = &rest[end + 1..];
        }
        if let Some(after) = rest.strip_prefix('.') {
            if after.is_empty() || after.starts_with('[') {
                return None;
            }
            rest = after;
        }
    }
    if steps.is_empty() {
        return None;
    }
    Some(steps)
}

/// Whether a path is one, with wildcards.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn split(path: &str) -> Option<Vec<Option<Result<String, usize>>>> {
    const WILD: &str = "\u{0}";
    if path.is_empty() {
        return Some(Vec::new());
    }
    let steps = parse(&path.replace("[*]", &format!("['{}']", WILD)))?;
    let found = steps.into_iter().map(|s| match s {
        Step::Member(name) if name == WILD => None,
        Step::Member(name) => Some(Ok(name)),
        Step::Element(index) => Some(Err(index)),
    });
    Some(found.collect())
}
