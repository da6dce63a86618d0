//! Which connection modes an entity asks for and which it offers, by who is at the other end.
//!
//! Follows Ceph v16.2 `src/auth/AuthRegistry.cc`. The opener's taste decides among those that both have.

use crate::auth::ConMode;
use crate::types::EntityType;

/// Which modes to ask for, favourite first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientModes {
    /// Towards monitors (`ms_mon_client_mode`).
    pub monitor: Vec<ConMode>,
    /// Towards daemons (`ms_client_mode`, `ms_cluster_mode`).
    pub service: Vec<ConMode>,
}

impl Default for ClientModes {
    /// Ceph's defaults: monitors in secure mode, daemons in crc mode, the other where that is not to be had.
    fn default() -> ClientModes {
        ClientModes { monitor: vec![ConMode::Secure, ConMode::Crc], service: vec![ConMode::Crc, ConMode::Secure] }
    }
}

impl ClientModes {
    /// What a daemon asks for that lets others of its cluster use these: towards monitors the secure one first.
    pub fn of_daemon(cluster: &[ConMode]) -> ClientModes {
        let (mut monitor, service) = (cluster.to_vec(), cluster.to_vec());
        monitor.sort_by_key(|mode| *mode != ConMode::Secure);
        ClientModes { monitor, service }
    }
}

/// Which modes a daemon offers to those who come to it, favourite first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerModes {
    /// To daemons of its cluster (`ms_cluster_mode`).
    pub cluster: Vec<ConMode>,
    /// To everybody else (`ms_service_mode`).
    pub service: Vec<ConMode>,
}

impl Default for ServerModes {
    /// Ceph's defaults: both modes, to everybody.
    fn default() -> ServerModes {
        let both = vec![ConMode::Crc, ConMode::Secure];
        ServerModes { cluster: both.clone(), service: both }
    }
}

impl ServerModes {
    /// Those for a peer of this kind.
    pub fn towards(&self, peer: EntityType) -> &[ConMode] {
        if is_daemon(peer) { &self.cluster } else { &self.service }
    }
}

/// Whether entities of this kind are the cluster's own daemons.
pub(super) fn is_daemon(kind: EntityType) -> bool {
    [EntityType::MON, EntityType::OSD, EntityType::MDS, EntityType::MGR].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConMode::{Crc, Secure};

    #[test]
    fn daemons_and_clients_are_offered_what_is_for_them() {
        let modes = ServerModes { cluster: vec![Crc], service: vec![Secure] };
        assert_eq!((modes.towards(EntityType::OSD), modes.towards(EntityType::CLIENT)), (&[Crc][..], &[Secure][..]));
        assert_eq!(ClientModes::of_daemon(&[Crc, Secure]), ClientModes::default());
        assert_eq!(ClientModes::of_daemon(&[Secure]).monitor, [Secure]);
    }
}
