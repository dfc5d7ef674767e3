"""`rlab crash`: kills real brokers under load many times, and checks that no acknowledged message is lost.

Read in this order.

run          one run from the first server to the verdict
schedule     chooses the moment of the next SIGKILL, from a seed (pure)
brokers      starts and kills broker processes, and restarts them on the same files and port
ledger       records the messages that were acknowledged, and the messages that were consumed (pure)
load         the messages of the load (`testbed/load`) and their listeners, which write the ledger
group        the offsets that the group has committed, and the wait until it has consumed everything
audit        compares the ledger with the messages stored at the end (pure)
read_back    reads these messages from the brokers, by plain pulls
simulated    power cuts and damaged files on simulated brokers, in a separate process
spread       statistics of durations (pure)
copies       the same for the replicas of one broker, with handovers and lost disks
report       the table of the verdict; `cli/testbed/crash.py` has the options and the exit code
"""
