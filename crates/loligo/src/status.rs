//! `loligo status`: which servers of a directory run, and what the monitor says of the cluster.

use crate::cli::Format;
use crate::cluster_dir::{ClusterDir, Server};
use crate::daemons::{ClusterConfig, EMBEDDED};
use anyhow::{Context, bail};
use std::time::Duration;

/// How long the monitor may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Runs the verb. Fails where nothing runs, so that scripts can ask.
pub(crate) fn run(dir: &ClusterDir, format: Format) -> anyhow::Result<()> {
    let cluster = ClusterConfig::read(dir)?;
    let servers = dir.running()?;
    if servers.is_empty() {
        bail!("{}: not running; start it with `loligo up --dir {0}`", dir.root().display());
    }
    let wanted = if format == Format::Json { "json" } else { "plain" };
    let command = format!(r#"{{"prefix":"status","format":"{wanted}"}}"#);
    let answer = cluster.admin_asker(dir)?.ask(&command, ANSWER_LIMIT).context("the monitor gives no status")?;
    if answer.code != 0 {
        bail!("the monitor gives no status: {}", answer.status);
    }
    let metrics = metrics_url(dir, &cluster)?;
    let not_running = not_running(&cluster.osds, &servers);
    match format {
        Format::Plain => {
            for server in &servers {
                say!("{:<8} pid {}", server.name, server.pid);
            }
            for name in &not_running {
                say!("{name:<8} not running");
            }
            if let Some(url) = &metrics {
                say!("{:<8} {url}", "metrics");
            }
            say!("{}", String::from_utf8_lossy(&answer.output).trim_end());
        }
        Format::Json => {
            let status: serde_json::Value = serde_json::from_slice(&answer.output).context("the monitor's status")?;
            let servers: serde_json::Map<String, serde_json::Value> =
                servers.into_iter().map(|s| (s.name, s.pid.into())).collect();
            let whole = serde_json::json!({
                "servers": servers, "not_running": not_running, "metrics": metrics, "status": status
            });
            say!("{whole}");
        }
    }
    Ok(())
}

/// The OSDs that are laid out and do not run. All of them do where the daemons are threads of one process, which ends with
/// any of them.
fn not_running(osds: &[i32], servers: &[Server]) -> Vec<String> {
    let runs = |name: &String| servers.iter().any(|server| server.name == *name || server.name == EMBEDDED);
    osds.iter().map(|id| format!("osd.{id}")).filter(|name| !runs(name)).collect()
}

/// Where the monitor serves its metrics; none where it does not.
fn metrics_url(dir: &ClusterDir, cluster: &ClusterConfig) -> anyhow::Result<Option<String>> {
    let command = r#"{"prefix":"mgr services","format":"json"}"#;
    let answer = cluster.admin_asker(dir)?.ask(command, ANSWER_LIMIT).context("the monitor does not answer")?;
    let services: serde_json::Value = serde_json::from_slice(&answer.output).context("the monitor's services")?;
    Ok(services["prometheus"].as_str().map(|url| format!("{url}metrics")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_that_does_not_run_is_named() {
        let servers = |names: &[&str]| -> Vec<Server> {
            names.iter().map(|name| Server { name: (*name).to_owned(), pid: 1 }).collect()
        };
        assert_eq!(not_running(&[0, 1, 10], &servers(&["mon.a", "osd.1"])), ["osd.0", "osd.10"]);
        assert!(not_running(&[0, 1], &servers(&["loligo"])).is_empty());
    }
}
