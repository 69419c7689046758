//! The account of a request: timeline, phases, recorder, histograms.
