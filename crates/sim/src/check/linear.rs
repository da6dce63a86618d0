//! Is there one order of an object's operations that explains every answer?
//!
//! The search of Wing and Gong (1993) with the memory of visited states that Lowe (2017) added: take any operation
//! that nothing unexplained must precede, see whether its answer fits, go on; go back when stuck. An operation without
//! an answer may have happened at any time after its beginning, or never.

use base::hash::{FixedHashMap, FixedHashSet};

/// An object's value: the tokens written to it, in order; none if it does not exist.
pub(crate) type Value = Option<Vec<u64>>;

/// What a client asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    /// Replace the value by this token.
    Write(u64),
    /// Add this token to the end.
    Append(u64),
    /// Create with this token unless it exists.
    Create(u64),
    /// Remove.
    Delete,
    /// What is the value?
    Read,
}

/// What the client was told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// There is no such object.
    NotFound,
    /// There already is such an object.
    Exists,
    /// The value.
    Value(Vec<u64>),
}

/// One operation of one object's history. Times are positions in the order of everything that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub(crate) asked_at: u64,
    pub(crate) ask: Ask,
    /// When the answer came and what it was; none if it never came.
    pub(crate) answer: Option<(u64, Answer)>,
}

/// What the search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Every answer can be explained.
    Explained,
    /// No order explains this operation's answer (the earliest that no attempt got past).
    Impossible(Operation),
    /// The search was given up; the history has too many operations at once.
    Undecided,
}

/// Steps after which a search is given up: some seconds.
const STEPS_MAX: u64 = 5_000_000;

/// What was there before each token that a read has seen: until it is replaced, an object only grows.
type Seen<'a> = FixedHashMap<u64, &'a [u64]>;

fn seen(operations: &[Operation]) -> Seen<'_> {
    let mut seen = Seen::default();
    for operation in operations {
        let Some((_, Answer::Value(tokens))) = &operation.answer else { continue };
        for (at, token) in tokens.iter().enumerate().rev() {
            // What was before one that is known is known as well.
            if seen.insert(*token, &tokens[..at]).is_some() {
                break;
            }
        }
    }
    seen
}

/// Stands for everything in a value that no read has seen, and is no token of a client's.
const UNSEEN: u64 = u64::MAX;

/// One value for all that hold something no read has seen: until they are replaced, nothing tells them apart. So what many
/// have added at once, and nobody saw, need not be tried in every order.
fn as_seen(value: Value, seen: &Seen<'_>) -> Value {
    let is_seen = |tokens: &[u64]| tokens[0] != UNSEEN && tokens.last().is_some_and(|last| seen.contains_key(last));
    value.map(|tokens| if is_seen(&tokens) { tokens } else { vec![UNSEEN] })
}

/// Whether a read has seen this happen elsewhere than after `value`.
fn is_elsewhere(seen: &Seen<'_>, value: &Value, ask: Ask) -> bool {
    let before = match ask {
        Ask::Append(token) => seen.get(&token),
        _ => None,
    };
    before.is_some_and(|before| *before != value.as_deref().unwrap_or_default())
}

/// The value after `ask`, if `answer` (none: unknown) is what one would be told.
fn step(value: &Value, ask: Ask, answer: Option<&Answer>) -> Option<Value> {
    let (after, truth) = match (ask, value) {
        (Ask::Write(token), _) => (Some(vec![token]), Answer::Done),
        (Ask::Append(token), None) => (Some(vec![token]), Answer::Done),
        (Ask::Append(token), Some(tokens)) => {
            let mut tokens = tokens.clone();
            tokens.push(token);
            (Some(tokens), Answer::Done)
        }
        (Ask::Create(token), None) => (Some(vec![token]), Answer::Done),
        (Ask::Create(_), Some(_)) => (value.clone(), Answer::Exists),
        (Ask::Delete, None) => (None, Answer::NotFound),
        (Ask::Delete, Some(_)) => (None, Answer::Done),
        (Ask::Read, None) => (None, Answer::NotFound),
        (Ask::Read, Some(tokens)) => (value.clone(), Answer::Value(tokens.clone())),
    };
    answer.is_none_or(|answer| *answer == truth).then_some(after)
}

/// A list of beginnings and ends in order of time, from which operations are lifted as they are explained.
struct Timeline {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The operation, and whether this is its beginning.
    entries: Vec<(usize, bool)>,
    /// Where each operation begins, and ends.
    begins: Vec<usize>,
    ends: Vec<usize>,
}

