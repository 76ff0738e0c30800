"""ottla's streams beside Kafka Streams: the same topologies on the same topics of the same (ottla) broker.

inputs.py            what the topics hold, and what must come out
engines.py           how each engine is installed and started, with which settings and why
../kafka_streams/    Kafka Streams' side: a pom and one Java program
ottla_app.py         ottla's side: one Python program
judge.py             fills the input, watches the output, checks it, tells when it was complete
workloads.py         what is measured: catching up, latency, cold start
"""
