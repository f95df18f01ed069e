//! The conformance guest on this machine, by the stand-ins of weir::testing.

use super::weir_hooks;
use weir::testing::{run, Call, Outcome};
use weir::{Json, Op};

const SETTINGS: &str = r#"{"greeting":"hello"}"#;

fn asked(op: Op, case: &str, call: Call) -> Outcome {
    let object = format!(r#"{{"metadata":{{"labels":{{}}}},"spec":{{"case":"{}","small":1}}}}"#, case);
    let object = if call.object.is_empty() { object.as_str() } else { call.object };
    run(weir_hooks(), op, Call { object, settings: SETTINGS, ..call })
}

fn maps(request: Json) -> Vec<String> {
    let named = |name| format!(r#"{{"data":{{"most":"7"}},"metadata":{{"name":"{}","resourceVersion":"12"}}}}"#, name);
    match request.at("name").and_then(Json::text).as_deref() {
        Some("nothing") => Vec::new(),
        Some(name) => vec![named(name)],
        None => ["limits", "other", "quota"].into_iter().map(named).collect(),
    }
}

fn gets(request: Json) -> bool {
    request.at("verb").and_then(Json::text).as_deref() == Some("get")
}

#[test]
fn changes() {
    for (case, patch) in [
        ("set", r#"[{"op":"add","path":"/spec/added","value":{"deep":"x/~\"€"}}]"#),
        ("set by an odd name", r#"[{"op":"add","path":"/metadata/labels/a.b~1c~0d","value":"1"}]"#),
        ("set twice", r#"[{"op":"add","path":"/spec/made","value":{"a":1}},{"op":"add","path":"/spec/made/b","value":2}]"#),
        ("delete", r#"[{"op":"remove","path":"/spec/small"}]"#),
        ("nothing", ""),
    ] {
        assert_eq!(asked(Op::Default, case, Call::default()).patch, patch, "{}", case);
    }
}

#[test]
fn verdicts() {
    let denied = asked(Op::ValidateCreate, "denied", Call::default());
    assert_eq!(denied.result, r#"{"denied":{"code":409,"reason":"Conflict","message":"asked for"}}"#);
    assert_eq!(asked(Op::ValidateCreate, "nothing", Call::default()).result, "");
    assert_eq!(asked(Op::ValidateCreate, "settings", Call::default()).result, r#"{"warnings":["hello"]}"#);
    let refused = run(weir_hooks(), Op::Configure, Call { settings: r#"{"greeting":""}"#, ..Call::default() });
    assert!(refused.result.contains("FieldValueRequired"), "{}", refused.result);
    let failed = asked(Op::StatusValidate, "no path", Call::default());
    assert_eq!((failed.status, failed.result.as_str()), (2, r#"{"failure":"query object spec[: invalid argument"}"#));
}

#[test]
fn answers() {
    let call = Call { object: r#"[{"apiVersion":"a/v1","kind":"B"}]"#, target_version: "a/v2", ..Call::default() };
    assert_eq!(asked(Op::Convert, "", call).object, r#"[{"apiVersion":"a/v2","kind":"B"}]"#);
    let call = Call { object: r#"{"metadata":{"name":"a"}}"#, options: r#"{"say":1}"#, ..Call::default() };
    assert_eq!(asked(Op::Connect, "", call).object, r#"{"name":"a","said":1}"#);
}

#[test]
fn lookups() {
    let call = Call { lookup: Some(maps), authorize: Some(gets), ..Call::default() };
    for (case, result) in [
        ("lookup one", r#"{"warnings":["7","12","false"]}"#),
        ("lookup absent", r#"{"warnings":["false"]}"#),
        ("lookup limit", r#"{"warnings":["limits","other","true"]}"#),
        ("authorize", r#"{"warnings":["true","false"]}"#),
    ] {
        assert_eq!(asked(Op::WarningsOnCreate, case, call).result, result, "{}", case);
    }
    let ungranted = asked(Op::WarningsOnCreate, "lookup one", Call::default());
    assert_eq!(ungranted.result, r#"{"failure":"lookup configmaps: capability not granted"}"#);
    let ungranted = asked(Op::WarningsOnCreate, "authorize", Call::default());
    assert_eq!(ungranted.result, r#"{"failure":"authorize: capability not granted"}"#);
}