const HEAD: usize = 0;

impl Timeline {
    fn new(operations: &[Operation]) -> Timeline {
        let mut marks: Vec<(u64, usize, bool)> = Vec::with_capacity(operations.len() * 2);
        for (index, operation) in operations.iter().enumerate() {
            marks.push((operation.asked_at, index, true));
            marks.push((operation.answer.as_ref().map_or(u64::MAX, |(at, _)| *at), index, false));
        }
        // At one position beginnings come first: operations that touch are concurrent.
        marks.sort_by_key(|&(at, index, begins)| (at, !begins, index));
        let (mut begins, mut ends) = (vec![0; operations.len()], vec![0; operations.len()]);
        let mut entries = vec![(usize::MAX, false)];
        for (position, &(_, index, is_begin)) in marks.iter().enumerate() {
            entries.push((index, is_begin));
            let places = if is_begin { &mut begins } else { &mut ends };
            places[index] = position + 1;
        }
        let count = entries.len();
        Timeline {
            next: (1..=count).collect(),
            previous: (0..count).map(|i| i.wrapping_sub(1)).collect(),
            entries,
            begins,
            ends,
        }
    }

    /// Where the first of those that are left ends.
    fn first_end(&self) -> usize {
        let mut at = self.next[HEAD];
        while self.entries.get(at).is_some_and(|(_, begins)| *begins) {
            at = self.next[at];
        }
        at
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = after;
        if after < self.entries.len() {
            self.previous[after] = before;
        }
    }

    fn relink(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = at;
        if after < self.entries.len() {
            self.previous[after] = at;
        }
    }

    /// Takes an operation out, given its beginning.
    fn lift(&mut self, begin: usize) {
        let end = self.ends[self.entries[begin].0];
        self.unlink(begin);
        self.unlink(end);
    }

    /// Puts it back.
    fn unlift(&mut self, begin: usize) {
        let end = self.ends[self.entries[begin].0];
        self.relink(end);
        self.relink(begin);
    }
}

/// Judges one object's history, which began with the object not existing.
pub(crate) fn judge(operations: &[Operation]) -> Verdict {
    let seen = seen(operations);
    // A read without an answer explains nothing, and each doubles what there is to search.
    let tells = |operation: &&Operation| operation.answer.is_some() || operation.ask != Ask::Read;
    let operations: Vec<Operation> = operations.iter().filter(tells).cloned().collect();
    // What has no answer and was never seen has most likely never happened; only if that explains too little, it is tried.
    let matters = |operation: &&Operation| match operation.ask {
        _ if operation.answer.is_some() => true,
        Ask::Write(token) | Ask::Append(token) | Ask::Create(token) => seen.contains_key(&token),
        Ask::Delete | Ask::Read => true,
    };
    let likely: Vec<Operation> = operations.iter().filter(matters).cloned().collect();
    if likely.len() < operations.len() && search(&likely, &seen, Appends::WhereSeen) == Verdict::Explained {
        return Verdict::Explained;
    }
    match search(&operations, &seen, Appends::WhereSeen) {
        // Where reads contradict one another, the whole search names the one that cannot be; if it comes to an end.
        Verdict::Impossible(operation) => match search(&operations, &seen, Appends::Anywhere) {
            Verdict::Undecided => Verdict::Impossible(operation),
            verdict => verdict,
        },
        verdict => verdict,
    }
}

/// Operations that do the same, as far as anybody can tell. Of several that may come next it is enough to try the one that
/// ends first: in any order that explains all answers, it and the one that comes in its stead could change places.
struct Alike {
    /// The set that each operation belongs to.
    set_of: Vec<usize>,
    /// Each set in the order in which its operations end.
    sets: Vec<Vec<usize>>,
}

impl Alike {
    fn new(operations: &[Operation], seen: &Seen<'_>, timeline: &Timeline) -> Alike {
        let (mut sets, mut known) = (Vec::new(), FixedHashMap::default());
        let token = |token: u64| if seen.contains_key(&token) { token } else { UNSEEN };
        let set_of = operations.iter().enumerate().map(|(index, operation)| {
            let ask = match operation.ask {
                Ask::Write(written) => Ask::Write(token(written)),
                Ask::Append(added) => Ask::Append(token(added)),
                Ask::Create(first) => Ask::Create(token(first)),
                ask @ (Ask::Delete | Ask::Read) => ask,
            };
            // Who was told nothing and has changed something would have been told that it is done.
            let answer = operation.answer.as_ref().map_or(Answer::Done, |(_, answer)| answer.clone());
            let set = *known.entry((ask, answer)).or_insert_with(|| {
                sets.push(Vec::new());
                sets.len() - 1
            });
            sets[set].push(index);
            set
        });
        let set_of = set_of.collect();
        sets.iter_mut().for_each(|set: &mut Vec<usize>| set.sort_by_key(|index| timeline.ends[*index]));
        Alike { set_of, sets }
    }

