//! A call of a hook.

use crate::error::{Denial, FieldError, Refusal};
use crate::json::{Json, ObjectBuilder, ToJson};
use crate::lookup::{Access, Errno, Found, Lookup};
use crate::object::View;
use crate::sys;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

/// One call of a hook: what it is about, and what the hook has to say beside
/// what it returns.
#[derive(Default)]
pub struct Context {
    said: RefCell<Said>,
}

#[derive(Default)]
struct Said {
    errors: Vec<FieldError>,
    denied: Option<Denial>,
    warnings: Vec<String>,
    audit: Vec<(String, String)>,
    failure: Option<String>,
}

/// Of a line in the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the author.
    Debug = 0,
    /// Usual.
    Info = 1,
    /// Unusual.
    Warn = 2,
    /// Wrong.
    Error = 3,
}

impl Context {
    /// Who asks for what: uid, operation, time, name, user.username.
    pub fn request(&self) -> View<'_> {
        View::new(self, sys::META)
    }

    /// The settings of the module as they came. [`crate::Configure`] is given them
    /// as a type.
    pub fn settings(&self) -> View<'_> {
        View::new(self, sys::SETTINGS)
    }

    /// The options of the request.
    pub fn options(&self) -> View<'_> {
        View::new(self, sys::OPTIONS)
    }

    /// The parameter object of a policy binding; absent if it has none.
    pub fn params(&self) -> View<'_> {
        View::new(self, sys::PARAMS)
    }

    /// The Namespace of the request; absent if it has none.
    pub fn namespace(&self) -> View<'_> {
        View::new(self, sys::NAMESPACE)
    }

    /// Reads objects as the server knew them last, which may be a moment ago;
    /// one that is absent is not found. It needs the capability
    /// `lookup:RESOURCE` or `lookup:RESOURCE.GROUP` in [`crate::module!`]. A
    /// look-up that is refused, as one of what was not granted or the 17th of a
    /// call, makes the hook fail.
    pub fn lookup(&self, what: &Lookup) -> Found<'_> {
        self.try_lookup(what).unwrap_or_else(|errno| {
            self.fail(format!("lookup {}: {}", what.resource, errno));
            Found::new(Json::new(""))
        })
    }

    /// Like [`Context::lookup`], for a hook that can do without.
    pub fn try_lookup(&self, what: &Lookup) -> Result<Found<'_>, Errno> {
        sys::lookup(&what.to_json()).map(|answer| Found::new(Json::new(answer))).map_err(Errno)
    }

    /// Whether the server's authorizer allows something. It needs the
    /// capability `authorize`. A question that is refused, as the 17th of a
    /// call, makes the hook fail.
    pub fn authorize(&self, access: &Access) -> bool {
        self.try_authorize(access).unwrap_or_else(|errno| {
            self.fail(format!("authorize: {}", errno));
            false
        })
    }

    /// Like [`Context::authorize`], for a hook that can do without.
    pub fn try_authorize(&self, access: &Access) -> Result<bool, Errno> {
        sys::authorize(&access.to_json()).map_err(Errno)
    }

    /// Sends a warning to the client. It should have at most 120 characters.
    pub fn warn(&self, warning: impl Into<String>) {
        self.said.borrow_mut().warnings.push(warning.into());
    }

    /// Adds an audit annotation.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.said.borrow_mut().audit.push((key.into(), value.into()));
    }

    /// Refuses. It is for hooks that cannot return why.
    pub fn refuse(&self, refusal: impl Into<Refusal>) {
        let mut said = self.said.borrow_mut();
        match refusal.into() {
            Refusal::Invalid(errors) => said.errors.extend(errors),
            Refusal::Denied(denial) => said.denied = Some(denial),
            Refusal::Failed(why) => said.fail(why),
        }
    }

    /// Says that the hook cannot decide. What else it says does not count.
    pub fn fail(&self, why: impl Into<String>) {
        self.said.borrow_mut().fail(why.into());
    }

    /// Writes a line to the server's log, which is cut at 1 KiB.
    pub fn log(&self, level: Level, line: &str) {
        sys::log(level as i32, line);
    }

    /// Whether something was said against the request.
    pub(crate) fn refused(&self) -> bool {
        let said = self.said.borrow();
        !said.errors.is_empty() || said.denied.is_some() || said.failure.is_some()
    }

    /// Writes an output slot, unless the hook failed.
    pub(crate) fn write(&self, slot: i32, text: &str) {
        if self.said.borrow().failure.is_none() && !sys::write(slot, text) {
            self.fail("write: over the limit");
        }
    }

    /// Writes the result, if there is anything to say, and returns the status.
    pub(crate) fn finish(&self) -> i32 {
        let said = self.said.borrow();
        let mut out = String::new();
        let mut o = ObjectBuilder::new(&mut out);
        if let Some(why) = &said.failure {
            o.member("failure", why).end();
            sys::write(sys::RESULT, &out);
            return 2;
        }
        if !self.refused() && said.warnings.is_empty() && said.audit.is_empty() {
            return 0;
        }
        if !said.errors.is_empty() {
            o = o.member("errors", &said.errors);
        }
        if let Some(denial) = &said.denied {
            o = o.member("denied", denial);
        }
        if !said.warnings.is_empty() {
            o = o.member("warnings", &said.warnings);
        }
        if !said.audit.is_empty() {
            // Of two equal keys the host takes the last.
            let mut audit = ObjectBuilder::new(o.name("audit"));
            for (key, value) in &said.audit {
                audit = audit.member(key, value);
            }
            audit.end();
        }
        o.end();
        if sys::write(sys::RESULT, &out) {
            0
        } else {
            2
        }
    }
}

impl Said {
    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }
}
