"""Years of faults in minutes: the real controller on both worlds in memory, under a virtual clock."""
