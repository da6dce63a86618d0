//! Who lives in the world: one monitor, OSDs, clients, each with its key and address.

use crate::clock::Clock;
use crate::disk::{MonDisk, OsdDisk};
use crate::extent_disk::ExtentDisk;
use crate::fills::SMALL_STORE_BYTES;
use crate::node::{Disk, Engine, Node, NodeId, Running};
use crate::options::Options;
use crate::world::World;
use base::rng::SecretRng;
use base::{OsdId, PoolId};
use client::{Client, ClientConfig};
use core::net::SocketAddr;
use device::DeviceModel;
use mon::{InitialOsd, Mon, MonConfig, NewCluster};
use monclient::MonClientConfig;
use osd::{BootImage, Osd, OsdConfig};
use std::collections::BTreeMap;
use wire::auth::ConMode;
use wire::cephx::{AuthName, ClientModes, CryptoKey, EntityAuth};
use wire::msgr::{Messenger, MessengerConfig};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType, Uuid};

/// How much slower than a fast drive disks are where they are uneven: some are ailing.
const UNEVEN: [u32; 4] = [1, 1, 100, 1000];
/// The size each OSD claims.
const STORE_BYTES: u64 = 1 << 30;

/// The cluster's secrets and addresses: what each node is started with, again and again.
pub(crate) struct Cluster {
    pub(crate) options: Options,
    fsid: Uuid,
    mon_addrs: AddrVec,
    osd_keys: Vec<CryptoKey>,
    client_keys: Vec<CryptoKey>,
    secrets: SecretRng,
}

impl Cluster {
    /// Puts the nodes of a new cluster into the world; none runs yet.
    pub(crate) fn found(options: &Options, world: &mut World) -> Cluster {
        let mut entropy = [0; 32];
        world.rng.fill(&mut entropy);
        let mut secrets = SecretRng::from_entropy(entropy);
        let now = world.now;
        let mut keys = |count: u32| (0..count).map(|_| CryptoKey::generate(now, &mut secrets)).collect::<Vec<_>>();
        let (mon_key, osd_keys, client_keys) = (keys(1).remove(0), keys(options.osds), keys(options.clients));
        let mon_socket = socket(0, 3300);
        let mut cluster = Cluster {
            options: options.clone(),
            fsid: Uuid::from_random(secrets.bytes()),
            mon_addrs: AddrVec::one(EntityAddr::msgr2(mon_socket, 0)),
            osd_keys,
            client_keys,
            secrets,
        };
        let mut disk = MonDisk::default();
        disk.apply(Mon::mkfs(now, &cluster.mon_config(), &cluster.first_entities(mon_key), &mut cluster.secrets));
        cluster.add(world, "mon.a".to_owned(), mon_socket, Disk::Mon(Box::new(disk)));
        for osd in 0..options.osds {
            let slowness = match options.uneven_disks {
                true => UNEVEN[world.rng.below(UNEVEN.len() as u64) as usize],
                false => options.disk_slowness,
            };
            let disk = match options.store {
                "extent" => {
                    let model = drive_model(slowness);
                    Disk::Extent(Box::new(ExtentDisk::new(model, osd, world.rng.u64())))
                }
                _ => {
                    let disk = OsdDisk::new(slowness, options.loose_disks);
                    Disk::Osd(Box::new(if options.full_disks { disk.with_capacity(SMALL_STORE_BYTES) } else { disk }))
                }
            };
            cluster.add(world, format!("osd.{osd}"), socket(1 + osd, 6800), disk);
        }
        for index in 0..options.clients {
            cluster.add(world, format!("client.{index}"), socket(100 + index, 0), Disk::None);
        }
        cluster
    }

    /// The monitor.
    pub(crate) fn mon(&self) -> NodeId {
        NodeId(0)
    }

    /// An OSD.
    pub(crate) fn osd(&self, index: u32) -> NodeId {
        NodeId(1 + index as usize)
    }

    /// A client.
    pub(crate) fn client(&self, index: usize) -> NodeId {
        NodeId(1 + self.options.osds as usize + index)
    }

