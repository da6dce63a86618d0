//! The keys under which `log` and `timeindex` keep what is ordered by time.

use wire::types::UTime;

/// What all of them begin with.
pub(super) const PREFIX: &[u8] = b"1_";

/// The beginning of a time's keys: seconds and microseconds, wide enough that they sort as numbers do.
pub(super) fn time_key(at: UTime) -> Vec<u8> {
    format!("1_{:010}.{:06}_", at.secs, at.nanos / 1000).into_bytes()
}

/// Whether `key` is at or past `bound`, of which only so many bytes of `key` are looked at: what begins with `bound` is
/// equal to it.
pub(super) fn reaches(key: &[u8], bound: &[u8]) -> bool {
    key[..key.len().min(bound.len())] >= *bound
}

/// Whether `key` is past `bound` and all that begins with it.
pub(super) fn passes(key: &[u8], bound: &[u8]) -> bool {
    key[..key.len().min(bound.len())] > *bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_times_do() {
        assert_eq!(time_key(UTime { secs: 12, nanos: 34_567 }), b"1_0000000012.000034_");
        let bound = time_key(UTime { secs: 12, nanos: 0 });
        let within = [bound.as_slice(), b"x"].concat();
        assert!(reaches(&within, &bound) && !passes(&within, &bound));
        assert!(!reaches(b"1_0000000011.9", &bound));
        assert!(passes(b"1_0000000013", &bound));
    }
}
