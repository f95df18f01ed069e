// A policy for Deployments: they have certain labels, which do not change, and
// not too many replicas.

import { Context, FieldError, Json, Module, View, forbidden, invalid, required } from "weir-sdk/assembly";

export { weir_abi_v1, weir_describe, weir_invoke } from "weir-sdk/assembly";

// What configure leaves here, every later call starts from.
let labels: string[] = ["team"];
let maxReplicas: i64 = 10;

function label(deployment: View, name: string): Json | null {
  const labels = deployment.get("metadata.labels");
  return labels ? labels.member(name) : null;
}

function validateCreate(ctx: Context, deployment: View): FieldError[] {
  const errors: FieldError[] = [];
  for (let i = 0; i < labels.length; i++) {
    const value = label(deployment, labels[i]);
    if (!value || value.is("")) errors.push(required(`metadata.labels[${labels[i]}]`, "every Deployment has one"));
  }
  const replicas = deployment.int("spec.replicas", 1);
  if (replicas > maxReplicas) errors.push(invalid("spec.replicas", Json.int(replicas), `must be at most ${maxReplicas}`));
  return errors;
}

new Module("guard", "1.0.0")
  .writtenFor("apps", "deployments", "Deployment")
  .configure((ctx, settings) => {
    // Settings that are not asked for here are refused.
    labels = settings.texts("labels", labels);
    maxReplicas = settings.int("maxReplicas", maxReplicas);
    const errors: FieldError[] = [];
    if (maxReplicas < 1) errors.push(invalid("maxReplicas", Json.int(maxReplicas), "must be at least 1"));
    return errors;
  })
  .default((ctx, deployment) => {
    if (!deployment.has("spec.revisionHistoryLimit")) deployment.setInt("spec.revisionHistoryLimit", 3);
  })
  .validateCreate(validateCreate)
  .validateUpdate((ctx, deployment, old) => {
    const errors = validateCreate(ctx, deployment);
    for (let i = 0; i < labels.length; i++) {
      const before = label(old, labels[i]), now = label(deployment, labels[i]);
      if (before && (!now || !before.equals(now))) {
        errors.push(forbidden(`metadata.labels[${labels[i]}]`, "does not change once it is set"));
      }
    }
    return errors;
  })
  .warningsOnCreate((ctx, deployment) => {
    const warnings: string[] = [];
    const images = deployment.texts("spec.template.spec.containers[*].image");
    for (let i = 0; i < images.length; i++) {
      if (images[i].endsWith(":latest")) {
        warnings.push(`spec.template.spec.containers[${i}].image: latest is another image tomorrow`);
      }
    }
    return warnings;
  });
