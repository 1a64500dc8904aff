//! What the owner allows: configuration layers, the guard, rate limits
