//! The OSD's own life: boot, beacons, promises to the monitor, reports of others' failures, a clean stop.

use crate::boot::boot_message;
use crate::core::{Command, Core, Level};
use crate::limits::{ASK_AGAIN, SHUTDOWN_WAIT};
use crate::markdowns::Markdowns;
use crate::osd::Osd;
use crate::pg::Pg;
use base::{Duration, Epoch, Instant, OsdId, PgId};
use wire::messages::{
    OsdAlive, OsdBeacon, OsdFailure, OsdMarkMeDead, OsdMarkMeDown, OsdPgTemp, PaxosHead, osd_failure,
};
use wire::net::Envelope;
use wire::types::AddrVec;

/// The OSD's own life.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) record: Record,
    /// The map shows this life as up.
    pub(crate) up: bool,
    /// The map in which this life came up; 0 before.
    pub(crate) boot_epoch: Epoch,
    pub(crate) boot_sent: Instant,
    pub(crate) alive_sent: (Epoch, Instant),
    pub(crate) beacon_sent: Instant,
    /// How often to say that we live (`osd_beacon_report_interval`).
    pub(crate) beacon_interval: Duration,
    /// When this life was marked down.
    pub(crate) down_since: Instant,
    /// How often it was.
    pub(crate) markdowns: Markdowns,
    pub(crate) maps_asked: Instant,
    /// A map waits for the splits and merges that it asks for.
    pub(crate) maps_unstored: bool,
    /// When the monitor was told of merges.
    pub(crate) merge_said: Instant,
    /// Since when merges have been pending.
    pub(crate) merges_since: Option<Instant>,
    pub(crate) stopping: Option<Instant>,
    pub(crate) stopped: bool,
}

/// The OSD's record of itself in its store. Who has none that is durable has promised nothing: what the store keeps of
/// placement groups would count for nothing at the next start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    None,
    OnItsWay,
    Durable,
}

impl Osd {
    /// The first record is durable: the monitor may be told.
    pub(crate) fn born(&mut self) {
        self.life.record = Record::Durable;
        self.speak();
    }

    /// Begins a clean stop: asks to be marked down, then `Command::Stopped`.
    pub fn shutdown(&mut self, now: Instant) {
        self.core.advance(now);
        if self.life.stopping.is_some() {
            return;
        }
        self.life.stopping = Some(now + SHUTDOWN_WAIT);
        if !self.life.up {
            return self.stop();
        }
        let message = OsdMarkMeDown {
            paxos: PaxosHead::new(u64::from(self.core.epoch().0)),
            fsid: self.core.config.fsid,
            target: self.core.me(),
            target_addrs: self.core.config.public_addrs.clone(),
            epoch: self.core.epoch(),
            request_ack: true,
            down_and_dead: true,
        };
        self.mon.send(Envelope::new(message));
    }

    pub(crate) fn stop(&mut self) {
        if !core::mem::replace(&mut self.life.stopped, true) {
            self.core.push(Command::Stopped);
        }
    }

