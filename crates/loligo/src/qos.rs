//! `loligo qos`: what tenants are promised, by the monitor's commands `qos ...`.

use crate::cli::{Format, QosVerb};
use crate::reach::Reach;
use serde_json::json;

/// Runs the verb.
pub(crate) fn run(verb: &QosVerb) -> anyhow::Result<()> {
    let (at, command) = match verb {
        QosVerb::Set { at, tenant, reservation, reservation_bytes, weight, limit, limit_bytes } => {
            let mut command = json!({ "prefix": "qos set", "tenant": tenant });
            let figures = [
                ("reservation", reservation),
                ("reservation_bytes", reservation_bytes),
                ("weight", weight),
                ("limit", limit),
                ("limit_bytes", limit_bytes),
            ];
            for (name, value) in figures {
                if let Some(value) = value {
                    command[name] = json!(value);
                }
            }
            (at, command)
        }
        QosVerb::Rm { at, tenant } => (at, json!({ "prefix": "qos rm", "tenant": tenant })),
        QosVerb::Ls { at, format } => (at, json!({ "prefix": "qos ls", "format": name(*format) })),
        QosVerb::Show { at, tenant, format } => {
            (at, json!({ "prefix": "qos show", "tenant": tenant, "format": name(*format) }))
        }
    };
    let output = Reach::new(at.dir.as_deref())?.ask(&command)?;
    let text = String::from_utf8_lossy(&output);
    let text = text.trim_end();
    if !text.is_empty() {
        say!("{text}");
    }
    Ok(())
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Plain => "plain",
        Format::Json => "json",
    }
}
