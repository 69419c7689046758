//! Files and randomness behind small traits, so that a simulation can fail them.
