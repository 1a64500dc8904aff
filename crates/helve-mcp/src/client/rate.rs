//! A bucket of tokens: how much of something may come in a stretch of time.

use tokio::time::Instant;

/// Fills at a steady rate up to its size.
#[derive(Debug)]
pub(crate) struct Bucket {
    size: f64,
    per_second: f64,
    held: f64,
    at: Instant,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(size: u32, per_second: f64) -> Bucket {
        Bucket { size: f64::from(size), per_second, held: f64::from(size), at: Instant::now() }
    }

    /// Takes `amount` if that much is there.
    pub(crate) fn take(&mut self, amount: u32) -> bool {
        let now = Instant::now();
        let filled = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.held = (self.held + filled).min(self.size);
        self.at = now;
        let enough = self.held >= f64::from(amount);
        if enough {
            self.held -= f64::from(amount);
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_gives_its_size_and_then_nothing() {
        let mut bucket = Bucket::new(3, 0.0);
        assert_eq!((0..5).map(|_| bucket.take(1)).collect::<Vec<_>>(), [true, true, true, false, false]);
    }

    #[test]
    fn it_fills_again() {
        let mut bucket = Bucket::new(1, 1000.0);
        assert!(bucket.take(1));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(bucket.take(1));
    }
}
