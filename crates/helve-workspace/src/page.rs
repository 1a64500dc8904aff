//! A window of a file as text: its encoding found by its bytes, its lines counted without holding more than the window.
