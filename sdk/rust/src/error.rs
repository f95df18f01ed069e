//! What a hook finds wrong.

use crate::json::{ObjectBuilder, ToJson};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What is wrong with one field. It reads as those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// One of the types of the contract: FieldValueInvalid.
    pub kind: &'static str,
    /// The path, spec.containers[0].name.
    pub field: String,
    /// The JSON of the offending value.
    pub value: Option<String>,
    /// For the user.
    pub detail: String,
}

impl FieldError {
    /// An error of any type of the contract.
    pub fn new(kind: &'static str, field: impl Into<String>, value: Option<String>, detail: impl Into<String>) -> Self {
        FieldError { kind, field: field.into(), value, detail: detail.into() }
    }

    /// A value that is not valid.
    pub fn invalid(field: impl Into<String>, value: impl ToJson, detail: impl Into<String>) -> Self {
        Self::new("FieldValueInvalid", field, Some(value.to_json()), detail)
    }

    /// A value that is missing.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new("FieldValueRequired", field, None, detail)
    }

    /// A field that may not be set.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new("FieldValueForbidden", field, None, detail)
    }

    /// A value that occurs twice.
    pub fn duplicate(field: impl Into<String>, value: impl ToJson) -> Self {
        Self::new("FieldValueDuplicate", field, Some(value.to_json()), "")
    }

    /// A value that is none of those there are.
    pub fn not_supported(field: impl Into<String>, value: impl ToJson, supported: &[&str]) -> Self {
        let mut detail = String::new();
        for s in supported {
            detail.push_str(if detail.is_empty() { "supported values: " } else { ", " });
            s.append_json(&mut detail);
        }
        Self::new("FieldValueNotSupported", field, Some(value.to_json()), detail)
    }

    /// A value that refers to nothing.
    pub fn not_found(field: impl Into<String>, value: impl ToJson) -> Self {
        Self::new("FieldValueNotFound", field, Some(value.to_json()), "")
    }

    /// A value of the wrong type.
    pub fn type_invalid(field: impl Into<String>, value: impl ToJson, detail: impl Into<String>) -> Self {
        Self::new("FieldValueTypeInvalid", field, Some(value.to_json()), detail)
    }

    /// A value of more than max bytes. It is not repeated.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new("FieldValueTooLong", field, None, format!("may not be more than {} bytes", max))
    }

    /// A list of more than max items.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        Self::new("FieldValueTooMany", field, Some(actual.to_string()), format!("must have at most {} items", max))
    }
}

impl ToJson for FieldError {
    fn append_json(&self, out: &mut String) {
        let mut o = ObjectBuilder::new(out).member("type", self.kind).member("field", &self.field);
        if let Some(value) = &self.value {
            o.name("value").push_str(value);
        }
        if !self.detail.is_empty() {
            o = o.member("detail", &self.detail);
        }
        o.end();
    }
}

/// The refusal of a request as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP status, 400 to 599; 0 means 403.
    pub code: u16,
    /// A metav1.StatusReason; empty means by the code.
    pub reason: String,
    /// For the user.
    pub message: String,
}

impl Denial {
    /// A refusal as forbidden.
    pub fn new(message: impl Into<String>) -> Self {
        Denial { message: message.into(), ..Self::default() }
    }
}

impl ToJson for Denial {
    fn append_json(&self, out: &mut String) {
        let mut o = ObjectBuilder::new(out);
        if self.code != 0 {
            o = o.member("code", self.code);
        }
        if !self.reason.is_empty() {
            o = o.member("reason", &self.reason);
        }
        o.member("message", &self.message).end();
    }
}

/// Why a hook says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object is invalid.
    Invalid(Vec<FieldError>),
    /// The request is refused.
    Denied(Denial),
    /// The hook cannot decide, which the server treats as it does a trap.
    Failed(String),
}

impl From<Vec<FieldError>> for Refusal {
    fn from(errors: Vec<FieldError>) -> Self {
        Refusal::Invalid(errors)
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Refusal::Invalid(alloc::vec![error])
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Refusal::Denied(denial)
    }
}

impl From<&str> for Refusal {
    /// A refusal as forbidden.
    fn from(message: &str) -> Self {
        Refusal::Denied(Denial::new(message))
    }
}
