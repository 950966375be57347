"""What outpace promises, measured: comparisons whose verdicts follow from stated rules."""
