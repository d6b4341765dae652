"""Has anything moved since the baseline? Like is compared with like, and a flag means that something really moved.

fingerprint.py says what may be compared with what, rules.py and timed.py when it has moved, simulate.py what the rule
for clocks costs and finds; baseline.py is what somebody accepted, history.py the nights since, compare.py tonight.
"""
