"""Times as ratios: one clock, interleaved rounds, exact intervals, and a watch on who else was using the machine."""
