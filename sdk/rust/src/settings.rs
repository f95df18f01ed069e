//! The settings of a module, held to what it knows.

use crate::context::Context;
use crate::error::FieldError;
use crate::json::{Json, ToJson};
use crate::object::{parse, Step};
use crate::typed::Typed;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What [`crate::Configure`] makes a strategy of: a type of [`crate::typed!`], or
/// `()` for a module without settings. A member of the settings that is none of
/// the type's is refused, with those that there are, and so is a value of another
/// type: a misspelt setting is not ignored.
///
/// ```
/// use weir::{Context, FieldError};
///
/// weir::typed! {
///     pub struct Settings {
///         pub labels: Vec<String> = "labels",
///         pub most: Option<i64> = "maxReplicas",
///     }
/// }
///
/// #[derive(Default)]
/// struct Guard(Settings);
///
/// impl weir::Configure for Guard {
///     type Settings = Settings;
///
///     fn configure(_: &Context, settings: Settings) -> Result<Self, Vec<FieldError>> {
///         Ok(Guard(settings))
///     }
/// }
/// # weir::module! { strategy: Guard, hooks: [Configure], name: "guard", version: "1.0.0" }
/// # fn main() {
/// # use weir::testing::{run, Call};
/// # let outcome = run(weir_hooks(), weir::Op::Configure, Call { settings: r#"{"maxReplica":5}"#, ..Call::default() });
/// # assert_eq!(outcome.result, r#"{"errors":[{"type":"FieldValueForbidden","field":"maxReplica","detail":"unknown setting, did you mean \"maxReplicas\"? there are \"labels\", \"maxReplicas\""}]}"#);
/// # }
/// ```
pub trait Settings: Sized {
    /// Reads the settings of the module; errors refuse them.
    fn from_settings(ctx: &Context) -> Result<Self, Vec<FieldError>>;
}

impl<T: Typed> Settings for T {
    fn from_settings(ctx: &Context) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        if let Some(whole) = ctx.settings().get("") {
            Known::of(T::PATHS).check(whole, &mut errors);
        }
        read(ctx, errors)
    }
}

/// Settings of which those that are unknown are passed over, for a module that
/// shares them with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lenient<T>(pub T);

impl<T: Typed> Settings for Lenient<T> {
    fn from_settings(ctx: &Context) -> Result<Self, Vec<FieldError>> {
        read(ctx, Vec::new()).map(Lenient)
    }
}

fn read<T: Typed>(ctx: &Context, mut errors: Vec<FieldError>) -> Result<T, Vec<FieldError>> {
    let settings = ctx.settings();
    let mut this = T::default();
    this.read_from(&|path| settings.get(path).map(|v| v.raw().into()), &mut |path, kind| {
        errors.push(FieldError::type_invalid(path, settings.get(path), format!("must be {}", kind)));
    });
    if errors.is_empty() {
        Ok(this)
    } else {
        Err(errors)
    }
}

/// The members that there are, as the names that lead to each. Below the last of
/// them there may be anything.
struct Known(Vec<Vec<String>>);

impl Known {
    fn of(paths: &[&str]) -> Self {
        let names = |path: &&str| {
            let plain = path.split("[*]").next().unwrap_or_default();
            let steps = parse(plain).unwrap_or_default().into_iter();
            let members = steps.map_while(|step| match step {
                Step::Member(name) => Some(name),
                Step::Element(_) => None,
            });
            members.collect()
        };
        Known(paths.iter().map(names).collect())
    }

    fn check(&self, settings: Json, errors: &mut Vec<FieldError>) {
        if settings.is_null() || self.0.iter().any(|k| k.is_empty()) {
            return;
        }
        if !settings.raw().starts_with('{') {
            return errors.push(FieldError::type_invalid("settings", settings, "must be an object"));
        }
        self.members(settings, &mut Vec::new(), "", errors);
    }

    /// Checks the members of the object that parents lead to.
    fn members<'a>(&self, object: Json<'a>, parents: &mut Vec<Cow<'a, str>>, at: &str, errors: &mut Vec<FieldError>) {
        let depth = parents.len();
        let beside = |k: &&Vec<String>| k.len() > depth && k.iter().zip(parents.iter()).all(|(a, b)| *a == **b);
        let known: Vec<&Vec<String>> = self.0.iter().filter(beside).collect();
        for (name, value) in object.members() {
            let field = if at.is_empty() { String::from(&*name) } else { format!("{}.{}", at, name) };
            let found: Vec<_> = known.iter().filter(|k| *k[depth] == *name).collect();
            if found.is_empty() {
                let mut names: Vec<&str> = vec![];
                for k in &known {
                    if !names.contains(&&*k[depth]) {
                        names.push(&k[depth]);
                    }
                }
                errors.push(FieldError::forbidden(field, unknown(&name, &names)));
            } else if value.is_null() || found.iter().any(|k| k.len() == depth + 1) {
                continue;
            } else if value.raw().starts_with('{') {
                parents.push(name);
                self.members(value, parents, &field, errors);
                parents.pop();
            } else {
                errors.push(FieldError::type_invalid(field, value, "must be an object"));
            }
        }
    }
}

/// Says that there is no setting of a name, and which there are.
fn unknown(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "unknown setting; there are none".into();
    }
    let mut out = String::from("unknown setting");
    match nearest(name, known) {
        Some(near) => {
            out.push_str(", did you mean ");
            near.append_json(&mut out);
            out.push('?');
        }
        None => out.push(';'),
    }
    out.push_str(" there are ");
    for (i, k) in known.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        k.append_json(&mut out);
    }
    out
}

/// What a name may be meant to be: what a change of a third of its letters leads
/// to, capital or not.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    const LONGEST: usize = 100; // of names that anybody would type
    let mut found = None;
    let mut least = LONGEST;
    for k in known {
        let longer = name.len().max(k.len());
        if longer > LONGEST {
            continue;
        }
        let n = distance(name.as_bytes(), k.as_bytes());
        if n < least && n <= (longer + 1) / 3 {
            found = Some(*k);
            least = n;
        }
    }
    found
}

/// How many bytes have to be added, removed or replaced to make b of a, whatever
/// letters are capitals.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0]; // of the row above, one to the left
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + !x.eq_ignore_ascii_case(y) as usize;
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
