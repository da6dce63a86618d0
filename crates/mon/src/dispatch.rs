//! Messages: which part of the monitor each is for, and who may send it.
//!
//! Follows Ceph v16.2 `src/mon/Monitor.cc` (`dispatch_op`) and the services' `preprocess_query`: daemons' reports need
//! the right to execute on `osd`, clients' questions the right to read; who lacks it is ignored or refused as Ceph does.

use crate::mon::{LogLevel, Mon};
use crate::services::log::LogLevel as ClusterLevel;
use crate::sessions::Session;
use base::{Errno, Instant, OsdId};
use std::collections::BTreeMap;
use wire::caps::mon::{MonRequest, Rights};
use wire::cephx::AuthName;
use wire::codec::Encode;
use wire::messages::{
    Auth, AuthReply, Config, GetConfig, GetPoolStats, GetPoolStatsReply, Log, LogAck, Message, MonGetVersion,
    MonGetVersionReply, PaxosHead, PgStats, PgStatsAck, Sealed, StatFs, StatFsReply,
};
use wire::net::{ConnId, Envelope};
use wire::types::EntityType;

use crate::commands::{Call, CommandSpec};

impl Session {
    /// Whether this session may do something with a service.
    pub(crate) fn may(&self, service: &str, needs: Rights) -> bool {
        self.judge(service, "", &BTreeMap::new(), needs)
    }

    /// Whether this session may run a command.
    pub(crate) fn may_run(&self, call: &Call, spec: &CommandSpec) -> bool {
        let args: BTreeMap<String, String> = call.as_pairs().into_iter().collect();
        self.judge(spec.module, &call.prefix, &args, rights_of(spec.perm))
    }

    /// Whether this session may run a command, or what amounts to one.
    pub(crate) fn may_command(
        &self,
        service: &str,
        command: &str,
        args: &BTreeMap<String, String>,
        needs: Rights,
    ) -> bool {
        self.judge(service, command, args, needs)
    }

    fn judge(&self, service: &str, command: &str, args: &BTreeMap<String, String>, needs: Rights) -> bool {
        let Some(entity) = AuthName::parse(&self.peer.entity) else { return false };
        let from = self.peer.socket.map(|socket| socket.ip());
        self.caps.is_capable(&MonRequest { entity: &entity, service, command, args, needs, from })
    }
}

/// The rights that a command's letters ask for.
pub(crate) fn rights_of(perm: &str) -> Rights {
    let letters = [('r', Rights::R), ('w', Rights::W), ('x', Rights::X)];
    let rights = letters.into_iter().filter(|(letter, _)| perm.contains(*letter));
    rights.fold(Rights::NONE, |all, (_, right)| all | right)
}

impl Mon {
    /// Takes a message of a session.
    pub(crate) fn dispatch(&mut self, now: Instant, conn: ConnId, envelope: Envelope) {
        let Some(session) = self.sessions.get(conn) else { return };
        let tid = envelope.tid;
        if session.manager.is_some() {
            return self.dispatch_to_manager(now, conn, tid, envelope.message);
        }
        let osd = Some(session.peer.name)
            .filter(|name| name.kind == EntityType::OSD && session.may("osd", Rights::X))
            .and_then(|name| i32::try_from(name.num).ok())
            .map(OsdId);
        if let Some(osd) = osd
            && self.osds.map().is_up(osd)
        {
            self.reports.heard_from(osd, now);
        }
        match envelope.message {
            Message::MonGetMap(_) => {
                let map = self.monmap.message();
                self.send(conn, map);
            }
            Message::MonSubscribe(m) => self.subscribe(now, conn, *m),
            Message::MonGetVersion(m) => self.answer_version(conn, tid, &m),
            Message::Auth(m) => self.authenticate(now, conn, tid, &m),
            Message::GetConfig(m) => self.answer_config(conn, tid, &m),
            Message::MonCommand(m) => self.mon_command(now, conn, tid, *m),
            Message::Command(m) => self.told_command(now, conn, tid, *m),
            Message::StatFs(m) => self.answer_statfs(conn, tid, &m),
            Message::GetPoolStats(m) => self.answer_pool_stats(conn, tid, &m),
            Message::PoolOp(m) => self.pool_op(now, conn, tid, &m),
            Message::Log(m) => self.take_log(conn, &m),
            Message::Ping(_) => {
                let pong = crate::commands::pong(self, now);
                self.reply(conn, tid, pong);
            }
            other => match osd {
                Some(osd) => self.dispatch_osd(now, conn, tid, osd, other),
                None => self.debug_log(LogLevel::Debug, format!("ignored {} of {conn:?}", other.name())),
            },
        }
    }

    fn dispatch_osd(&mut self, now: Instant, conn: ConnId, tid: u64, osd: OsdId, message: Message) {
        match message {
            Message::OsdBoot(m) => self.boot_osd(now, conn, *m),
            Message::OsdBeacon(_) | Message::OsdPgCreated(_) => {}
            Message::OsdFailure(m) => self.report_failure(now, osd, &m),
            Message::OsdAlive(m) => {
                // The OSD's newest map, so that it need not ask again for what it already has seen.
                let version = u32::try_from(m.paxos.version).unwrap_or(0);
                self.raise_up_thru(osd, m.want.max(base::Epoch(version)).min(self.osds.epoch()));
            }
            Message::OsdMarkMeDown(m) => self.mark_me_down(now, conn, tid, osd, *m),
            Message::OsdMarkMeDead(m) => self.mark_me_dead(osd, &m),
            Message::OsdFull(m) => self.report_full(osd, &m),
            Message::OsdPgTemp(m) => self.request_pg_temp(osd, *m),
            Message::OsdPgReadyToMerge(m) => self.ready_to_merge(osd, &m),
            Message::PgStats(m) => self.take_pg_stats(now, conn, tid, osd, &m),
            Message::MgrReport(m) => {
                if let Err(error) = self.daemon_reports.take(now, conn, osd, &m) {
                    self.debug_log(LogLevel::Warn, format!("a report of osd.{osd} cannot be read: {error}"));
                }
            }
            other => self.debug_log(LogLevel::Debug, format!("ignored {} of {osd:?}", other.name())),
        }
    }

