//! The conformance guest of the Rust SDK: it does what package abitest says.

mod lookups;
#[cfg(test)]
mod native;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use weir::json::{ObjectBuilder, ToJson};
use weir::{Context, Denial, FieldError, Json, Level, Object, Refusal, View};

#[derive(Default)]
struct Guest {
    greeting: String,
}

fn case(obj: &View) -> String {
    obj.text("spec.case").unwrap_or_default().into_owned()
}

weir::typed! {
    struct Settings {
        greeting: String = "greeting",
        _pitch: i64 = "tone.pitch",
    }
}

impl weir::Configure for Guest {
    type Settings = Settings;

    fn configure(_: &Context, settings: Settings) -> Result<Self, Vec<FieldError>> {
        if settings.greeting.is_empty() {
            return Err(vec![FieldError::required("greeting", "")]);
        }
        Ok(Guest { greeting: settings.greeting })
    }
}

impl weir::Default for Guest {
    fn default(&self, _: &Context, obj: &mut Object) {
        match case(obj).as_str() {
            "set" => obj.set("spec.added.deep", "x/~\"€"),
            "set by an odd name" => obj.set("metadata.labels['a.b/c~d']", "1"),
            "set twice" => {
                obj.set("spec.made.a", 1);
                obj.set("spec.made.b", 2);
            }
            "set in an element" => obj.set("spec.list[1].name", "changed"),
            "replace" => {
                obj.set("spec.n", 9007199254740995_i64);
                obj.set("spec.yes", false);
            }
            "copy" => obj.set("spec.copy", obj.get("spec.list")),
            "delete" => {
                obj.delete("spec.small");
                obj.delete("spec.nothing");
            }
            "delete and set" => {
                obj.delete("spec.map");
                obj.set("spec.map.new", true);
            }
            _ => {}
        }
    }
}

impl weir::PrepareForCreate for Guest {
    fn prepare_for_create(&self, _: &Context, obj: &mut Object) {
        if case(obj) == "mutate" {
            obj.set("spec.mutated", true);
        }
    }
}

static COUNTED: AtomicUsize = AtomicUsize::new(0);

impl weir::ValidateCreate for Guest {
    fn validate_create(&self, ctx: &Context, obj: &View) -> Vec<FieldError> {
        match case(obj).as_str() {
            "errors" => {
                return vec![
                    FieldError::invalid("spec.case", obj.get("spec.case"), "asked for"),
                    FieldError::required("spec.other", ""),
                ]
            }
            "denied" => ctx.refuse(Denial { code: 409, reason: "Conflict".into(), message: "asked for".into() }),
            "warnings" => {
                ctx.warn("one");
                ctx.warn("zwei €");
            }
            "audit" => ctx.annotate("key", "value"),
            "settings" => ctx.warn(self.greeting.as_str()),
            "large" => ctx.warn(obj.text("spec.filler").unwrap_or_default().len().to_string()),
            "count" => ctx.warn(COUNTED.fetch_add(1, Relaxed).to_string()),
            "fail" => ctx.fail("asked for"),
            "trap" => panic!("asked for"),
            _ => {}
        }
        Vec::new()
    }
}

impl weir::PrepareForUpdate for Guest {
    fn prepare_for_update(&self, _: &Context, obj: &mut Object, old: &View) {
        if case(obj) == "restore" {
            obj.set("status", old.get("spec"));
        }
    }
}

impl weir::ValidateUpdate for Guest {
    fn validate_update(&self, ctx: &Context, obj: &View, old: &View) -> Vec<FieldError> {
        match case(obj).as_str() {
            "meta" => {
                for path in ["uid", "operation", "time", "name", "user.username"] {
                    ctx.warn(ctx.request().text(path).unwrap_or_default());
                }
            }
            "old" => ctx.warn(case(old)),
            _ => {}
        }
        Vec::new()
    }
}

impl weir::ValidateDelete for Guest {
    fn validate_delete(&self, _: &Context, obj: &View) -> Vec<FieldError> {
        if case(obj) == "deletion" {
            return vec![FieldError::forbidden("metadata.name", "asked for")];
        }
        Vec::new()
    }
}

impl weir::Canonicalize for Guest {
    fn canonicalize(&self, _: &Context, obj: &mut Object) {
        if case(obj) == "canonical" {
            obj.delete("spec.filler");
        }
    }
}

impl weir::StatusPrepare for Guest {
    fn status_prepare(&self, _: &Context, obj: &mut Object, old: &View) {
        if case(obj) == "restore" {
            obj.set("spec.case", case(old));
        }
    }
}

#[inline(never)]
#[allow(unconditional_recursion)]
fn recurse(n: usize) -> usize {
    let deeper = recurse(n + 1);
    REMEMBERED.fetch_add(deeper, Relaxed); // so that it is no loop
    deeper
}

static REMEMBERED: AtomicUsize = AtomicUsize::new(0);
static ON_HEAP: AtomicUsize = AtomicUsize::new(0);
static GROWN: AtomicUsize = AtomicUsize::new(0);

