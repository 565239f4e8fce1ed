//! At a forge.
