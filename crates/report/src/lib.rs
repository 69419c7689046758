//! Reports: tables, histograms and one-file HTML from recorded figures.