impl weir::StatusValidate for Guest {
    fn status_validate(&self, ctx: &Context, obj: &View, _: &View) -> Vec<FieldError> {
        match case(obj).as_str() {
            "loop" => loop {
                REMEMBERED.fetch_add(1, Relaxed);
            },
            "recurse" => ctx.warn(recurse(1).to_string()),
            "grow" => {
                let mut all = Vec::new();
                loop {
                    all.push(Vec::<u8>::with_capacity(1 << 20));
                    all.last_mut().unwrap().push(1);
                }
            }
            "flood" => {
                for _ in 0..10_000 {
                    ctx.warn("the water rises, and rises");
                }
            }
            "no path" => {
                obj.get("spec[");
            }
            "log" => {
                for _ in 0..10_000 {
                    ctx.log(Level::Info, "twenty bytes of log.");
                }
            }
            "remember" => {
                for counter in [&REMEMBERED, &ON_HEAP, &GROWN] {
                    ctx.warn(counter.fetch_add(1, Relaxed).to_string());
                }
                ctx.annotate("grown", "x".repeat(200_000).len().to_string());
            }
            _ => {}
        }
        Vec::new()
    }
}

impl weir::WarningsOnCreate for Guest {
    fn warnings_on_create(&self, ctx: &Context, obj: &View) -> Vec<String> {
        let text = |path| obj.text(path).unwrap_or_default().into_owned();
        match case(obj).as_str() {
            "path" => vec![text("spec.list[1].name"), text("metadata.annotations['example.com/key.with.dots']")],
            "wildcard" => obj.texts("spec.list[*].name").into_iter().map(|s| s.into_owned()).collect(),
            "absence" => ["spec.nothing", "spec.none", "spec.text"].iter().map(|p| obj.has(p).to_string()).collect(),
            "integers" => ["spec.n", "spec.small"].iter().map(|p| obj.int(p).unwrap_or_default().to_string()).collect(),
            "booleans" => ["spec.yes", "spec.nothing"].iter().map(|p| obj.is_true(p).to_string()).collect(),
            "escapes" => vec![text("spec.text")],
            "members" => {
                let map = obj.get("spec.map");
                let members = map.iter().flat_map(|m| m.members());
                members.map(|(name, value)| format!("{}={}", name, value.text().unwrap_or_default())).collect()
            }
            "elements" => {
                let list: Vec<Json> = obj.get("spec.list").iter().flat_map(|l| l.elements()).collect();
                let names = list.iter().filter_map(|e| e.member("name")?.text().map(String::from));
                names.chain([list.len().to_string()]).collect()
            }
            "equality" => vec![
                (obj.get("spec.list[0]") == obj.get("spec.list[1]")).to_string(),
                (obj.get("spec.map") == obj.get("spec.map")).to_string(),
            ],
            "many" => vec![obj.texts("spec.list[*].name").len().to_string()],
            asked => lookups::lookups(ctx, asked),
        }
    }
}

impl weir::WarningsOnUpdate for Guest {
    fn warnings_on_update(&self, _: &Context, obj: &View, old: &View) -> Vec<String> {
        match case(obj).as_str() {
            "both" => vec![case(obj), case(old)],
            _ => Vec::new(),
        }
    }
}

impl weir::Convert for Guest {
    fn convert(&self, _: &Context, object: Json, to: &str) -> Result<String, Refusal> {
        let mut out = String::new();
        let mut o = ObjectBuilder::new(&mut out);
        for (name, value) in object.members() {
            o = if name == "apiVersion" { o.member(&name, to) } else { o.member(&name, value) };
        }
        o.end();
        Ok(out)
    }
}

impl weir::Connect for Guest {
    fn connect(&self, ctx: &Context, parent: &View) -> Result<String, Refusal> {
        let mut out = String::new();
        let o = ObjectBuilder::new(&mut out).member("name", parent.get("metadata.name"));
        o.member("said", ctx.options().get("say")).end();
        Ok(out)
    }
}

impl weir::AdmitMutate for Guest {
    fn admit_mutate(&self, ctx: &Context, obj: Option<&mut Object>, old: Option<&View>) -> Result<(), Refusal> {
        let obj = match obj {
            Some(obj) => obj,
            None => {
                ctx.warn("false");
                return Ok(());
            }
        };
        match case(obj).as_str() {
            "no params" => {
                ctx.warn(ctx.params().has("").to_string());
                ctx.warn(old.is_some().to_string());
            }
            "params" => obj.set("spec.n", ctx.params().int("spec.most")),
            _ => {}
        }
        Ok(())
    }
}

impl weir::AdmitValidate for Guest {
    fn admit_validate(&self, ctx: &Context, obj: Option<&View>, old: Option<&View>) -> Result<(), Refusal> {
        let obj = match obj {
            Some(obj) => obj,
            None => {
                let value = old.and_then(|o| o.get("spec.case")).map(|v| v.to_json());
                return Err(FieldError::new("FieldValueInvalid", "spec.case", value, "").into());
            }
        };
        match case(obj).as_str() {
            "namespace" => {
                let name = ctx.namespace().text("metadata.name").unwrap_or_default();
                Err(name.as_ref().into())
            }
            "options" => {
                ctx.warn(ctx.options().text("fieldManager").unwrap_or_default());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

weir::module! {
    strategy: Guest,
    hooks: [
        Configure, Default, PrepareForCreate, ValidateCreate, PrepareForUpdate, ValidateUpdate, ValidateDelete,
        Canonicalize, StatusPrepare, StatusValidate, WarningsOnCreate, WarningsOnUpdate, Convert, Connect,
        AdmitMutate, AdmitValidate,
    ],
    name: "conformance-rust", version: "1.0.0",
    capabilities: &["lookup:configmaps", "authorize"],
}