    /// Whether no other one of its set that `may_be_next` ends before this operation.
    fn is_first(&self, index: usize, may_be_next: impl Fn(usize) -> bool) -> bool {
        let first = self.sets[self.set_of[index]].iter().find(|other| **other == index || may_be_next(**other));
        first == Some(&index)
    }
}

/// After what a token that a read has seen may have been added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Appends {
    /// After what the read shows before it.
    WhereSeen,
    /// After anything.
    Anywhere,
}

fn search(operations: &[Operation], seen: &Seen<'_>, appends: Appends) -> Verdict {
    let mut timeline = Timeline::new(operations);
    let alike = Alike::new(operations, seen, &timeline);
    let mut value: Value = None;
    let mut explained = vec![0u64; operations.len().div_ceil(64)];
    let mut visited = FixedHashSet::default();
    let mut taken: Vec<(usize, Value)> = Vec::new();
    let mut farthest = 0;
    let mut at = timeline.next[HEAD];
    // What begins before this may come next.
    let mut first_end = timeline.first_end();
    for _ in 0..STEPS_MAX {
        let Some(&(index, begins)) = timeline.entries.get(at) else { return Verdict::Explained };
        let operation = &operations[index];
        if begins {
            let answer = operation.answer.as_ref().map(|(_, answer)| answer);
            let is_elsewhere = || appends == Appends::WhereSeen && is_elsewhere(seen, &value, operation.ask);
            let after = step(&value, operation.ask, answer).filter(|_| !is_elsewhere()).map(|v| as_seen(v, seen));
            // Who was told nothing and has changed nothing need not have come.
            let after = after.filter(|after| answer.is_some() || *after != value);
            let is_open = |index: usize| explained[index / 64] >> (index % 64) & 1 == 0;
            let may_be_next = |other| is_open(other) && timeline.begins[other] < first_end;
            let after = after.filter(|_| alike.is_first(index, may_be_next));
            explained[index / 64] ^= 1 << (index % 64);
            match after {
                Some(after) if visited.insert((explained.clone(), after.clone())) => {
                    taken.push((at, core::mem::replace(&mut value, after)));
                    timeline.lift(at);
                    at = timeline.next[HEAD];
                    first_end = timeline.first_end();
                }
                _ => {
                    explained[index / 64] ^= 1 << (index % 64);
                    at = timeline.next[at];
                }
            }
        } else if operation.answer.is_none() {
            // Only operations without an answer are left: they need no explanation.
            return Verdict::Explained;
        } else {
            farthest = farthest.max(at);
            let Some((begin, before)) = taken.pop() else {
                return Verdict::Impossible(operations[timeline.entries[farthest].0].clone());
            };
            value = before;
            let index = timeline.entries[begin].0;
            explained[index / 64] ^= 1 << (index % 64);
            timeline.unlift(begin);
            at = timeline.next[begin];
            first_end = timeline.first_end();
        }
    }
    Verdict::Undecided
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn op(asked_at: u64, ask: Ask, answer: Option<(u64, Answer)>) -> Operation {
        Operation { asked_at, ask, answer }
    }

    fn done(asked_at: u64, answered_at: u64, ask: Ask) -> Operation {
        op(asked_at, ask, Some((answered_at, Answer::Done)))
    }

    fn read(asked_at: u64, answered_at: u64, tokens: &[u64]) -> Operation {
        op(asked_at, Ask::Read, Some((answered_at, Answer::Value(tokens.to_vec()))))
    }

    #[test]
    fn what_happened_in_order_is_explained() {
        let history = [
            done(1, 2, Ask::Write(1)),
            read(3, 4, &[1]),
            done(5, 6, Ask::Append(2)),
            read(7, 8, &[1, 2]),
            done(9, 10, Ask::Delete),
            op(11, Ask::Read, Some((12, Answer::NotFound))),
            done(13, 14, Ask::Create(3)),
            op(15, Ask::Create(4), Some((16, Answer::Exists))),
        ];
        assert_eq!(judge(&history), Verdict::Explained);
    }

    #[test]
    fn concurrent_operations_may_take_either_order_but_all_must_see_the_same() {
        let one = [done(1, 9, Ask::Append(1)), done(2, 8, Ask::Append(2)), read(10, 11, &[2, 1])];
        assert_eq!(judge(&one), Verdict::Explained);
        let both = [&one[..], &[read(12, 13, &[1, 2])]].concat();
        assert_eq!(judge(&both), Verdict::Impossible(both[3].clone()));
    }

    #[test]
    fn a_lost_write_a_stale_read_and_a_double_append_are_impossible() {
        let lost = [done(1, 2, Ask::Write(1)), op(3, Ask::Read, Some((4, Answer::NotFound)))];
        assert_eq!(judge(&lost), Verdict::Impossible(lost[1].clone()));
        let stale = [done(1, 2, Ask::Write(1)), done(3, 4, Ask::Write(2)), read(5, 6, &[1])];
        assert_eq!(judge(&stale), Verdict::Impossible(stale[2].clone()));
        let double = [done(1, 2, Ask::Append(1)), read(3, 4, &[1, 1])];
        assert_eq!(judge(&double), Verdict::Impossible(double[1].clone()));
    }

    #[test]
    fn an_unanswered_write_may_happen_late_or_never_but_only_once() {
        let unknown = op(1, Ask::Append(7), None);
        for tokens in [&[][..], &[7]] {
            let first = done(2, 3, Ask::Write(1));
            let mut expect = vec![1];
            expect.extend(tokens);
            let history = [unknown.clone(), first, read(4, 5, &[1]), read(6, 7, &expect)];
            assert_eq!(judge(&history), Verdict::Explained, "{tokens:?}");
        }
        let twice = [unknown, done(2, 3, Ask::Write(1)), read(4, 5, &[1, 7, 7])];
        assert_eq!(judge(&twice), Verdict::Impossible(twice[2].clone()));
    }

    /// Each of many deletions may have happened or not, in any order: all the ways were tried before one was found.
    #[test]
    fn deletions_without_an_answer_do_not_keep_a_history_from_being_judged() {
        let mut history: Vec<Operation> = (0..60).map(|at| op(at, Ask::Delete, None)).collect();
        for round in 0..20 {
            let at = 100 + 10 * round;
            history.push(done(at, at + 1, Ask::Create(round)));
            history.push(read(at + 2, at + 3, &[round]));
        }
        assert_eq!(judge(&history), Verdict::Explained);
        history.push(read(900, 901, &[7]));
        assert_eq!(judge(&history), Verdict::Impossible(history.last().expect("the last").clone()));
        // One less than there are deletions of what was created cannot be.
        let one = [&history[..1], &history[60..64], &[done(200, 201, Ask::Create(9))]].concat();
        assert_eq!(judge(&one), Verdict::Impossible(one[5].clone()));
    }

    #[test]
    fn what_many_did_at_once_is_judged_by_what_a_read_saw_of_it() {
        let all: Vec<u64> = (0..24).collect();
        let mut history: Vec<Operation> = all.iter().map(|token| done(1 + token, 100, Ask::Append(*token))).collect();
        let mut order = all.clone();
        order.reverse();
        history.push(read(101, 102, &order));
        assert_eq!(judge(&history), Verdict::Explained);
    }

    /// Seed 7706: a dozen appends and writes waited together for a group, and a write hid all of them.
    #[test]
    fn what_many_did_at_once_and_nobody_saw_does_not_keep_a_history_from_being_judged() {
        let mut history: Vec<Operation> = (0..24).map(|token| done(1 + token, 100, Ask::Append(token))).collect();
        history.push(done(30, 101, Ask::Delete));
        history.push(done(31, 102, Ask::Write(50)));
        history.push(read(103, 104, &[50]));
        assert_eq!(judge(&history), Verdict::Explained);
        history.push(done(105, 106, Ask::Append(60)));
        history.push(done(107, 108, Ask::Create(61)));
        assert_eq!(judge(&history), Verdict::Impossible(history[28].clone()));
        // Something is there of which only a part was seen.
        history.truncate(28);
        history.push(read(107, 108, &[50]));
        assert_eq!(judge(&history), Verdict::Impossible(history[28].clone()));
    }

    #[test]
    fn an_unanswered_write_that_no_read_saw_may_explain_what_is_there() {
        let unknown = op(1, Ask::Write(7), None);
        let there = op(2, Ask::Create(8), Some((3, Answer::Exists)));
        assert_eq!(judge(&[unknown, there.clone()]), Verdict::Explained);
        assert_eq!(judge(core::slice::from_ref(&there)), Verdict::Impossible(there));
    }

    #[test]
    fn reads_without_an_answer_do_not_keep_a_history_from_being_judged() {
        let mut history = vec![op(1, Ask::Append(7), None)];
        history.extend((2..40).map(|at| op(at, Ask::Read, None)));
        history.extend([done(40, 41, Ask::Write(1)), read(42, 43, &[1]), done(44, 45, Ask::Delete)]);
        // The first may be the last.
        history.push(done(46, 47, Ask::Delete));
        assert_eq!(judge(&history), Verdict::Explained);
        history.push(done(48, 49, Ask::Delete));
        assert_eq!(judge(&history), Verdict::Impossible(history[history.len() - 1].clone()));
    }

    #[test]
    fn long_histories_with_many_unknowns_are_judged_in_time() {
        let mut history = Vec::new();
        let mut tokens = Vec::new();
        for round in 0..200u64 {
            let at = round * 10;
            history.push(op(at, Ask::Append(1000 + round), (round % 10 != 0).then_some((at + 5, Answer::Done))));
            history.push(done(at + 1, at + 6, Ask::Append(2000 + round)));
            tokens.extend([2000 + round, 1000 + round]);
            history.push(read(at + 7, at + 8, &tokens));
        }
        assert_eq!(judge(&history), Verdict::Explained);
    }

    /// Whether an order explains everything, by trying all.
    fn is_explained(left: &[Operation], value: &Value) -> bool {
        let end = |operation: &Operation| operation.answer.as_ref().map_or(u64::MAX, |(at, _)| *at);
        let first_end = left.iter().map(end).min().unwrap_or(u64::MAX);
        left.iter().all(|operation| operation.answer.is_none())
            || (0..left.len()).filter(|at| left[*at].asked_at <= first_end).any(|at| {
                let mut rest = left.to_vec();
                let next = rest.remove(at);
                let answer = next.answer.as_ref().map(|(_, answer)| answer);
                step(value, next.ask, answer).is_some_and(|after| is_explained(&rest, &after))
            })
    }

    /// Operations that overlap, done in some order; some answers get lost, and some are other ones'.
    fn some_history(rng: &mut Rng) -> Vec<Operation> {
        let (mut value, mut history, mut time) = (None, Vec::new(), 0);
        for token in 0..3 + rng.below(5) {
            let kinds = [Ask::Write(token), Ask::Append(token), Ask::Create(token), Ask::Delete, Ask::Read, Ask::Read];
            let ask = kinds[rng.below(6) as usize];
            let answers = [Answer::Done, Answer::NotFound, Answer::Exists];
            let fits = |answer: &&Answer| step(&value, ask, Some(answer)).is_some();
            let seen = Answer::Value(value.clone().unwrap_or_default());
            let answer = answers.iter().find(fits).cloned().unwrap_or(seen);
            value = step(&value, ask, None).expect("without an answer all is well");
            time += 1 + rng.below(3);
            let (before, after) = (rng.below(1 + time.min(8)), rng.below(8));
            history.push(op(time - before, ask, (!rng.chance(1, 4)).then_some((time + after, answer))));
        }
        for _ in 0..rng.below(4) {
            let (a, b) = (rng.below(history.len() as u64) as usize, rng.below(history.len() as u64) as usize);
            let other = history[b].answer.as_ref().map(|(_, answer)| answer.clone());
            if let (Some((_, answer)), Some(other)) = (&mut history[a].answer, other) {
                *answer = other;
            }
        }
        history
    }

    #[test]
    fn what_the_search_leaves_out_changes_no_verdict() {
        let mut rng = Rng::new(1);
        let mut explained = 0;
        for _ in 0..20_000 {
            let history = some_history(&mut rng);
            let verdict = judge(&history);
            let is_explained = is_explained(&history, &None);
            assert_eq!(verdict == Verdict::Explained, is_explained, "{verdict:?}: {history:#?}");
            explained += usize::from(is_explained);
        }
        assert!((5_000..15_000).contains(&explained), "{explained}");
    }
}