    fn answer_version(&mut self, conn: ConnId, tid: u64, m: &MonGetVersion) {
        let (version, oldest_version) = match m.what.as_str() {
            "osdmap" => (u64::from(self.osds.epoch().0), u64::from(self.osds.first().0)),
            "monmap" => (u64::from(self.monmap.epoch().0), u64::from(self.monmap.epoch().0)),
            "mgrmap" => (self.elections, self.elections),
            "fsmap" | "mdsmap" | "servicemap" => (1, 1),
            _ => (0, 0),
        };
        self.reply(conn, tid, MonGetVersionReply { handle: m.handle, version, oldest_version });
    }

    fn authenticate(&mut self, now: Instant, conn: ConnId, tid: u64, m: &Auth) {
        let Some(session) = self.sessions.get(conn) else { return };
        let global_id = session.peer.global_id;
        let Some(name) = AuthName::parse(&session.peer.entity) else { return };
        let answer = self.auth.mon.message(now, &name, global_id, &m.payload);
        let (result, payload) = match answer {
            Ok(payload) => (0, payload),
            Err(errno) => (errno.code(), bytes::Bytes::new()),
        };
        let protocol = wire::auth::AUTH_CEPHX;
        self.reply(conn, tid, AuthReply { protocol, result, global_id, payload, message: String::new() });
    }

    fn answer_config(&mut self, conn: ConnId, tid: u64, m: &GetConfig) {
        let mut entity = self.entity_for_config(&format!("{}.{}", m.name.kind.name(), m.name.id), &m.host);
        if !m.device_class.is_empty() {
            entity.device_class.clone_from(&m.device_class);
        }
        let effective = self.central.effective(&entity);
        let options = effective.into_iter().map(|(name, (value, _))| (name.to_owned(), value.to_owned())).collect();
        self.reply(conn, tid, Config { options });
    }

    fn answer_statfs(&mut self, conn: ConnId, tid: u64, m: &StatFs) {
        let readable = self.sessions.get(conn).is_some_and(|s| s.may("mgr", Rights::R) || s.may("pg", Rights::R));
        if m.fsid != self.config.fsid || !readable {
            return;
        }
        let room = self.stats.osd_sum();
        let (mut used, mut available, mut objects) =
            (room.used_bytes(), room.available_bytes(), self.stats.sum().objects());
        let mut total = room.total_bytes();
        if let Some((id, pool)) = m.pool.and_then(|id| Some((id, self.osds.map().pool(id)?.clone()))) {
            let room = self.pool_room(id, &pool);
            (used, available, objects) = (room.stored, room.available, room.objects);
            total = used.saturating_add(available);
        }
        let reply = StatFsReply {
            fsid: self.config.fsid,
            version: self.stats.version(),
            total_kib: total >> 10,
            used_kib: used >> 10,
            available_kib: available >> 10,
            objects,
        };
        self.reply(conn, tid, reply);
    }

    fn answer_pool_stats(&mut self, conn: ConnId, tid: u64, m: &GetPoolStats) {
        let readable = self.sessions.get(conn).is_some_and(|s| s.may("mgr", Rights::R) || s.may("pg", Rights::R));
        if m.fsid != self.config.fsid || !readable {
            return;
        }
        let map = self.osds.map();
        let stat =
            |name: &String| Some((name.clone(), Sealed(self.stats.pool_sum(map.pool_id(name)?).stat.to_bytes())));
        let reply = GetPoolStatsReply {
            paxos: PaxosHead::new(self.stats.version()),
            fsid: self.config.fsid,
            stats: m.pools.iter().filter_map(stat).collect(),
            per_pool: self.stats.osd_sum().counts_by_pool(),
        };
        self.reply(conn, tid, reply);
    }

    fn take_log(&mut self, conn: ConnId, m: &Log) {
        let allowed = self.sessions.get(conn).is_some_and(|s| s.may("log", Rights::W) || s.may("log", Rights::X));
        if m.fsid != self.config.fsid || !allowed {
            return;
        }
        let mut acks: BTreeMap<String, u64> = BTreeMap::new();
        for entry in &m.entries {
            let ack = acks.entry(entry.channel.clone()).or_insert(0);
            *ack = entry.seq.max(*ack);
            self.log.add(entry.clone());
        }
        for (channel, last) in acks {
            self.send(conn, LogAck { fsid: self.config.fsid, last, channel });
        }
    }

    fn take_pg_stats(&mut self, now: Instant, conn: ConnId, tid: u64, osd: OsdId, m: &PgStats) {
        if m.fsid != self.config.fsid || !self.osds.map().is_up(osd) {
            return;
        }
        let pgs = self.stats.take(now, self.osds.map(), osd, m);
        self.prune_purged_snaps();
        self.follow_pg_creates(osd, m);
        self.reply(conn, tid, PgStatsAck { paxos: PaxosHead::new(self.stats.version()), pgs });
    }

    /// Refuses a client that may not do what it asks, with a line in the cluster log's audit channel.
    pub(crate) fn note_denied(&mut self, now: Instant, conn: ConnId, what: &str) -> Errno {
        let who = self.sessions.get(conn).map(|s| s.peer.entity.clone()).unwrap_or_default();
        self.cluster_log(now, ClusterLevel::WARN, "audit", format!("entity='{who}' {what}: access denied"));
        Errno::EPERM
    }
}