    /// Starts a node: for the first time, or with what its disk kept.
    pub(crate) fn start(&mut self, world: &mut World, id: NodeId) {
        let now = world.shown(id);
        let node = &mut world.nodes[id.0];
        if node.running.is_some() {
            return;
        }
        node.life += 1;
        let (life, addr) = (node.life, node.addr);
        let own = |nonce| AddrVec::one(EntityAddr::msgr2(addr, nonce));
        let (engine, config) = match &mut node.disk {
            Disk::Mon(disk) => {
                let rng = fork(&mut self.secrets);
                let mon = Mon::new(now, self.mon_config(), rng, disk.contents.clone()).expect("its own store");
                let config = MessengerConfig::new(EntityName::mon(0), self.mon_addrs.clone());
                (Engine::Mon(Box::new(mon)), config)
            }
            disk @ (Disk::Osd(_) | Disk::Extent(_)) => {
                if let Disk::Extent(disk) = disk
                    && let Err(why) = disk.open()
                {
                    return world.failures.push(format!("{}: {why}", node.name));
                }
                let number = OsdId(id.0 as i32 - 1);
                let osd_config = self.osd_config(number, own(life));
                let image = BootImage::load(number, osd_config.osd_fsid, &mut |request| {
                    disk.read(&request).expect("it is an OSD's")
                });
                let osd = Osd::new(now, osd_config, fork(&mut self.secrets), image.expect("its own store"));
                let mut config = MessengerConfig::new(EntityName::osd(number), own(life));
                config.lossless_from = vec![EntityType::OSD];
                config.replace_lossy = true;
                config.timing.standby_max = self.options.standby;
                (Engine::Osd(Box::new(osd)), config)
            }
            Disk::None => {
                let index = id.0 - 1 - self.options.osds as usize;
                let client = Client::new(now, self.client_config(index), fork(&mut self.secrets));
                let name = EntityName { kind: EntityType::CLIENT, num: -1 };
                (Engine::Client(Box::new(client)), MessengerConfig::new(name, own(1000 + id.0 as u32)))
            }
        };
        node.running = Some(Running::new(engine, Messenger::new(config, fork(&mut self.secrets))));
        world.settle(id);
    }

    fn add(&self, world: &mut World, name: String, addr: SocketAddr, disk: Disk) {
        let id = NodeId(world.nodes.len());
        if addr.port() != 0 {
            world.network.listen(addr, id);
        }
        let serves = !matches!(disk, Disk::None);
        let input_cost = if serves { self.options.input_cost } else { base::Duration::ZERO };
        let clock = Clock::draw(self.options.drift_ppm, &mut world.rng);
        world.nodes.push(Node::new(name, addr, disk, input_cost, clock));
    }

    fn modes(&self) -> Vec<ConMode> {
        if self.options.secure { vec![ConMode::Secure] } else { vec![ConMode::Crc, ConMode::Secure] }
    }

    fn mon_config(&self) -> MonConfig {
        MonConfig {
            fsid: self.fsid,
            name: "a".to_owned(),
            addrs: self.mon_addrs.clone(),
            manager_addrs: AddrVec::default(),
            hostname: "host0".to_owned(),
            modes: self.modes(),
            options: BTreeMap::from([
                self.grace(),
                ("mon_osd_down_out_interval".to_owned(), self.options.down_out.as_secs().to_string()),
                // In so small a cluster one of them is much.
                ("mon_osd_min_in_ratio".to_owned(), "0.3".to_owned()),
                ("target_max_misplaced_ratio".to_owned(), if self.options.regroups { "1" } else { "0.05" }.to_owned()),
            ]),
            metadata: BTreeMap::new(),
        }
    }

    fn grace(&self) -> (String, String) {
        ("osd_heartbeat_grace".to_owned(), self.options.grace.as_secs_f64().to_string())
    }

