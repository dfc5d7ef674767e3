"""`rlab crash --copies N`: faults of the replicas of one broker, under load, while nothing acknowledged may be lost.

Read in this order.

run          one run from the first server to the verdict
schedule     draws the faults, handovers and losses of a run and their order, from a seed (pure)
steps        one step: a fault of a replica that is in sync, a handover, or a master that is lost with its disk
replicas     the processes of the set, and what an operator asks and does
watch        the effects of a step on producers and consumers (pure)
kinds        the kinds of findings (pure)
report       the table of the verdict

Load, ledger, audit and read-back are those of `rlab crash` without copies.
"""
