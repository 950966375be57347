"""Statistics of measurements: numbers in, numbers out.

    estimate.py   `Estimate`: a number, its interval, its independent units; one-sided levels
    means.py      means with t; ratios of pairs (geometric mean, t or BCa)
    resample.py   the bootstrap: ratio of totals by clusters (BCa), ratio of medians (smoothed)
    shares.py     exact binomial intervals, tails against a limit, paired differences of shares
    families.py   several tests at once: intersection-union, Holm
    laws.py       samples against a known law, or against each other; what would have been seen
    eprocess.py   a test that may be looked at after every request

Every estimate comes with the number of *independent* units behind it. Tokens and rounds of one
text are correlated, so the unit is the request (or the prompt, where one is measured repeatedly).
Where there is nothing to estimate from the answer is None, "no data", never 0 or NaN; where there
is one unit the estimate has no interval. Randomness is a seed that is passed in.
"""

from outpace.stats.eprocess import log_e_value, stops
from outpace.stats.estimate import Estimate, level_of, quantile
from outpace.stats.families import holm, intersection_union
from outpace.stats.laws import LawTest, g_test, two_sample
from outpace.stats.means import geometric_mean_ratio, mean_t, p_ratio_above
from outpace.stats.resample import bca, ratio_of_medians, ratio_of_totals
from outpace.stats.shares import clopper_pearson, least_n, most_over, paired_difference

__all__ = [
    "Estimate",
    "LawTest",
    "bca",
    "clopper_pearson",
    "g_test",
    "geometric_mean_ratio",
    "holm",
    "intersection_union",
    "least_n",
    "level_of",
    "log_e_value",
    "mean_t",
    "most_over",
    "p_ratio_above",
    "paired_difference",
    "quantile",
    "ratio_of_medians",
    "ratio_of_totals",
    "stops",
    "two_sample",
]