    fn first_entities(&self, mon_key: CryptoKey) -> NewCluster {
        let all = |services: &[&str]| services.iter().map(|s| ((*s).to_owned(), "allow *".to_owned())).collect();
        let mon_auth = EntityAuth { key: mon_key, caps: all(&["mon"]) };
        let osds = self.osd_keys.iter().enumerate().map(|(number, key)| {
            let caps = [("mon", "allow profile osd"), ("osd", "allow *")].map(|(s, c)| (s.to_owned(), c.to_owned()));
            (AuthName::new(EntityType::OSD, number.to_string()), EntityAuth { key: key.clone(), caps: caps.into() })
        });
        let clients = self.client_keys.iter().enumerate().map(|(index, key)| {
            let caps = all(&["mon", "osd", "mgr"]);
            (AuthName::new(EntityType::CLIENT, index.to_string()), EntityAuth { key: key.clone(), caps })
        });
        let initial = |number: u32| InitialOsd {
            id: OsdId(number as i32),
            uuid: osd_fsid(number as i32),
            host: format!("host{}", 1 + number),
            device_class: "ssd".to_owned(),
            size_bytes: STORE_BYTES,
        };
        NewCluster {
            mon_auth,
            entities: osds.chain(clients).collect(),
            osds: (0..self.options.osds).map(initial).collect(),
            pool_max: PoolId(0),
        }
    }

    fn osd_config(&self, id: OsdId, addrs: AddrVec) -> OsdConfig {
        let index = usize::try_from(id.0).expect("OSDs are numbered from 0");
        OsdConfig {
            id,
            fsid: self.fsid,
            osd_fsid: osd_fsid(id.0),
            key: Some(self.osd_keys[index].clone()),
            mon_addrs: vec![self.mon_addrs.clone()],
            public_addrs: addrs.clone(),
            cluster_addrs: addrs,
            metadata: BTreeMap::from([("hostname".to_owned(), format!("host{}", 1 + index))]),
            store_bytes: if self.options.full_disks { SMALL_STORE_BYTES } else { STORE_BYTES },
            accept_loss: false,
            stats_interval: base::Duration::from_secs(5),
            options: BTreeMap::from([
                self.grace(),
                // Faults mark OSDs down more often than an operator would stand by.
                ("osd_max_markdown_count".to_owned(), "65536".to_owned()),
                ("osd_min_pg_log_entries".to_owned(), "1".to_owned()),
                ("osd_max_pg_log_entries".to_owned(), self.options.log_entries.to_string()),
                ("osd_recovery_sleep".to_owned(), self.options.recovery_sleep.as_secs_f64().to_string()),
                ("osd_async_recovery_min_cost".to_owned(), self.options.lacking_max.to_string()),
                ("osd_force_auth_primary_missing_objects".to_owned(), self.options.lacking_max.to_string()),
                ("osd_op_queue".to_owned(), self.options.queue.to_owned()),
            ]),
        }
    }

    fn client_config(&self, index: usize) -> ClientConfig {
        let name = AuthName::new(EntityType::CLIENT, index.to_string());
        let mut mon = MonClientConfig::new(name, Some(self.client_keys[index].clone()), vec![self.mon_addrs.clone()]);
        if self.options.secure {
            mon.modes = ClientModes { monitor: vec![ConMode::Secure], service: vec![ConMode::Secure] };
        }
        let follows_maps = index == 0 || !self.options.ask_once;
        ClientConfig { mon, features: wire::msgr::features::SUPPORTED, follows_maps }
    }
}

fn fork(secrets: &mut SecretRng) -> SecretRng {
    SecretRng::from_entropy(secrets.bytes())
}

/// A drive that is about so many times slower than a fast one.
fn drive_model(slowness: u32) -> DeviceModel {
    match slowness {
        0..5 => DeviceModel::nvme(),
        5..50 => DeviceModel::ssd(),
        _ => DeviceModel::hdd(),
    }
}

fn socket(host: u32, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], port))
}

fn osd_fsid(number: i32) -> Uuid {
    Uuid::from_random([number as u8 + 1; 16])
}
