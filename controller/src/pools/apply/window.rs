//! The number of actions of one stage that run in parallel.

/// The maximum number of actions in parallel.
pub(super) struct Window {
    size: usize,
    limit: usize,
}

impl Window {
    /// At most `limit` actions. With a slow start it begins with one action, and each success allows one
    /// more, so that their number doubles with every round. If the first action fails, no other one is sent.
    pub(super) fn new(limit: usize, is_slow: bool) -> Self {
        let limit = limit.max(1);
        Self { size: if is_slow { 1 } else { limit }, limit }
    }

    /// The number of actions that may start while `running` actions run.
    pub(super) fn free(&self, running: usize) -> usize {
        self.size.saturating_sub(running)
    }

    /// Records a success.
    pub(super) fn widen(&mut self) {
        self.size = (self.size + 1).min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of actions of the rounds, if all of them succeed and end at the same time.
    fn rounds(mut window: Window, rounds: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        for _ in 0..rounds {
            let size = window.free(0);
            (0..size).for_each(|_| window.widen());
            sizes.push(size);
        }
        sizes
    }

    #[test]
    fn a_slow_start_doubles_up_to_the_limit() {
        assert_eq!(rounds(Window::new(10, true), 6), [1, 2, 4, 8, 10, 10]);
        assert_eq!(rounds(Window::new(10, false), 2), [10, 10]);
    }

    #[test]
    fn no_action_starts_beyond_the_window() {
        let mut window = Window::new(10, true);
        assert_eq!(window.free(1), 0);
        window.widen();
        assert_eq!((window.free(0), window.free(1), window.free(3)), (2, 1, 0));
    }
}
