//! The memory of deeds: hash-chained journal, blobs, a rebuildable index, budgets
