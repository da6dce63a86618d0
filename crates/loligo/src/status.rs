//! `loligo status`: which servers of a directory run, and what the monitor says of the cluster.

use crate::cli::Format;
use crate::cluster_dir::ClusterDir;
use crate::daemons::ClusterConfig;
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
    match format {
        Format::Plain => {
            for server in &servers {
                say!("{:<8} pid {}", server.name, server.pid);
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
            say!("{}", serde_json::json!({ "servers": servers, "metrics": metrics, "status": status }));
        }
    }
    Ok(())
}

/// Where the monitor serves its metrics; none where it does not.
fn metrics_url(dir: &ClusterDir, cluster: &ClusterConfig) -> anyhow::Result<Option<String>> {
    let command = r#"{"prefix":"mgr services","format":"json"}"#;
    let answer = cluster.admin_asker(dir)?.ask(command, ANSWER_LIMIT).context("the monitor does not answer")?;
    let services: serde_json::Value = serde_json::from_slice(&answer.output).context("the monitor's services")?;
    Ok(services["prometheus"].as_str().map(|url| format!("{url}metrics")))
}
