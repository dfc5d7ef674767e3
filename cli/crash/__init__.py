"""`rlab crash`: producers and consumers on real broker processes that are killed again and again, and the verdict.

schedule     when the next SIGKILL comes, from a seed (pure)
brokers      the broker processes: started, killed, started again on the same files and port
ledger       what was acknowledged and what was consumed (pure)
load         producers and consumers, which write the ledger
audit        compares the ledger with what the brokers have in the end (pure)
read_back    reads that from the brokers, by plain pulls
conduct      one run from its start to the verdict
"""
