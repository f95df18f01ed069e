//! Asks for five fields of an object in one hook, and walks all of it in another.

use weir::{Context, FieldError, Json, View};

#[derive(Default)]
struct Five;

impl weir::ValidateCreate for Five {
    fn validate_create(&self, _: &Context, object: &View) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for path in ["metadata.name", "metadata.labels.app", "spec.strategy.type", "spec.template.spec.containers[0].image"] {
            if object.text(path).unwrap_or_default().is_empty() {
                errors.push(FieldError::required(path, "a text"));
            }
        }
        if object.int("spec.replicas").unwrap_or(1) > 100 {
            errors.push(FieldError::required("spec.replicas", "fewer"));
        }
        errors
    }
}

fn walk(v: Json) -> usize {
    1 + v.elements().map(walk).sum::<usize>() + v.members().map(|(_, v)| walk(v)).sum::<usize>()
}

impl weir::WarningsOnCreate for Five {
    fn warnings_on_create(&self, _: &Context, object: &View) -> Vec<String> {
        match object.get("").map(walk) {
            Some(n) if n > 1 => Vec::new(),
            _ => vec!["nothing there".into()],
        }
    }
}

weir::module! {
    strategy: Five,
    hooks: [ValidateCreate, WarningsOnCreate],
    name: "five", version: "1.0.0",
}
