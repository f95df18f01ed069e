//! What the conformance guest looks up and asks.

use weir::{Access, Context, Json, Lookup};

const MAPS: Lookup = Lookup {
    group: "",
    resource: "configmaps",
    namespace: "shop",
    name: "",
    label_selector: "",
    field_selector: "",
    fields: &[],
    limit: 0,
};
const LIMITS: Access = Access {
    verb: "get",
    group: "",
    resource: "configmaps",
    subresource: "",
    namespace: "shop",
    name: "limits",
    path: "",
    service_account: None,
};

fn text(item: Json, path: &str) -> String {
    item.at(path).and_then(Json::text).unwrap_or_default().into_owned()
}

/// Why a look-up is refused.
fn refusal(ctx: &Context, what: Lookup) -> Vec<String> {
    match ctx.try_lookup(&what) {
        Ok(_) => Vec::new(),
        Err(errno) => vec![errno.0.to_string()],
    }
}

/// What is asked for.
pub fn lookups(ctx: &Context, asked: &str) -> Vec<String> {
    let most = Lookup { fields: &["data.most"], ..MAPS };
    let name = |item| text(item, "metadata.name");
    match asked {
        "lookup one" => match ctx.lookup(&Lookup { name: "limits", ..most }).first() {
            Some(item) => vec![
                text(item, "data.most"),
                text(item, "metadata.resourceVersion"),
                item.at("data.filler").is_some().to_string(),
            ],
            None => Vec::new(),
        },
        "lookup absent" => vec![ctx.lookup(&Lookup { name: "nothing", ..MAPS }).first().is_some().to_string()],
        "lookup list" => {
            let found = ctx.lookup(&Lookup { label_selector: "tier=gold", ..most });
            let items = found.items().map(|item| format!("{}={}", name(item), text(item, "data.most")));
            items.chain([found.more().to_string()]).collect()
        }
        "lookup limit" => {
            let found = ctx.lookup(&Lookup { limit: 2, ..MAPS });
            found.items().map(name).chain([found.more().to_string()]).collect()
        }
        "lookup everywhere" => {
            let found = ctx.lookup(&Lookup { namespace: "", fields: &["metadata.labels"], ..MAPS });
            found.items().map(|item| format!("{}/{}", text(item, "metadata.namespace"), name(item))).collect()
        }
        "lookup field selector" => {
            let found = ctx.lookup(&Lookup { namespace: "", field_selector: "metadata.name=quota", ..MAPS });
            found.items().map(|item| text(item, "data.most")).collect()
        }
        "lookup large" => {
            let found = ctx.lookup(&Lookup { namespace: "store", name: "large", ..MAPS });
            found.items().map(|item| text(item, "data.filler").len().to_string()).collect()
        }
        "lookup many" => {
            for n in 0.. {
                if let Err(errno) = ctx.try_lookup(&Lookup { name: &format!("c{}", n), ..MAPS }) {
                    return vec![n.to_string(), errno.0.to_string()];
                }
            }
            Vec::new()
        }
        "lookup ungranted" => refusal(ctx, Lookup { resource: "secrets", name: "key", ..MAPS }),
        "lookup bad selector" => refusal(ctx, Lookup { label_selector: "tier in (", ..MAPS }),
        "lookup bad field" => refusal(ctx, Lookup { name: "limits", fields: &["data[*]"], ..MAPS }),
        "lookup away" => refusal(ctx, Lookup { namespace: "away", name: "limits", ..MAPS }),
        "authorize" => {
            vec![ctx.authorize(&LIMITS).to_string(), ctx.authorize(&Access { verb: "delete", ..LIMITS }).to_string()]
        }
        "authorize account" => {
            let scale = Access { verb: "delete", group: "apps", resource: "deployments", subresource: "scale", name: "", ..LIMITS };
            let robot = Access { service_account: Some(("shop", "robot")), ..scale };
            vec![ctx.authorize(&robot).to_string(), ctx.authorize(&scale).to_string()]
        }
        "authorize path" => {
            let may = |path| ctx.authorize(&Access { verb: "get", path, ..Access::default() }).to_string();
            vec![may("/healthz"), may("/metrics")]
        }
        "authorize nothing" => match ctx.try_authorize(&Access { verb: "get", ..Access::default() }) {
            Ok(_) => Vec::new(),
            Err(errno) => vec![errno.0.to_string()],
        },
        "authorize many" => {
            for n in 0.. {
                if let Err(errno) = ctx.try_authorize(&LIMITS) {
                    return vec![n.to_string(), errno.0.to_string()];
                }
            }
            Vec::new()
        }
        _ => Vec::new(),
    }
}
