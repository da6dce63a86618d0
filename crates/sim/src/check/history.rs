//! The record of what clients asked and were told, object by object.

use super::linear::{Answer, Ask, Operation, Verdict, judge};
use std::collections::{BTreeMap, BTreeSet};

/// Names one operation in the record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    object: u32,
    index: usize,
}

/// All operations of all objects.
#[derive(Debug, Default)]
pub(crate) struct History {
    objects: BTreeMap<u32, Vec<Operation>>,
    /// What may have been true long before it was asked.
    aged: BTreeSet<Entry>,
    clock: u64,
}

impl History {
    /// Records that a client asks.
    pub(crate) fn asked(&mut self, object: u32, ask: Ask) -> Entry {
        self.clock += 1;
        let operations = self.objects.entry(object).or_default();
        operations.push(Operation { asked_at: self.clock, ask, answer: None });
        Entry { object, index: operations.len() - 1 }
    }

    /// The time by the record's own clock: how much has been asked and told.
    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    /// What is asked may have been true at any time since then.
    pub(crate) fn may_be_as_old_as(&mut self, entry: Entry, since: u64) {
        let operations = self.objects.get_mut(&entry.object).expect("an entry's object is recorded");
        operations[entry.index].asked_at = since;
        self.aged.insert(entry);
    }

    /// Records what it is told. What is never recorded stays unknown.
    pub(crate) fn answered(&mut self, entry: Entry, answer: Answer) {
        self.clock += 1;
        let operations = self.objects.get_mut(&entry.object).expect("an entry's object is recorded");
        operations[entry.index].answer = Some((self.clock, answer));
    }

    /// Forgets a question that certainly had no effect.
    pub(crate) fn refused(&mut self, entry: Entry) {
        self.clock += 1;
        let operation = &mut self.objects.get_mut(&entry.object).expect("an entry's object is recorded")[entry.index];
        // An unanswered read explains nothing and asks for nothing.
        operation.ask = Ask::Read;
    }

    /// How many operations there are, and how many of them have no answer.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let all = self.objects.values().flatten();
        let unanswered = all.clone().filter(|operation| operation.answer.is_none()).count();
        (all.count() as u64, unanswered as u64)
    }

    /// What is wrong with each object's history.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (object, operations) in &self.objects {
            match self.judge(*object, operations) {
                Verdict::Explained => {}
                Verdict::Impossible(operation) => {
                    let around = self.around(operations, &operation);
                    complaints
                        .push(format!("object {object}: no order of operations explains {operation:?}\n{around}"));
                }
                Verdict::Undecided => complaints.push(format!("object {object}: too many operations at once to judge")),
            }
        }
        complaints
    }

    /// Judges all operations of an object at once. Where questions that may be about any time since long make that too many
    /// at once, the others are judged together, and then each of these with them.
    fn judge(&self, object: u32, operations: &[Operation]) -> Verdict {
        let verdict = judge(operations);
        if verdict != Verdict::Undecided {
            return verdict;
        }
        let numbered = operations.iter().cloned().enumerate();
        let (aged, mut rest): (Vec<_>, Vec<_>) =
            numbered.partition(|(index, _)| self.aged.contains(&Entry { object, index: *index }));
        if aged.is_empty() {
            return verdict;
        }
        let alone = |rest: &[(usize, Operation)]| judge(&rest.iter().map(|(_, o)| o.clone()).collect::<Vec<_>>());
        let mut verdict = alone(&rest);
        for question in aged {
            if verdict != Verdict::Explained {
                break;
            }
            rest.push(question);
            verdict = alone(&rest);
            rest.pop();
        }
        verdict
    }

    /// The operations near one, for whoever has to understand it.
    fn around(&self, operations: &[Operation], operation: &Operation) -> String {
        let end = operation.answer.as_ref().map_or(self.clock, |(at, _)| *at);
        let before = |other: &&Operation| other.asked_at <= end;
        let relevant: Vec<String> = operations.iter().filter(before).map(|other| format!("  {other:?}")).collect();
        relevant[relevant.len().saturating_sub(20)..].join("\n")
    }
}
