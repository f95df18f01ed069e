//! A policy for Deployments: they have certain labels, which do not change, and
//! not too many replicas.

use weir::{Context, FieldError, Object, View};

struct Guard {
    labels: Vec<String>,
    max_replicas: i64,
}

impl Default for Guard {
    fn default() -> Self {
        Guard { labels: vec!["team".into()], max_replicas: 10 }
    }
}

weir::typed! {
    /// The settings that there are; others are refused.
    struct Settings {
        labels: Option<Vec<String>> = "labels",
        max_replicas: Option<i64> = "maxReplicas",
    }
}

impl weir::Configure for Guard {
    type Settings = Settings;

    fn configure(_: &Context, settings: Settings) -> Result<Self, Vec<FieldError>> {
        let default = Guard::default();
        let this = Guard {
            labels: settings.labels.unwrap_or(default.labels),
            max_replicas: settings.max_replicas.unwrap_or(default.max_replicas),
        };
        if this.max_replicas < 1 {
            return Err(vec![FieldError::invalid("maxReplicas", this.max_replicas, "must be at least 1")]);
        }
        Ok(this)
    }
}

impl weir::Default for Guard {
    fn default(&self, _: &Context, deployment: &mut Object) {
        if !deployment.has("spec.revisionHistoryLimit") {
            deployment.set("spec.revisionHistoryLimit", 3);
        }
    }
}

impl weir::ValidateCreate for Guard {
    fn validate_create(&self, _: &Context, deployment: &View) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let labels = deployment.get("metadata.labels");
        for label in &self.labels {
            let value = labels.and_then(|l| l.member(label)?.text()).unwrap_or_default();
            if value.is_empty() {
                errors.push(FieldError::required(format!("metadata.labels[{}]", label), "every Deployment has one"));
            }
        }
        let replicas = deployment.int("spec.replicas").unwrap_or(1);
        if replicas > self.max_replicas {
            errors.push(FieldError::invalid("spec.replicas", replicas, format!("must be at most {}", self.max_replicas)));
        }
        errors
    }
}

impl weir::ValidateUpdate for Guard {
    fn validate_update(&self, ctx: &Context, deployment: &View, old: &View) -> Vec<FieldError> {
        let mut errors = weir::ValidateCreate::validate_create(self, ctx, deployment);
        let (labels, before) = (deployment.get("metadata.labels"), old.get("metadata.labels"));
        for label in &self.labels {
            let had = before.and_then(|l| l.member(label));
            if had.is_some() && had != labels.and_then(|l| l.member(label)) {
                errors.push(FieldError::forbidden(format!("metadata.labels[{}]", label), "does not change once it is set"));
            }
        }
        errors
    }
}

impl weir::WarningsOnCreate for Guard {
    fn warnings_on_create(&self, _: &Context, deployment: &View) -> Vec<String> {
        let images = deployment.texts("spec.template.spec.containers[*].image");
        let moving = images.iter().enumerate().filter(|(_, image)| image.ends_with(":latest"));
        moving
            .map(|(i, _)| format!("spec.template.spec.containers[{}].image: latest is another image tomorrow", i))
            .collect()
    }
}

weir::module! {
    strategy: Guard,
    hooks: [Configure, Default, ValidateCreate, ValidateUpdate, WarningsOnCreate],
    name: "guard", version: "1.0.0",
    group: "apps", resource: "deployments", kind: "Deployment",
}

#[cfg(test)]
mod tests {
    use super::weir_hooks;
    use weir::testing::{run, Call};
    use weir::Op;

    #[test]
    fn too_many_replicas() {
        let object = r#"{"metadata":{"labels":{"team":"river"}},"spec":{"replicas":3}}"#;
        let call = Call { object, settings: r#"{"maxReplicas":2}"#, ..Call::default() };
        let outcome = run(weir_hooks(), Op::ValidateCreate, call);
        assert!(outcome.result.contains("must be at most 2"), "{}", outcome.result);
        let call = Call { object, ..Call::default() };
        assert_eq!(run(weir_hooks(), Op::ValidateCreate, call).result, "");
    }

    #[test]
    fn a_short_history() {
        let outcome = run(weir_hooks(), Op::Default, Call { object: r#"{"spec":{}}"#, ..Call::default() });
        assert_eq!(outcome.patch, r#"[{"op":"add","path":"/spec/revisionHistoryLimit","value":3}]"#);
    }
}
