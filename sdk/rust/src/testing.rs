//! Runs hooks as a server would, without WebAssembly.
//!
//! ```
//! # use weir::{Context, FieldError, View};
//! # #[derive(Default)] struct Quotes;
//! # impl weir::ValidateCreate for Quotes {
//! #     fn validate_create(&self, _: &Context, quote: &View) -> Vec<FieldError> {
//! #         if quote.text("spec.text").is_none() { return vec![FieldError::required("spec.text", "")] }
//! #         Vec::new()
//! #     }
//! # }
//! # weir::module! { strategy: Quotes, hooks: [ValidateCreate], name: "quotes", version: "1.0.0" }
//! # fn main() {
//! use weir::testing::{run, Call};
//! use weir::Op;
//!
//! let outcome = run(weir_hooks(), Op::ValidateCreate, Call { object: r#"{"spec":{}}"#, ..Call::default() });
//! assert_eq!(outcome.result, r#"{"errors":[{"type":"FieldValueRequired","field":"spec.text"}]}"#);
//! # }
//! ```
//!
//! Objects are read as they are given, and not made canonical first.

use crate::json::Json;
use crate::lookup::Errno;
use crate::module::{Hooks, Op};
use crate::object::split;
use crate::sys;
use std::cell::RefCell;
use std::collections::HashMap;

/// What a hook is called with. Documents are JSON; an empty one is absent.
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Call<'a> {
    pub meta: &'a str,
    pub object: &'a str,
    pub old_object: &'a str,
    pub options: &'a str,
    pub settings: &'a str,
    pub params: &'a str,
    pub namespace: &'a str,
    /// Of a conversion: example.com/v2.
    pub target_version: &'a str,
    /// Answers a look-up, whose JSON it is given, with the JSON of each object.
    /// None: it was not granted. See [`crate::Lookup`].
    pub lookup: Option<fn(Json) -> Vec<String>>,
    /// Answers whether something is allowed, likewise. See [`crate::Access`].
    pub authorize: Option<fn(Json) -> bool>,
}

/// What a hook did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The status that it returned: 0 is that it did its work.
    pub status: i32,
    /// The result in JSON: errors, denied, warnings, audit or failure. Empty
    /// if it had nothing to say.
    pub result: String,
    /// The JSON patch of what it changed, empty if nothing.
    pub patch: String,
    /// The whole new object, of the hooks that write one.
    pub object: String,
    /// Lines that it logged.
    pub log: Vec<String>,
}

#[derive(Default)]
struct Host {
    inputs: HashMap<i32, String>,
    outputs: HashMap<i32, String>,
    log: Vec<String>,
    lookup: Option<fn(Json) -> Vec<String>>,
    authorize: Option<fn(Json) -> bool>,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

/// Configures the strategy, if it can be, and runs a hook. It panics if the
/// settings are refused.
pub fn run<S: Default>(hooks: Hooks<S>, op: Op, call: Call) -> Outcome {
    HOST.with(|host| {
        let mut inputs = HashMap::new();
        let target = if call.target_version.is_empty() { String::new() } else { format!("{:?}", call.target_version) };
        for (slot, text) in [
            (sys::META, call.meta),
            (sys::OBJECT, call.object),
            (sys::OLD_OBJECT, call.old_object),
            (sys::OPTIONS, call.options),
            (sys::SETTINGS, call.settings),
            (sys::PARAMS, call.params),
            (sys::NAMESPACE, call.namespace),
            (sys::TARGET_VERSION, target.as_str()),
        ] {
            if !text.is_empty() {
                inputs.insert(slot, text.to_owned());
            }
        }
        *host.borrow_mut() = Host { inputs, lookup: call.lookup, authorize: call.authorize, ..Host::default() };
    });
    let mut strategy = S::default();
    if op != Op::Configure && hooks.invoke(&mut strategy, Op::Configure as i32) != 1 {
        let refused = HOST.with(|host| host.borrow_mut().outputs.remove(&sys::RESULT)).unwrap_or_default();
        assert!(!refused.contains("\"errors\"") && !refused.contains("\"failure\""), "settings refused: {}", refused);
    }
    let status = hooks.invoke(&mut strategy, op as i32);
    HOST.with(|host| {
        let mut host = host.borrow_mut();
        let mut take = |slot| host.outputs.remove(&slot).unwrap_or_default();
        let (result, patch, object) = (take(sys::RESULT), take(sys::PATCH), take(sys::OBJECT_OUT));
        Outcome { status, result, patch, object, log: std::mem::take(&mut host.log) }
    })
}

/// The import query.
pub fn query(slot: i32, path: &str) -> Result<Option<&'static str>, i32> {
    let steps = split(path).ok_or(Errno::EINVAL.0)?;
    HOST.with(|host| {
        let host = host.borrow();
        let text = match host.inputs.get(&slot) {
            Some(text) => text,
            None => return Ok(None),
        };
        let mut found = vec![Json::new(text)];
        for step in &steps {
            found = found
                .into_iter()
                .flat_map(|v| match step {
                    None => v.elements().collect::<Vec<_>>(),
                    Some(Ok(name)) => v.member(name).into_iter().collect(),
                    Some(Err(index)) => v.element(*index).into_iter().collect(),
                })
                .collect();
        }
        let answer = if steps.contains(&None) {
            format!("[{}]", found.iter().map(|v| v.raw()).collect::<Vec<_>>().join(","))
        } else {
            match found.first() {
                Some(v) => v.raw().to_owned(),
                None => return Ok(None),
            }
        };
        // A guest's memory is never freed either.
        Ok(Some(&*Box::leak(answer.into_boxed_str())))
    })
}

/// Whether there is a value at a path.
pub fn has(slot: i32, path: &str) -> Result<bool, i32> {
    Ok(query(slot, path)?.is_some())
}

/// The import lookup.
pub fn lookup(request: &str) -> Result<&'static str, i32> {
    let answer = HOST.with(|host| host.borrow().lookup).ok_or(Errno::EPERM.0)?;
    let request = Json::new(request);
    let mut items = answer(request);
    let limit = request.at("limit").and_then(Json::int).unwrap_or(i64::MAX) as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let answer = format!("{{\"items\":[{}],\"more\":{},\"resourceVersion\":\"1\"}}", items.join(","), more);
    Ok(Box::leak(answer.into_boxed_str()))
}

/// The import authorize.
pub fn authorize(request: &str) -> Result<bool, i32> {
    let answer = HOST.with(|host| host.borrow().authorize).ok_or(Errno::EPERM.0)?;
    Ok(answer(Json::new(request)))
}

/// The import write.
pub fn write(slot: i32, text: &str) -> bool {
    HOST.with(|host| host.borrow_mut().outputs.insert(slot, text.to_owned()));
    true
}

/// The import log.
pub fn log(_: i32, line: &str) {
    HOST.with(|host| host.borrow_mut().log.push(line.to_owned()));
}
