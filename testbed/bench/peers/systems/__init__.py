"""The systems that are compared: a server and a Python client each.

protocol         what a system does for a comparison; read it first
registry         every system by its name, and the parts of it that this machine lacks
ours             rebalance-lab
redis_peer       Redis Streams with redis-py
nats_peer        NATS JetStream with nats-py
aiokafka_peer    Kafka with aiokafka
confluent_peer   Kafka with confluent-kafka
kafka_server     the Kafka broker of both; `kafka.xml` names its jars, `spark_kafka.xml` those of Spark's connector
server           runs the server of a peer as a child process

Their Python packages are an extra: each is imported where it is used.
"""