    /// Sends the monitor what it should know by now.
    pub(crate) fn speak(&mut self) {
        let now = self.core.now;
        if self.mon.session().is_none() || self.core.epoch() == Epoch(0) || self.life.stopped {
            return;
        }
        if !self.life.up && self.life.stopping.is_none() {
            if self.life.markdowns.stays_down() {
                self.say_to_cluster_log();
            }
            if self.life.record == Record::Durable
                && !self.life.markdowns.stays_down()
                && now >= self.life.boot_sent + ASK_AGAIN
                && self.is_heard()
                && (self.mon.can_verify() || self.core.config.key.is_none())
            {
                self.life.boot_sent = now;
                if self.life.boot_epoch == Epoch(0) && self.core.born == Epoch(0) {
                    self.core.born = self.core.epoch();
                }
                self.mon.send(Envelope::new(boot_message(&self.core, self.life.boot_epoch)));
            }
            return;
        }
        let have = self.core.map.info(self.core.me()).map_or(Epoch(0), |info| info.up_thru);
        let wanted = self.core.up_thru_wanted;
        let (sent, at) = self.life.alive_sent;
        if wanted > have && (wanted > sent || now >= at + ASK_AGAIN) {
            self.life.alive_sent = (wanted, now);
            self.mon.send(Envelope::new(OsdAlive { paxos: self.paxos(), want: wanted }));
        }
        if let Some(pg_temp) = self.core.wishes.take_due(now) {
            let (paxos, epoch) = (self.paxos(), self.core.epoch());
            self.mon.send(Envelope::new(OsdPgTemp { paxos, epoch, pg_temp, forced: false }));
        }
        self.say_of_merges();
        if now >= self.life.beacon_sent + self.life.beacon_interval {
            self.life.beacon_sent = now;
            let beacon = beacon_message(self);
            self.mon.send(Envelope::new(beacon));
        }
        if let Some(message) = self.stats.report(&mut self.core, &mut self.pgs) {
            self.mon.send(Envelope::new(message));
        }
        if let Some(message) = self.manager_report() {
            self.mon.send(Envelope::new(message));
        }
        self.say_to_cluster_log();
    }

    fn say_to_cluster_log(&mut self) {
        if let Some(message) = self.core.cluster_log.message() {
            self.mon.send(Envelope::new(message));
        }
    }

    /// Tells the monitor that this OSD, marked down, serves nobody any more: others need not wait until it surely does not.
    pub(crate) fn say_that_it_is_known(&mut self) {
        let (fsid, target, epoch) = (self.core.config.fsid, self.core.me(), self.core.epoch());
        self.mon.send(Envelope::new(OsdMarkMeDead { paxos: self.paxos(), fsid, target, epoch }));
    }

    pub(crate) fn paxos(&self) -> PaxosHead {
        PaxosHead::new(u64::from(self.core.epoch().0))
    }

    pub(crate) fn primary_pgs(&self) -> Vec<PgId> {
        self.pgs_in_order(Pg::is_primary).into_iter().map(|pg| pg.id).collect()
    }

    /// Nobody listens where another OSD should be.
    pub(crate) fn report_failure(&mut self, osd: OsdId) {
        let now = self.core.now;
        if !self.life.up || self.life.stopping.is_some() || self.core.peers.should_report(osd, now).is_none() {
            return;
        }
        let Some(addrs) = self.core.map.addrs(osd) else { return };
        let message = complaint(&self.core, osd, addrs.client.clone(), None);
        let message = OsdFailure { flags: osd_failure::FAILED | osd_failure::IMMEDIATE, ..message };
        self.core.log(Level::Warn, format!("{osd:?} refuses connections: reported as failed"));
        self.mon.send(Envelope::new(message));
    }
}

/// What to tell the monitor of another OSD: for how long it has been silent, or that it is not.
pub(crate) fn complaint(core: &Core, target: OsdId, target_addrs: AddrVec, silence: Option<Duration>) -> OsdFailure {
    OsdFailure {
        paxos: PaxosHead::new(u64::from(core.epoch().0)),
        fsid: core.config.fsid,
        target,
        target_addrs,
        epoch: core.epoch(),
        flags: silence.map_or(0, |_| osd_failure::FAILED),
        failed_for_s: silence.map_or(0, |silence| i32::try_from(silence.as_secs()).unwrap_or(i32::MAX)),
    }
}

/// A sign of life.
pub(crate) fn beacon_message(osd: &Osd) -> OsdBeacon {
    OsdBeacon {
        paxos: osd.paxos(),
        pgs: osd.primary_pgs(),
        min_last_epoch_clean: osd.core.epoch(),
        last_purged_snaps_scrub: Default::default(),
        report_interval_s: osd.life.beacon_interval.as_secs() as u32,
    }
}
