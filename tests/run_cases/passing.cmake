# What of the shared cases must pass: whole groups, each with further arguments of run_cases where
# something is left out, and sets of fixtures. A case is left out only until its part is built.
set(passing_groups CIFAR CONV IDX NPY POOL SMAX)

set(passing_fixtures)
