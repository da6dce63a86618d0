//! Which cluster a verb speaks to that needs no directory: that of `--dir`, else that of `CEPH_CONF`, as for `ceph`.

use crate::cluster_dir::ClusterDir;
use crate::daemons::{ClusterConfig, read_key};
use anyhow::{Context, bail};
use rt::ask::Asker;
use rt::errand::{Found, Question};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::cephx::AuthName;
use wire::types::EntityType;

/// How long monitor and OSDs may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A cluster that runs somewhere.
#[derive(Debug)]
pub(crate) struct Reach {
    asker: Asker,
}

impl Reach {
    /// The cluster of a directory, or of `CEPH_CONF` where none is given.
    pub(crate) fn new(dir: Option<&Path>) -> anyhow::Result<Reach> {
        if let Some(dir) = dir {
            let dir = ClusterDir::new(dir)?;
            let cluster = ClusterConfig::read(&dir)?;
            let asker = cluster.admin_asker(&dir)?;
            return Ok(Reach { asker });
        }
        let Some(conf) = std::env::var_os("CEPH_CONF").map(PathBuf::from) else {
            bail!("which cluster? say --dir DIR, or set CEPH_CONF to its ceph.conf");
        };
        let cluster = ClusterConfig::of_file(&conf)?;
        let admin = AuthName::new(EntityType::CLIENT, "admin");
        let places = cluster.client_keyrings(&admin);
        let keyring = places.iter().find(|path| path.exists());
        let keyring = keyring.with_context(|| format!("{}: there is no keyring of {admin}", conf.display()))?;
        let asker = cluster.asker(admin.clone(), read_key(keyring, &admin)?);
        Ok(Reach { asker })
    }

    /// Finds out something from OSDs.
    pub(crate) fn find_out(&self, questions: &[Question]) -> anyhow::Result<Vec<Found>> {
        Ok(self.asker.find_out(questions, ANSWER_LIMIT)?)
    }

    /// Asks the monitor. What it refuses is an error in its words.
    pub(crate) fn ask(&self, command: &serde_json::Value) -> anyhow::Result<Vec<u8>> {
        let answer = self.asker.ask(&command.to_string(), ANSWER_LIMIT)?;
        if answer.code != 0 {
            bail!("{}", answer.status);
        }
        Ok(answer.output.to_vec())
    }
}
