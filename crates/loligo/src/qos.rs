//! `loligo qos`: what tenants are promised, by the monitor's commands `qos ...`.
//!
//! The monitor names images by their ids. Here people may name them, and read their names beside the ids.

use crate::cli::{Format, QosVerb};
use crate::images::Images;
use crate::reach::Reach;
use anyhow::Context;
use serde_json::{Value, json};

/// Runs the verb.
pub(crate) fn run(verb: &QosVerb) -> anyhow::Result<()> {
    let (QosVerb::Set { at, .. } | QosVerb::Rm { at, .. } | QosVerb::Ls { at, .. } | QosVerb::Show { at, .. }) = verb;
    let reach = Reach::new(at.dir.as_deref())?;
    let images = Images::new(&reach)?;
    let text = match verb {
        QosVerb::Set { tenant, reservation, reservation_bytes, weight, limit, limit_bytes, .. } => {
            let existing = images.existing(tenant)?;
            let mut command = json!({ "prefix": "qos set", "tenant": existing.tenant });
            if let Some(pool) = existing.data_pool {
                command["data_pool"] = json!(pool);
            }
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
            ask(&reach, &command)?
        }
        QosVerb::Rm { tenant, .. } => ask(&reach, &json!({ "prefix": "qos rm", "tenant": images.by_id(tenant)? }))?,
        QosVerb::Ls { format, .. } => list(&reach, &images, *format)?,
        QosVerb::Show { tenant, format, .. } => {
            let tenant = images.by_id(tenant)?;
            ask(&reach, &json!({ "prefix": "qos show", "tenant": tenant, "format": name(*format) }))?
        }
    };
    if !text.is_empty() {
        say!("{text}");
    }
    Ok(())
}

fn ask(reach: &Reach, command: &Value) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&reach.ask(command)?).trim_end().to_owned())
}

/// The monitor's list, with the names of images.
fn list(reach: &Reach, images: &Images<'_>, format: Format) -> anyhow::Result<String> {
    let listed = ask(reach, &json!({ "prefix": "qos ls", "format": "json" }))?;
    let mut listed: Vec<Value> = serde_json::from_str(&listed).context("the monitor's list of tenants")?;
    let names = images.names(listed.iter().filter_map(|entry| entry["tenant"].as_str()))?;
    if format == Format::Json {
        for entry in &mut listed {
            if let Some(name) = entry["tenant"].as_str().and_then(|tenant| names.get(tenant)) {
                entry["image"] = json!(name);
            }
        }
        return Ok(json!(listed).to_string());
    }
    let table = ask(reach, &json!({ "prefix": "qos ls", "format": "plain" }))?;
    if names.is_empty() {
        return Ok(table);
    }
    let (heading, rows) = table.split_once('\n').unwrap_or((&table, ""));
    let name_of = |row: &str| names.iter().find(|(tenant, _)| row.starts_with(&format!("{tenant} ")));
    let rows = rows.lines().map(|row| name_of(row).map_or(row.to_owned(), |(_, name)| format!("{row}  {name}")));
    Ok(core::iter::once(format!("{heading}  IMAGE")).chain(rows).collect::<Vec<_>>().join("\n"))
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Plain => "plain",
        Format::Json => "json",
    }
}
