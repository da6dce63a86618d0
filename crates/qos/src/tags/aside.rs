//! What few entrants have, kept where it does not lengthen what all have.

use prefetch_index::prefetch_index;

/// By place, as many as the last that has one needs. Whether it has one, who asks knows.
#[derive(Debug, Default)]
pub(super) struct Aside<V>(Vec<V>);

impl<V: Default> Aside<V> {
    pub(super) fn get(&self, place: usize) -> &V {
        &self.0[place]
    }

    pub(super) fn get_mut(&mut self, place: usize) -> &mut V {
        &mut self.0[place]
    }

    pub(super) fn set(&mut self, place: usize, value: V) {
        if place >= self.0.len() {
            self.0.resize_with(place + 1, V::default);
        }
        self.0[place] = value;
    }

    /// Has the cache fetch one, if there is any.
    pub(super) fn look_ahead(&self, place: usize) {
        prefetch_index(&self.0, place);
    }
}
