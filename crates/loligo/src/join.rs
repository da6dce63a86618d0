//! New OSDs of a cluster that is there already: a number and a key from its monitor, a directory here.
//!
//! Owns the steps and their undoing. An OSD finds its place in the CRUSH map by itself when it boots.

use crate::cluster_dir::{ClusterDir, private_dir, write_private};
use crate::layout::osd_caps;
use anyhow::{Context, bail};
use rt::ask::Asker;
use serde_json::{Value, json};
use std::time::Duration;

/// How long the monitor may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Makes the directory of a new OSD in `dir` and returns its number. What fails leaves no trace, here or in the cluster's
/// map.
pub(crate) fn make_osd(dir: &ClusterDir, asker: &Asker) -> anyhow::Result<i32> {
    dir.create()?;
    let id = new_id(asker)?;
    let made = lay_out(dir, asker, id);
    if made.is_err() {
        // The first failure is what matters: a number that stays taken does no harm.
        let _ = ask(asker, &json!({"prefix": "osd purge", "id": id, "yes_i_really_mean_it": true}));
    }
    made.map(|()| id)
}

fn new_id(asker: &Asker) -> anyhow::Result<i32> {
    let answer = ask(asker, &json!({"prefix": "osd create", "format": "json"}))?;
    let answer: Value = serde_json::from_str(&answer).context("the monitor's new OSD")?;
    let id = answer["osdid"].as_i64().and_then(|id| i32::try_from(id).ok());
    id.context("the monitor names no number for a new OSD")
}

fn lay_out(dir: &ClusterDir, asker: &Asker, id: i32) -> anyhow::Result<()> {
    let name = format!("osd.{id}");
    let data = dir.data(&name);
    if data.exists() {
        bail!("{} holds the data of an OSD that the cluster has removed; delete it first", data.display());
    }
    let caps: Vec<&str> = osd_caps().into_iter().flat_map(|(service, caps)| [service, caps]).collect();
    let keyring = ask(asker, &json!({"prefix": "auth get-or-create", "entity": name, "caps": caps}))?;
    private_dir(&data).with_context(|| format!("{}: cannot be made", data.display()))?;
    let written = write_private(&dir.daemon_keyring(&name), keyring.as_bytes());
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&data);
    }
    written
}

fn ask(asker: &Asker, command: &Value) -> anyhow::Result<String> {
    let prefix = command["prefix"].as_str().unwrap_or_default();
    let answer = asker.ask(&command.to_string(), ANSWER_LIMIT).with_context(|| prefix.to_owned())?;
    if answer.code != 0 {
        bail!("{prefix}: {}", answer.status);
    }
    String::from_utf8(answer.output.to_vec()).with_context(|| format!("{prefix}: the answer is no text"))
}
