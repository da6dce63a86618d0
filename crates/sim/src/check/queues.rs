//! Whether queues stay within their bounds, and are empty once nobody waits for anything.
//!
//! The bounds are the engines' own: what waits for one peer (`wire::msgr::limits::BACKLOG_BYTES_MAX`), and what clients have
//! under way in one OSD (`osd::limits`: `CLIENT_REQUESTS_MAX`, `CLIENT_REQUEST_BYTES_MAX`, `MAP_WAITING_MAX`,
//! `SESSIONS_MAX`). So small a cluster comes near none of them while all is well; what is forgotten shows at the end: a
//! request that nobody waits for any more and that an OSD still counts, a message that its peer never confirms.

use crate::node::Running;
use osd::limits::{CLIENT_REQUEST_BYTES_MAX, CLIENT_REQUESTS_MAX, MAP_WAITING_MAX, SESSIONS_MAX};
use osd::testimony::Load;
use wire::msgr::limits::BACKLOG_BYTES_MAX;

/// What waits for a peer at the most where nobody waits for anything: what OSDs tell one another all the time.
const IDLE_BACKLOG_BYTES_MAX: usize = 64 << 10;

/// What is beyond its bound on a node.
pub(crate) fn excess(running: &Running) -> Option<String> {
    let waits = ("bytes wait for one peer", running.messenger.backlog_bytes(), BACKLOG_BYTES_MAX);
    let load = running.engine.osd().map_or(Load::default(), |osd| osd.load());
    { [waits].into_iter() }.chain(bounds(&load)).find_map(beyond)
}

/// What an OSD has in hand, and the most that it may be.
fn bounds(load: &Load) -> [(&'static str, usize, usize); 4] {
    [
        ("requests of clients are in hand", load.requests, CLIENT_REQUESTS_MAX),
        ("bytes of clients' requests are in hand", load.request_bytes, CLIENT_REQUEST_BYTES_MAX),
        ("messages wait for maps", load.waiting_for_map, MAP_WAITING_MAX),
        ("sessions stand", load.sessions, SESSIONS_MAX),
    ]
}

fn beyond((what, now, max): (&str, usize, usize)) -> Option<String> {
    (now > max).then(|| format!("{now} {what}, where at most {max} may"))
}

/// What is left in hand on a node although nobody waits for anything.
pub(crate) fn left(running: &Running) -> Option<String> {
    let (load, backlog) = (running.engine.osd()?.load(), running.messenger.backlog_bytes());
    let idle = Load { sessions: load.sessions, ..Load::default() };
    (load != idle || backlog > IDLE_BACKLOG_BYTES_MAX).then(|| format!("{load:?}, {backlog} bytes for one peer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_its_bound_is_named() {
        let full = Load {
            requests: CLIENT_REQUESTS_MAX,
            request_bytes: CLIENT_REQUEST_BYTES_MAX,
            waiting_for_map: MAP_WAITING_MAX,
            sessions: SESSIONS_MAX,
        };
        assert_eq!(bounds(&full).into_iter().find_map(beyond), None);
        let more = Load { waiting_for_map: MAP_WAITING_MAX + 1, ..full };
        let said = bounds(&more).into_iter().find_map(beyond).expect("one is too many");
        assert_eq!(
            said,
            format!("{} messages wait for maps, where at most {MAP_WAITING_MAX} may", MAP_WAITING_MAX + 1)
        );
    }
}
