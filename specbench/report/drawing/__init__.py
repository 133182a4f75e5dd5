"""The plots of a run, one idea a file; `specbench.report.plots` puts them together."""
