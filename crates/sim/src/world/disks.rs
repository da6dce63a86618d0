//! What disks do for nodes, and when their OSDs hear of it.

use super::{Event, World};
use crate::disk::Stored;
use crate::node::{Disk, Engine, Node, NodeId};
use store::Completion;

impl World {
    /// The event, unless a disk would end something and hangs. What has ended waits for the processor with the rest: were it
    /// held there, what came later could overtake it.
    pub(super) fn ended(&mut self, event: Event) -> Option<Event> {
        if let Event::Stored { node, life, what } = &event
            && let Node { disk: Disk::Osd(disk), life: now_in, .. } = &mut self.nodes[node.0]
            && now_in == life
            && let Some(at) = disk.puts_off(self.now, what)
        {
            self.plan(at, event);
            return None;
        }
        Some(event)
    }

    pub(super) fn stored(&mut self, id: NodeId, life: u32, what: Stored) -> Option<NodeId> {
        let now = self.shown(id);
        let node = &mut self.nodes[id.0];
        let running = node.running.as_mut().filter(|_| node.life == life)?;
        self.trace.number(id.0 as u64 ^ 0xD15C);
        match (&mut running.engine, &mut node.disk, what) {
            (Engine::Osd(osd), Disk::Osd(disk), Stored::Committed(commit)) => {
                disk.committed(commit);
                osd.handle_committed(now, commit, Ok(()));
            }
            (Engine::Osd(osd), _, Stored::Refused(commit, error)) => osd.handle_committed(now, commit, Err(error)),
            (Engine::Osd(osd), _, Stored::Read(read, result)) => osd.handle_read(now, read, result),
            (Engine::Osd(osd), _, Stored::Completed(Completion::Committed(commit, result))) => {
                osd.handle_committed(now, commit, result);
            }
            (Engine::Osd(osd), _, Stored::Completed(Completion::Read(read, result))) => {
                osd.handle_read(now, read, result);
            }
            (Engine::Osd(osd), _, Stored::Completed(Completion::Ahead(ahead))) => osd.handle_ahead(now, ahead),
            (Engine::Mon(mon), Disk::Mon(disk), Stored::Persisted) => {
                let batch = disk.persisted();
                mon.handle_persisted(now, batch);
            }
            _ => unreachable!("a disk answers the engine that asked it"),
        }
        self.tell_room(id);
        Some(id)
    }

    /// Lets a drive do what it can now; what has ended its OSD hears next.
    pub(super) fn let_disk_work(&mut self, id: NodeId) {
        let (now, node) = (self.now, &mut self.nodes[id.0]);
        let Disk::Extent(disk) = &mut node.disk else { return };
        let (life, done) = (node.life, disk.work(now));
        let wake = disk.next_wakeup().filter(|at| disk.wake_at.is_none_or(|planned| *at < planned));
        disk.wake_at = wake.or(disk.wake_at);
        for completion in done {
            self.plan(now, Event::Stored { node: id, life, what: Stored::Completed(completion) });
        }
        if let Some(at) = wake {
            self.plan(at, Event::Disk { node: id, life });
        }
    }

    /// Time passes for a drive, too.
    pub(super) fn let_disk_rest(&mut self, id: NodeId) {
        let now = self.now;
        if let Disk::Extent(disk) = &mut self.nodes[id.0].disk {
            disk.rest(now);
            self.let_disk_work(id);
        }
    }

    /// A drive has something to do.
    pub(super) fn disk_due(&mut self, id: NodeId, life: u32) {
        let (now, node) = (self.now, &mut self.nodes[id.0]);
        if let Disk::Extent(disk) = &mut node.disk
            && node.life == life
            && disk.wake_at.is_some_and(|at| at <= now)
        {
            disk.wake_at = None;
            self.let_disk_work(id);
        }
    }
}
