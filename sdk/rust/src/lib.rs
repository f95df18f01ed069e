//! The Rust SDK for guests of a Weir server: strategies and admission policies
//! that run as WebAssembly modules. It needs no other crate.
//!
//! ```
//! use weir::{Context, FieldError, View};
//!
//! #[derive(Default)]
//! struct Quotes;
//!
//! impl weir::ValidateCreate for Quotes {
//!     fn validate_create(&self, _: &Context, quote: &View) -> Vec<FieldError> {
//!         if quote.text("spec.text").unwrap_or_default().is_empty() {
//!             return vec![FieldError::required("spec.text", "a quote says something")];
//!         }
//!         Vec::new()
//!     }
//! }
//!
//! weir::module! {
//!     strategy: Quotes,
//!     hooks: [ValidateCreate],
//!     name: "quotes", version: "1.0.0",
//!     group: "example.com", resource: "quotes", kind: "Quote",
//! }
//! # fn main() {}
//! ```
//!
//! A module is a crate of the types `cdylib` and `rlib` that is built with
//! `weir module build`, or by hand with
//! `cargo build --release --target wasm32-unknown-unknown`. With the feature
//! `no_std` of this crate it can do without `std`, from Rust 1.68 on.
//!
//! # Hooks
//!
//! Each hook is a trait that the strategy implements: [`Default`] (of this
//! crate), [`PrepareForCreate`], [`ValidateCreate`], [`PrepareForUpdate`],
//! [`ValidateUpdate`], [`ValidateDelete`], [`Canonicalize`],
//! [`StatusPrepare`], [`StatusValidate`], [`WarningsOnCreate`],
//! [`WarningsOnUpdate`], [`Convert`], [`Connect`], [`AdmitMutate`],
//! [`AdmitValidate`], and [`Configure`], which makes the strategy from the
//! settings of the module. [`module!`] lists those that the server calls.
//!
//! # Objects
//!
//! A [`View`] is read by path, `spec.containers[0].image` or
//! `metadata.labels['app.kubernetes.io/name']`; with `[*]` the answer is the
//! array of all matches. A hook that may change the object gets an [`Object`],
//! which can be changed by path, too. What is read stays the object as it
//! came: changes take effect when the hook has returned. A path that does not
//! parse makes the hook fail.
//!
//! [`typed!`] makes a type of an author's of the paths that a hook needs, which
//! is read from an object, from settings or from what was looked up, and is
//! written back.
//!
//! # Other objects
//!
//! [`Context::lookup`] reads objects of the server's cache, and
//! [`Context::authorize`] asks its authorizer. A module says in
//! [`Info::capabilities`] which it needs, `capabilities: &["lookup:configmaps"]`,
//! and the Module object on the server grants them.
//!
//! # Memory
//!
//! Nothing is freed, for the host puts the module's memory back after each
//! call. What [`Configure`] returns is what every call starts from; whatever
//! another hook leaves in memory, no later call sees.
//!
//! # Tests
//!
//! Hooks run under `cargo test`, as the server would run them: see
//! [`testing`].

#![cfg_attr(feature = "no_std", no_std)]
#![warn(missing_docs)]

extern crate alloc;

mod context;
mod error;
mod hooks;
pub mod json;
mod lookup;
mod module;
mod object;
mod settings;
#[doc(hidden)]
pub mod sys;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod typed;

pub use context::{Context, Level};
pub use error::{Denial, FieldError, Refusal};
pub use hooks::*;
pub use json::{Json, ToJson};
pub use lookup::{Access, Errno, Found, Lookup};
#[doc(hidden)]
pub use module::private;
pub use module::{Hooks, Info, Op, SDK};
pub use object::{Object, View};
pub use settings::{Lenient, Settings};
pub use typed::{FromJson, Typed};
